"""One collector a cluster: counters by a few bulk calls, rates and backlogs from them, samples for the lake.

A tick costs the name server's list of topics, one GET_ALL_CONSUMER_OFFSET a broker, and GET_TOPIC_STATS_INFO per
topic, all in flight at once: nothing per group (docs/use/metrics.md).
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from analytics.samples import files
from analytics.specs import Sample
from brokercore.client import Admin, MessageQueue
from brokercore.names import is_system_topic
from console.instances import broker
from console.instances.models import Cluster
from console.metrics.store import HOT_WINDOW_MS, HotSample, Store

log = logging.getLogger(__name__)

MAX_STEP_MS = 60_000
"""Counters further apart than this make a gap: when in that time the messages came cannot be told."""

Counters = dict[str, int]
"""Offset by queue, named `broker-a:0`."""

MAX_TOPICS = 5000
"""Topics sampled; of a larger cluster those that a group consumes come first, and the log says what is left out."""
MIN_STEP_MS = 4_000
FLUSH_MS = 60_000


@dataclass(frozen=True)
class Reading:
    """Counters at one moment (epoch ms): per physical topic its end and begin offsets, per `topic@group` commits."""

    at_ms: int
    ends: dict[str, Counters]
    begins: dict[str, Counters]
    committed: dict[str, Counters]

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return vars(self).copy()

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Reading:
        """The reading that `to_json` gave."""
        return cls(**values)


@dataclass(frozen=True)
class Step:
    """What happened between two readings: messages per topic (`received`) and per `topic@group` (`consumed`).

    A series is missing where nothing can be told: of an old topic that is seen for the first time, or where a counter
    went back.
    """

    at_ms: int
    seconds: float
    received: dict[str, int] = field(default_factory=dict)
    consumed: dict[str, int] = field(default_factory=dict)


def step(previous: Reading | None, current: Reading) -> Step | None:
    """The counts between two readings; None when they are too far apart or there is no earlier one."""
    if previous is None or not 0 < current.at_ms - previous.at_ms <= MAX_STEP_MS:
        return None
    received: dict[str, int] = {}
    consumed: dict[str, int] = {}
    was_there = {queue.partition(":")[0] for ends in previous.ends.values() for queue in ends}
    ends_before: dict[str, Counters] = {}
    for topic, ends in current.ends.items():
        begins, before = current.begins.get(topic, {}), previous.ends.get(topic)
        if before is None and any(begins.values()):
            continue
        before = before or {}
        # A queue that is new since begins at 0. One of a broker that was away is not: it is a baseline.
        new = {
            queue: 0 if not begins.get(queue) and (not was_there or queue.partition(":")[0] in was_there) else end
            for queue, end in ends.items()
            if queue not in before
        }
        ends_before[topic] = before | new
        if (count := _increase(ends_before[topic], ends)) is not None:
            received[topic] = count
    for series, offsets in current.committed.items():
        known = ends_before.get(series.partition("@")[0])
        if known is None:
            continue
        before = previous.committed.get(series, {})
        # Of a queue where a group is new, it has consumed at least what has come since: where it began is not told.
        new = {queue: min(offset, known.get(queue, offset)) for queue, offset in offsets.items() if queue not in before}
        if (count := _increase(before | new, offsets)) is not None:
            consumed[series] = count
    return Step(current.at_ms, (current.at_ms - previous.at_ms) / 1000, received, consumed)


def backlog(reading: Reading, series: str) -> int:
    """Messages of a `topic@group` not yet consumed."""
    ends = reading.ends.get(series.partition("@")[0], {})
    return sum(max(0, ends.get(queue, 0) - offset) for queue, offset in reading.committed[series].items())


def _increase(before: Counters, after: Counters) -> int | None:
    """The sum of increases; None when a counter went back (a reset, a topic made anew)."""
    total = 0
    for queue, offset in after.items():
        change = offset - before[queue]
        if change < 0:
            return None
        total += change
    return total


def sample_cluster(cluster: Cluster) -> bool:
    """Take one sample of a cluster, unless another worker does or just did. True when it was taken.

    Raises ClientError when the cluster does not answer: then there is no sample, and the curves have a gap.
    """
    store = Store(cluster.name)
    with store.lease() as held:
        if not held:
            return False
        values = store.get("reading")
        previous = Reading.from_json(values) if values else None
        now_ms = int(time.time() * 1000)
        if previous is not None and 0 <= now_ms - previous.at_ms < MIN_STEP_MS:
            return False
        current = read_counters(broker.admin(cluster), cluster)
        since = step(previous, current)
        store.put("reading", current.to_json())
        store.put("snapshot", snapshot(current, since))
        if since is not None:
            counts = {f"in:{topic}": count for topic, count in since.received.items()}
            counts |= {f"out:{series}": count for series, count in since.consumed.items()}
            store.add(since.at_ms, since.seconds, counts)
        flush(store, current.at_ms)
    return True


def read_counters(admin: Admin, cluster: Cluster) -> Reading:
    """The counters of the whole cluster at this moment."""
    committed = admin.offsets.all_committed()
    consumed = {topic for topic, _ in committed}
    names = admin.topics.names()
    topics = [name for name in names if not is_system_topic(name)]
    if len(topics) > MAX_TOPICS:
        topics.sort(key=lambda name: name not in consumed)
        log.warning("%s has %d topics; %d are sampled", cluster.name, len(topics), MAX_TOPICS)
    at_ms = int(time.time() * 1000)
    stats = admin.topics.stats_of(topics[:MAX_TOPICS])
    return Reading(
        at_ms=at_ms,
        ends={topic: {_queue(q): s.max_offset for q, s in queues.items()} for topic, queues in stats.items()},
        begins={topic: {_queue(q): s.min_offset for q, s in queues.items()} for topic, queues in stats.items()},
        committed={
            f"{topic}@{group}": {_queue(q): offset for q, offset in queues.items()}
            for (topic, group), queues in committed.items()
            if topic in stats
        },
    )


def snapshot(reading: Reading, since: Step | None) -> dict[str, object]:
    """What lists and the overview show: rates in messages a second (None when unknown) and numbers of messages."""
    topics = {
        topic: {
            "in_tps": _rate(since.received.get(topic) if since else None, since),
            "stored": sum(ends.values()) - sum(reading.begins.get(topic, {}).values()),
        }
        for topic, ends in reading.ends.items()
    }
    groups = {
        series: {
            "out_tps": _rate(since.consumed.get(series) if since else None, since),
            "backlog": backlog(reading, series),
        }
        for series in reading.committed
    }
    return {"sampled_at": reading.at_ms, "topics": topics, "groups": groups}


def flush(store: Store, now_ms: int) -> int:
    """Append the samples since the last time to the lake, once a minute, in one file. Returns their number."""
    flushed_ms = max(store.flushed_ms(), now_ms - HOT_WINDOW_MS)
    minute_ms = now_ms - now_ms % FLUSH_MS
    if minute_ms <= flushed_ms:
        return 0
    names = store.series()
    samples: list[Sample] = []
    for name, hot in zip(names, store.hot(names, flushed_ms, minute_ms), strict=True):
        kind, _, series = name.partition(":")
        topic, _, group = series.partition("@")
        samples += [Sample(m.at_ms, kind, topic, group, m.count, m.seconds) for m in by_minute(hot)]
    if samples:
        files.append(samples)
    store.set_flushed_ms(minute_ms)
    return len(samples)


def by_minute(samples: list[HotSample]) -> list[HotSample]:
    """Samples summed by the minute in which they end: the finest curve has one point a minute."""
    minutes: dict[int, list[HotSample]] = defaultdict(list)
    for sample in samples:
        minutes[(sample.at_ms - 1) // FLUSH_MS].append(sample)
    return [
        HotSample(group[-1].at_ms, sum(s.count for s in group), sum(s.seconds for s in group))
        for group in minutes.values()
    ]


def _rate(count: int | None, since: Step | None) -> float | None:
    return None if count is None or since is None else round(count / since.seconds, 3)


def _queue(queue: MessageQueue) -> str:
    return f"{queue.broker_name}:{queue.queue_id}"
