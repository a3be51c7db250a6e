"""What the sampler keeps in Redis, database 2 (keys per cluster, docs/use/metrics.md):

gantry:metrics:<cluster>:lease      who samples now (text, expires)
gantry:metrics:<cluster>:reading    the last counters (JSON)
gantry:metrics:<cluster>:snapshot   rates and backlogs for lists and the overview (JSON)
gantry:metrics:<cluster>:in:<topic>, …:out:<topic>@<group>
                                    counts of the hot window (zset of "<ms>:<count>:<seconds>", score = time)
gantry:metrics:<cluster>:series     names of the series with a hot window (set)
gantry:metrics:<cluster>:flushed    up to when samples are in the lake (epoch ms)
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import orjson
import redis

from console.web import redis as web_redis

HOT_WINDOW_MS = 70 * 60 * 1000
LEASE_MS = 30_000

_RELEASE = """
-- KEYS[1] lease (string); ARGV[1] the token of the holder. Deletes only the holder's own lease.
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""


@dataclass(frozen=True)
class HotSample:
    """Messages counted in the `seconds` up to `at_ms`."""

    at_ms: int
    count: int
    seconds: float


def connection() -> redis.Redis:
    """Database 2, where the cache is; the values are JSON, so they stay bytes."""
    return web_redis.connection(2, timeout=None, decode=False)


class Store:
    """The sampler's memory of one cluster."""

    def __init__(self, cluster: str) -> None:
        self._prefix = f"gantry:metrics:{cluster}:"

    @contextmanager
    def lease(self) -> Iterator[bool]:
        """True for the one holder; it ends by itself after 30 s should the holder die."""
        token = secrets.token_hex(8)
        held = bool(connection().set(self._prefix + "lease", token, nx=True, px=LEASE_MS))
        try:
            yield held
        finally:
            if held:
                connection().eval(_RELEASE, 1, self._prefix + "lease", token)

    def get(self, name: str) -> dict[str, Any] | None:
        """`reading` or `snapshot`, None when there is none."""
        raw = connection().get(self._prefix + name)
        return orjson.loads(raw) if raw else None

    def put(self, name: str, values: dict[str, Any]) -> None:
        """Keep `reading` or `snapshot`."""
        connection().set(self._prefix + name, orjson.dumps(values))

    def flushed_ms(self) -> int:
        """Up to when (epoch ms) samples are in the lake."""
        return int(connection().get(self._prefix + "flushed") or 0)

    def set_flushed_ms(self, value: int) -> None:
        """Note what is in the lake."""
        connection().set(self._prefix + "flushed", value)

    def add(self, at_ms: int, seconds: float, counts: dict[str, int]) -> None:
        """Add one step to the hot window: counts by series (`in:<topic>`, `out:<topic>@<group>`)."""
        pipeline = connection().pipeline(transaction=False)
        for series, count in counts.items():
            key = self._prefix + series
            pipeline.zadd(key, {f"{at_ms}:{count}:{seconds:.3f}": at_ms})
            pipeline.zremrangebyscore(key, "-inf", at_ms - HOT_WINDOW_MS)
            pipeline.pexpire(key, HOT_WINDOW_MS)
        if counts:
            pipeline.sadd(self._prefix + "series", *counts)
            pipeline.execute()

    def series(self) -> list[str]:
        """All series that have a hot window; forgets those that ended."""
        names = sorted(_text(name) for name in connection().smembers(self._prefix + "series"))
        pipeline = connection().pipeline(transaction=False)
        for name in names:
            pipeline.exists(self._prefix + name)
        alive = pipeline.execute()
        gone = [name for name, there in zip(names, alive, strict=True) if not there]
        if gone:
            connection().srem(self._prefix + "series", *gone)
        return [name for name, there in zip(names, alive, strict=True) if there]

    def hot(self, series: list[str], begin_ms: int, end_ms: int) -> list[list[HotSample]]:
        """The samples of each series with begin < time ≤ end."""
        pipeline = connection().pipeline(transaction=False)
        for name in series:
            pipeline.zrangebyscore(self._prefix + name, f"({begin_ms}", end_ms)
        return [[_sample(member) for member in members] for members in pipeline.execute()]


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode()


def _sample(member: bytes | str) -> HotSample:
    at_ms, count, seconds = _text(member).split(":")
    return HotSample(int(at_ms), int(count), float(seconds))
