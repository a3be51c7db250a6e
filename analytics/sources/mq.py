"""Spark's source `mq`: the messages of one topic, read straight from its brokers (docs/use/messages-in-sql.md).

What it may read is fixed before Spark sees it: `fix` notes how far each queue reaches at that moment, so a statement
that names a table twice sees the same messages twice. The statement's own bounds come by `pushFilters`.

A source has no options here: address and key are part of a class made for one statement (`source_class`), which Spark
only ever pickles. No plan, catalog, event or log has them.
"""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition

from analytics.sources import trust
from brokercore.client import Admin, MessageQueue, QueueStats, StoredMessage
from brokercore.client.errors import ClientError, TopicNotExist
from brokercore.client.session import parse_name_servers

_MAX = 2**63 - 1
#: Rows and body bytes of a batch: small enough to be given up soon when a statement is cancelled.
BATCH_ROWS = 4096
BATCH_BYTES = 8 * 1024**2
#: As Spark writes the schema; the console describes the same columns.
SCHEMA = (
    "broker string, queue int, offset bigint, message_id string, offset_message_id string, keys array<string>,"
    " tag string, properties map<string,string>, body string, body_binary binary, born_time timestamp,"
    " store_time timestamp, born_host string, reconsume_times int"
)
ARROW = pa.schema(
    [
        ("broker", pa.string()),
        ("queue", pa.int32()),
        ("offset", pa.int64()),
        ("message_id", pa.string()),
        ("offset_message_id", pa.string()),
        ("keys", pa.list_(pa.string())),
        ("tag", pa.string()),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("body", pa.string()),
        ("body_binary", pa.binary()),
        ("born_time", pa.timestamp("us", "UTC")),
        ("store_time", pa.timestamp("us", "UTC")),
        ("born_host", pa.string()),
        ("reconsume_times", pa.int32()),
    ]
)
LARGEST_BODY = 8 << 20
"""Bytes that one body may unpack to; a client compresses what had 4 MiB at most."""

#: Messages that one task of Spark reads, of one queue or of several short ones.
TASK_MESSAGES = 50_000
_TIMEOUT_MS = 10_000


@dataclass(frozen=True, slots=True)
class Bounds:
    """Offsets from `first` to `last`, store times from `begin_ms` to `end_ms`, all inclusive; None for any queue."""

    first: int = 0
    last: int = _MAX
    begin_ms: int = 0
    end_ms: int = _MAX
    queues: frozenset[int] | None = None
    brokers: frozenset[str] | None = None

    @property
    def limits_time(self) -> bool:
        """Whether a broker has to be asked for the offsets of times."""
        return self.begin_ms > 0 or self.end_ms < _MAX

    def has(self, broker: str, queue: int) -> bool:
        """Whether messages of this queue are meant."""
        return (self.brokers is None or broker in self.brokers) and (self.queues is None or queue in self.queues)


def bounds_of(filters: "Iterable[Filter]") -> Bounds:
    """The bounds of conditions that hold together (Spark pushes the parts of a conjunction).

    Only what narrows is taken. Spark keeps every condition and judges each message again, so one that is not understood
    here costs time and nothing else.
    """
    bounds = Bounds()
    for condition in filters:
        narrow = _NARROWING.get((type(condition).__name__, _column(condition)))
        if narrow is not None:
            bounds = narrow(bounds, condition)
    return bounds


def _column(condition: Any) -> str:
    attribute: tuple[str, ...] = getattr(condition, "attribute", ())
    return str(attribute[0]).lower() if len(attribute) == 1 else ""


def _milliseconds(moment: datetime) -> float:
    """Microseconds count: a message stored within the same millisecond must not fall out of the range."""
    return moment.timestamp() * 1000


def _at_most(bounds: Bounds, last: int) -> Bounds:
    return replace(bounds, last=min(bounds.last, last))


def _at_least(bounds: Bounds, first: int) -> Bounds:
    return replace(bounds, first=max(bounds.first, first))


def _until(bounds: Bounds, moment: datetime) -> Bounds:
    return replace(bounds, end_ms=min(bounds.end_ms, max(0, int(_milliseconds(moment)) + 1)))


def _since(bounds: Bounds, moment: datetime) -> Bounds:
    return replace(bounds, begin_ms=max(bounds.begin_ms, int(_milliseconds(moment)) - 1))


def _offsets(bounds: Bounds, values: Iterable[Any]) -> Bounds:
    known = [value for value in values if isinstance(value, int)]
    return replace(bounds, first=max(bounds.first, min(known)), last=min(bounds.last, max(known))) if known else bounds


def _queues(bounds: Bounds, values: Iterable[Any]) -> Bounds:
    wanted = frozenset(value for value in values if isinstance(value, int))
    return replace(bounds, queues=wanted if bounds.queues is None else bounds.queues & wanted)


def _brokers(bounds: Bounds, values: Iterable[Any]) -> Bounds:
    wanted = frozenset(value for value in values if isinstance(value, str))
    return replace(bounds, brokers=wanted if bounds.brokers is None else bounds.brokers & wanted)


def _times(bounds: Bounds, values: Iterable[Any]) -> Bounds:
    known = [value for value in values if isinstance(value, datetime)]
    return _until(_since(bounds, min(known)), max(known)) if known else bounds


_NARROWING: dict[tuple[str, str], Callable[[Bounds, Any], Bounds]] = {
    ("GreaterThan", "offset"): lambda bounds, condition: _at_least(bounds, condition.value + 1),
    ("GreaterThanOrEqual", "offset"): lambda bounds, condition: _at_least(bounds, condition.value),
    ("LessThan", "offset"): lambda bounds, condition: _at_most(bounds, condition.value - 1),
    ("LessThanOrEqual", "offset"): lambda bounds, condition: _at_most(bounds, condition.value),
    ("GreaterThan", "store_time"): lambda bounds, condition: _since(bounds, condition.value),
    ("GreaterThanOrEqual", "store_time"): lambda bounds, condition: _since(bounds, condition.value),
    ("LessThan", "store_time"): lambda bounds, condition: _until(bounds, condition.value),
    ("LessThanOrEqual", "store_time"): lambda bounds, condition: _until(bounds, condition.value),
}
for _name, _narrow in (("offset", _offsets), ("queue", _queues), ("broker", _brokers), ("store_time", _times)):
    _NARROWING["EqualTo", _name] = lambda bounds, condition, narrow=_narrow: narrow(bounds, [condition.value])  # type: ignore[misc]
    _NARROWING["In", _name] = lambda bounds, condition, narrow=_narrow: narrow(bounds, condition.value)  # type: ignore[misc]


def batches(broker: str, lists: Iterable[list[StoredMessage]]) -> Iterator[pa.RecordBatch]:
    """The messages of one broker's queue, in batches of a few thousand."""
    held: list[tuple[StoredMessage, bytes]] = []
    size = 0
    for message in itertools.chain.from_iterable(lists):
        body = _unpacked(message)
        held.append((message, body))
        size += len(body)
        if len(held) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield _batch(broker, held)
            held, size = [], 0
    if held:
        yield _batch(broker, held)


def _batch(broker: str, rows: list[tuple[StoredMessage, bytes]]) -> pa.RecordBatch:
    """Messages and their unpacked bodies as one batch with the schema ARROW."""
    messages, bodies = zip(*rows, strict=True)
    columns = [
        [broker] * len(messages),
        [message.queue_id for message in messages],
        [message.queue_offset for message in messages],
        [message.unique_id or message.offset_message_id for message in messages],
        [message.offset_message_id for message in messages],
        [message.keys.split() or None for message in messages],
        [message.tags or None for message in messages],
        [list(message.properties.items()) for message in messages],
        [_text(body) for body in bodies],
        bodies,
        [message.born_timestamp * 1000 for message in messages],
        [message.store_timestamp * 1000 for message in messages],
        [f"{message.born_host[0]}:{message.born_host[1]}" for message in messages],
        [message.reconsume_times for message in messages],
    ]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW)


def _unpacked(message: StoredMessage) -> bytes:
    """The body as it was produced; one that cannot be unpacked is given as it is stored, as the message page does."""
    try:
        return message.decoded_body(LARGEST_BODY)
    except ValueError:
        return message.body


def _text(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


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
    #: How the brokers are checked (`trust.tls`).
    ca: str = ""
    #: `host:port` of its name servers, and of the brokers that have queues of it, as far as they were asked for.
    addresses: tuple[str, ...] = ()
    task_messages: int = TASK_MESSAGES

    def admin(self) -> Admin:
        """A client of the topic's cluster; to be closed."""
        key = trust.credentials(self.key_id, self.secret)
        return Admin(self.namesrv, key, timeout_ms=_TIMEOUT_MS, tls=trust.tls(self.ca))


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
                messages = admin.messages.read_range(MessageQueue(self._topic.name, broker, queue), begin, end)
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
    stats, addresses = _stats(topic)
    for queue, found in stats:
        place = f"{queue.broker_name}:{queue.queue_id}"
        end = found.max_offset if ends is None else min(found.max_offset, ends.get(place, 0))
        begin = max(found.min_offset, begins.get(place, 0))
        if begin < end:
            reach.append(Reach(queue.broker_name, queue.queue_id, begin, end, found.last_update_ms))
    return replace(topic, reach=tuple(reach), addresses=addresses)


def _topic(options: Mapping[str, str]) -> Topic:
    key = options.get("accessKeyId", ""), options.get("accessKeySecret", "")
    most = int(options.get("taskMessages", TASK_MESSAGES))
    return Topic(options["namesrv"], options["topic"], *key, ca=options.get("ca", ""), task_messages=most)


def _stats(topic: Topic) -> tuple[list[tuple[MessageQueue, QueueStats]], tuple[str, ...]]:
    """How far its queues reach, and where they are."""
    try:
        with topic.admin() as admin:
            stats = sorted(admin.topics.stats(topic.name).items())
            brokers = admin.routes.masters(topic.name)  # known by now
            return stats, (*parse_name_servers(topic.namesrv), *brokers.values())
    except TopicNotExist:
        return [], ()
    except ClientError as error:
        raise MessagesUnreadable(f"The broker of topic {topic.name} cannot be asked: {error}") from error


def ends(options: Mapping[str, str]) -> dict[str, int]:
    """The next offset of each queue by `<broker>:<queue>`. Raises MessagesUnreadable."""
    return {f"{queue.broker_name}:{queue.queue_id}": stats.max_offset for queue, stats in _stats(_topic(options))[0]}


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
        begin = max(begin, admin.offsets.search(queue, bounds.begin_ms))
    # Searching behind the newest message is asking for trouble: brokers answer it differently.
    if bounds.end_ms < reach.last_ms:
        end = min(end, admin.offsets.search(queue, bounds.end_ms + 1))
    return begin, end
