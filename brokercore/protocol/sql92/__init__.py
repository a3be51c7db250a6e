"""SQL92 filter expressions over message properties: `a > 5 AND region = 'hz' AND TAGS IN ('x', 'y')`.

The language of Apache RocketMQ's `MessageSelector.bySql`: comparison of numbers, equality, BETWEEN, IN, IS NULL,
CONTAINS, STARTSWITH, ENDSWITH, NOT, AND, OR; three-valued, a property that is missing is null. Values of properties
are texts and become what they are compared with; one that cannot become it keeps its message from passing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from brokercore.protocol.errors import SubscriptionError
from brokercore.protocol.sql92.expressions import Evaluate, IncomparableError, Look, UnfinishedError
from brokercore.protocol.sql92.parser import Parser

MAX_EXPRESSION = 16 * 1024
"""Longest expression in characters; people write some dozens."""

KEPT_CHARACTERS = 1 << 20
"""Characters of all expressions whose compiled forms are kept; a compiled form takes some forty times its text."""


class Filter:
    """A compiled expression."""

    __slots__ = ("_evaluate",)

    def __init__(self, evaluate: Evaluate) -> None:
        self._evaluate = evaluate

    def __call__(self, properties: Mapping[str, str]) -> bool:
        """Whether a message with these properties passes."""
        return self.go_on(Look(properties), float("inf")) is True

    def go_on(self, look: Look, deadline: float) -> bool | None:
        """Whether the message passes; None when `deadline` (of the performance counter) comes first.

        Asked again with the same `look` it goes on where it was. Every call gets at least one condition further.
        """
        look.begin(deadline)
        try:
            return self._evaluate(look) is True
        except IncomparableError:
            return False
        except UnfinishedError:
            return None


class _Kept:
    """The expressions that were used last, as many as have so many characters together."""

    def __init__(self) -> None:
        self._filters: OrderedDict[str, Filter] = OrderedDict()
        self._characters = 0

    def get(self, expression: str) -> Filter | None:
        found = self._filters.get(expression)
        if found is not None:
            self._filters.move_to_end(expression)
        return found

    def put(self, expression: str, compiled: Filter) -> None:
        self._filters[expression] = compiled
        self._characters += len(expression)
        while self._characters > KEPT_CHARACTERS:
            self._characters -= len(self._filters.popitem(last=False)[0])


_kept = _Kept()


def parse_sql92(expression: str) -> Filter:
    """Compile an expression to a predicate over a message's properties. Raises SubscriptionError."""
    found = _kept.get(expression)
    if found is None:
        if len(expression) > MAX_EXPRESSION:
            raise SubscriptionError(f"the filter has {len(expression)} characters; {MAX_EXPRESSION} are allowed")
        found = Filter(Parser(expression).whole())
        _kept.put(expression, found)
    return found
