"""One collector a cluster: counters by a few bulk calls, rates and backlogs from them, samples for the lake.

A tick costs the name server's list of topics, one GET_ALL_CONSUMER_OFFSET a broker, and GET_TOPIC_STATS_INFO per
topic, all in flight at once: nothing per group (docs/metrics.md).
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict

from analytics.run import Sample, append_samples
from brokercore.client import Admin, MessageQueue
from console.instances import broker
from console.instances.models import Cluster
from console.metrics.readings import Reading, Step, backlog, step
from console.metrics.store import HOT_WINDOW_MS, HotSample, Store

log = logging.getLogger(__name__)

MAX_TOPICS = 5000
"""Topics sampled; of a larger cluster those that a group consumes come first, and the log says what is left out."""
MIN_STEP_MS = 4_000
FLUSH_MS = 60_000
_SYSTEM_TOPICS = frozenset(
    {"TBW102", "SELF_TEST_TOPIC", "BenchmarkTest", "OFFSET_MOVED_EVENT", "SCHEDULE_TOPIC_XXXX",
     "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC", "RMQ_SYS_TRACE_TOPIC"}
)  # fmt: skip


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
    committed = admin.consumer_offsets()
    consumed = {topic for topic, _ in committed}
    names = admin.topic_names()
    topics = [name for name in names if name not in _SYSTEM_TOPICS and not name.startswith("rmq_sys_")]
    if len(topics) > MAX_TOPICS:
        topics.sort(key=lambda name: name not in consumed)
        log.warning("%s has %d topics; %d are sampled", cluster.name, len(topics), MAX_TOPICS)
    at_ms = int(time.time() * 1000)
    stats = admin.topics_stats(topics[:MAX_TOPICS])
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
        append_samples(samples)
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
