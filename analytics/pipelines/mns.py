"""Spark's source `mns`: the messages of one queue, each once (intake, spool).

Address and key are part of a class made for one pipeline (`table_source`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from analytics.pipelines.connector_errors import ConnectorFailed
from analytics.pipelines.intake import Intake
from analytics.pipelines.queue_source import QueueSource
from analytics.pipelines.spool import Spool
from analytics.pipelines.table_source import TableSource, made

_LOOK_S = 0.05
Offset = dict[str, int]


class MnsReader(DataSourceStreamReader):
    """Offsets are `{<table>: <number of the last batch>}`.

    Several inserts that read one table have a reader each: the first to ask receives for all, the others follow.
    """

    def __init__(self, source: QueueSource) -> None:
        self._source = source  # nothing else: Spark pickles readers, and makes some that it only reads by
        self._intake: Intake | None = None

    def initialOffset(self) -> Offset:  # noqa: N802  Spark's name
        """Before the first batch that is still here: an insert that is new to a pipeline begins with what comes."""
        spool = Spool(self._source.spool)
        numbers = spool.numbers()
        return {self._source.name: numbers[0] - 1 if numbers else spool.last}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """All there is: what is received ahead is limited."""
        return ReadAllAvailable()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Spark asks when the batch that ends at `start` is in its commit log."""
        number = start[self._source.name]
        try:
            intake = self._leading()
            return {self._source.name: self._followed(number) if intake is None else intake.latest(number)}
        except OSError as error:
            raise ConnectorFailed(f"The state of the pipeline cannot be read or written: {error}.") from error

    def _leading(self) -> Intake | None:
        """The intake of the process that leads; None while another does."""
        if self._intake is None:
            spool = Spool(self._source.spool)
            if spool.lead():
                self._intake = Intake(self._source, spool)
                self._intake.start()
        return self._intake

    def _followed(self, number: int) -> int:
        spool = Spool(self._source.spool)
        deadline = time.monotonic() + self._source.batch_wait_ms / 1000
        while True:
            newest = max(spool.numbers(), default=0)
            if newest > number or time.monotonic() >= deadline:
                return max(newest, number)
            time.sleep(_LOOK_S)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """One for each batch of the spool, which is one unless a crash came between."""
        name = self._source.name
        return [InputPartition(number) for number in Spool(self._source.spool).rows(start[name], end[name])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one batch."""
        yield from Spool(self._source.spool).read(partition.value)

    def commit(self, end: Offset) -> None:
        """Nothing: Spark calls it only when it plans the next batch with rows, and the commit logs tell earlier."""

    def stop(self) -> None:
        """Receive no more, and give back what Spark has not heard of."""
        if self._intake is not None:
            self._intake.close()


class MnsSource(TableSource):
    """The messages of one queue."""

    source: QueueSource

    def streamReader(self, schema: StructType) -> MnsReader:  # noqa: N802  Spark's
        """A reader of the queue."""
        return MnsReader(self.source)


def source_class(label: str, source: QueueSource, columns: str) -> type[MnsSource]:
    """A source under the provider name `label` that reads this queue and nothing else."""
    return made(MnsSource, label, source, columns)
