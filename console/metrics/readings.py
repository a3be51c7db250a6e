"""Two readings of a cluster's counters and what happened between them. Pure: no Redis, no broker.

in = Δ of a topic's end offsets, out = Δ of a group's committed offsets in a topic, lag = end − committed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MAX_STEP_MS = 60_000
"""Counters further apart than this make a gap: when in that time the messages came cannot be told."""

Counters = dict[str, int]
"""Offset by queue, named `broker-a:0`."""


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

    A series is missing where nothing can be told: it is new, or its counter went back.
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
    for topic, ends in current.ends.items():
        before = previous.ends.get(topic)
        if before is None and not any(current.begins.get(topic, {}).values()):
            before = dict.fromkeys(ends, 0)  # created since: everything in it is new
        if before is not None and (count := _increase(before, ends)) is not None:
            received[topic] = count
    consumed: dict[str, int] = {}
    for series, offsets in current.committed.items():
        before = previous.committed.get(series)
        if before is not None and (count := _increase(before, offsets)) is not None:
            consumed[series] = count
    return Step(current.at_ms, (current.at_ms - previous.at_ms) / 1000, received, consumed)


def backlog(reading: Reading, series: str) -> int:
    """Messages of a `topic@group` not yet consumed."""
    ends = reading.ends.get(series.partition("@")[0], {})
    return sum(max(0, ends.get(queue, 0) - offset) for queue, offset in reading.committed[series].items())


def _increase(before: Counters, after: Counters) -> int | None:
    """The sum of increases; None when a counter went back (a reset, a topic made anew). A new queue is a baseline."""
    total = 0
    for queue, offset in after.items():
        change = offset - before.get(queue, offset)
        if change < 0:
            return None
        total += change
    return total
