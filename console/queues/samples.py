"""The counters of queues over time: taken every 30 s of all accounts, kept for a day in Redis, database 2.

gantry:queues:lease              who samples now (text, expires)
gantry:queues:ticks              list of the moments of samples, newest first: epoch s, 4 bytes each
gantry:queues:<account>:<queue>  list of what was counted, newest first: epoch s, active, hidden, delayed (4 bytes
                                 each), sent, received (8 bytes each)

A queue in which nothing changed gets no new entry: its last one holds until the next, as long as there are ticks.
"""

from __future__ import annotations

import secrets
import struct
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import redis

from brokercore.smq.wire.queues import QueueState
from console.accounts.models import Tenant
from console.queues.client import queues_of
from console.web import redis as web_redis

KEPT_SECONDS = 24 * 3600
STEP_SECONDS = 30
#: Ticks further apart leave a gap in the curve, and say nothing of rates.
GAP_SECONDS = 180
MOST_SAMPLED = 5_000
"""Queues of one account that are sampled, the first by name."""
MOST_POINTS = 720
"""Of a curve: a browser draws no more of them on a line's width."""
_MOST_KEPT = KEPT_SECONDS // STEP_SECONDS
_PAGE = 1000
_LEASE_MS = 25_000
_TICK = struct.Struct(">I")
_SAMPLE = struct.Struct(">IIIIQQ")
_TICKS, _LEASE = "gantry:queues:ticks", "gantry:queues:lease"
_MOST_COUNTED = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Counted:
    """What was counted of a queue at a moment (epoch s); `sent` and `received` since the queue was made."""

    at: int
    active: int
    hidden: int
    delayed: int
    sent: int
    received: int


@dataclass(frozen=True, slots=True)
class Point:
    """One moment of a curve (epoch s): messages, and messages a second since the moment before. None: not known."""

    at: int
    active: int | None = None
    hidden: int | None = None
    delayed: int | None = None
    sent_rate: float | None = None
    received_rate: float | None = None

    @property
    def at_ms(self) -> int:
        """The moment in epoch ms."""
        return self.at * 1000


@dataclass(frozen=True, slots=True)
class Rates:
    """Messages a second between the last two samples; None when there are no two, or the last is old."""

    sent: float | None = None
    received: float | None = None


def sample(tenants: Iterable[Tenant]) -> int:
    """Count the queues of these accounts, unless another worker just does. Returns how many were counted.

    Raises QueueServiceUnavailable: then there is no tick, and the curves have a gap.
    """
    client = _redis()
    if not client.set(_LEASE, secrets.token_hex(8), nx=True, px=_LEASE_MS):
        return 0
    at = int(time.time())
    found = [(tenant.uid, state) for tenant in tenants for state in _states(tenant)]
    for begin in range(0, len(found), _PAGE):
        _keep(client, at, found[begin : begin + _PAGE])
    pipeline = client.pipeline(transaction=False)
    pipeline.lpush(_TICKS, _TICK.pack(at))
    pipeline.ltrim(_TICKS, 0, _MOST_KEPT - 1)
    pipeline.expire(_TICKS, KEPT_SECONDS)
    pipeline.execute()
    return len(found)


def curve(tenant: Tenant, state: QueueState, seconds: int) -> list[Point]:
    """The last so many seconds of a queue, oldest first; a gap is a point of which nothing is known."""
    client = _redis()
    now = int(time.time())
    ticks = [_TICK.unpack(tick)[0] for tick in _entries(client, _TICKS)]
    counted = [_read(entry) for entry in _entries(client, _key(tenant.uid, state.name))]
    counted = [one for one in counted if one.at >= state.created]
    ticks = [tick for tick in ticks if now - seconds - STEP_SECONDS <= tick and tick >= state.created]
    step = -(-len(ticks) // MOST_POINTS) or 1
    return _points(ticks[::-step][::-1], counted, GAP_SECONDS * step)


def rates(tenant: Tenant, names: Sequence[str]) -> dict[str, Rates]:
    """The latest rates of queues by name."""
    client = _redis()
    pipeline = client.pipeline(transaction=False)
    pipeline.lrange(_TICKS, 0, 1)
    for name in names:
        pipeline.lrange(_key(tenant.uid, name), 0, 1)
    last, *entries = pipeline.execute()
    ticks = [_TICK.unpack(tick)[0] for tick in reversed(last)]
    if len(ticks) < 2 or time.time() - ticks[-1] > GAP_SECONDS:
        return {}
    return {
        name: _rates(ticks, [_read(e) for e in reversed(found)]) for name, found in zip(names, entries, strict=True)
    }


def _states(tenant: Tenant) -> list[QueueState]:
    found: list[QueueState] = []
    marker = ""
    with queues_of(tenant) as client:
        while len(found) < MOST_SAMPLED:
            more, marker = client.queues(marker=marker, most=_PAGE)
            found += more
            if not marker:
                break
    return found


def _keep(client: redis.Redis, at: int, found: Sequence[tuple[str, QueueState]]) -> None:
    pipeline = client.pipeline(transaction=False)
    for uid, state in found:
        pipeline.lindex(_key(uid, state.name), 0)
    last = pipeline.execute()
    pipeline = client.pipeline(transaction=False)
    for (uid, state), before in zip(found, last, strict=True):
        key = _key(uid, state.name)
        entry = _SAMPLE.pack(
            at,
            *(min(count, _MOST_COUNTED) for count in (state.active, state.inactive, state.delayed)),
            state.sent,
            state.received,
        )
        if before is None or before[_TICK.size :] != entry[_TICK.size :]:
            pipeline.lpush(key, entry)
            pipeline.ltrim(key, 0, _MOST_KEPT - 1)
        pipeline.expire(key, KEPT_SECONDS)
    pipeline.execute()


def _points(ticks: Sequence[int], counted: Sequence[Counted], gap: int) -> list[Point]:
    points: list[Point] = []
    known: Counted | None = None
    place = 0
    before = (0, known)
    for tick in ticks:
        while place < len(counted) and counted[place].at <= tick:
            known = counted[place]
            place += 1
        if before[0] and tick - before[0] > gap:
            points.append(Point(before[0] + STEP_SECONDS))
            before = (0, None)
        if known is not None:
            found = _between(known, before[1], tick - before[0])
            points.append(Point(tick, known.active, known.hidden, known.delayed, found.sent, found.received))
            before = (tick, known)
    return points


def _rates(ticks: Sequence[int], counted: Sequence[Counted]) -> Rates:
    """From the last two ticks; an entry holds from its moment on."""
    if not counted or ticks[-1] - ticks[-2] > GAP_SECONDS:
        return Rates()
    if counted[-1].at < ticks[-1]:
        return Rates(0.0, 0.0)
    for before, after in pairwise(counted):
        return _between(after, before, ticks[-1] - ticks[-2])
    return Rates()


def _between(after: Counted, before: Counted | None, seconds: int) -> Rates:
    """Nothing is known where a counter went back: another queue has the name now."""
    if before is None or seconds <= 0 or after.sent < before.sent or after.received < before.received:
        return Rates()
    return Rates((after.sent - before.sent) / seconds, (after.received - before.received) / seconds)


def _read(entry: bytes) -> Counted:
    return Counted(*_SAMPLE.unpack(entry))


def _entries(client: redis.Redis, key: str) -> list[bytes]:
    """Oldest first."""
    found: Any = client.lrange(key, 0, -1)
    return list(reversed(found))


def _key(uid: str, name: str) -> str:
    return f"gantry:queues:{uid}:{name}"


def _redis() -> redis.Redis:
    return web_redis.connection(2, timeout=None, decode=False)
