"""SQL92 filter expressions: what passes, what is null, what cannot be read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokercore.protocol.errors import SubscriptionError
from brokercore.protocol.sql92 import MAX_EXPRESSION, parse_sql92

PROPERTIES = {"a": "5", "b": "x", "f": "1.5", "yes": "true", "TAGS": "t1", "quoted": "it's"}


@pytest.mark.parametrize(
    "expression",
    [
        "a > 4", "a>=5", "5 < a or 5 = a", "a > -1", "a > +1", "a = 5L", "f >= 1.5", "f > .5", "f < 15E-1 or f = 1.5",
        "a > 4 AND b = 'x'", "a > f", "a between 1 and 5", "a not between 6 and 7", "a BETWEEN f AND 9",
        "b in ('x','y')", "b NOT IN ('y')", "missing is null", "a IS NOT NULL", "b is not null and b <> 'y'",
        "missing = 1 or a = 5", "not (a = 4)", "not a and a = 5", "yes = TRUE", "yes <> false", "TRUE",
        "TRUE and a = 5",
        "b contains 'x'", "b not contains 'y'", "b startswith 'x'", "b not startswith 'y'", "b endswith 'x'",
        "TAGS is not null and TAGS in ('t1', 't2')", "quoted = 'it''s'",
        "a = 5 -- a comment", "a /* a comment */ = 5", "((a = 5))", "a = 5 and not (b = 'y' or a = 6)",
    ],
)  # fmt: skip
def test_what_passes(expression: str) -> None:
    assert parse_sql92(expression)(PROPERTIES)


@pytest.mark.parametrize(
    "expression",
    [
        "a > 5", "a = 6", "b = 'y'", "a not between 1 and 5", "b not in ('x')", "a is null", "missing is not null",
        # A comparison with null is null, and its negation too.
        "missing = 1", "missing <> 1", "not missing = 1", "missing > 1", "missing in ('x')", "missing not in ('x')",
        "missing = 1 and a = 5", "not (b = 'y' or missing = 'z')",
        "missing not contains 'x'", "b contains ''", "b not contains ''",
        # Texts that are no numbers keep the whole message out, as RocketMQ's evaluation fails.
        "b > 1", "b > 1 or a = 5", "f = 1", "f = 15",
        # NOT binds to the property alone: a truth value that is compared with a number.
        "not a = 4",
        # A property is a text and no truth value.
        "a", "yes = FALSE", "FALSE", "NULL",
    ],
)  # fmt: skip
def test_what_does_not_pass(expression: str) -> None:
    assert not parse_sql92(expression)(PROPERTIES)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("", "ends where"),
        ("a >", "ends where"),
        ("a = 5 garbage", "'garbage' where the end"),
        ("a = NULL", "IS NULL"),
        ("a = 05", "at character 5"),
        ("a = \"x\"", "at character 5"),
        ("a in (1)", "a text in single quotes"),
        ("5 in ('x')", "IN needs a property"),
        ("a in ('x'", "ends where )"),
        ("a between 5 and 1", "must not be the larger"),
        ("'x' > 1", "numbers and properties"),
        ("a > 'x'", "numbers and properties"),
        ("'x'", "no condition"),
        ("a and 5", "no condition"),
        ("-a > 1", "sign -"),
        ("a not null", "BETWEEN, IN"),
        ("a = 99999999999999999999", "too large"),
        ("(" * 101 + "a = 1" + ")" * 101, "nested"),
        ("not " * 101 + "a = 1", "nested"),
        ("a" + " is null" * 101, "the end"),
        ("a = '" + "x" * MAX_EXPRESSION + "'", "characters"),
    ],
)  # fmt: skip
def test_what_cannot_be_read(expression: str, said: str) -> None:
    with pytest.raises(SubscriptionError, match=said.replace("(", r"\(").replace(")", r"\)")):
        parse_sql92(expression)


def test_a_long_chain_is_evaluated_without_recursion() -> None:
    assert parse_sql92(" or ".join(["a = 1"] * 249 + ["a = 5"]))(PROPERTIES)
    assert not parse_sql92(" and ".join(["a = 5"] * 249 + ["a = 1"]))(PROPERTIES)


WORDS = st.sampled_from(
    ["a", "b", "missing", "1", "2.5", "'x'", "''", "NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS",
     "CONTAINS", "(", ")", ",", "=", "<>", "<", "<=", ">", ">=", "+", "-", "--", "/*", "*/"]
)  # fmt: skip


@given(st.lists(WORDS, max_size=24).map(" ".join) | st.text(max_size=60))
def test_any_text_is_a_filter_or_an_error(expression: str) -> None:
    try:
        passes = parse_sql92(expression)
    except SubscriptionError:
        return
    assert passes(PROPERTIES) in (True, False)
    assert passes({}) in (True, False)
