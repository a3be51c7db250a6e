"""Spark's source `mq` over topics: the messages of one topic as a stream, or as far as it reaches now.

Offsets are Spark's own, kept in the checkpoint, so a message is read once; the consumer group is told of them, for its
lag to be seen, and where it stands is where a pipeline without a checkpoint begins.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from analytics.pipelines.connector_errors import ConnectorFailed
from analytics.pipelines.decoding import batch_of
from analytics.pipelines.table_source import TableSource, made
from analytics.pipelines.topic_brokers import Brokers, Offset, Reading, ranges
from analytics.pipelines.values import SQL, Times, converter
from analytics.sources import mq
from brokercore.client import MessageQueue, StoredMessage
from brokercore.client.errors import ClientError

log = logging.getLogger(__name__)

#: Messages of one batch at most.
_MOST = 100_000
#: What becomes of a line with too few or too many fields.
NONE, SKIP, EXCEPTION, PAD = "NONE", "SKIP", "EXCEPTION", "PAD"
#: What a message has beside its body, by the key of a metadata column.
_METADATA: dict[str, Callable[[StoredMessage], Any]] = {
    "topic": lambda message: message.topic,
    "queue-id": lambda message: message.queue_id,
    "queue-offset": lambda message: message.queue_offset,
    "msg-id": lambda message: message.unique_id or message.offset_message_id,
    "store-timestamp": lambda message: message.store_timestamp * 1000,
    "born-timestamp": lambda message: message.born_timestamp * 1000,
    "keys": lambda message: message.keys or None,
    "tags": lambda message: message.tags or None,
}


@dataclass(frozen=True, kw_only=True)
class TopicSource(Reading):
    """Everything that a reader needs."""

    #: With the columns of the body and of metadata, in the order of the table.
    schema: pa.Schema
    #: The metadata key of each column; empty for one of the body.
    metadata: tuple[str, ...]
    #: `csv` or `binary`.
    format: str
    line_delimiter: str = "\n"
    field_delimiter: str = "\x01"
    encoding: str = "utf-8"
    length_check: str = NONE
    skips_errors: bool = True
    zone: str = "UTC"

    def rows(self, message: StoredMessage) -> Iterator[tuple[Any, ...]]:
        """The rows of a message, of which one may have millions. Raises ConnectorFailed."""
        if not self.has(message):
            return
        try:
            body = message.decoded_body(mq.LARGEST_BODY)
        except ValueError as error:
            raise ConnectorFailed(f"Messages of {self.topic.name} cannot be read: {error}") from None
        beside = [_METADATA[key](message) if key else None for key in self.metadata]
        for fields in self._fields(message, body):
            yield self._row(fields, beside)

    @cached_property
    def _columns(self) -> list[Any]:
        times = Times(SQL, "", self.zone)
        return [
            None if key else converter(kind, times) for key, kind in zip(self.metadata, self.schema.types, strict=True)
        ]

    @cached_property
    def _is_text(self) -> list[bool]:
        return [pa.types.is_string(kind) for kind, key in zip(self.schema.types, self.metadata, strict=True) if not key]

    def _row(self, fields: Sequence[Any], beside: Sequence[Any]) -> tuple[Any, ...]:
        values = iter(fields)
        return tuple(
            given if make is None else self._value(make, next(values))
            for make, given in zip(self._columns, beside, strict=True)
        )

    def _value(self, make: Any, value: Any) -> Any:
        try:
            return make(value)
        except ValueError as error:
            if self.skips_errors:
                return None
            raise ConnectorFailed(f"A message of the topic {self.topic.name} cannot be read: {error}.") from None

    def _fields(self, message: StoredMessage, body: bytes) -> Iterator[Sequence[Any]]:
        if self.format == "binary":
            yield [body]
            return
        wanted = len(self._is_text)
        try:
            text = body.decode(self.encoding)
        except UnicodeDecodeError as error:
            raise ConnectorFailed(
                f"The message {message.offset_message_id} is no text in {self.encoding}: {error}."
            ) from None
        for line in text.split(self.line_delimiter):
            if not line:
                continue
            found = line.split(self.field_delimiter)
            if len(found) != wanted:
                if self.length_check == SKIP or (self.length_check == NONE and len(found) < wanted):
                    continue
                if self.length_check == EXCEPTION:
                    raise ConnectorFailed(
                        f"The message {message.offset_message_id} of the topic {self.topic.name} has a line of"
                        f" {len(found)} fields, and the table has {wanted} columns."
                    )
            found = [*found, *[""] * (wanted - len(found))][:wanted]
            yield [
                None if not value and not is_text else value
                for value, is_text in zip(found, self._is_text, strict=True)
            ]

    def read(self, ranges: Sequence[tuple[str, int, int, int]]) -> Iterator[pa.RecordBatch]:
        """The rows of ranges of queues. Raises ConnectorFailed."""
        with self.topic.admin() as admin:
            for broker, queue, begin, end in ranges:
                held: list[tuple[Any, ...]] = []
                for message in self.messages(admin, MessageQueue(self.topic.name, broker, queue), begin, end):
                    for row in self.rows(message):
                        held.append(row)
                        if len(held) >= mq.BATCH_ROWS:
                            yield batch_of(held, self.schema)
                            held = []
                if held:
                    yield batch_of(held, self.schema)


class TopicStreamReader(DataSourceStreamReader):
    """Offsets are the next offset of each queue by `<broker>:<queue>`; a queue that is new begins at its first."""

    def __init__(self, source: TopicSource) -> None:
        self._source = source
        self._brokers: Brokers | None = None

    def _asked(self) -> Brokers:
        if self._brokers is None:
            self._brokers = Brokers(self._source)
        return self._brokers

    def initialOffset(self) -> Offset:  # noqa: N802
        """See `Brokers.first`."""
        brokers = self._asked()
        return brokers.patiently(brokers.first)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """All there is, up to _MOST."""
        return ReadAllAvailable()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Also tells the group of `start`, which is committed. While no broker answers there is nothing new."""
        brokers = self._asked()
        try:
            found = brokers.reach()
        except ClientError as error:
            brokers.silence.go_on(error)
            log.info("the brokers of %s do not answer: %s", self._source.topic.name, error)
            return start
        brokers.silence.end()
        brokers.commit(start)
        room = _MOST
        end = dict(start)
        for place, stats in found.items():
            low, high = stats.min_offset, stats.max_offset
            begin = max(low, start.get(place, low))
            end[place] = min(high, begin + room) if high > begin else start.get(place, low)
            room -= max(0, end[place] - begin)
        return end

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Ranges of offsets."""
        return mq.plan(ranges(start, end)) or [mq.Ranges([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition."""
        yield from self._source.read(partition.value)

    def commit(self, end: Offset) -> None:
        """Nothing: `latestOffset` tells the group earlier."""

    def stop(self) -> None:
        """Nothing is kept open that matters."""


class TopicReader(DataSourceReader):
    """Reads as far as the topic reaches when the job begins."""

    def __init__(self, source: TopicSource) -> None:
        self._source = source

    def partitions(self) -> Sequence[InputPartition]:
        """Ranges of offsets."""
        brokers = Brokers(self._source)
        end = {place: stats.max_offset for place, stats in brokers.patiently(brokers.reach).items()}
        return mq.plan(ranges(brokers.patiently(brokers.first), end)) or [mq.Ranges([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition."""
        yield from self._source.read(partition.value)


class TopicTable(TableSource):
    """The messages of one topic."""

    source: TopicSource

    def streamReader(self, schema: StructType) -> TopicStreamReader:  # noqa: N802
        """For a stream."""
        return TopicStreamReader(self.source)

    def reader(self, schema: StructType) -> TopicReader:
        """For a batch job."""
        return TopicReader(self.source)


def source_class(label: str, source: TopicSource, columns: str) -> type[TopicTable]:
    """A source under the provider name `label` that reads this topic and nothing else."""
    return made(TopicTable, label, source, columns)
