"""What counters of the brokers grew by lately: they count since a broker's start, and tell no times. Redis, database 2.

gantry:alarms:counter:<name>  what a counter stood at, when it changed (zset of "<ms>:<number>", score = time)

A round of evaluation notes what is watched. The first number is what the later ones are held against; one that falls,
since a broker has started anew, is such a number again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from console.metrics.store import HOT_WINDOW_MS, connection

#: What has not changed for so long is noted again: what later ones are held against is always there.
_AGAIN_MS = HOT_WINDOW_MS // 2

Change = tuple[int, int]
"""When a counter was found to have grown (epoch ms), and by how much."""


def note(numbers: Mapping[str, int], now_ms: int) -> dict[str, list[Change]]:
    """Keep what these counters stand at now, and tell how each grew within the hot window, oldest first."""
    kept = _kept(list(numbers), now_ms)
    pipeline = connection().pipeline(transaction=False)
    for name, number in numbers.items():
        is_old = not kept[name] or kept[name][-1][0] < now_ms - _AGAIN_MS
        if is_old or kept[name][-1][1] != number:
            kept[name].append((now_ms, number))
            pipeline.zadd(_key(name), {f"{now_ms}:{number}": now_ms})
            pipeline.zremrangebyscore(_key(name), "-inf", now_ms - HOT_WINDOW_MS)
            pipeline.pexpire(_key(name), HOT_WINDOW_MS)
    pipeline.execute()
    return {name: _grown(found) for name, found in kept.items()}


def changes(names: Sequence[str], now_ms: int) -> dict[str, list[Change]]:
    """How each of these counters grew within the hot window, oldest first."""
    return {name: _grown(found) for name, found in _kept(names, now_ms).items()}


def within(grown: Sequence[Change], begin_ms: int, end_ms: int) -> int:
    """How much of it came with begin < time ≤ end."""
    return sum(by for at_ms, by in grown if begin_ms < at_ms <= end_ms)


def _kept(names: Sequence[str], now_ms: int) -> dict[str, list[tuple[int, int]]]:
    pipeline = connection().pipeline(transaction=False)
    for name in names:
        pipeline.zrangebyscore(_key(name), now_ms - HOT_WINDOW_MS, "+inf")
    found: list[list[Any]] = pipeline.execute()
    return {name: [_number(member) for member in members] for name, members in zip(names, found, strict=True)}


def _grown(numbers: Sequence[tuple[int, int]]) -> list[Change]:
    return [(at_ms, number - before) for (_, before), (at_ms, number) in pairwise(numbers) if number > before]


def _number(member: bytes | str) -> tuple[int, int]:
    at_ms, number = (member if isinstance(member, str) else member.decode()).split(":")
    return int(at_ms), int(number)


def _key(name: str) -> str:
    return f"gantry:alarms:counter:{name}"
