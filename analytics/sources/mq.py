"""Spark's source `mq`: the messages of one topic, read straight from its brokers (docs/messages-in-sql.md).

What it may read is fixed before Spark sees it: `fix` notes how far each queue reaches at that moment, so a statement
that names a table twice sees the same messages twice. The statement's own bounds come by `pushFilters`.

A source has no options here: address and key are part of a class made for one statement (`source_class`), which Spark
only ever pickles. No plan, catalog, event or log has them.
"""

import json
import ssl
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition

from analytics.sources.batches import SCHEMA, batches
from analytics.sources.bounds import Bounds, bounds_of
from brokercore.client import Admin, Credentials, MessageQueue, QueueStats
from brokercore.client.errors import ClientError, TopicNotExist
from brokercore.client.reading import read_range

#: Messages that one task of Spark reads, of one queue or of several short ones.
TASK_MESSAGES = 50_000
_TIMEOUT_MS = 10_000


class MessagesUnreadable(Exception):  # noqa: N818
    """The broker did not give what was asked of it; the message is a sentence for the statement's author."""


@dataclass(frozen=True)
class Reach:
    """Offsets of one queue from `begin` to before `end`; `last_ms` is the store time of its newest message."""

    broker: str
    queue: int
    begin: int
    end: int
    last_ms: int = 0


@dataclass(frozen=True)
class Topic:
    """Everything that a reader needs: where, with which key, and how far."""

    namesrv: str
    name: str
    key_id: str
    secret: str = field(repr=False)
    reach: tuple[Reach, ...] = ()
    #: Certificates (PEM) that the brokers' is checked against; empty for plain connections.
    authorities: str = ""
    task_messages: int = TASK_MESSAGES

    def admin(self) -> Admin:
        """A client of the topic's cluster; to be closed."""
        tls = ssl.create_default_context(cadata=self.authorities) if self.authorities else None
        return Admin(self.namesrv, Credentials(self.key_id, self.secret), timeout_ms=_TIMEOUT_MS, tls=tls)


class Ranges(InputPartition):
    """What one task reads."""

    def __init__(self, ranges: Sequence[Reach]) -> None:
        super().__init__([(r.broker, r.queue, r.begin, r.end) for r in ranges])


class MqReader(DataSourceReader):
    """Reads one topic within the statement's bounds."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._bounds = Bounds()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  Spark's name
        """Take what narrows the range to read; all conditions stay with Spark too."""
        self._bounds = bounds_of(filters)
        yield from filters

    def partitions(self) -> Sequence[InputPartition]:
        """Ranges of offsets, TASK_MESSAGES each; one that is empty when there is nothing to read, as Spark wants it."""
        with self._topic.admin() as admin:
            ranges = _narrowed(admin, self._topic, self._bounds)
            return plan(ranges, self._topic.task_messages) or [Ranges([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of a partition, in order of their queue's offsets."""
        with self._topic.admin() as admin:
            for broker, queue, begin, end in partition.value:
                messages = read_range(admin, MessageQueue(self._topic.name, broker, queue), begin, end)
                try:
                    yield from batches(broker, messages)
                except ClientError as error:
                    raise MessagesUnreadable(f"Messages of {self._topic.name} cannot be read: {error}") from None


class MqSource(DataSource):
    """The base of the classes that `source_class` makes."""

    topic: Topic
    label: str

    @classmethod
    def name(cls) -> str:
        """The provider's name in the session."""
        return cls.label

    def schema(self) -> str:
        """The columns of every message."""
        return SCHEMA

    def reader(self, schema: Any) -> MqReader:
        """A reader of the topic."""
        return MqReader(self.topic)


def source_class(label: str, topic: Topic) -> type[MqSource]:
    """A source under the provider name `label` that reads this topic and nothing else."""
    return type("MqSourceOfOneTopic", (MqSource,), {"topic": topic, "label": label, "__module__": __name__})


def fix(options: Mapping[str, str]) -> Topic:
    """The topic that a TableSpec's options describe, with its reach as of now. Raises MessagesUnreadable.

    `begin` and `end` are JSON objects of offsets by `<broker>:<queue>`: where the archive ends, and where a job is to
    stop. A topic that no broker has (a group without dead letters) is empty.
    """
    topic = _topic(options)
    begins: dict[str, int] = json.loads(options.get("begin", "{}"))
    ends: dict[str, int] | None = json.loads(options["end"]) if "end" in options else None
    reach = []
    for queue, found in _stats(topic):
        place = f"{queue.broker_name}:{queue.queue_id}"
        end = found.max_offset if ends is None else min(found.max_offset, ends.get(place, 0))
        begin = max(found.min_offset, begins.get(place, 0))
        if begin < end:
            reach.append(Reach(queue.broker_name, queue.queue_id, begin, end, found.last_update_ms))
    return replace(topic, reach=tuple(reach))


def _topic(options: Mapping[str, str]) -> Topic:
    key = options["accessKeyId"], options["accessKeySecret"]
    most = int(options.get("taskMessages", TASK_MESSAGES))
    return Topic(options["namesrv"], options["topic"], *key, authorities=options.get("ca", ""), task_messages=most)


def _stats(topic: Topic) -> list[tuple[MessageQueue, QueueStats]]:
    try:
        with topic.admin() as admin:
            return sorted(admin.topic_stats(topic.name).items())
    except TopicNotExist:
        return []
    except ClientError as error:
        raise MessagesUnreadable(f"The broker of topic {topic.name} cannot be asked: {error}") from error


def ends(options: Mapping[str, str]) -> dict[str, int]:
    """The next offset of each queue by `<broker>:<queue>`. Raises MessagesUnreadable."""
    return {f"{queue.broker_name}:{queue.queue_id}": stats.max_offset for queue, stats in _stats(_topic(options))}


def plan(ranges: Iterable[Reach], most: int = TASK_MESSAGES) -> list[Ranges]:
    """Cut long ranges and join short ones, so that each task of Spark has at most `most` messages."""
    tasks: list[Ranges] = []
    held: list[Reach] = []
    room = most
    for found in ranges:
        begin = found.begin
        while begin < found.end:
            end = min(found.end, begin + room)
            held.append(Reach(found.broker, found.queue, begin, end))
            room -= end - begin
            begin = end
            if room == 0:
                tasks.append(Ranges(held))
                held, room = [], most
    if held:
        tasks.append(Ranges(held))
    return tasks


def _narrowed(admin: Admin, topic: Topic, bounds: Bounds) -> Iterator[Reach]:
    """The topic's reach within the bounds; brokers are asked only for times."""
    for reach in topic.reach:
        if not bounds.has(reach.broker, reach.queue):
            continue
        begin, end = max(reach.begin, bounds.first), min(reach.end, bounds.last + 1)
        if begin < end and bounds.limits_time:
            try:
                begin, end = _by_time(admin, topic, reach, bounds, begin, end)
            except ClientError as error:
                raise MessagesUnreadable(f"The broker of topic {topic.name} cannot be asked: {error}") from None
        if begin < end:
            yield Reach(reach.broker, reach.queue, begin, end)


def _by_time(  # noqa: PLR0917  a range and what narrows it
    admin: Admin, topic: Topic, reach: Reach, bounds: Bounds, begin: int, end: int
) -> tuple[int, int]:
    queue = MessageQueue(topic.name, reach.broker, reach.queue)
    if bounds.begin_ms > reach.last_ms:
        # Newer ones may have come since the reach was noted, but they are not part of it.
        return end, end
    if bounds.begin_ms > 0:
        begin = max(begin, admin.search_offset(queue, bounds.begin_ms))
    # Searching behind the newest message is asking for trouble: brokers answer it differently.
    if bounds.end_ms < reach.last_ms:
        end = min(end, admin.search_offset(queue, bounds.end_ms + 1))
    return begin, end
