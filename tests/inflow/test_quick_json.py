"""The quick library's JSON is that of Python's own."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.inflow import quick_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_a_value_is_read_as_it_was_written(value: Any) -> None:
    text = quick_json.dumps(value)
    assert same(quick_json.loads(text), value) and same(json.loads(text), value)


@pytest.mark.parametrize(
    "text",
    [
        "18446744073709551615", "18446744073709551616", "-9223372036854775809", "-0", "-0.0", "1e400", "NaN",
        "[-Infinity]", '"\\ud800"', '{"a": 1, "a": 2}', "0.1", "1E5",
        "0.12345678901234567890", '"12345678901234567890123"',
    ],
)  # fmt: skip
def test_texts_that_the_quick_one_reads_otherwise_or_not(text: str) -> None:
    assert same(quick_json.loads(text.encode()), json.loads(text))


def refuse(name: str) -> None:
    raise ValueError(name)


@given(VALUES)
def test_a_text_that_may_be_handed_on_is_json_for_every_reader(value: Any) -> None:
    text = quick_json.dumps(value)
    found, is_text = quick_json.read(text)
    assert same(found, value)
    assert is_text or re.search(rb"\d{19}", text)
    assert same(json.loads(text.decode(), parse_constant=refuse), value)


@pytest.mark.parametrize("text", [b"NaN", b'{"a":-Infinity}', b'"\\ud800"'])
def test_a_text_that_some_readers_refuse_may_not_be_handed_on(text: bytes) -> None:
    assert quick_json.read(text)[1] is False


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"{'a': 1}"])
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):
        quick_json.loads(text)


def test_what_no_text_can_hold_is_refused() -> None:
    with pytest.raises(ValueError):
        quick_json.dumps("\ud800")


def same(one: Any, other: Any) -> bool:
    """Equal in value and type, all the way down."""
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    return repr(one) == repr(other)
