"""Topics of this broker: configurations and their queues."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from brokercore.protocol.bodies.config import DataVersion, TopicConfig
from brokercore.protocol.bodies.route import PERM_READ, PERM_WRITE
from brokercore.server.statistics import Counter
from brokercore.server.storage.queue import Queue
from brokercore.server.storage.store import MessageStore

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
CHECKED_TOO_OFTEN_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
DELAY_LEVELS = 18
TIMER_QUEUE = DELAY_LEVELS
"""Queue of SCHEDULE_TOPIC_XXXX for messages with a time of their own; queue n-1 is delay level n."""

SYSTEM_QUEUES = {SCHEDULE_TOPIC: DELAY_LEVELS + 1, HALF_TOPIC: 1, CHECKED_TOO_OFTEN_TOPIC: 1}
"""Topics only the broker writes, with their number of queues."""

RETRY_PREFIX, DEAD_LETTER_PREFIX = "%RETRY%", "%DLQ%"

_FORBIDDEN = frozenset(
    {*SYSTEM_QUEUES, "TBW102", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT", "RMQ_SYS_TRANS_OP_HALF_TOPIC"}
)


def is_system_topic(topic: str) -> bool:
    """True for names that RocketMQ keeps for itself."""
    return topic in _FORBIDDEN or topic.startswith("rmq_sys_") or topic == "RMQ_SYS_TRACE_TOPIC"


def group_of(topic: str) -> str:
    """The group whose retry or dead-letter topic this is, "" for every other topic."""
    if topic.startswith(RETRY_PREFIX):
        return topic[len(RETRY_PREFIX) :]
    if topic.startswith(DEAD_LETTER_PREFIX):
        return topic[len(DEAD_LETTER_PREFIX) :]
    return ""


@dataclass(slots=True, eq=False)
class Topic:
    """A topic and its queues; there can be more queues than the configuration shows, after it was made smaller."""

    config: TopicConfig
    queues: list[Queue] = field(default_factory=list)
    message_type: str = "NORMAL"
    readable: bool = True
    writable: bool = True
    counters: tuple[Counter, ...] | None = None

    def refresh(self) -> None:
        """Take over what the hot path needs of the configuration."""
        self.message_type = self.config.message_type
        self.readable = bool(self.config.perm & PERM_READ)
        self.writable = bool(self.config.perm & PERM_WRITE) and self.config.topic not in SYSTEM_QUEUES

    @property
    def visible_queues(self) -> list[Queue]:
        """The queues that clients may see: as many as the larger of read and write queues."""
        return self.queues[: max(self.config.read_queues, self.config.write_queues)]


class TopicTable:
    """All topics by name; changes are in Redis before they are seen here."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._by_name: dict[str, Topic] = {}
        self._changes = asyncio.Lock()
        self.version = DataVersion(0, int(time.time() * 1000))

    async def load(self) -> None:
        """Read all topics, and make the system topics that are missing. Raises StoreUnavailable."""
        table: list[bytes] = await self._store.writer.call("HGETALL", self._store.keys.topics)
        by_topic: dict[str, dict[int, Queue]] = {}
        for queue in self._store.by_number.values():
            by_topic.setdefault(queue.topic, {})[queue.queue_id] = queue
        for name, config in zip(table[::2], table[1::2], strict=True):
            topic = Topic(TopicConfig.from_json(config))
            queues = by_topic.get(name.decode(), {})
            topic.queues = [queues[number] for number in sorted(queues)]
            topic.refresh()
            self._by_name[name.decode()] = topic
        for system_topic, count in SYSTEM_QUEUES.items():
            known = self._by_name.get(system_topic)
            if known is None or len(known.queues) < count:
                await self.save(TopicConfig(system_topic, count, count, PERM_READ | PERM_WRITE))

    def get(self, name: str) -> Topic | None:
        """The topic of this name."""
        return self._by_name.get(name)

    def names(self) -> list[str]:
        """Names of all topics, those of the system included."""
        return list(self._by_name)

    def items(self) -> list[tuple[str, Topic]]:
        """All topics with their names."""
        return list(self._by_name.items())

    async def save(self, config: TopicConfig) -> Topic:
        """Create a topic or change its configuration; queues are added, never taken away.

        Raises StoreUnavailable.
        """
        async with self._changes:
            topic = self._by_name.get(config.topic)
            queues = list(topic.queues) if topic else []
            for queue_id in range(len(queues), max(config.read_queues, config.write_queues)):
                queues.append(await self._new_queue(config.topic, queue_id))
            await self._store.writer.call("HSET", self._store.keys.topics, config.topic, config.to_json())
            if topic is None:
                topic = self._by_name[config.topic] = Topic(config)
            topic.config, topic.queues = config, queues
            topic.refresh()
            self.changed()
            return topic

    async def ensure(self, name: str, queues: int) -> Topic:
        """The topic of this name, created with `queues` queues when it is missing. Raises StoreUnavailable."""
        return self._by_name.get(name) or await self.save(TopicConfig(name, queues, queues, PERM_READ | PERM_WRITE))

    async def delete(self, name: str) -> None:
        """Delete a topic with its messages and its index. Raises StoreUnavailable."""
        async with self._changes:
            topic = self._by_name.pop(name, None)
            if topic is None:
                return
            writer, keys = self._store.writer, self._store.keys
            fields = [f"{queue.queue_id}@{name}" for queue in topic.queues]
            self._store.forget(topic.queues)
            await writer.call_many(
                [
                    ("HDEL", keys.topics, name),
                    ("HDEL", keys.queues, *fields),
                    ("UNLINK", *[queue.key for queue in topic.queues]),
                ]
            )
            await self._store.index.drop(topic=name)
            self.changed()

    def changed(self) -> None:
        """Count a change of the table, as clients and tools see it in `dataVersion`."""
        self.version = DataVersion(self.version.counter + 1, int(time.time() * 1000))

    async def _new_queue(self, topic: str, queue_id: int) -> Queue:
        writer, keys = self._store.writer, self._store.keys
        number = int(await writer.call("INCR", keys.last_queue))
        await writer.call("HSET", keys.queues, f"{queue_id}@{topic}", number)
        queue = Queue(topic, queue_id, number, keys.stream(number).encode())
        self._store.by_number[number] = queue
        return queue
