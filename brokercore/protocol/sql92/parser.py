"""The grammar: what binds loosest is read first."""

from __future__ import annotations

from collections.abc import Callable

from brokercore.protocol.errors import SubscriptionError
from brokercore.protocol.sql92.expressions import (
    COMPARISONS,
    Evaluate,
    Expression,
    Kind,
    all_of,
    any_of,
    at_least,
    at_most,
    compared,
    constant,
    equal,
    greater,
    is_null,
    less,
    named,
    negation,
    negative,
    search,
    within,
)
from brokercore.protocol.sql92.tokens import text_of, tokens

MAX_DEPTH = 100
"""Parentheses, NOTs and signs inside each other, and comparisons in a row."""

SEARCHES: dict[str, Callable[[str, str], bool]] = {
    "CONTAINS": str.__contains__,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


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
        while self._take("OR"):
            parts.append(self._conjunction())
        return parts[0] if len(parts) == 1 else any_of([self._truth(part) for part in parts])

    def _conjunction(self) -> Expression:
        parts = [self._equality()]
        while self._take("AND"):
            parts.append(self._equality())
        return parts[0] if len(parts) == 1 else all_of([self._truth(part) for part in parts])

    def _equality(self) -> Expression:
        left = self._comparison()
        for _ in range(MAX_DEPTH):
            if self._take("="):
                left = equal(self._equatable(left), self._equatable(self._comparison()))
            elif self._take("<>"):
                left = negation(equal(self._equatable(left), self._equatable(self._comparison())).evaluate)
            elif self._take("IS"):
                negated = self._take("NOT")
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
            negated = self._take("NOT")
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
            if self._take("+"):
                return self._unary()
            if self._take("-"):
                return negative(self._unary())
            if self._take("NOT"):
                return negation(self._truth(self._unary()))
            return self._primary()
        finally:
            self._depth -= 1

    def _primary(self) -> Expression:
        if self._take("("):
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

    def _take(self, token: str) -> bool:
        found = self._peek() == token
        self._next += found
        return found

    def _expect(self, token: str) -> None:
        if not self._take(token):
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
        while self._take(","):
            texts.add(self._text())
        self._expect(")")
        return frozenset(texts)

    def _wrong(self, wanted: str) -> SubscriptionError:
        found = self._peek()
        return SubscriptionError(f"the filter has {found[:40]!r} where {wanted} is expected" if found else
                                 f"the filter ends where {wanted} is expected")  # fmt: skip
