"""Arguments that make a value, a pattern or a sketch of any size out of a short statement; literals are bounded here.

What is computed cannot be known before it runs: a statement that exhausts the JVM by that costs the JVM (docs/sql.md).
"""

import math
import re

from analytics.errors import QueryRefused

#: Characters of a text, elements of an array.
MOST_ELEMENTS = 1_000_000
#: Partitions of range(), rows of stack(): each costs the driver.
_MOST_PARTS = 10_000
#: Overlapping windows: Spark writes an expression for each.
_MOST_WINDOWS = 1000

#: Function (upper case) → number of the argument (from 0) → smallest and greatest value.
_NUMBERS: dict[str, tuple[int, float, float]] = {
    "REPEAT": (1, -math.inf, MOST_ELEMENTS),
    "SPACE": (0, -math.inf, MOST_ELEMENTS),
    "LPAD": (1, -math.inf, MOST_ELEMENTS),
    "RPAD": (1, -math.inf, MOST_ELEMENTS),
    "RANDSTR": (0, -math.inf, MOST_ELEMENTS),
    "ARRAY_REPEAT": (1, -math.inf, MOST_ELEMENTS),
    "ARRAY_INSERT": (1, -MOST_ELEMENTS, MOST_ELEMENTS),
    "HISTOGRAM_NUMERIC": (1, -math.inf, _MOST_PARTS),
    "STACK": (0, -math.inf, _MOST_PARTS),
    "RANGE": (3, -math.inf, _MOST_PARTS),
    "FORMAT_NUMBER": (1, -math.inf, 1000),
    "ROUND": (1, -1000, 1000),
    "BROUND": (1, -1000, 1000),
    "CEIL": (1, -1000, 1000),
    "CEILING": (1, -1000, 1000),
    "FLOOR": (1, -1000, 1000),
    "APPROX_COUNT_DISTINCT": (1, 0.005, math.inf),
    "REPARTITION": (0, -math.inf, _MOST_PARTS),
    "REPARTITION_BY_RANGE": (0, -math.inf, _MOST_PARTS),
    "REBALANCE": (0, -math.inf, _MOST_PARTS),
    "COUNT_MIN_SKETCH": (1, 0.00001, math.inf),
}
_DIGITS = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_WIDTH = re.compile(r"\d{7,}")
_SPAN = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*(microsecond|millisecond|second|minute|hour|day|week)", re.IGNORECASE)
_SECONDS = {
    **{"microsecond": 1e-6, "millisecond": 1e-3, "second": 1, "minute": 60},
    **{"hour": 3600, "day": 86_400, "week": 604_800},
}


def check(name: str, arguments: list[str | None]) -> None:
    """Raise QueryRefused when a literal argument of the function `name` (upper case) is beyond its bound."""
    if name in _NUMBERS:
        number, least, most = _NUMBERS[name]
        value = _number(arguments[number]) if len(arguments) > number else None
        if value is not None and not least <= value <= most:
            limits = f"at most {most:,}" if value > most else f"at least {least:,}"
            raise QueryRefused(f"{name.lower()}: argument {number + 1} is {arguments[number]}; {limits} is allowed.")
    elif name == "SEQUENCE":
        _sequence(arguments)
    elif name in {"FORMAT_STRING", "PRINTF"} and arguments and _WIDTH.search(arguments[0] or ""):
        raise QueryRefused(f"{name.lower()}: a width of more than 6 digits is not allowed.")
    elif name in {"WINDOW", "SESSION_WINDOW"}:
        _window(arguments)


def _sequence(arguments: list[str | None]) -> None:
    numbers = [_number(argument) for argument in arguments]
    if len(numbers) < 2 or numbers[0] is None or numbers[1] is None:
        return
    step = abs((numbers[2] if len(numbers) > 2 else 1) or 1)
    elements = abs(numbers[1] - numbers[0]) / step
    if elements > MOST_ELEMENTS:
        raise QueryRefused(f"sequence: {elements:,.0f} elements; at most {MOST_ELEMENTS:,} are allowed.")


def _window(arguments: list[str | None]) -> None:
    if len(arguments) < 3:
        return
    length, slide = _seconds(arguments[1]), _seconds(arguments[2])
    if length and slide and length / slide > _MOST_WINDOWS:
        raise QueryRefused(
            f"window: {length / slide:,.0f} windows overlap at each moment; at most {_MOST_WINDOWS:,} are allowed."
        )


def _number(literal: str | None) -> float | None:
    found = _DIGITS.match(literal) if literal else None
    return float(found.group()) if found and len(found.group()) < 400 else None


def _seconds(literal: str | None) -> float:
    """The length of an interval in a text; a number counts microseconds, as in Spark."""
    if literal is None:
        return 0
    if literal[0].isdigit():
        return (_number(literal) or 0) * 1e-6
    return sum(float(count) * _SECONDS[unit.lower()] for count, unit in _SPAN.findall(literal))
