"""Notifications that are to be pushed. Several processes share them: who takes one has a lease on it.

A process that dies while it pushes leaves a lease that ends, and somebody else pushes again: at least once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import orjson

from brokercore.server.storage.redis_connection import RedisConnection
from brokercore.smq.storage import keys
from brokercore.smq.storage.queues import Script, epoch_ms
from brokercore.smq.wire.subscriptions import Subscription

#: Pushes at a time to one subscriber, and for one account, by all processes together.
LANE_ROOM, ACCOUNT_ROOM = 4, 16
#: How long who took a notification may push it before somebody else does; far longer than an attempt, ms.
LEASE_MS = 20_000
#: After how long a subscriber is looked at again whose account pushes as much as it may, ms.
_AGAIN_MS = 200
#: Lanes that are looked at together. Those of an account that pushes as much as it may are passed over: so many keep
#: their place, of one account and of all, and the others come later, so that what lies behind them is seen.
_LOOK, _KEEP, _KEEP_OF_ALL = 2_000, 64, 512


class Lane(NamedTuple):
    """The subscription that notifications are to be pushed for."""

    account: str
    topic: str
    subscription: str

    @property
    def text(self) -> str:
        """The lane as the set of all lanes has it."""
        return "/".join(self)

    @classmethod
    def read(cls, text: str) -> Lane:
        """The lane of such a text."""
        return cls(*text.split("/"))


@dataclass(frozen=True, slots=True)
class Push:
    """A notification that this process is to push; it is the try of this number."""

    lane: Lane
    id: str
    tries: int
    subscription: Subscription
    content: bytes
    headers: Mapping[str, str]


class Pushes:
    """Takes notifications and says what became of them; `clock` gives epoch ms. Raises RedisError, StoreUnavailable."""

    def __init__(self, redis: RedisConnection, clock: Callable[[], int] = epoch_ms) -> None:
        self._redis, self._now = redis, clock
        self._claim, self._finish = _script("claim"), _script("finish")
        self._full: dict[str, int] = {}
        """Accounts that push as much as they may, and until when they are not asked again, epoch ms."""

    async def due(self, most: int) -> tuple[list[Lane], float]:
        """Lanes in which something is to be done now, and seconds until there is in another; infinite when in none."""
        look = max(most, _LOOK)
        found = await self._redis.call("ZRANGE", keys.LANES, 0, look, "WITHSCORES")
        now, lanes = self._now(), list[Lane]()
        again, later, passed = now + _AGAIN_MS, list[int | bytes](), Counter[str]()
        self._full = {account: until for account, until in self._full.items() if until > now}
        seconds = 0.0 if len(found) > 2 * look else float("inf")
        for text, score in zip(found[::2], found[1::2], strict=True):
            if int(score) > now:
                seconds = (int(score) - now) / 1000
                break
            lane = Lane.read(text.decode())
            if lane.account in self._full:
                passed[lane.account] += 1
                if passed[lane.account] > _KEEP or passed.total() > _KEEP_OF_ALL:
                    later += again + len(later) // 20, text
            elif len(lanes) < most:
                lanes.append(lane)
            else:
                seconds = 0.0
                break
        if later:
            await self._redis.call("ZADD", keys.LANES, "XX", *later)
        return lanes, min(seconds, _AGAIN_MS / 1000) if passed else seconds

    async def claim(self, lane: Lane, most: int) -> list[Push]:
        """Take up to `most` notifications that are due. They are this process's until their lease ends."""
        now = self._now()
        answer = await self._claim.run(
            self._redis,
            _keys(lane),
            now,
            now + LEASE_MS,
            most,
            LANE_ROOM,
            ACCOUNT_ROOM,
            lane.text,
            lane.subscription,
            _AGAIN_MS,
        )
        if answer is None:
            return []
        kept, room, *flat = answer
        if room <= 0:
            self._full[lane.account] = now + _AGAIN_MS
        subscription = Subscription.read(orjson.loads(kept))
        pushes = []
        for identity, tries, stored in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
            content, headers = orjson.loads(stored)
            pushes.append(Push(lane, identity.decode(), tries, subscription, content.encode(), headers))
        return pushes

    async def delivered(self, push: Push, status: int) -> None:
        """The receiver took it."""
        await self._end(push, "delivered", outcome(self._now(), status))

    async def failed(self, push: Push, status: int, error: str, pause_s: float | None) -> None:
        """The receiver did not take it; it is pushed again after the pause, or given up where that is None."""
        now = self._now()
        after = "dropped" if pause_s is None else str(now + round(pause_s * 1000))
        await self._end(push, after, outcome(now, status, error))

    async def _end(self, push: Push, after: str, kept: bytes) -> None:
        lane = push.lane
        self._full.pop(lane.account, None)
        await self._finish.run(
            self._redis, _keys(lane), lane.text, lane.subscription, push.id, push.tries, after, kept, LANE_ROOM
        )


def outcome(now_ms: int, status: int, error: str = "") -> bytes:
    """What is kept of an attempt, for who looks at the subscription: PushResult's first three."""
    return orjson.dumps((now_ms, status, error))


def record(content: bytes, headers: Mapping[str, str]) -> bytes:
    """A notification as it is kept until it is pushed."""
    return orjson.dumps((content.decode(), headers))


def _keys(lane: Lane) -> list[str]:
    return [*keys.of_topic(lane.account, lane.topic), *keys.of_lane(*lane), keys.pushed(lane.account)]


def _script(name: str) -> Script:
    return Script(f"topics/{name}", "topics/_head")
