"""Committed offsets of consumer groups, and resets that wait for the group's next pull."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from brokercore.protocol.bodies.config import DataVersion
from brokercore.server.errors import StoreUnavailable
from brokercore.server.storage.keys import Keys
from brokercore.server.storage.recovery import mend_hash
from brokercore.server.storage.redis_connection import RedisConnection

logger = logging.getLogger(__name__)

WRITE_INTERVAL = 0.2
"""Seconds between writes of what clients committed. What a crash loses is consumed again, never skipped."""

Place = tuple[str, str, int]
"""Group, topic, queue id."""


class OffsetTable:
    """Offsets by group and topic, in memory, written to one Redis hash shortly after each change."""

    def __init__(self, writer: RedisConnection, keys: Keys) -> None:
        self._writer, self._keys = writer, keys
        self._table: dict[tuple[str, str], dict[int, int]] = {}
        self._pulled: dict[tuple[str, str], dict[int, int]] = {}
        self._resets: dict[Place, int] = {}
        self._dirty: set[Place] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.version = DataVersion(0, int(time.time() * 1000))

    async def load(self) -> None:
        """Read all offsets and pending resets. Raises StoreUnavailable."""
        for place, offset in await self._read(self._keys.offsets):
            self._table.setdefault(place[:2], {})[place[2]] = offset
        for place, offset in await self._read(self._keys.resets):
            self._resets[place] = offset

    # Committed offsets

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        """The committed offset, None when the group has none in this queue."""
        queues = self._table.get((group, topic))
        return None if queues is None else queues.get(queue_id)

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Take a client's offset, unless a reset of this queue has not reached the client yet."""
        if self._resets and (group, topic, queue_id) in self._resets:
            return
        queues = self._table.get((group, topic))
        if queues is None:
            queues = self._table[group, topic] = {}
        if queues.get(queue_id) != offset:
            queues[queue_id] = offset
            self._mark((group, topic, queue_id))

    def queues(self, group: str, topic: str) -> dict[int, int]:
        """Committed offsets by queue id."""
        return self._table.get((group, topic), {})

    def without(self, group: str, topic: str, queue_ids: Iterable[int]) -> int:
        """In how many of these queues the group has no offset."""
        known = self._table.get((group, topic), ())
        return sum(queue_id not in known for queue_id in queue_ids)

    def topics_of(self, group: str) -> list[str]:
        """Topics in which the group has committed an offset."""
        return [topic for name, topic in self._table if name == group]

    def groups_of(self, topic: str) -> list[str]:
        """Groups that have committed an offset in the topic."""
        return [group for group, name in self._table if name == topic]

    def items(self) -> list[tuple[tuple[str, str], dict[int, int]]]:
        """All offsets: (group, topic) with offsets by queue id."""
        return list(self._table.items())

    # What was pulled

    def pulled(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Remember how far a group has pulled in a queue in which it has an offset; kept in memory only."""
        if queue_id in self._table.get((group, topic), ()):
            self._pulled.setdefault((group, topic), {})[queue_id] = offset

    def pull_offset(self, group: str, topic: str, queue_id: int) -> int:
        """How far the group has pulled, 0 when it has not since the broker started."""
        return self._pulled.get((group, topic), {}).get(queue_id, 0)

    # Resets

    def pending_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """The offset a reset asks the group's next pull of this queue to go to."""
        return self._resets.get((group, topic, queue_id)) if self._resets else None

    def clear_reset(self, group: str, topic: str, queue_id: int) -> None:
        """The client has been told: commits count again."""
        if self._resets.pop((group, topic, queue_id), None) is not None:
            self._writer.send("HDEL", self._keys.resets, _field((group, topic, queue_id)))

    async def reset(self, group: str, topic: str, offsets: dict[int, int], *, announce: bool) -> None:
        """Set offsets of several queues; with `announce`, the next pull of each is told. Raises StoreUnavailable."""
        for queue_id, offset in offsets.items():
            place = group, topic, queue_id
            self._table.setdefault((group, topic), {})[queue_id] = offset
            self._mark(place)
            if announce:
                self._resets[place] = offset
                self._writer.send("HSET", self._keys.resets, _field(place), offset)
        await self.flush()

    # Removal and persistence

    async def forget(self, *, group: str | None = None, topic: str | None = None) -> None:
        """Forget all offsets of a group or of a topic. Raises StoreUnavailable."""
        for name in [name for name in self._table if name[0] == group or name[1] == topic]:
            places = [(*name, queue_id) for queue_id in self._table.pop(name)]
            self._pulled.pop(name, None)
            for place in places:
                self._dirty.discard(place)
                self._resets.pop(place, None)
            if places:
                fields = [_field(place) for place in places]
                self._writer.send("HDEL", self._keys.resets, *fields)
                await self._writer.call("HDEL", self._keys.offsets, *fields)

    async def mend(self) -> None:
        """Write back what Redis has forgotten of offsets and resets. Raises StoreUnavailable."""
        offsets = {
            _field((*name, queue_id)).encode(): b"%d" % offset
            for name, queues in self._table.items()
            for queue_id, offset in queues.items()
        }
        await mend_hash(self._writer, self._keys.offsets, offsets)
        resets = {_field(place).encode(): b"%d" % offset for place, offset in self._resets.items()}
        await mend_hash(self._writer, self._keys.resets, resets)

    def check(self, end_of: Callable[[str, int], int | None]) -> bool:
        """After the start: forget offsets of queues that are gone, and what lies behind the end of a queue.

        Returns True when there was any.

        `end_of` gives a queue's maximum offset. An offset behind it would pass over the messages that come next.
        """
        changed = False
        for (group, topic), queues in self._table.items():
            for queue_id, offset in list(queues.items()):
                end = end_of(topic, queue_id)
                changed = changed or end is None or offset > end
                if end is None:
                    del queues[queue_id]
                elif offset > end:
                    logger.error("%s was at %d of %s queue %d, which ends at %d", group, offset, topic, queue_id, end)
                    self.commit(group, topic, queue_id, end)
        return changed

    async def flush(self) -> None:
        """Write what changed and wait until it is stored. Raises StoreUnavailable."""
        future = self._write()
        if future is not None:
            await future

    def _mark(self, place: Place) -> None:
        self._dirty.add(place)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WRITE_INTERVAL, self._write_later)

    def _write_later(self) -> None:
        self._timer = None
        if not self._writer.connected:
            self._timer = asyncio.get_running_loop().call_later(WRITE_INTERVAL, self._write_later)
            return
        try:
            future = self._write()
        except StoreUnavailable:
            self._timer = asyncio.get_running_loop().call_later(WRITE_INTERVAL, self._write_later)
            return
        if future is not None:
            future.add_done_callback(asyncio.Future.exception)

    def _write(self) -> asyncio.Future[Any] | None:
        places = [place for place in self._dirty if place[2] in self._table.get(place[:2], {})]
        if not places:
            self._dirty.clear()
            return None
        arguments: list[bytes | str | int] = ["HSET", self._keys.offsets]
        for place in places:
            arguments += (_field(place), self._table[place[:2]][place[2]])
        future = self._writer.call(*arguments)
        self._dirty.clear()
        future.add_done_callback(lambda done: self._retry(places, done))
        self.version = DataVersion(self.version.counter + 1, int(time.time() * 1000))
        return future

    def _retry(self, places: list[Place], done: asyncio.Future[Any]) -> None:
        if done.cancelled() or done.exception() is not None:
            for place in places:
                self._mark(place)

    async def _read(self, key: str) -> Iterable[tuple[Place, int]]:
        table: list[bytes] = await self._writer.call("HGETALL", key)
        return [(_place(name), int(value)) for name, value in zip(table[::2], table[1::2], strict=True)]


def _field(place: Place) -> str:
    group, topic, queue_id = place
    return f"{queue_id}@{topic}@{group}"


def _place(name: bytes) -> Place:
    queue_id, topic, group = name.decode().split("@", 2)
    return group, topic, int(queue_id)
