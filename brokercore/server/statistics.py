"""Counts of what went in and out, their rates over the last minute, hour and day, and how long storing takes."""

from __future__ import annotations

import time
from bisect import bisect_left
from typing import NamedTuple

PUT, PUT_BYTES, GET, GET_BYTES, SENT_BACK = (
    "TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE", "GROUP_GET_NUMS", "GROUP_GET_SIZE", "SNDBCK_PUT_NUMS",
)  # fmt: skip
BROKER_PUT, BROKER_GET = "BROKER_PUT_NUMS", "BROKER_GET_NUMS"

MINUTE, HOUR, DAY = 60, 3600, 86400
_STEPS = ((MINUTE * 2, 10), (HOUR, MINUTE), (DAY, HOUR))
"""Samples are kept every 10 s for two minutes, every minute for an hour, every hour for a day."""

_BOUNDS_MS = (0, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10_000)
_NAMES = (
    "<=0ms", "0~10ms", "10~50ms", "50~100ms", "100~200ms", "200~500ms", "500ms~1s", "1~2s", "2~3s", "3~4s", "4~5s",
    "5~10s", "10s~",
)  # fmt: skip
"""As brokers of Apache RocketMQ name the steps."""


class Rate(NamedTuple):
    """What was counted in a period: the sum, the sum a second, the sum for each time it was counted."""

    total: int
    per_second: float
    average: float


class Counter:
    """A sum, the number of times it grew, and samples of both."""

    __slots__ = ("samples", "times", "total")

    def __init__(self) -> None:
        self.total = self.times = 0
        self.samples: list[tuple[float, int, int]] = [(time.monotonic(), 0, 0)]

    def add(self, amount: int) -> None:
        """Count."""
        self.total += amount
        self.times += 1

    def sample(self, now: float) -> None:
        """Remember the sum of now, and thin out old samples."""
        self.samples.append((now, self.total, self.times))
        kept: list[tuple[float, int, int]] = []
        for sample in reversed(self.samples):
            age = now - sample[0]
            step = next((step for limit, step in _STEPS if age <= limit), None)
            if step is not None and (not kept or kept[-1][0] - sample[0] >= step - 1):
                kept.append(sample)
        self.samples = kept[::-1] or self.samples[-1:]

    def over(self, seconds: float) -> Rate:
        """The rate of the last `seconds`, or of the time since counting began."""
        now = time.monotonic()
        at = max(0, bisect_left(self.samples, (now - seconds, 0, 0)) - 1)
        since, total, times = self.samples[at]
        amount, grown = self.total - total, self.times - times
        return Rate(amount, round(amount / max(1.0, now - since), 2), round(amount / grown, 2) if grown else 0.0)


class Statistics:
    """Counters by name and key, as VIEW_BROKER_STATS_DATA asks for them."""

    INTERVAL_SECONDS = 10

    def __init__(self) -> None:
        self._counters: dict[tuple[str, str], Counter] = {}

    def counter(self, name: str, key: str) -> Counter:
        """The counter of this name, made when it is missing."""
        counter = self._counters.get((name, key))
        if counter is None:
            counter = self._counters[name, key] = Counter()
        return counter

    def find(self, name: str, key: str) -> Counter | None:
        """The counter of this name, None when nothing was ever counted."""
        return self._counters.get((name, key))

    def handed_out(self, cluster: str, topic: str, group: str, messages: int, size: int) -> None:
        """Count messages, of `size` bytes in all, that a group was given."""
        key = f"{topic}@{group}"
        self.counter(GET, key).add(messages)
        self.counter(GET_BYTES, key).add(size)
        self.counter(BROKER_GET, cluster).add(messages)

    def totals(self, name: str) -> list[tuple[str, int]]:
        """Key and sum of every counter of this name."""
        return [(key, counter.total) for (kind, key), counter in self._counters.items() if kind == name]

    def rate(self, name: str, key: str) -> float:
        """Amount a second over the last minute."""
        counter = self._counters.get((name, key))
        return counter.over(MINUTE).per_second if counter else 0.0

    def forget(self, key: str) -> None:
        """Drop the counters of a topic or group that was deleted."""
        for name in [name for name in self._counters if key in name[1].split("@")]:
            del self._counters[name]

    @property
    def counters(self) -> list[Counter]:
        """All counters."""
        return list(self._counters.values())


class StorageTimes:
    """Since the start of the broker, in whole ms: from taking a message to its being safe, and reads of Redis."""

    def __init__(self) -> None:
        self._counts = [0] * len(_NAMES)
        self.longest_put_ms = self.longest_read_ms = 0

    def put(self, milliseconds: int) -> None:
        """Count a message that is safe. A clock that was set back counts as no time."""
        self._counts[bisect_left(_BOUNDS_MS, milliseconds)] += 1
        if milliseconds > self.longest_put_ms:  # noqa: PLR1730 (once a message: a call costs time here)
            self.longest_put_ms = milliseconds

    def read(self, milliseconds: int) -> None:
        """Count a read of messages that were not in memory."""
        self.longest_read_ms = max(self.longest_read_ms, milliseconds)

    def distribution(self) -> str:
        """`[<=0ms]:12 [0~10ms]:345 …`, the value of `putMessageDistributeTime`."""
        return " ".join(f"[{name}]:{count}" for name, count in zip(_NAMES, self._counts, strict=True))
