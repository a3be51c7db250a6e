"""Spark's sink `mq`: rows as messages of one topic, CSV or bytes, in streams and in batch jobs.

Rows are sent with our own client, many in one request. What is sent once may be sent again when a batch is repeated
after a crash or a lost answer: at least once, as with the vendor's.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from analytics.pipelines.connector_errors import ConnectorFailed
from analytics.pipelines.producers import Address
from analytics.pipelines.waits import Pauses, Together
from brokercore.client import Message
from brokercore.client.errors import BrokerError, ClientError, InvalidMessage

#: Of a request: far below what a broker takes, and enough that its round trip does not count.
_MOST_BYTES, _MOST_MESSAGES = 2 << 20, 1000
#: Requests of a task under way: while the broker stores one, the next is made.
_UNDER_WAY = 2
#: Of a message's own properties in a request.
_MESSAGE_OVERHEAD = 200


@dataclass(frozen=True)
class TopicSink:
    """Everything that a writer needs; the secret is in no plan and no log, as with `table_source`."""

    namesrv: str
    topic: str
    key_id: str
    secret: str = field(repr=False)
    group: str
    #: `csv` or `binary`.
    format: str
    tag: str = ""
    encoding: str = "utf-8"
    retries: int = 10
    pause_ms: int = 1000
    namespace: str = ""
    delimiter: str = "\x01"
    ca: str = ""
    #: The table, and the folder of the pipeline's state, where it is told that the table waits; none for neither.
    table: str = field(default="", compare=False)
    state: str = field(default="", compare=False)

    @property
    def address(self) -> Address:
        """Where it is sent, and as who."""
        return Address(self.namesrv, self.key_id, self.secret, self.group, self.namespace, self.ca)

    def bodies(self, rows: pa.RecordBatch) -> list[bytes]:
        """A body for each row. Raises ConnectorFailed for what the encoding has no characters for."""
        if self.format == "binary":
            return [value or b"" for value in rows.column(0).to_pylist()]
        texts = csv_lines(rows, self.delimiter)
        try:
            return [text.encode(self.encoding) for text in texts]
        except UnicodeEncodeError as error:
            raise ConnectorFailed(
                f"A row for the topic {self.topic} cannot be written in {self.encoding}: {error}."
            ) from None

    def send(self, bodies: Sequence[bytes], given_up: threading.Event | None = None) -> int:
        """Send them in one request; returns how many times it was sent again. Raises ConnectorFailed.

        Once it is given up, no further try is waited for.
        """
        pauses = Pauses(self.state, self.table, self.retries + 1, given_up or threading.Event())
        try:
            return self._sent(bodies, pauses)
        finally:
            pauses.end()

    def _sent(self, bodies: Sequence[bytes], pauses: Pauses) -> int:
        producer = self.address.producer()
        messages = [Message(self.topic, body, self.tag) for body in bodies]
        reason = ""
        for attempt in range(self.retries + 1):
            if attempt:
                pauses.take(self.pause_ms, attempt, reason)
            try:
                if len(messages) == 1:
                    producer.send(messages[0])
                else:
                    producer.send_batch(messages)
            except ClientError as error:
                failure, reason = error, str(error)
                if not _may_pass(error):
                    break
            else:
                return attempt
        tries = f" after {self.retries + 1} tries" if _may_pass(failure) else ""
        raise ConnectorFailed(f"Messages cannot be written to the topic {self.topic}{tries}: {failure}")


def _may_pass(error: ClientError) -> bool:
    """Whether another try may help: not for a missing right, topic or a message that no broker takes."""
    if isinstance(error, BrokerError):
        return bool(error.retriable)
    return not isinstance(error, InvalidMessage)


def _chunks(bodies: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    begin = size = 0
    for number, body in enumerate(bodies):
        own = len(body) + _MESSAGE_OVERHEAD
        if number > begin and (size + own > _MOST_BYTES or number - begin >= _MOST_MESSAGES):
            yield bodies[begin:number]
            begin, size = number, 0
        size += own
    if begin < len(bodies):
        yield bodies[begin:]


def csv_lines(rows: pa.RecordBatch, delimiter: str) -> list[str]:
    """The values of each row joined: a null is empty, nothing is quoted, there is no end of line."""
    texts = [_text_of(column) for column in rows.columns]
    joined = pc.binary_join_element_wise(*texts, delimiter, null_handling="replace", null_replacement="")
    found: list[str] = joined.to_pylist()
    return found


def _text_of(column: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(column.type):
        # Milliseconds, and more only where there is more: as a TIMESTAMP(3) is written.
        text = column.cast(pa.timestamp("us")).cast(pa.string())
        return pc.replace_substring_regex(text, r"(\.\d{3})000$", r"\1")
    return column.cast(pa.string())


def problem_of(schema: pa.Schema, written: str) -> str:
    """Why rows of these columns cannot be written in the format, as a sentence; empty when they can."""
    if written == "binary":
        is_bytes = len(schema) == 1 and pa.types.is_binary(schema.types[0])
        return "" if is_bytes else "Messages of bytes have exactly one column, of the type VARBINARY."
    for column in schema:
        if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
            return f"The column {column.name} is {column.type}, which a line of CSV cannot hold; cast it to a text."
    return ""


@dataclass
class Sent(WriterCommitMessage):
    """What a task has written."""

    rows: int = 0
    again: int = 0


def write(sink: TopicSink, batches: Iterator[pa.RecordBatch]) -> Sent:
    """Send all rows of a task; rows of different requests may change places. Raises ConnectorFailed."""
    sent = Sent()
    under_way: deque[Future[int]] = deque()
    together = Together()

    def send(bodies: Sequence[bytes]) -> int:
        with together:
            return sink.send(bodies, together.given_up)

    with ThreadPoolExecutor(_UNDER_WAY, "send") as threads, together:
        for batch in batches:
            for chunk in _chunks(sink.bodies(batch)):
                if len(under_way) == _UNDER_WAY:
                    sent.again += under_way.popleft().result()
                under_way.append(threads.submit(send, chunk))
            sent.rows += batch.num_rows
        sent.again += sum(request.result() for request in under_way)
    return sent


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """Writes each batch of a stream."""

    def __init__(self, sink: TopicSink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        """Send all rows of a task."""
        return write(self._sink, iterator)


class TopicWriter(DataSourceArrowWriter):
    """Writes the rows of a batch job."""

    def __init__(self, sink: TopicSink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        """Send all rows of a task."""
        return write(self._sink, iterator)


class TopicSinkSource(DataSource):
    """The base of the classes that `sink_class` makes."""

    sink: TopicSink
    label: str

    @classmethod
    def name(cls) -> str:
        """The provider's name in the session."""
        return cls.label

    def streamWriter(self, schema: StructType, overwrite: bool) -> TopicStreamWriter:  # noqa: N802
        """For a stream."""
        return TopicStreamWriter(self.sink)

    def writer(self, schema: StructType, overwrite: bool) -> TopicWriter:
        """For a batch job."""
        return TopicWriter(self.sink)


def sink_class(label: str, sink: TopicSink) -> type[TopicSinkSource]:
    """A sink under the provider name `label` that writes to this topic and nowhere else."""
    made: dict[str, Any] = {"sink": sink, "label": label, "__module__": __name__}
    return type("TopicSinkOfOneTopic", (TopicSinkSource,), made)
