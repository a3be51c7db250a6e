"""Topics of this broker: configurations and their queues."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field

from brokercore.names import (
    BENCHMARK_TOPIC,
    CHECKED_TOO_OFTEN_TOPIC,
    HALF_TOPIC,
    SCHEDULE_TOPIC,
    TRACE_TOPIC,
    is_system_topic,
)
from brokercore.protocol.bodies.config import DataVersion, TopicConfig
from brokercore.protocol.bodies.route import PERM_READ, PERM_WRITE
from brokercore.protocol.properties import LEVELS
from brokercore.server.statistics import Counter
from brokercore.server.storage.queue import Queue
from brokercore.server.storage.recovery import mend_hash
from brokercore.server.storage.store import MessageStore

logger = logging.getLogger(__name__)

TIMER_QUEUE = LEVELS
"""Queue of SCHEDULE_TOPIC_XXXX for messages with a time of their own; queue n-1 is delay level n."""

SYSTEM_QUEUES = {SCHEDULE_TOPIC: LEVELS + 1, HALF_TOPIC: 1, CHECKED_TOO_OFTEN_TOPIC: 1}
"""Topics only the broker writes, with their number of queues."""


def is_kept_topic(topic: str) -> bool:
    """True for names that no client gives a topic.

    They are RocketMQ's own but for the one of its benchmarks: brokers of Apache begin with that topic, and here, where
    sending makes no topics, whoever runs the benchmarks creates it.
    """
    return topic != BENCHMARK_TOPIC and is_system_topic(topic)


@dataclass(slots=True, eq=False)
class Topic:
    """A topic and its queues; there can be more queues than the configuration shows, after it was made smaller."""

    config: TopicConfig
    queues: list[Queue] = field(default_factory=list)
    message_type: str = "NORMAL"
    has_message_type: bool = False
    readable: bool = True
    writable: bool = True
    counters: tuple[Counter, ...] | None = None

    def refresh(self) -> None:
        """Take over what the hot path needs of the configuration."""
        self.message_type = self.config.message_type
        self.has_message_type = self.config.has_message_type
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
        self._by_name.clear()
        by_topic: dict[str, dict[int, Queue]] = {}
        for queue in self._store.by_number.values():
            by_topic.setdefault(queue.topic, {})[queue.queue_id] = queue
        for name, config in zip(table[::2], table[1::2], strict=True):
            topic = Topic(TopicConfig.from_json(config))
            queues = by_topic.pop(name.decode(), {})
            topic.queues = [queues[number] for number in sorted(queues)]
            topic.refresh()
            self._by_name[name.decode()] = topic
        if orphans := [queue for queues in by_topic.values() for queue in queues.values()]:
            logger.warning("%d queues without a topic are dropped: its creation or its end was cut short", len(orphans))
            await self._delete_stored("", orphans)
            self._store.forget(orphans)
        for system_topic, count in {**SYSTEM_QUEUES, TRACE_TOPIC: 1}.items():
            known = self._by_name.get(system_topic)
            if known is None or len(known.queues) < count:
                await self.save(TopicConfig(system_topic, count, count, PERM_READ | PERM_WRITE))

    def get(self, name: str) -> Topic | None:
        """The topic of this name."""
        return self._by_name.get(name)

    def names(self) -> list[str]:
        """Names of all topics, those of the system included."""
        return list(self._by_name)

    def end_of(self, name: str, queue_id: int) -> int | None:
        """The maximum offset of a queue, None when there is no such queue."""
        topic = self._by_name.get(name)
        return topic.queues[queue_id].max_offset if topic and 0 <= queue_id < len(topic.queues) else None

    def items(self) -> list[tuple[str, Topic]]:
        """All topics with their names."""
        return list(self._by_name.items())

    async def save(self, config: TopicConfig) -> Topic:
        """Create a topic or change its configuration; queues are added, never taken away.

        Raises StoreUnavailable.
        """
        async with self._changes:
            topic = self._by_name.get(config.topic)
            writer, keys = self._store.writer, self._store.keys
            queues = list(topic.queues) if topic else []
            commands: list[tuple[bytes | str | int, ...]] = []
            if (missing := max(config.read_queues, config.write_queues) - len(queues)) > 0:
                fresh = await self._new_queues(config.topic, len(queues), missing)
                queues += fresh
                commands = [("HSET", keys.queues, _field(queue), queue.number) for queue in fresh]
            await writer.call_all([*commands, ("HSET", keys.topics, config.topic, config.to_json())])
            self._store.by_number.update({queue.number: queue for queue in queues})
            if topic is None:
                topic = self._by_name[config.topic] = Topic(config)
            topic.config, topic.queues = config, queues
            topic.refresh()
            self.changed()
            return topic

    async def add_queue(self, name: str) -> Queue:
        """One more queue for a topic of the broker, which its configuration does not show. Raises StoreUnavailable."""
        async with self._changes:
            topic = self._by_name[name]
            (queue,) = await self._new_queues(name, len(topic.queues), 1)
            await self._store.writer.call("HSET", self._store.keys.queues, _field(queue), queue.number)
            self._store.by_number[queue.number] = queue
            topic.queues = [*topic.queues, queue]
            return queue

    async def ensure(self, name: str, queues: int) -> Topic:
        """The topic of this name, created with `queues` queues when it is missing. Raises StoreUnavailable."""
        return self._by_name.get(name) or await self.save(TopicConfig(name, queues, queues, PERM_READ | PERM_WRITE))

    async def delete(self, name: str) -> None:
        """Delete a topic with its messages and its index. Raises StoreUnavailable; the topic stays then."""
        async with self._changes:
            topic = self._by_name.pop(name, None)  # first, so that nothing is stored behind its end
            if topic is None:
                return
            try:
                await self._delete_stored(name, topic.queues)
            except BaseException:
                self._by_name[name] = topic
                raise
            self._store.forget(topic.queues)
            self.changed()
            await self._store.index.drop(topic=name)

    def changed(self) -> None:
        """Count a change of the table, as clients and tools see it in `dataVersion`."""
        self.version = DataVersion(self.version.counter + 1, int(time.time() * 1000))

    async def mend(self) -> None:
        """Write back what Redis has forgotten of the topics: a crash of its machine took what was written last.

        Raises StoreUnavailable.
        """
        async with self._changes:
            writer, keys = self._store.writer, self._store.keys
            queues = self._store.by_number.values()
            last = int(await writer.call("GET", keys.last_queue) or 0)
            highest = max(self._store.by_number, default=0)
            if last < highest:
                await writer.call("SET", keys.last_queue, highest)
            await mend_hash(writer, keys.queues, {_field(queue).encode(): b"%d" % queue.number for queue in queues})
            topics = {name.encode(): topic.config.to_json() for name, topic in self._by_name.items()}
            await mend_hash(writer, keys.topics, topics)

    async def _new_queues(self, topic: str, first: int, count: int) -> list[Queue]:
        keys = self._store.keys
        last = int(await self._store.writer.call("INCRBY", keys.last_queue, count))
        numbers = range(last - count + 1, last + 1)
        return [
            Queue(topic, first + place, number, keys.stream(number).encode()) for place, number in enumerate(numbers)
        ]

    async def _delete_stored(self, name: str, queues: list[Queue]) -> None:
        """All of it at once: after a crash there is no half of a topic."""
        keys = self._store.keys
        commands: list[tuple[bytes | str | int, ...]] = [("HDEL", keys.topics, name)] if name else []
        if queues:
            commands.append(("HDEL", keys.queues, *map(_field, queues)))
            commands.append(("UNLINK", *[queue.key for queue in queues]))
        await self._store.writer.call_all(commands)


def _field(queue: Queue) -> str:
    return f"{queue.queue_id}@{queue.topic}"
