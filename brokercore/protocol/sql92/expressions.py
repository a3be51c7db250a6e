"""The parts of a filter as functions of a message's properties; true, false or null."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from time import perf_counter

from brokercore.protocol.errors import SubscriptionError

LONG_TEXT = 512
"""Characters from which on a condition on a text is looked at with an eye on the clock."""

Value = str | int | float | bool | None


class UnfinishedError(Exception):
    """The time is over before it is known whether the message passes."""


class Look:
    """One message that a filter looks at. What its costly conditions gave is kept, so that it can go on later."""

    __slots__ = ("_deadline", "_further", "_known", "_properties")

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties
        self._known: dict[object, Value] = {}
        self._deadline = 0.0
        self._further = False

    def begin(self, deadline: float) -> None:
        """Look on until this moment of the performance counter."""
        self._deadline, self._further = deadline, False

    def get(self, name: str) -> str | None:
        """The value of a property."""
        return self._properties.get(name)

    def weigh(self, condition: object, length: int, work: Callable[[], Value]) -> Value:
        """What `work` gives, which costs about `length` characters; known the next time `condition` is asked.

        Raises UnfinishedError when the time is over and this look got one condition further at least.
        """
        if length < LONG_TEXT:
            return work()
        if condition in self._known:
            return self._known[condition]
        if self._further and perf_counter() >= self._deadline:
            raise UnfinishedError
        self._further = True
        value = self._known[condition] = work()
        return value


Evaluate = Callable[[Look], Value]


class Kind(Enum):
    """What an expression is, as far as the grammar asks."""

    PROPERTY = auto()
    NUMBER = auto()
    TEXT = auto()
    NULL = auto()
    TRUTH = auto()


@dataclass(frozen=True, slots=True)
class Expression:
    kind: Kind
    evaluate: Evaluate
    #: The value of a literal, for BETWEEN to look at.
    literal: Value = None


class IncomparableError(Exception):
    """A value of a property cannot become what it is compared with."""


def constant(kind: Kind, value: Value) -> Expression:
    return Expression(kind, lambda _: value, value)


def named(name: str) -> Expression:
    if name == "NULL":
        return constant(Kind.NULL, None)
    return Expression(Kind.PROPERTY, lambda look: look.get(name))


def any_of(conditions: list[Evaluate]) -> Expression:
    """OR: one that is true decides."""
    return _decided_by(True, conditions)


def all_of(conditions: list[Evaluate]) -> Expression:
    """AND: one that is false decides."""
    return _decided_by(False, conditions)


def _decided_by(decisive: bool, conditions: list[Evaluate]) -> Expression:
    """That value as soon as a condition has it; else null if one is null, else the other value."""

    def evaluate(look: Look) -> Value:
        outcome: Value = not decisive
        for condition in conditions:
            value = condition(look)
            if value is decisive:
                return decisive
            outcome = None if value is None else outcome
        return outcome

    return Expression(Kind.TRUTH, evaluate)


def negation(inner: Evaluate) -> Expression:
    def evaluate(look: Look) -> Value:
        value = inner(look)
        return None if value is None else not value

    return Expression(Kind.TRUTH, evaluate)


def negative(inner: Expression) -> Expression:
    if isinstance(inner.literal, int | float) and inner.kind is Kind.NUMBER:
        return constant(Kind.NUMBER, -inner.literal)
    raise SubscriptionError("only a number can have the sign -")


def is_null(value: Evaluate, *, negated: bool) -> Expression:
    return Expression(Kind.TRUTH, lambda look: (value(look) is None) != negated)


def search(found: Callable[[str, str], bool], value: Evaluate, wanted: str, *, negated: bool) -> Expression:
    """False for a missing property and for an empty text, negated or not, as in RocketMQ."""

    def evaluate(look: Look) -> Value:
        text = value(look)
        if not isinstance(text, str) or not wanted:
            return False
        return look.weigh(evaluate, len(text), lambda: found(text, wanted) != negated)

    return Expression(Kind.TRUTH, evaluate)


def within(value: Evaluate, texts: frozenset[str], *, negated: bool) -> Expression:
    def evaluate(look: Look) -> Value:
        text = value(look)
        return None if text is None else (text in texts) != negated

    return Expression(Kind.TRUTH, evaluate)


def equal(left: Expression, right: Expression) -> Expression:
    def evaluate(look: Look) -> Value:
        first, second = left.evaluate(look), right.evaluate(look)
        if first is None or second is None:
            return None if first is None and second is not None else first is second
        return look.weigh(evaluate, _length(first, second), lambda: _same(first, second))

    return Expression(Kind.TRUTH, evaluate)


def compared(holds: Callable[[float, float], bool], left: Expression, right: Expression) -> Expression:
    def evaluate(look: Look) -> Value:
        first, second = left.evaluate(look), right.evaluate(look)
        if first is None or second is None:
            return None
        return look.weigh(evaluate, _length(first, second), lambda: _holds(holds, first, second))

    return Expression(Kind.TRUTH, evaluate)


def _length(first: str | float | bool, second: str | float | bool) -> int:
    """Characters of both, as far as they are texts."""
    return (len(first) if isinstance(first, str) else 0) + (len(second) if isinstance(second, str) else 0)


def _same(first: str | float | bool, second: str | float | bool) -> bool:
    first, second = _of_one_type(first, second)
    return first == second


def _holds(holds: Callable[[float, float], bool], first: str | float | bool, second: str | float | bool) -> bool:
    if isinstance(first, str) and isinstance(second, str):
        return holds(_number(first, float), _number(second, float))
    first, second = _of_one_type(first, second)
    return not isinstance(first, str) and not isinstance(second, str) and holds(first, second)


def _of_one_type(
    first: str | float | bool, second: str | float | bool
) -> tuple[str | float | bool, str | float | bool]:
    """Both values, a text made what the other one is. Raises IncomparableError."""
    if isinstance(first, str) and not isinstance(second, str):
        return _typed(first, second), second
    if isinstance(second, str) and not isinstance(first, str):
        return first, _typed(second, first)
    return first, second


def _typed(text: str, example: float | bool) -> float | bool:
    if isinstance(example, bool):
        return text.lower() == "true"
    return _number(text, int if isinstance(example, int) else float)


def _number(text: str, kind: type[int] | type[float]) -> float:
    """As Java's Long.valueOf and Double.valueOf read it. Raises IncomparableError."""
    try:
        if "_" in text or (kind is int and text != text.strip()):
            raise ValueError(text)
        return kind(text)
    except ValueError:
        raise IncomparableError(text) from None


def less(first: float, second: float) -> bool:
    return first < second


def at_most(first: float, second: float) -> bool:
    return first <= second


def greater(first: float, second: float) -> bool:
    return first > second


def at_least(first: float, second: float) -> bool:
    return first >= second


COMPARISONS = {"<": less, "<=": at_most, ">": greater, ">=": at_least}
