"""One collector a cluster: counters by a few bulk calls, rates and backlogs from them, samples for the lake.

What did not move since the last reading is neither looked at nor written (docs/use/metrics.md).
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from zlib import crc32

import orjson

from analytics.samples import files
from analytics.specs import Sample
from brokercore.client import Admin
from brokercore.client.errors import RequestNotSupported
from brokercore.names import DEFAULT_CLUSTER, is_system_topic
from console.instances import broker
from console.instances.models import Cluster
from console.metrics import readings, totals
from console.metrics.readings import Committed, Ends, Positions
from console.metrics.store import HOT_WINDOW_MS, TICKS, Change, HotSample, Known, Latest, Store

log = logging.getLogger(__name__)

MAX_STEP_MS = 60_000
"""Readings further apart than this make a gap: when in that time the messages came cannot be told."""

MIN_STEP_MS = 4_000
FLUSH_MS = 60_000

TURN_TOPICS = 4_000
"""Of brokers that are asked topic by topic: up to so many all are asked each time, of more those in use."""

TURNS = 5
"""The other topics have a turn in each fifth reading."""

BUSY_MS = 60_000
"""So long after something moved a topic counts as in use."""


@dataclass(frozen=True)
class Reading:
    """Counters at one moment (epoch ms): positions of the topics that were asked, committed offsets of all groups.

    `topics` are the names of all topics; `turn` and `turns` say which part of them had its turn.
    """

    at_ms: int
    topics: frozenset[str]
    positions: dict[str, dict[str, list[int]]]
    groups: dict[str, dict[str, dict[str, dict[str, int]]]]
    brokers: list[str]
    turn: int = 0
    turns: int = 1


def sample_cluster(cluster: Cluster) -> bool:
    """Take one sample of a cluster, unless another worker does or just did. True when it was taken.

    Raises ClientError when the cluster does not answer: then there is no sample, and the curves have a gap.
    """
    store = Store(cluster.name)
    with store.lease() as token:
        if not token:
            return False
        latest = store.latest()
        if latest is not None and 0 <= int(time.time() * 1000) - latest.at_ms < MIN_STEP_MS:
            return False
        known = store.known()
        current = read_counters(broker.admin(cluster), known)
        change = changed(known, current)
        if not store.commit(token, change):
            log.warning("%s was sampled by another worker, since this one took longer than its lease", cluster.name)
            return False
        totals.record(store, cluster, change)
        flush(store, current.at_ms, cluster)
    return True


def read_counters(admin: Admin, known: Known) -> Reading:
    """The counters of a cluster at this moment: of all topics at once, or of those whose turn it is."""
    committed = admin.offsets.all_committed_by_series()
    try:
        positions = admin.topics.all_positions()
    except RequestNotSupported:
        return _read_by_turns(admin, known, committed)
    topics = frozenset(positions)
    return Reading(_now_ms(), topics, positions, _by_group(committed, topics), sorted(admin.brokers.masters()))


def _read_by_turns(admin: Admin, known: Known, committed: dict[str, dict[str, dict[str, int]]]) -> Reading:
    topics = frozenset(name for name in admin.topics.names() if not is_system_topic(name))
    groups = _by_group(committed, topics)
    latest = known.latest
    turns = TURNS if len(topics) > TURN_TOPICS else 1
    turn = latest.turns.index(min(latest.turns)) if latest and len(latest.turns) == turns else 0
    asked = {name for name in topics if name not in known.topics or crc32(name.encode()) % turns == turn}
    asked |= topics.intersection(latest.busy if latest else ())
    for group, of_topics in groups.items():
        before = _loaded(known.groups.get(group))
        asked.update(topic for topic, offsets in of_topics.items() if before.get(topic) != offsets)
    at_ms = _now_ms()
    positions = admin.topics.positions_of(sorted(asked))
    return Reading(at_ms, topics, positions, groups, sorted(admin.brokers.masters()), turn, turns)


def _by_group(
    committed: dict[str, dict[str, dict[str, int]]], topics: frozenset[str]
) -> dict[str, dict[str, dict[str, dict[str, int]]]]:
    groups: dict[str, dict[str, dict[str, dict[str, int]]]] = {}
    for series in sorted(committed):
        topic, _, group = series.partition("@")
        if topic in topics:
            groups.setdefault(group, {})[topic] = committed[series]
    return groups


@dataclass
class _Step:
    """The way from what is known to a reading."""

    known: Known
    current: Reading
    change: Change
    before: dict[str, Ends | None] = field(default_factory=dict)
    """Of the topics that moved, where they ended before."""

    @property
    def latest(self) -> Latest | None:
        """The reading before, None when too much time has passed since."""
        latest = self.known.latest
        follows = latest is not None and 0 < self.current.at_ms - latest.at_ms <= MAX_STEP_MS
        return latest if follows else None


def changed(known: Known, current: Reading) -> Change:
    """What a reading changes of what is known, and the counts between the two."""
    way = _Step(known, current, Change(Latest(current.at_ms, None, current.brokers, [])))
    _topics(way)
    _groups(way)
    change, latest = way.change, way.latest
    change.latest = Latest(
        current.at_ms,
        (current.at_ms - latest.at_ms) / 1000 if latest else None,
        current.brokers,
        _turns(way),
        _busy(way) if current.turns > 1 else {},
    )
    change.gone_topics = [name for name in known.topics if name not in current.topics]
    change.gone_groups = [name for name in known.groups if name not in current.groups]
    return change


def _topics(way: _Step) -> None:
    known, current, change, latest = way.known, way.current, way.change, way.latest
    if latest:
        change.in_rates = {
            topic: float(rate) if rate else None
            for topic, rate in known.in_rates.items()
            if topic in current.topics and topic not in current.positions
        }
    for topic, positions in current.positions.items():
        raw = orjson.dumps(positions, option=orjson.OPT_SORT_KEYS)
        old = known.topics.get(topic)
        if raw == old:
            continue
        change.topics[topic] = _exact(raw)
        change.stored[topic] = readings.stored(positions)
        before = readings.ends_before(orjson.loads(old) if old else None, positions, latest.brokers if latest else ())
        way.before[topic] = before
        if latest is None:
            continue
        count = readings.received(before, positions)
        seconds = (current.at_ms - (_asked_ms(latest, topic) if old else latest.at_ms)) / 1000
        if count is None or seconds > files.LONGEST_SAMPLE_S:
            change.in_rates[topic] = None
        elif count:
            change.in_rates[topic] = round(count / seconds, 3)
            change.counts[f"in:{topic}"] = count, seconds


def _groups(way: _Step) -> None:
    known, current, change = way.known, way.current, way.change
    for group, of_topics in current.groups.items():
        raw = orjson.dumps(of_topics, option=orjson.OPT_SORT_KEYS)
        old = known.groups.get(group)
        moved = raw != old
        if moved:
            change.groups[group] = _exact(raw)
        elif change.topics.keys().isdisjoint(of_topics):
            continue
        positions = {topic: _positions(way, topic) for topic in of_topics}
        change.backlog[group] = sum(
            readings.backlog(positions[topic], committed) for topic, committed in of_topics.items()
        )
        if moved and way.latest:
            seconds = (current.at_ms - way.latest.at_ms) / 1000
            _consumed(way, group, _loaded(old), positions, seconds)


def _consumed(
    way: _Step, group: str, before: Mapping[str, Committed], positions: Mapping[str, Positions], seconds: float
) -> None:
    """Count what a group consumed in so many seconds. Its rate is that of the topics of which it is known."""
    counts: dict[str, int] = {}
    for topic, committed in way.current.groups[group].items():
        ends = {broker: of[1::2] for broker, of in positions[topic].items()}
        count = readings.consumed(before.get(topic, {}), committed, way.before.get(topic, ends))
        if count is not None:
            counts[topic] = count
    way.change.counts |= {f"out:{topic}@{group}": (count, seconds) for topic, count in counts.items() if count}
    total = sum(counts.values())
    if total or not counts:
        way.change.out_rates[group] = round(total / seconds, 3) if counts else None


def _positions(way: _Step, topic: str) -> Positions:
    found = way.current.positions.get(topic)
    if found is not None:
        return found
    raw = way.known.topics.get(topic)
    kept: Positions = orjson.loads(raw) if raw else {}
    return kept


def _turns(way: _Step) -> list[int]:
    """When each part of the topics had its turn last; the first reading asks all."""
    current, latest = way.current, way.known.latest
    if latest is None:
        return [current.at_ms] * current.turns
    turns = latest.turns if len(latest.turns) == current.turns else [min(latest.turns)] * current.turns
    return [current.at_ms if number == current.turn else at_ms for number, at_ms in enumerate(turns)]


def _busy(way: _Step) -> dict[str, tuple[int, int]]:
    """The topics in use. A first reading moves all, which says nothing of any."""
    at_ms, latest = way.current.at_ms, way.known.latest
    if latest is None:
        return {}
    busy = {
        topic: (at_ms, moved_ms)
        for topic, (_, moved_ms) in latest.busy.items()
        if topic in way.current.positions and at_ms - moved_ms <= BUSY_MS
    }
    return busy | dict.fromkeys(way.change.topics, (at_ms, at_ms))


def _asked_ms(latest: Latest, topic: str) -> int:
    """When a topic was asked before."""
    if topic in latest.busy:
        return latest.busy[topic][0]
    return latest.turns[crc32(topic.encode()) % len(latest.turns)]


def _exact(raw: bytes) -> bytes:
    """The same in no more memory than it has bytes: what orjson writes keeps a page, and there are thousands."""
    return memoryview(raw).tobytes()


def _loaded(raw: bytes | None) -> dict[str, dict[str, dict[str, int]]]:
    found: dict[str, dict[str, dict[str, int]]] = orjson.loads(raw) if raw else {}
    return found


def coverage_of(cluster: Cluster) -> str:
    """The series in the lake that tells when a cluster was sampled: no topic can be called so."""
    return f"*{cluster.name}"


def in_lake(cluster: Cluster, topic: str) -> str:
    """The name of a topic's series in the lake.

    On another cluster than the first a name without a namespace may be another account's: there the cluster is part of
    it. No topic is called so.
    """
    return topic if cluster.name == DEFAULT_CLUSTER else f"*{cluster.name}/{topic}"


def flush(store: Store, now_ms: int, cluster: Cluster) -> int:
    """Append the samples since the last time to the lake, once a minute, in one file. Returns their number."""
    flushed_ms = max(store.flushed_ms(), now_ms - HOT_WINDOW_MS)
    minute_ms = now_ms - now_ms % FLUSH_MS
    if minute_ms <= flushed_ms:
        return 0
    names = store.series()
    ticks, *of_series = store.hot([TICKS, *names], flushed_ms, minute_ms)
    samples = [Sample(tick.at_ms, "in", coverage_of(cluster), "", 0, tick.seconds) for tick in by_minute(ticks)]
    for name, hot in zip(names, of_series, strict=True):
        kind, _, series = name.partition(":")
        topic, _, group = series.partition("@")
        of_topic = in_lake(cluster, topic)
        samples += [Sample(m.at_ms, kind, of_topic, group, m.count, m.seconds) for m in by_minute(hot)]
    if samples:
        files.append(samples)
    store.set_flushed_ms(minute_ms)
    return len(samples)


def by_minute(samples: list[HotSample]) -> list[HotSample]:
    """Samples summed by the minute in which they end: the finest curve has one point a minute.

    The first of a topic that had no turn for a while reaches back beyond the minute; it covers no more than that.
    """
    minutes: dict[int, list[HotSample]] = defaultdict(list)
    for sample in samples:
        minutes[(sample.at_ms - 1) // FLUSH_MS].append(sample)
    return [
        HotSample(group[-1].at_ms, sum(s.count for s in group), min(FLUSH_MS / 1000, sum(s.seconds for s in group)))
        for group in minutes.values()
    ]


def _now_ms() -> int:
    return int(time.time() * 1000)
