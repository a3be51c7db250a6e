"""What the sampler keeps in Redis, database 2 (keys per cluster, docs/use/metrics.md):

gantry:metrics:<cluster>:lease      who samples now (text, expires)
gantry:metrics:<cluster>:latest     when the last reading was and what the next one needs of it (JSON, see Latest)
gantry:metrics:<cluster>:topics     positions of each topic, as of the last change (hash of JSON)
gantry:metrics:<cluster>:groups     committed offsets of each group by topic, as of the last change (hash of JSON)
gantry:metrics:<cluster>:stored     messages that each topic holds (hash)
gantry:metrics:<cluster>:backlog    messages that each group is behind (hash)
gantry:metrics:<cluster>:in_rates   messages/s written to a topic, where there were any (hash; empty: not known)
gantry:metrics:<cluster>:out_rates  messages/s a group consumed, where there were any (hash; empty: not known)
gantry:metrics:<cluster>:ticks      which seconds were sampled (zset of "<ms>:0:<seconds>", score = time)
gantry:metrics:<cluster>:in:<topic>, …:out:<topic>@<group>
                                    counts of the hot window above 0 (zset of "<ms>:<count>:<seconds>", score = time)
gantry:metrics:<cluster>:series     names of the series with a hot window (set)
gantry:metrics:<cluster>:flushed    up to when samples are in the lake (epoch ms)
gantry:metrics:<cluster>:account:<number>, …:account:<number>:rolled
                                    what an account's messages did, reading by reading and in steps of 5 minutes
                                    (zset of "<ms>:<in>:<out>:<died>:<backlog>:<seconds>", score = time)
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson
import redis

from console.web import redis as web_redis

HOT_WINDOW_MS = 70 * 60 * 1000
ROLLED_MS = 5 * 60_000
"""A step of what is kept for longer than the hot window."""
ROLLED_KEPT_MS = 15 * 24 * 3_600_000
LEASE_MS = 30_000
TICKS = "ticks"
STALE_MS = 60_000
"""An older reading says nothing about now."""

Counts = Mapping[str, tuple[int, float]]
"""Messages and the seconds in which they came, by series (`in:<topic>`, `out:<topic>@<group>`)."""

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


@dataclass(frozen=True)
class Total:
    """What an account's messages on one cluster did in the `seconds` up to `at_ms`; `backlog` waited at its end.

    After a reading from which no rates follow, it is 0 seconds, and only the backlog is known.
    """

    at_ms: int
    received: int
    consumed: int
    died: int
    backlog: int
    seconds: float


@dataclass(frozen=True)
class Latest:
    """The last reading: when (epoch ms), which brokers answered, and when topics were asked.

    `seconds` is None after a reading from which no rates follow. `turns` are the times at which each part of the
    topics had its turn, `busy` the topics that were asked besides, with the time at which each was asked and changed.
    """

    at_ms: int
    seconds: float | None
    brokers: list[str]
    turns: list[int]
    busy: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Known:
    """All that is kept of the last reading."""

    latest: Latest | None
    topics: dict[str, bytes]
    groups: dict[str, bytes]
    in_rates: dict[str, bytes]


@dataclass
class Change:
    """What a reading changes: only this is written. Rates are of what moved, None where nothing can be told."""

    latest: Latest
    topics: dict[str, bytes] = field(default_factory=dict)
    groups: dict[str, bytes] = field(default_factory=dict)
    stored: dict[str, int] = field(default_factory=dict)
    backlog: dict[str, int] = field(default_factory=dict)
    gone_topics: list[str] = field(default_factory=list)
    gone_groups: list[str] = field(default_factory=list)
    in_rates: dict[str, float | None] = field(default_factory=dict)
    out_rates: dict[str, float | None] = field(default_factory=dict)
    counts: dict[str, tuple[int, float]] = field(default_factory=dict)


def is_recent(at_ms: int) -> bool:
    """Whether a reading of that time (epoch ms) tells of now."""
    return time.time() * 1000 - at_ms <= STALE_MS


def connection() -> redis.Redis:
    """Database 2, where the cache is; the values are JSON, so they stay bytes."""
    return web_redis.connection(2, timeout=None, decode=False)


class Store:
    """The sampler's memory of one cluster."""

    def __init__(self, cluster: str) -> None:
        self._prefix = f"gantry:metrics:{cluster}:"

    @contextmanager
    def lease(self) -> Iterator[str]:
        """A token for the one holder, else nothing; it ends by itself after 30 s should the holder die."""
        token = secrets.token_hex(8)
        held = bool(connection().set(self._key("lease"), token, nx=True, px=LEASE_MS))
        try:
            yield token if held else ""
        finally:
            if held:
                connection().eval(_RELEASE, 1, self._key("lease"), token)

    def forget(self) -> None:
        """Drop everything: the cluster is gone."""
        client = connection()
        names = list(client.scan_iter(match=f"{self._prefix}*", count=1000))
        for start in range(0, len(names), 1000):
            client.unlink(*names[start : start + 1000])

    def latest(self) -> Latest | None:
        """The last reading, None when there is none."""
        raw = connection().get(self._key("latest"))
        return Latest(**orjson.loads(raw)) if raw else None

    def known(self) -> Known:
        """Everything of the last reading."""
        tables = [self.table(name) for name in ("topics", "groups", "in_rates")]
        return Known(self.latest(), *tables)

    def commit(self, token: str, change: Change) -> bool:
        """Keep a reading, if the lease is still this holder's; what was not changed is not written."""
        with connection().pipeline() as pipeline:
            pipeline.watch(self._key("lease"))  # type: ignore[no-untyped-call]
            if pipeline.get(self._key("lease")) != token.encode():
                return False
            pipeline.multi()
            self._write(pipeline, change)
            try:
                pipeline.execute()
            except redis.WatchError:
                return False
        return True

    def put_latest(self, latest: Latest) -> None:
        """Keep when the last reading was."""
        connection().set(self._key("latest"), orjson.dumps(asdict(latest)))

    def table(self, name: str, only: Sequence[str] | None = None) -> dict[str, bytes]:
        """A hash, or what it has of these names."""
        if only is None:
            found: Any = connection().hgetall(self._key(name))
            return {key.decode(): value for key, value in found.items()}
        if not only:
            return {}
        values = connection().hmget(self._key(name), only)
        return {key: _bytes(value) for key, value in zip(only, values, strict=True) if value is not None}

    def flushed_ms(self) -> int:
        """Up to when (epoch ms) samples are in the lake."""
        return int(connection().get(self._key("flushed")) or 0)

    def set_flushed_ms(self, value: int) -> None:
        """Note what is in the lake."""
        connection().set(self._key("flushed"), value)

    def add(self, at_ms: int, seconds: float, counts: Counts) -> None:
        """Add to the hot window that so many seconds were sampled up to a time, and what was counted."""
        pipeline = connection().pipeline(transaction=False)
        self._count(pipeline, at_ms, seconds, counts)
        pipeline.execute()

    def series(self) -> list[str]:
        """All series that have a hot window; forgets those that ended."""
        names = sorted(_text(name) for name in connection().smembers(self._key("series")))
        pipeline = connection().pipeline(transaction=False)
        for name in names:
            pipeline.exists(self._key(name))
        alive = pipeline.execute()
        gone = [name for name, there in zip(names, alive, strict=True) if not there]
        if gone:
            connection().srem(self._key("series"), *gone)
        return [name for name, there in zip(names, alive, strict=True) if there]

    def hot(self, series: Iterable[str], begin_ms: int, end_ms: int) -> list[list[HotSample]]:
        """The samples of each series (TICKS: of the seconds sampled) with begin < time ≤ end."""
        pipeline = connection().pipeline(transaction=False)
        for name in series:
            pipeline.zrangebyscore(self._key(name), f"({begin_ms}", end_ms)
        return [[_sample(member) for member in members] for members in pipeline.execute()]

    def add_totals(self, totals: Mapping[int, Total]) -> None:
        """Add what a reading says of each account, and sum up the five minutes that it ended."""
        pipeline = connection().pipeline(transaction=False)
        for account in totals:
            pipeline.zrange(self._key(f"account:{account}"), -1, -1)
        before = {account: _total(found[0]) for account, found in zip(totals, pipeline.execute(), strict=True) if found}
        for account, total in totals.items():
            last = before.get(account)
            if last is not None and _rolled_step(last.at_ms) < _rolled_step(total.at_ms):
                self._roll(pipeline, account, _rolled_step(last.at_ms))
            key = self._key(f"account:{account}")
            pipeline.zadd(key, {_member(total): total.at_ms})
            pipeline.zremrangebyscore(key, "-inf", total.at_ms - HOT_WINDOW_MS)
            pipeline.pexpire(key, HOT_WINDOW_MS)
        pipeline.execute()

    def totals(self, account: int, begin_ms: int, end_ms: int, is_rolled: bool) -> list[Total]:
        """What is kept of an account with begin < time ≤ end, oldest first: single readings, or steps of 5 minutes."""
        key = self._key(f"account:{account}")
        hot = self._totals(key, begin_ms, end_ms)
        if not is_rolled:
            return hot
        kept = self._totals(f"{key}:rolled", begin_ms, end_ms)
        return kept + [one for one in hot if not kept or one.at_ms > kept[-1].at_ms]

    def latest_total(self, account: int) -> Total | None:
        """What the latest reading says of an account, if it tells of now."""
        members: Any = connection().zrange(self._key(f"account:{account}"), -1, -1)
        total = _total(members[0]) if members else None
        return total if total is not None and is_recent(total.at_ms) else None

    def _totals(self, key: str, begin_ms: int, end_ms: int) -> list[Total]:
        members: Any = connection().zrangebyscore(key, f"({begin_ms}", end_ms)
        return [_total(member) for member in members]

    def _roll(self, pipeline: Any, account: int, step: int) -> None:
        end_ms = (step + 1) * ROLLED_MS
        readings = self.totals(account, end_ms - ROLLED_MS, end_ms, is_rolled=False)
        if not readings:
            return
        summed = Total(
            end_ms,
            received=sum(one.received for one in readings),
            consumed=sum(one.consumed for one in readings),
            died=sum(one.died for one in readings),
            backlog=readings[-1].backlog,
            seconds=sum(one.seconds for one in readings),
        )
        key = self._key(f"account:{account}:rolled")
        pipeline.zremrangebyscore(key, end_ms, end_ms)
        pipeline.zadd(key, {_member(summed): end_ms})
        pipeline.zremrangebyscore(key, "-inf", end_ms - ROLLED_KEPT_MS)
        pipeline.pexpire(key, ROLLED_KEPT_MS)

    def sums(self, series: Sequence[str], begin_ms: int, step_ms: int, steps: int) -> list[list[int]]:
        """What each series counted in each of the steps from a time on: `hot`, without a sample for each."""
        pipeline = connection().pipeline(transaction=False)
        for name in series:
            pipeline.zrangebyscore(self._key(name), f"({begin_ms}", begin_ms + step_ms * steps)
        found = []
        for members in pipeline.execute():
            counts = [0] * steps
            for member in members:
                at_ms, count, _ = member.split(b":")
                counts[(int(at_ms) - 1 - begin_ms) // step_ms] += int(count)
            found.append(counts)
        return found

    def _write(self, pipeline: Any, change: Change) -> None:
        latest = change.latest
        if latest.seconds is None:
            pipeline.delete(self._key("reading"), self._key("snapshot"))  # what releases before this one kept
        pipeline.set(self._key("latest"), orjson.dumps(asdict(latest)))
        for name, values in (
            ("topics", change.topics),
            ("groups", change.groups),
            ("stored", change.stored),
            ("backlog", change.backlog),
        ):
            if values:
                pipeline.hset(self._key(name), mapping=values)
        for names, gone in ((("topics", "stored"), change.gone_topics), (("groups", "backlog"), change.gone_groups)):
            for name in names if gone else ():
                pipeline.hdel(self._key(name), *gone)
        for name, rates in (("in_rates", change.in_rates), ("out_rates", change.out_rates)):
            pipeline.delete(self._key(name))
            if rates:
                texts = {key: "" if rate is None else repr(rate) for key, rate in rates.items()}
                pipeline.hset(self._key(name), mapping=texts)
        if latest.seconds is not None:
            self._count(pipeline, latest.at_ms, latest.seconds, change.counts)

    def _count(self, pipeline: Any, at_ms: int, seconds: float, counts: Counts) -> None:
        samples = {TICKS: (0, seconds)} | dict(counts)
        for name, (count, of_seconds) in samples.items():
            key = self._key(name)
            pipeline.zadd(key, {f"{at_ms}:{count}:{of_seconds:.3f}": at_ms})
            pipeline.zremrangebyscore(key, "-inf", at_ms - HOT_WINDOW_MS)
            pipeline.pexpire(key, HOT_WINDOW_MS)
        if counts:
            pipeline.sadd(self._key("series"), *counts)

    def _key(self, name: str) -> str:
        return self._prefix + name


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode()


def _bytes(value: bytes | str) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def _sample(member: bytes | str) -> HotSample:
    at_ms, count, seconds = _text(member).split(":")
    return HotSample(int(at_ms), int(count), float(seconds))


def _member(total: Total) -> str:
    numbers = (total.at_ms, total.received, total.consumed, total.died, total.backlog)
    return ":".join(map(str, numbers)) + f":{total.seconds:.3f}"


def _total(member: bytes | str) -> Total:
    at_ms, received, consumed, died, backlog, seconds = _text(member).split(":")
    return Total(int(at_ms), int(received), int(consumed), int(died), int(backlog), float(seconds))


def _rolled_step(at_ms: int) -> int:
    return (at_ms - 1) // ROLLED_MS
