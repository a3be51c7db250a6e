"""Delayed delivery: when a message is to be delivered, and the timers that deliver it at its time.

Later delivery is asked for by delay levels, timer properties and the vendor's start-deliver time; retries of a group
are delayed too.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from brokercore.names import SCHEDULE_TOPIC, group_of
from brokercore.protocol import properties as names
from brokercore.protocol.codes import ResponseCode
from brokercore.protocol.message import StoredMessage, decode_stored
from brokercore.protocol.properties import LEVEL_SECONDS, MAX_DELAY_SECONDS, encode_properties
from brokercore.server.errors import RedisError, Refusal, StoreUnavailable
from brokercore.server.storage.index import message_keys
from brokercore.server.storage.parking import MOVE, Parking, readable
from brokercore.server.storage.queue import Queue
from brokercore.server.storage.store import Done, MessageStore
from brokercore.server.storage.topics import TopicTable

logger = logging.getLogger(__name__)

LEVELS_MS = tuple(1000 * seconds for seconds in LEVEL_SECONDS)
MAX_DELAY_MS = 1000 * MAX_DELAY_SECONDS

TIMED = frozenset(
    {names.DELAY, names.TIMER_DELAY_SECONDS, names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS, names.START_DELIVER_TIME}
)
"""Properties that ask for a later delivery."""

_AT_ONCE = 500
_LONGEST_WAIT = 5.0
"""Seconds of one sleep: the clock of a laptop that slept, or that was set, has gone on without the event loop."""

_BROKEN_MS = 3_600_000
"""When a message that cannot be delivered is tried again: it is not thrown away, and keeps no other one back."""

_AFTER_TROUBLE = 0.5


def is_delayed(properties: Mapping[str, str]) -> bool:
    """True when a property asks for a later delivery."""
    return not TIMED.isdisjoint(properties)


def deliver_at(properties: Mapping[str, str], now_ms: int) -> tuple[int, int]:
    """Delivery time in epoch ms and delay level (0 for a time of its own); (0, 0) means at once.

    A delay level wins over timer properties, those win over __STARTDELIVERTIME. Raises Refusal for a value that is
    no number, and for a time more than 40 days ahead.
    """
    level = _number(properties, names.DELAY)
    if level > 0:
        level = min(level, len(LEVELS_MS))
        return now_ms + LEVELS_MS[level - 1], level
    if names.TIMER_DELAY_SECONDS in properties:
        time_ms = now_ms + 1000 * _number(properties, names.TIMER_DELAY_SECONDS)
    elif names.TIMER_DELAY_MS in properties:
        time_ms = now_ms + _number(properties, names.TIMER_DELAY_MS)
    elif names.TIMER_DELIVER_MS in properties:
        time_ms = _number(properties, names.TIMER_DELIVER_MS)
    else:
        time_ms = _number(properties, names.START_DELIVER_TIME)
    if time_ms <= now_ms:
        return 0, 0
    if time_ms > now_ms + MAX_DELAY_MS:
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, "the delivery time is more than 40 days ahead")
    return time_ms, 0


def level_time(level: int, now_ms: int) -> tuple[int, int]:
    """Delivery time and level, the level cut to 1..18."""
    level = max(1, min(level, len(LEVELS_MS)))
    return now_ms + LEVELS_MS[level - 1], level


def _number(properties: Mapping[str, str], name: str) -> int:
    value = properties.get(name) or "0"
    if not value.isascii() or not value.removeprefix("-").isdigit() or len(value) > 18:
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, f"the property {name} is not a whole number: {value[:40]!r}")
    return int(value)


class Timers:
    """Waits for the earliest time, moves what is due, and waits again. What waits is in Redis, not here."""

    def __init__(self, store: MessageStore, topics: TopicTable) -> None:
        self._store, self._topics = store, topics
        self._parking = Parking(store, store.keys.timers)
        self._next_ms = 0
        self._earlier = asyncio.Event()
        self.delivered = 0
        self._cancelling = asyncio.Semaphore(1)
        store.scripts.append(MOVE)

    def queue(self, number: int) -> Queue:
        """The parking queue of a delay level (level - 1), or of messages with a time of their own."""
        topic = self._topics.get(SCHEDULE_TOPIC)
        if topic is None:
            raise StoreUnavailable("the broker is starting")
        return topic.queues[number]

    def park(
        self,
        queue: Queue,
        until_ms: int,
        body: bytes,
        properties: Mapping[str, str],
        done: Done,
        *,
        fields: dict[str, Any],
    ) -> int:
        """Store a message until its time; `properties` name its REAL_TOPIC and REAL_QID.

        Returns its offset in the parking queue. Raises StoreFull and StoreUnavailable.
        """

        def stored(reason: str | None) -> None:
            # Only what Redis has can be found at its time: a wake-up before that finds nothing and forgets it.
            if reason is None and until_ms < self._next_ms:
                self._next_ms = until_ms
                self._earlier.set()
            done(reason)

        topic = properties[names.REAL_TOPIC]
        return self._parking.park(queue, until_ms, body, encode_properties(properties), stored, topic=topic, **fields)

    async def cancel(self, until_ms: int, topic: str, unique_id: str) -> bool:
        """Throw away a message that waits for this time; False when it is none or was delivered meanwhile.

        Raises StoreUnavailable.
        """
        places = await self._parking.waiting_until(until_ms)
        async with self._cancelling, aclosing(self._store.in_pieces(places)) as pieces:
            async for frames in pieces:
                for frame in frames:
                    message = decode_stored(frame)[0]
                    if message.unique_id == unique_id and message.properties.get(names.REAL_TOPIC) == topic:
                        return await self._parking.cancel(message)
        return False

    async def run(self) -> None:
        """Deliver until cancelled."""
        while True:
            try:
                await self._wait()
                while await self._deliver():
                    pass
            except (StoreUnavailable, RedisError):
                await asyncio.sleep(_AFTER_TROUBLE)

    async def _wait(self) -> None:
        """Wait for the earliest time, or for a timer that is earlier still."""
        self._earlier.clear()
        self._next_ms = 1 << 62
        stored = await self._parking.next_ms()
        if stored is not None:
            self._next_ms = min(self._next_ms, stored)
        while (seconds := self._next_ms / 1000 - time.time()) > 0:
            self._earlier.clear()
            try:
                async with asyncio.timeout(min(seconds, _LONGEST_WAIT)):
                    await self._earlier.wait()
            except TimeoutError:
                if self._next_ms / 1000 - time.time() > 0:
                    return

    async def _deliver(self) -> bool:
        """Move what is due; True when there may be more. Many large messages are moved some at a time."""
        due = await self._parking.due(int(time.time() * 1000), _AT_ONCE)
        left = set(due)
        async with aclosing(self._store.in_pieces(due)) as pieces:
            async for frames in pieces:
                messages, broken = readable(frames)
                left -= {message.physical_offset for message in messages}
                left -= set(broken)
                await self._move({message.physical_offset: message for message in messages}, broken)
        if left:  # their frames are gone, or not there yet
            await self._move(dict.fromkeys(left), [])
        return bool(due)

    async def _move(self, messages: Mapping[int, StoredMessage | None], broken: list[int]) -> None:
        loop = asyncio.get_running_loop()
        moves = []
        for physical_offset, message in messages.items():
            moved: asyncio.Future[bool] = loop.create_future()
            try:
                self._start(physical_offset, message, moved)
            except (ValueError, ArithmeticError, LookupError):  # one message must not keep all others back
                logger.exception("parked message %d cannot be delivered", physical_offset)
                broken.append(physical_offset)
            else:
                moves.append(moved)
        for physical_offset in broken:
            await self._parking.postpone(physical_offset, int(time.time() * 1000) + _BROKEN_MS)
        if not all(await asyncio.gather(*moves)):
            raise StoreUnavailable("Redis did not take a delivery")
        self.delivered += len(moves)

    def _start(self, physical_offset: int, message: StoredMessage | None, moved: asyncio.Future[bool]) -> None:
        def answered(success: bool) -> None:
            if not moved.done():
                moved.set_result(success)

        target = self._target(message) if message else None
        if message is None or target is None:
            self._parking.discard(physical_offset, answered, message=message)
            return
        self._parking.move(message, target, answered, keys=message_keys(message.properties))

    def _target(self, message: StoredMessage) -> Queue | None:
        name = message.properties.get(names.REAL_TOPIC, "")
        topic = self._topics.get(name)
        if topic is None:
            what = f"group {group_of(name)}" if group_of(name) else f"topic {name}"
            logger.warning("message %s is not delivered: its %s was deleted", message.unique_id, what)
            return None
        number = message.properties.get(names.REAL_QUEUE_ID, "0")
        return topic.queues[int(number) % len(topic.queues)] if number.isdecimal() else topic.queues[0]
