"""Spark's source `mq` over topics: the messages of one topic as a stream, or as far as it reaches now.

Offsets are Spark's own, kept in the checkpoint, so a message is read once; the consumer group is told of them, for its
lag to be seen, and where it stands is where a pipeline without a checkpoint begins.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from analytics.pipelines.connector_errors import ConnectorFailed
from analytics.pipelines.decoding import batch_of
from analytics.pipelines.receiver import PATIENCE_S, PAUSE_S
from analytics.pipelines.table_source import TableSource, made
from analytics.pipelines.values import SQL, Times, converter
from analytics.sources import mq
from brokercore.client import Admin, MessageQueue, StoredMessage
from brokercore.client.errors import BrokerNotExist, ClientError, TopicNotExist
from brokercore.names import wrap

log = logging.getLogger(__name__)

T = TypeVar("T")
Offset = dict[str, int]
#: Messages of one batch at most.
_MOST = 100_000
_ALL_TAGS = "*"
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


@dataclass(frozen=True)
class TopicSource:
    """Everything that a reader needs."""

    topic: mq.Topic
    #: With the columns of the body and of metadata, in the order of the table.
    schema: pa.Schema
    #: The metadata key of each column; empty for one of the body.
    metadata: tuple[str, ...]
    #: `csv` or `binary`.
    format: str
    group: str = ""
    namespace: str = ""
    #: `a || b`; empty or `*` for all.
    tag: str = ""
    start_offset: int | None = None
    start_ms: int | None = None
    line_delimiter: str = "\n"
    field_delimiter: str = "\x01"
    encoding: str = "utf-8"
    length_check: str = NONE
    skips_errors: bool = True
    zone: str = "UTC"

    def rows(self, message: StoredMessage) -> Iterator[tuple[Any, ...]]:
        """The rows of a message, of which one may have millions. Raises ConnectorFailed."""
        if self._tags and message.tags not in self._tags:
            return
        try:
            body = message.decoded_body(mq.LARGEST_BODY)
        except ValueError as error:
            raise ConnectorFailed(f"Messages of {self.topic.name} cannot be read: {error}") from None
        beside = [_METADATA[key](message) if key else None for key in self.metadata]
        for fields in self._fields(message, body):
            yield self._row(fields, beside)

    @cached_property
    def _tags(self) -> frozenset[str]:
        """Those that are read; empty for all."""
        tags = {tag for part in self.tag.split("||") if (tag := part.strip())}
        return frozenset() if _ALL_TAGS in tags else frozenset(tags)

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
                for message in self._messages(admin, MessageQueue(self.topic.name, broker, queue), begin, end):
                    for row in self.rows(message):
                        held.append(row)
                        if len(held) >= mq.BATCH_ROWS:
                            yield batch_of(held, self.schema)
                            held = []
                if held:
                    yield batch_of(held, self.schema)

    def _messages(self, admin: Admin, queue: MessageQueue, begin: int, end: int) -> Iterator[StoredMessage]:
        """Those of a range, each once, also while brokers are restarted. Raises ConnectorFailed."""
        silence = _Silence(f"Messages of {self.topic.name} cannot be read")
        while True:
            try:
                for messages in admin.messages.read_range(queue, begin, end):
                    silence.end()
                    for message in messages:
                        begin = message.queue_offset + 1
                        yield message
                return
            except ClientError as error:
                silence.go_on(error)
                time.sleep(PAUSE_S)
            except ValueError as error:
                raise ConnectorFailed(f"Messages of {self.topic.name} cannot be read: {error}") from None


class _Silence:
    """How long brokers have not answered: one that is restarted does so again, and a queue service has as much time."""

    def __init__(self, sentence: str) -> None:
        self._sentence = sentence
        self._since: float | None = None

    def end(self) -> None:
        """There is an answer."""
        self._since = None

    def go_on(self, error: ClientError) -> None:
        """There is none. Raises ConnectorFailed for what does not pass, and after PATIENCE_S."""
        now = time.monotonic()
        self._since = self._since or now
        if not _may_pass(error) or now - self._since >= PATIENCE_S:
            raise ConnectorFailed(f"{self._sentence}: {error}") from error


def _may_pass(error: ClientError) -> bool:
    """A name server that has just begun knows no broker yet, and no topic."""
    return error.retriable or isinstance(error, TopicNotExist | BrokerNotExist)


class _Brokers:
    """Asks the brokers of a topic from the reader's long-lived process."""

    def __init__(self, source: TopicSource) -> None:
        self._source = source
        self._admin: Admin | None = None
        self.silence = _Silence(f"The brokers of {source.topic.name} cannot be asked")

    def reach(self) -> dict[str, tuple[int, int]]:
        """First and next offset of each queue by `<broker>:<queue>`. Raises ClientError."""
        found = self._client().topics.stats(self._source.topic.name)
        return {_place(queue): (stats.min_offset, stats.max_offset) for queue, stats in sorted(found.items())}

    def first(self) -> Offset:
        """Where a pipeline without a checkpoint begins. Raises ClientError."""
        return {
            place: max(low, min(high, self._begin(place, low, high))) for place, (low, high) in self.reach().items()
        }

    def patiently(self, ask: Callable[[], T]) -> T:
        """What `ask` tells, which raises ClientError, before there is a first message. Raises ConnectorFailed."""
        while True:
            try:
                found = ask()
            except TopicNotExist:
                raise ConnectorFailed(f"There is no topic {self._source.topic.name}.") from None
            except ClientError as error:
                self.silence.go_on(error)
                time.sleep(PAUSE_S)
            else:
                self.silence.end()
                return found

    def _begin(self, place: str, low: int, high: int) -> int:
        source, queue = self._source, self._queue(place)
        if source.start_ms is not None:
            return self._client().offsets.search(queue, source.start_ms) if high > low else high
        if source.start_offset is not None:
            return source.start_offset
        known = self._client().offsets.committed(wrap(source.namespace, source.group), queue) if source.group else None
        return low if known is None else known

    def commit(self, end: Offset) -> None:
        """Tell the consumer group; what does not arrive is told with the next batch."""
        if self._source.group:
            offsets = {self._queue(place): offset for place, offset in end.items()}
            try:
                self._client().offsets.commit(wrap(self._source.namespace, self._source.group), offsets)
            except ClientError as error:
                log.info("the group %s is not told how far it is: %s", self._source.group, error)

    def _queue(self, place: str) -> MessageQueue:
        broker, _, queue = place.rpartition(":")
        return MessageQueue(self._source.topic.name, broker, int(queue))

    def _client(self) -> Admin:
        if self._admin is None:
            self._admin = self._source.topic.admin()
        return self._admin


def _place(queue: MessageQueue) -> str:
    return f"{queue.broker_name}:{queue.queue_id}"


def _ranges(start: Mapping[str, int], end: Mapping[str, int]) -> list[mq.Reach]:
    found = []
    for place, until in end.items():
        broker, _, queue = place.rpartition(":")
        if until > start.get(place, 0):
            found.append(mq.Reach(broker, int(queue), start.get(place, 0), until))
    return found


class TopicStreamReader(DataSourceStreamReader):
    """Offsets are the next offset of each queue by `<broker>:<queue>`; a queue that is new begins at its first."""

    def __init__(self, source: TopicSource) -> None:
        self._source = source
        self._brokers: _Brokers | None = None

    def _asked(self) -> _Brokers:
        if self._brokers is None:
            self._brokers = _Brokers(self._source)
        return self._brokers

    def initialOffset(self) -> Offset:  # noqa: N802
        """See `_Brokers.first`."""
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
        for place, (low, high) in found.items():
            begin = max(low, start.get(place, low))
            end[place] = min(high, begin + room) if high > begin else start.get(place, low)
            room -= max(0, end[place] - begin)
        return end

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Ranges of offsets."""
        return mq.plan(_ranges(start, end)) or [mq.Ranges([])]

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
        brokers = _Brokers(self._source)
        end = {place: high for place, (_, high) in brokers.patiently(brokers.reach).items()}
        return mq.plan(_ranges(brokers.patiently(brokers.first), end)) or [mq.Ranges([])]

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
