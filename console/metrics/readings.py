"""What happened between two readings of a cluster's counters: pure functions on positions and committed offsets."""

from __future__ import annotations

from collections.abc import Collection, Mapping

Positions = Mapping[str, list[int]]
"""Of a topic by broker: first and next offset of queue 0, of queue 1, …"""

Committed = Mapping[str, Mapping[str, int]]
"""Of a group in a topic by broker: offset by queue id as text."""

Ends = dict[str, list[int]]
"""Next offset of queue 0, 1, … by broker."""


def ends_before(before: Positions | None, now: Positions, brokers: Collection[str]) -> Ends | None:
    """Where the queues of a topic ended at the reading before; `brokers` answered then.

    A queue that is new since began at 0. One of a broker that was away did not: it is a baseline, and ends where it
    ends now. None for a topic that is not new and was never seen: nothing can be told of it.
    """
    if before is None and any(first for positions in now.values() for first in positions[::2]):
        return None
    found: Ends = {}
    for broker, positions in now.items():
        known = before.get(broker, [])[1::2] if before else []
        was_there = not brokers or broker in brokers
        fresh = zip(positions[2 * len(known) :: 2], positions[2 * len(known) + 1 :: 2], strict=True)
        found[broker] = known[: len(positions) // 2] + [0 if was_there and not first else end for first, end in fresh]
    return found


def received(before: Ends | None, now: Positions) -> int | None:
    """Messages that came; None when that is not known: a baseline, or a counter that went back (a topic made anew)."""
    if before is None:
        return None
    total = 0
    for broker, positions in now.items():
        for was, end in zip(before[broker], positions[1::2], strict=True):
            if end < was:
                return None
            total += end - was
    return total


def consumed(before: Committed, now: Committed, ends: Ends | None) -> int | None:
    """Messages that a group consumed from a topic that ended at `ends`; None as in `received`, after a reset for one.

    Of a queue where the group is new, it has consumed at least what has come since: where it began is not told.
    """
    if ends is None:
        return None
    total = 0
    for broker, offsets in now.items():
        known, ended = before.get(broker, {}), ends.get(broker, [])
        for queue, offset in offsets.items():
            was = known.get(queue)
            if was is None:
                was = min(offset, _at(ended, queue, offset))
            if offset < was:
                return None
            total += offset - was
    return total


def stored(positions: Positions) -> int:
    """Messages that a topic holds."""
    return sum(sum(of[1::2]) - sum(of[::2]) for of in positions.values())


def backlog(positions: Positions, committed: Committed) -> int:
    """Messages of a topic that a group has not consumed."""
    total = 0
    for broker, offsets in committed.items():
        ends = positions.get(broker, [])[1::2]
        total += sum(max(0, _at(ends, queue, 0) - offset) for queue, offset in offsets.items())
    return total


def _at(ends: list[int], queue: str, otherwise: int) -> int:
    return ends[int(queue)] if queue.isdecimal() and int(queue) < len(ends) else otherwise
