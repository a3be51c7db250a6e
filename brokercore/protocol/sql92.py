"""SQL92 filter expressions over message properties: `a > 5 AND region = 'hz' AND TAGS IN ('x', 'y')`.

The language of Apache RocketMQ's `MessageSelector.bySql`: comparison of numbers, equality, BETWEEN, IN, IS NULL,
CONTAINS, STARTSWITH, ENDSWITH, NOT, AND, OR; three-valued, a property that is missing is null. Values of properties
are texts and become what they are compared with; one that cannot become it keeps its message from passing.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from time import perf_counter

from brokercore.protocol.errors import SubscriptionError

MAX_EXPRESSION = 16 * 1024
"""Longest expression in characters; people write some dozens."""

KEPT_CHARACTERS = 1 << 20
"""Characters of all expressions whose compiled forms are kept; a compiled form takes some forty times its text."""

MAX_WORDS = 1000
"""Names, numbers, words and signs of a filter: reading one takes some microseconds."""

MAX_TOKENS = 4000
"""All of them, with texts and commas, so that lists for IN may be long."""

MAX_DEPTH = 100
"""Parentheses, NOTs and signs inside each other, and comparisons in a row."""

LONG_TEXT = 512
"""Characters from which on a condition on a text is looked at with an eye on the clock."""

Value = str | int | float | bool | None

_LONG = 1 << 63
_TOKEN = re.compile(
    r"""
    (?P<blank>\s+|--[^\r\n]*(?:[\r\n]|\Z)|/\*.*?\*/)
  | (?P<float>\d+\.\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+)
  | (?P<integer>(?:0|[1-9]\d*)l?(?![\w.]))
  | (?P<text>'(?:[^']|'')*')
  | (?P<word>[a-z_$][\w$]*)
  | (?P<comma>,)
  | (?P<sign><>|<=|>=|[=<>()+-])
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL | re.ASCII,
)
_RESERVED = frozenset(
    {"NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "CONTAINS", "STARTSWITH", "ENDSWITH"}
)

SEARCHES: dict[str, Callable[[str, str], bool]] = {
    "CONTAINS": str.__contains__,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


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


def tokens(expression: str) -> list[tuple[str, str]]:
    """Kind and text; reserved words in upper case, and signs, can be told from texts since those keep their quotes."""
    found, position, words = [], 0, 0
    while position < len(expression):
        match = _TOKEN.match(expression, position)
        if match is None:
            near = expression[position : position + 20]
            raise SubscriptionError(f"the filter cannot be read at character {position + 1}: {near!r}")
        position = match.end()
        kind, token = match.lastgroup or "", match.group()
        if kind == "integer" and int(token.rstrip("lL")) > _LONG:
            raise SubscriptionError(f"{token} is too large a number")
        if kind == "word" and token.upper() in _RESERVED:
            token = token.upper()
            kind = "word" if token in {"TRUE", "FALSE", "NULL"} else "sign"
        if kind != "blank":
            found.append((kind, token))
            words += kind not in {"text", "comma"}
            if words > MAX_WORDS or len(found) > MAX_TOKENS:
                raise SubscriptionError(
                    f"the filter is too long: allowed are {MAX_WORDS} names, numbers, words and signs, and with texts"
                    f" and commas {MAX_TOKENS}"
                )
    return found


def text_of(token: str) -> str:
    """The text without its quotes; a doubled one inside is one."""
    return token[1:-1].replace("''", "'")


class Parser:
    """Recursive descent, a method for each level of binding, the loosest first."""

    def __init__(self, expression: str) -> None:
        self._tokens = tokens(expression)
        self._next = 0
        self._depth = 0

    def whole(self) -> Evaluate:
        found = self._truth(self._disjunction())
        if self._peek():
            raise self._wrong("the end, AND or OR")
        return found

    def _disjunction(self) -> Expression:
        parts = [self._conjunction()]
        while self._accept("OR"):
            parts.append(self._conjunction())
        return parts[0] if len(parts) == 1 else any_of([self._truth(part) for part in parts])

    def _conjunction(self) -> Expression:
        parts = [self._equality()]
        while self._accept("AND"):
            parts.append(self._equality())
        return parts[0] if len(parts) == 1 else all_of([self._truth(part) for part in parts])

    def _equality(self) -> Expression:
        left = self._comparison()
        for _ in range(MAX_DEPTH):
            if self._accept("="):
                left = equal(self._equatable(left), self._equatable(self._comparison()))
            elif self._accept("<>"):
                left = negation(equal(self._equatable(left), self._equatable(self._comparison())).evaluate)
            elif self._accept("IS"):
                negated = self._accept("NOT")
                self._expect("NULL")
                left = is_null(left.evaluate, negated=negated)
            else:
                break
        return left

    def _comparison(self) -> Expression:
        left = self._unary()
        for _ in range(MAX_DEPTH):
            word = self._peek()
            if word not in COMPARISONS and word not in SEARCHES and word not in {"BETWEEN", "IN", "NOT"}:
                break
            if word in COMPARISONS:
                self._next += 1
                left = compared(COMPARISONS[word], self._comparable(left), self._comparable(self._unary()))
                continue
            negated = self._accept("NOT")
            word = self._peek()
            self._next += 1
            if word in SEARCHES:
                left = search(SEARCHES[word], left.evaluate, self._text(), negated=negated)
            elif word == "BETWEEN":
                left = self._between(left, negated=negated)
            elif word == "IN":
                left = within(self._property(left), self._texts(), negated=negated)
            else:
                self._next -= 1
                raise self._wrong("BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH")
        return left

    def _between(self, value: Expression, *, negated: bool) -> Expression:
        low = self._comparable(self._unary())
        self._expect("AND")
        high = self._comparable(self._unary())
        if (
            isinstance(low.literal, int | float)
            and isinstance(high.literal, int | float)
            and low.literal > high.literal
        ):
            raise SubscriptionError(f"BETWEEN {low.literal} AND {high.literal}: the first must not be the larger one")
        value = self._comparable(value)
        if negated:
            return any_of([compared(less, value, low).evaluate, compared(greater, value, high).evaluate])
        return all_of([compared(at_least, value, low).evaluate, compared(at_most, value, high).evaluate])

    def _unary(self) -> Expression:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise SubscriptionError(f"the filter is nested more than {MAX_DEPTH} levels deep")
        try:
            if self._accept("+"):
                return self._unary()
            if self._accept("-"):
                return negative(self._unary())
            if self._accept("NOT"):
                return negation(self._truth(self._unary()))
            return self._primary()
        finally:
            self._depth -= 1

    def _primary(self) -> Expression:
        if self._accept("("):
            inner = self._disjunction()
            self._expect(")")
            return inner
        kind, token = self._tokens[self._next] if self._next < len(self._tokens) else ("", "")
        self._next += 1
        if kind == "text":
            return constant(Kind.TEXT, text_of(token))
        if kind == "float":
            return constant(Kind.NUMBER, float(token))
        if kind == "integer":
            return constant(Kind.NUMBER, int(token.rstrip("lL")))
        if kind == "word":
            truth = {"TRUE": True, "FALSE": False}.get(token)
            return named(token) if truth is None else constant(Kind.TRUTH, truth)
        self._next -= 1
        raise self._wrong("a property, a number, a text or (")

    # What the grammar asks of an operand

    def _truth(self, expression: Expression) -> Evaluate:
        if expression.kind in {Kind.TRUTH, Kind.NULL}:
            return expression.evaluate
        if expression.kind is Kind.PROPERTY:  # a property is a text, never a truth value
            return lambda look: None if expression.evaluate(look) is None else False
        raise SubscriptionError(f"{expression.literal!r} is no condition: compare it with a property")

    def _equatable(self, expression: Expression) -> Expression:
        if expression.kind is Kind.NULL:
            raise SubscriptionError("NULL cannot be compared: write IS NULL or IS NOT NULL")
        return expression

    def _comparable(self, expression: Expression) -> Expression:
        if expression.kind in {Kind.PROPERTY, Kind.NUMBER}:
            return expression
        raise SubscriptionError("<, <=, >, >= and BETWEEN compare numbers and properties only")

    def _property(self, expression: Expression) -> Evaluate:
        if expression.kind is not Kind.PROPERTY:
            raise SubscriptionError("IN needs a property on its left")
        return expression.evaluate

    # Tokens

    def _peek(self) -> str:
        return self._tokens[self._next][1] if self._next < len(self._tokens) else ""

    def _accept(self, token: str) -> bool:
        found = self._peek() == token
        self._next += found
        return found

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            raise self._wrong(token)

    def _text(self) -> str:
        kind, token = self._tokens[self._next] if self._next < len(self._tokens) else ("", "")
        if kind != "text":
            raise self._wrong("a text in single quotes")
        self._next += 1
        return text_of(token)

    def _texts(self) -> frozenset[str]:
        self._expect("(")
        texts = {self._text()}
        while self._accept(","):
            texts.add(self._text())
        self._expect(")")
        return frozenset(texts)

    def _wrong(self, wanted: str) -> SubscriptionError:
        found = self._peek()
        return SubscriptionError(f"the filter has {found[:40]!r} where {wanted} is expected" if found else
                                 f"the filter ends where {wanted} is expected")  # fmt: skip


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
