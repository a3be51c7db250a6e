"""When a message is to be delivered: delay levels, timer properties and the vendor's start-deliver time."""

from __future__ import annotations

from collections.abc import Mapping

from brokercore.protocol import properties as names
from brokercore.protocol.codes import ResponseCode
from brokercore.server.errors import Refusal

LEVELS_MS = tuple(
    1000 * seconds
    for seconds in (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
)
"""The 18 delay levels of RocketMQ; level 1 is the first."""

MAX_DELAY_MS = 40 * 86_400_000
"""The furthest a message may be scheduled (ONS: 40 days)."""

TIMED = frozenset(
    {names.DELAY, names.TIMER_DELAY_SECONDS, names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS, names.START_DELIVER_TIME}
)
"""Properties that ask for a later delivery."""


def is_delayed(properties: Mapping[str, str]) -> bool:
    """True when a property asks for a later delivery."""
    return not TIMED.isdisjoint(properties)


def deliver_at(properties: Mapping[str, str], now_ms: int) -> tuple[int, int]:
    """Delivery time in epoch ms and delay level (0 for a time of its own); (0, 0) means at once.

    A delay level wins over timer properties, those win over __STARTDELIVERTIME. Raises Refusal for a value that is
    no number, and for a time more than 40 days ahead.
    """
    level = _number(properties, names.DELAY)
    if level > 0:
        level = min(level, len(LEVELS_MS))
        return now_ms + LEVELS_MS[level - 1], level
    if names.TIMER_DELAY_SECONDS in properties:
        time_ms = now_ms + 1000 * _number(properties, names.TIMER_DELAY_SECONDS)
    elif names.TIMER_DELAY_MS in properties:
        time_ms = now_ms + _number(properties, names.TIMER_DELAY_MS)
    elif names.TIMER_DELIVER_MS in properties:
        time_ms = _number(properties, names.TIMER_DELIVER_MS)
    else:
        time_ms = _number(properties, names.START_DELIVER_TIME)
    if time_ms <= now_ms:
        return 0, 0
    if time_ms > now_ms + MAX_DELAY_MS:
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, "the delivery time is more than 40 days ahead")
    return time_ms, 0


def level_time(level: int, now_ms: int) -> tuple[int, int]:
    """Delivery time and level, the level cut to 1..18."""
    level = max(1, min(level, len(LEVELS_MS)))
    return now_ms + LEVELS_MS[level - 1], level


def _number(properties: Mapping[str, str], name: str) -> int:
    value = properties.get(name) or "0"
    if not value.isascii() or not value.removeprefix("-").isdigit() or len(value) > 18:
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, f"the property {name} is not a whole number: {value[:40]!r}")
    return int(value)
