"""SQL92 filter expressions over message properties: `a > 5 AND region = 'hz' AND TAGS IN ('x', 'y')`.

The language of Apache RocketMQ's `MessageSelector.bySql`: comparison of numbers, equality, BETWEEN, IN, IS NULL,
CONTAINS, STARTSWITH, ENDSWITH, NOT, AND, OR; three-valued, a property that is missing is null. Values of properties
are texts and become what they are compared with; one that cannot become it keeps its message from passing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from brokercore.protocol.errors import SubscriptionError
from brokercore.protocol.sql92.expressions import IncomparableError, Properties
from brokercore.protocol.sql92.parser import Parser

MAX_EXPRESSION = 16 * 1024
"""Longest expression in characters; people write some dozens."""


@lru_cache(maxsize=4096)
def parse_sql92(expression: str) -> Callable[[Properties], bool]:
    """Compile an expression to a predicate over a message's properties. Raises SubscriptionError."""
    if len(expression) > MAX_EXPRESSION:
        raise SubscriptionError(f"the filter has {len(expression)} characters; {MAX_EXPRESSION} are allowed")
    evaluate = Parser(expression).whole()

    def passes(properties: Properties) -> bool:
        try:
            return evaluate(properties) is True
        except IncomparableError:
            return False

    return passes
