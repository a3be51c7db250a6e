"""Paths into events: JSONPath as RFC 9535 has it, as far as its cost is bounded.

A path that names one place (`$.data.after.id`, `$['data'].lines[0]`) gives the value there. One that may lead to many
places (`[*]`, `..`, a slice, a filter, several names) gives the array of all their values, and nothing when there is
none.

A path and the events are anybody's, so a path must not cost more than its own length times the size of an event.
Therefore no place may be reached twice: `..` stands once in a path, and what stands in one pair of brackets excludes
each other. A filter stands once, compares single places only, and has no function but `length()`: regular expressions
may take years.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import Final

from jsonpath_rfc9535 import JSONPathEnvironment, JSONPathError, JSONPathQuery
from jsonpath_rfc9535 import filter_expressions as filters
from jsonpath_rfc9535.segments import JSONPathRecursiveDescentSegment, JSONPathSegment
from jsonpath_rfc9535.selectors import FilterSelector, IndexSelector, NameSelector

MAX_PATH = 1024
"""Longest path in characters."""

_PARSER = JSONPathEnvironment()


class Missing(Enum):
    """The type of MISSING."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING
"""What a path gives that leads nowhere; null is a value."""


class Path:
    """A compiled path. Made by `compile`; unchangeable, and safe in threads."""

    __slots__ = ("_query", "_steps", "text")

    def __init__(self, text: str, query: JSONPathQuery) -> None:
        self.text = text
        self._query = query
        # The library makes a node of each step; most paths have one place, and walking there takes a tenth of that.
        self._steps = _steps(query) if query.singular_query() else None

    @classmethod
    def compile(cls, text: str) -> Path:
        """The path of a text. Raises ValueError with what is wrong."""
        if not text.startswith("$"):
            raise ValueError("a path begins with $, such as $.data.tableName")
        if len(text) > MAX_PATH:
            raise ValueError(f"the path has {len(text):,} characters; at most {MAX_PATH:,} are allowed")
        try:
            query = _PARSER.compile(text)
        except JSONPathError as error:
            at = f"column {error.token.index + 1}: " if error.token else ""
            raise ValueError(
                f"{at}{_printable(str(error.args[0]))}; other names than words are written ['a-b']"
            ) from None
        except RecursionError:
            raise ValueError("the path is nested too deep") from None
        except ArithmeticError:  # the library makes integers of 1e999
            raise ValueError("the path has a number that is too large") from None
        _check_cost(query)
        return cls(text, query)

    def find(self, event: object) -> object:
        """The value there, or MISSING. Raises ValueError for an event that is nested too deep to be searched."""
        if self._steps is not None:
            return _walk(self._steps, event)
        try:
            found = [node.value for node in self._query.finditer(event)]  # type: ignore[arg-type]  # looked at, never changed
        except (JSONPathError, RecursionError):
            raise ValueError(f"the event is nested too deep to be searched by {self.text}") from None
        return found or MISSING


def _printable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


def _steps(query: JSONPathQuery) -> tuple[str | int, ...]:
    steps: list[str | int] = []
    for segment in query.segments:
        selector = segment.selectors[0]
        if isinstance(selector, NameSelector):
            steps.append(selector.name)
        elif isinstance(selector, IndexSelector):
            steps.append(selector.index)
    return tuple(steps)


def _walk(steps: tuple[str | int, ...], value: object) -> object:
    for step in steps:
        if isinstance(step, str):
            if not isinstance(value, dict):
                return MISSING
            value = value.get(step, MISSING)
        elif isinstance(value, list) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return MISSING
    return value


def _check_cost(query: JSONPathQuery) -> None:
    descents = sum(isinstance(segment, JSONPathRecursiveDescentSegment) for segment in query.segments)
    if descents > 1:
        raise ValueError(".. stands at most once in a path")
    for segment in query.segments:
        _check_brackets(segment)
    expressions = [
        selector.expression
        for segment in query.segments
        for selector in segment.selectors
        if isinstance(selector, FilterSelector)
    ]
    if len(expressions) > 1:
        raise ValueError("a filter stands at most once in a path")
    for expression in expressions:
        _check_filter(expression)


def _check_brackets(segment: JSONPathSegment) -> None:
    if len(segment.selectors) == 1:
        return
    names: Counter[str] = Counter()
    indexes: Counter[int] = Counter()
    for selector in segment.selectors:
        if isinstance(selector, NameSelector):
            names[selector.name] += 1
        elif isinstance(selector, IndexSelector):
            indexes[selector.index] += 1
        else:
            raise ValueError(
                "in one pair of brackets, several names or numbers may stand, but nothing else beside others"
            )
    repeated = [count for counts in (names, indexes) for count in counts.values() if count > 1]
    if repeated or len({index < 0 for index in indexes}) > 1:
        raise ValueError("the names or numbers in one pair of brackets must not lead to the same place twice")


def _check_filter(expression: filters.Expression) -> None:
    match expression:
        case filters.FilterExpression():
            _check_filter(expression.expression)
        case filters.PrefixExpression():
            _check_filter(expression.right)
        case filters.LogicalExpression() | filters.ComparisonExpression():
            _check_filter(expression.left)
            _check_filter(expression.right)
        case filters.FunctionExtension():
            if expression.name != "length":
                raise ValueError(f"the function {expression.name}() is not offered; length() is")
            for argument in expression.args:
                _check_filter(argument)
        case filters.FilterQuery():
            if not expression.query.singular_query():
                raise ValueError(
                    f"in a filter, {_printable(str(expression))} must name one place, without .., * and filters"
                )
