"""A consumer's own figures: how fast it pulls and consumes each topic, and how often it fails."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field

from brokercore.protocol.bodies.clients import ConsumeStatus

_WINDOW_S = 60
_FAILURES_S = 3600


@dataclass(slots=True)
class _Bucket:
    pulls: int = 0
    pulled: int = 0
    pull_ms: float = 0.0
    consumed: int = 0
    failed: int = 0
    consume_ms: float = 0.0


@dataclass(slots=True)
class _Topic:
    seconds: dict[int, _Bucket] = field(default_factory=dict)
    failures: dict[int, int] = field(default_factory=dict)


class ConsumeMeter:
    """Rates over the last minute and failures of the last hour, by topic."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._topics: defaultdict[str, _Topic] = defaultdict(_Topic)

    def pulled(self, topic: str, messages: int, spent_ms: float) -> None:
        """A pull that found messages."""
        with self._lock:
            bucket = self._bucket(topic)
            bucket.pulls += 1
            bucket.pulled += messages
            bucket.pull_ms += spent_ms

    def consumed(self, topic: str, success: bool, spent_ms: float) -> None:
        """A message went through the handler."""
        with self._lock:
            bucket = self._bucket(topic)
            bucket.consume_ms += spent_ms
            if success:
                bucket.consumed += 1
            else:
                bucket.failed += 1
                failures = self._topics[topic].failures
                minute = int(time.monotonic()) // 60
                failures[minute] = failures.get(minute, 0) + 1

    def status(self) -> dict[str, ConsumeStatus]:
        """The figures of every topic."""
        with self._lock:
            return {topic: self._sum(entry) for topic, entry in self._topics.items()}

    def _bucket(self, topic: str) -> _Bucket:
        now = int(time.monotonic())
        seconds = self._topics[topic].seconds
        if now not in seconds:
            for old in [second for second in seconds if second <= now - _WINDOW_S]:
                del seconds[old]
            seconds[now] = _Bucket()
        return seconds[now]

    @staticmethod
    def _sum(entry: _Topic) -> ConsumeStatus:
        now = int(time.monotonic())
        recent = [bucket for second, bucket in entry.seconds.items() if second > now - _WINDOW_S]
        pulls = sum(bucket.pulls for bucket in recent)
        consumed, failed = sum(bucket.consumed for bucket in recent), sum(bucket.failed for bucket in recent)
        for old in [minute for minute in entry.failures if minute * 60 < now - _FAILURES_S]:
            del entry.failures[old]
        return ConsumeStatus(
            pull_ms=sum(bucket.pull_ms for bucket in recent) / pulls if pulls else 0.0,
            pull_tps=sum(bucket.pulled for bucket in recent) / _WINDOW_S,
            consume_ms=sum(bucket.consume_ms for bucket in recent) / ((consumed + failed) or 1),
            consume_ok_tps=consumed / _WINDOW_S,
            consume_failed_tps=failed / _WINDOW_S,
            consume_failed_messages=sum(entry.failures.values()),
        )
