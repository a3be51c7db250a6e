"""Rates and backlogs now and in the last hour, from the sampler's last reading and its hot window: no broker call."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import orjson

from brokercore.names import dead_letter_topic, is_retry_topic
from console.instances.models import Cluster
from console.metrics.store import HOT_WINDOW_MS, STALE_MS, TICKS, HotSample, Latest, Store, is_recent
from console.topics.live import Figure, GroupHour, Line, Rates
from console.topics.models import Group

#: A reading counts what came since the one before it: seconds are kept to the millisecond.
_ROUNDED_MS = 1_000


def rates(cluster: Cluster, *, topics: Sequence[str] | None = None, groups: Sequence[str] | None = None) -> Rates:
    """The latest figures of these topics and groups by their physical names, of a group summed over its topics.

    Without names of either kind: of all topics, or all groups, of the cluster.
    """
    store = Store(cluster.name)
    latest = _fresh(store)
    if latest is None:
        return Rates(None, {}, {}, {}, {})
    stored, backlog = store.table("stored", topics), store.table("backlog", groups)
    known = latest.seconds is not None
    return Rates(
        sampled_at=latest.at_ms,
        in_tps=_rates(stored, store.table("in_rates", topics), known=known),
        stored={name: int(number) for name, number in stored.items()},
        out_tps=_rates(backlog, store.table("out_rates", groups), known=known),
        backlog={name: int(number) for name, number in backlog.items()},
    )


def figure(cluster: Cluster, what: Figure) -> dict[str, float]:
    """One figure of every topic or group of the cluster of which it is known and, of rates, above 0; by physical name.

    Empty when there is no recent sample.
    """
    store = Store(cluster.name)
    if _fresh(store) is None:
        return {}
    return {name: float(value) for name, value in store.table(_TABLES[what]).items() if value}


_TABLES: Mapping[Figure, str] = {"in_tps": "in_rates", "stored": "stored", "out_tps": "out_rates", "backlog": "backlog"}


def _rates(there: Iterable[str], moving: Mapping[str, bytes], *, known: bool) -> dict[str, float | None]:
    """Messages a second of what is there: 0 for what does not move, None where it cannot be told."""
    if not known:
        return dict.fromkeys(there)
    return {name: (float(moving[name]) if moving[name] else None) if name in moving else 0.0 for name in there}


def dead_letter_counts(cluster: Cluster, groups: Iterable[str]) -> tuple[dict[str, int], int | None]:
    """Letters in the dead-letter queue by physical group name, and when they were sampled, epoch ms.

    ({}, None) when there is no recent sample.
    """
    names = {dead_letter_topic(group): group for group in groups}
    found = rates(cluster, topics=list(names), groups=[])
    if found.sampled_at is None:
        return {}, None
    return {group: found.stored.get(letters, 0) for letters, group in names.items()}, found.sampled_at


def group_topics(group: Group) -> list[str]:
    """Physical topics in which the group has offsets, its retry topic not among them."""
    return topics_by_group(group.instance.cluster, [group.physical_name])[group.physical_name]


def topics_by_group(cluster: Cluster, groups: Sequence[str]) -> dict[str, list[str]]:
    """As `group_topics`, of each of these groups by their physical names."""
    raw = Store(cluster.name).table("groups", groups)
    return {
        name: sorted(topic for topic in orjson.loads(raw.get(name) or b"{}") if not is_retry_topic(topic))
        for name in groups
    }


def has_consumed(cluster: Cluster, groups: Sequence[str]) -> bool:
    """Whether one of these groups (physical names) has consumed a message, as last sampled."""
    kept = Store(cluster.name).table("groups", groups)
    return any(
        offset
        for raw in kept.values()
        for of_brokers in orjson.loads(raw).values()
        for offsets in of_brokers.values()
        for offset in offsets.values()
    )


def messages_within(cluster: Cluster, series: Sequence[str], begin_ms: int, end_ms: int) -> list[int]:
    """Messages of each series (`in:<topic>`, `out:<topic>@<group>`) in the hot window with begin < time ≤ end."""
    return [sum(one.count for one in samples) for samples in Store(cluster.name).hot(series, begin_ms, end_ms)]


@dataclass(frozen=True)
class Delay:
    """How old the oldest message is that a group has not consumed, seconds; `is_least`: so old, or older.

    More than the hot window is told as the window.
    """

    seconds: float
    is_least: bool = False

    @property
    def is_of_window(self) -> bool:
        """Whether it is older than all that came within the hot window, and not only than what was counted of it."""
        return self.is_least and self.seconds * 1000 >= HOT_WINDOW_MS


def counted_since_ms(cluster: Cluster, now_ms: int) -> int:
    """Since when (epoch ms) whatever came to the topics of a cluster was counted, as far back as the hot window.

    Of what came before the sampler began, or while it could not read the cluster, nobody knows when it came.
    """
    begin_ms = now_ms - HOT_WINDOW_MS
    (ticks,) = Store(cluster.name).hot([TICKS], begin_ms, now_ms)
    since, pause_ms = now_ms, STALE_MS
    for tick in reversed(ticks):
        if since - tick.at_ms > pause_ms:
            break
        since, pause_ms = min(since, round(tick.at_ms - tick.seconds * 1000)), _ROUNDED_MS
    return begin_ms if since <= begin_ms + STALE_MS else since


def delays(cluster: Cluster, behind: Mapping[str, int], now_ms: int, counted_ms: int | None = None) -> dict[str, Delay]:
    """How old the oldest message is that each of these groups has not consumed, by their backlogs.

    By what came: a group is behind by what its topics received since then. `counted_ms` is what `counted_since_ms`
    tells, for who knows it already.
    """
    since = counted_since_ms(cluster, now_ms) if counted_ms is None else counted_ms
    topics = topics_by_group(cluster, list(behind))
    series = sorted({topic for of_group in topics.values() for topic in of_group})
    came = Store(cluster.name).hot([f"in:{one}" for one in series], since, now_ms)
    of_topic = dict(zip(series, came, strict=True))
    newest_first = {
        group: sorted((one for topic in topics[group] for one in of_topic[topic]), key=lambda one: -one.at_ms)
        for group in behind
    }
    ages = {group: age_s(newest_first[group], waiting, now_ms) for group, waiting in behind.items()}
    least = Delay((now_ms - since) / 1000, is_least=True)
    return {group: least if age is None else Delay(age) for group, age in ages.items()}


def age_s(came: Iterable[HotSample], waiting: int, at_ms: int) -> float | None:
    """How old the oldest of so many messages was at a moment (epoch ms), seconds, by what had come, newest first.

    None where it is older than all of that.
    """
    for sample in came:
        waiting -= sample.count
        if waiting <= 0:
            return max(0.0, (at_ms - sample.at_ms) / 1000 + sample.seconds)
    return None


_HOUR_MS, _STEPS = 3_600_000, 30


def topic_hours(cluster: Cluster, topics: Sequence[str]) -> dict[str, Line]:
    """Messages a second into each of these topics (physical names) over the last hour, in steps of two minutes."""
    window = _Window.until_now(cluster, [f"in:{topic}" for topic in topics])
    return {topic: window.rates([f"in:{topic}"]) for topic in topics}


def group_hours(cluster: Cluster, backlogs: Mapping[str, int]) -> dict[str, GroupHour]:
    """The last hour of each of these groups, given by physical name with its backlog now.

    What waited before follows from what came and what was consumed since.
    """
    raw = Store(cluster.name).table("groups", list(backlogs))
    topics = {group: list(orjson.loads(raw.get(group) or b"{}")) for group in backlogs}
    incoming = {group: [f"in:{topic}" for topic in of] for group, of in topics.items()}
    consumed = {group: [f"out:{topic}@{group}" for topic in of] for group, of in topics.items()}
    window = _Window.until_now(cluster, [*chain.from_iterable((*incoming.values(), *consumed.values()))])
    return {
        group: GroupHour(window.waiting(now, incoming[group], consumed[group]), window.rates(consumed[group]))
        for group, now in backlogs.items()
    }


@dataclass(frozen=True)
class _Window:
    """Messages of some series in each step of the last hour, and the seconds that were sampled in each."""

    counts: Mapping[str, list[int]]
    seconds: list[float]

    @classmethod
    def until_now(cls, cluster: Cluster, series: Sequence[str]) -> _Window:
        now_ms, step_ms = int(time.time() * 1000), _HOUR_MS // _STEPS
        begin_ms = now_ms - _HOUR_MS
        store, names = Store(cluster.name), list(dict.fromkeys(series))
        seconds = [0.0] * _STEPS
        for tick in store.hot([TICKS], begin_ms, now_ms)[0]:
            seconds[(tick.at_ms - 1 - begin_ms) // step_ms] += tick.seconds
        return cls(dict(zip(names, store.sums(names, begin_ms, step_ms, _STEPS), strict=True)), seconds)

    def rates(self, series: Sequence[str]) -> Line:
        """Messages a second of these series together."""
        sums = self._sums(series)
        return [count / of if of else None for count, of in zip(sums, self.seconds, strict=True)]

    def waiting(self, now: int, incoming: Sequence[str], consumed: Sequence[str]) -> list[int | None]:
        """What waited at the end of each step, from what waits now."""
        waiting, found = now, []
        steps = zip(self._sums(incoming), self._sums(consumed), self.seconds, strict=True)
        for came, went, of in reversed(list(steps)):
            found.append(max(0, waiting) if of else None)
            waiting += went - came
        return found[::-1]

    def _sums(self, series: Sequence[str]) -> list[int]:
        return [sum(of) for of in zip(*(self.counts[name] for name in series), strict=True)] or [0] * _STEPS


def _fresh(store: Store) -> Latest | None:
    """The last reading, if it tells of now."""
    latest = store.latest()
    return latest if latest is not None and is_recent(latest.at_ms) else None
