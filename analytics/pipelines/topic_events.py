"""Spark's source `mq` of the format `event`: the messages of a topic as the events of an inflow task.

Offsets are the next offset of each queue by `<broker>:<queue>`; a queue that is new begins at its first. Messages are
collected as events of a log are (`events_source`): a batch begins when there are `messages` of them, or the first has
waited for `interval_ms`. When Spark asks for more, the batch before has been delivered: then the consumer group is told
where that was, and the pipeline's state too (`reaches`).

All of a batch is one partition, queue by queue, so the order of a queue is that of its events.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from analytics.inflow.delivery import text_of
from analytics.inflow.messages import TEXT, TopicEvents
from analytics.pipelines import reaches
from analytics.pipelines.connector_errors import ConnectorFailed
from analytics.pipelines.reports import Reached
from analytics.pipelines.table_source import TableSource, made
from analytics.pipelines.topic_brokers import Brokers, Offset, Reading, ranges
from brokercore.client import MessageQueue, QueueStats
from brokercore.client.errors import ClientError

#: How long Spark waits for an answer at most, s: who stops a pipeline waits for it. And between two looks at the topic.
_PATIENCE_S, _LOOK_S = 0.5, 0.1
#: How often it is told how far the topic goes while nothing is read, s.
_TELL_S = 1.0
#: Queues, those with the most messages that wait, of which it is asked how long the first one has waited.
_ASKED = 8
#: Events and bytes of them that are handed on at a time.
_AT_ONCE, _AT_ONCE_BYTES = 500, 4 << 20
Reach = Mapping[str, QueueStats]


@dataclass(frozen=True, kw_only=True)
class TopicEventsSource(Reading):
    """Everything that a reader needs."""

    name: str
    #: The topic's name without its instance.
    shown: str
    state: str = field(repr=False)
    format: str = TEXT
    messages_at_once: int = 100
    #: How many times as many one batch may have where they are there.
    calls: int = 1
    interval_ms: int = 3000

    def tell(self, reached: Reached) -> None:
        """Write down where it stands. Raises ConnectorFailed where the state is gone."""
        try:
            reaches.tell(self.state, self.name, reached)
        except OSError as error:
            raise ConnectorFailed(f"The state of the pipeline cannot be used: {error}.") from error


class _Progress:
    """What is kept between two questions of Spark's, in the reader's long-lived process."""

    def __init__(self, source: TopicEventsSource) -> None:
        self._source = source
        self._brokers = Brokers(source)
        #: When the first message that waits was seen, monotonic.
        self._since: float | None = None
        self._told = reaches.reached(source.state, source.name) or Reached()
        self._told_at = float("-inf")
        #: What the group was told last.
        self._committed: Offset = {}

    def first(self) -> Offset:
        """See `Brokers.first`."""
        return self._brokers.patiently(self._brokers.first)

    def latest(self, start: Offset) -> Offset:
        """Where the next batch ends, of which Spark may be told now; `start` when there is none yet."""
        self._commit(start)
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            if (found := self._reach()) is None:
                return start
            seen = _Seen(found, _begins(start, found))
            lost = _lost(start, found)
            due = self._is_due(seen.pending) or (lost and not seen.pending)
            self._tell(seen, lost if due else 0, at_once=bool(due))
            if due:
                self._since = None
                return start | seen.shared(self._source.messages_at_once * self._source.calls)
            if time.monotonic() >= deadline:
                return start
            time.sleep(_LOOK_S)

    def _reach(self) -> Reach | None:
        """How far the queues reach; None while no broker answers. Raises ConnectorFailed when that lasts."""
        try:
            found = self._brokers.reach()
        except ClientError as error:
            self._brokers.silence.go_on(error)
            return None
        self._brokers.silence.end()
        return found

    def _is_due(self, pending: int) -> bool:
        if not pending:
            self._since = None
            return False
        clock = time.monotonic()
        self._since = self._since or clock
        return pending >= self._source.messages_at_once or clock >= self._since + self._source.interval_ms / 1000

    def _commit(self, start: Offset) -> None:
        if start != self._committed:
            self._brokers.commit(start)
            self._committed = dict(start)

    def _tell(self, seen: _Seen, lost: int, *, at_once: bool) -> None:
        """That all before `seen.begin` is delivered; what is to be told `at_once` is the next batch."""
        told, recent = self._told, time.monotonic() - self._told_at < _TELL_S
        must = lost or seen.position != told.position or (at_once and not told.pending)
        if recent and not must:
            return
        since = self._waiting(seen) if seen.pending else None
        delivered = sum(seen.begin.values())
        newest = max((stats.last_update_ms for stats in seen.found.values()), default=0) or None
        self._told = Reached(
            delivered, seen.position, since or newest, delivered + seen.pending, newest, since, told.lost + lost
        )
        self._told_at = time.monotonic()
        self._source.tell(self._told)

    def _waiting(self, seen: _Seen) -> int | None:
        """When the first message came that is not delivered, epoch ms, of the queues where most of them wait."""
        times: list[int] = []
        for place in sorted(seen.left, key=lambda place: -seen.left[place])[:_ASKED]:
            if seen.left[place]:
                try:
                    message = self._brokers.message(place, seen.begin[place])
                except ClientError:
                    continue
                if message is not None:
                    times.append(message.store_timestamp)
        return min(times, default=None)


@dataclass(frozen=True)
class _Seen:
    """How far a topic reaches, and where reading goes on."""

    found: Reach
    begin: Offset

    @cached_property
    def left(self) -> dict[str, int]:
        """Messages of each queue that are not delivered."""
        return {place: stats.max_offset - self.begin[place] for place, stats in self.found.items()}

    @property
    def pending(self) -> int:
        """Messages that are not delivered."""
        return sum(self.left.values())

    @property
    def position(self) -> str:
        """As reports have it: `broker-a:0:4711 broker-a:1:4712`."""
        return " ".join(f"{place}:{self.begin[place]}" for place in sorted(self.begin))

    def shared(self, room: int) -> Offset:
        """The end of a batch in which every queue has its share: what one leaves over is the others'."""
        end = {}
        shortest = sorted(self.left, key=lambda place: self.left[place])
        for number, place in enumerate(shortest):
            share = min(self.left[place], -(-room // (len(shortest) - number)))
            end[place] = self.begin[place] + share
            room -= share
        return end


def _begins(start: Offset, found: Reach) -> Offset:
    """Where reading goes on: a topic that was made anew is shorter than what was read of it, and begins again."""
    return {
        place: max(stats.min_offset, here if (here := start.get(place, 0)) <= stats.max_offset else 0)
        for place, stats in found.items()
    }


def _lost(start: Offset, found: Reach) -> int:
    """Messages that the broker has removed before they were read."""
    return sum(max(0, stats.min_offset - start[place]) for place, stats in found.items() if place in start)


class TopicEventsReader(DataSourceStreamReader):
    """Reads one topic."""

    def __init__(self, source: TopicEventsSource) -> None:
        self._source = source  # nothing else that is open: Spark pickles readers
        self._progress: _Progress | None = None

    def _asked(self) -> _Progress:
        if self._progress is None:
            self._progress = _Progress(self._source)
        return self._progress

    def initialOffset(self) -> Offset:  # noqa: N802  Spark's name
        """See `Brokers.first`."""
        return self._asked().first()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """All there is: `latestOffset` limits it."""
        return ReadAllAvailable()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Spark asks when the batch that ends at `start` is delivered."""
        return self._asked().latest(start)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """One."""
        begin = {place: here if (here := start.get(place, 0)) <= end[place] else 0 for place in end}
        found = ranges(begin, end)
        return [InputPartition([(one.broker, one.queue, one.begin, one.end) for one in found])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The events of ranges of offsets, queue by queue."""
        maker = TopicEvents(self._source.shown, self._source.namespace, self._source.format)
        held: list[bytes] = []
        size = 0
        with self._source.topic.admin() as admin:
            for broker, queue, begin, end in partition.value:
                place = MessageQueue(self._source.topic.name, broker, queue)
                for message in self._source.messages(admin, place, begin, end):
                    if not self._source.has(message):
                        continue
                    held.append(text_of(maker.event(message, broker)))
                    size += len(held[-1])
                    if len(held) >= _AT_ONCE or size >= _AT_ONCE_BYTES:
                        yield _batch(held)
                        held, size = [], 0
        if held:
            yield _batch(held)

    def commit(self, end: Offset) -> None:
        """Nothing: `latestOffset` tells the group earlier."""

    def stop(self) -> None:
        """Nothing is kept open that matters."""


def _batch(events: list[bytes]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(events, pa.binary())], names=["event"])


class TopicEventsTable(TableSource):
    """The base of the classes that `source_class` makes."""

    def streamReader(self, schema: StructType) -> TopicEventsReader:  # noqa: N802  Spark's
        """A reader of the topic."""
        return TopicEventsReader(self.source)


def source_class(label: str, source: TopicEventsSource, columns: str) -> type[TopicEventsTable]:
    """A source under the provider name `label` that reads this topic and nothing else."""
    return made(TopicEventsTable, label, source, columns)
