"""Patterns of LIKE."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.statements.like import is_like


@pytest.mark.parametrize(
    ("name", "like", "expected"),
    [
        ("flights", "flights", True),
        ("flights", "FL%", True),
        ("flights", "%ts", True),
        ("flights", "f%g%s", True),
        ("flights", "f%g%g%s", False),
        ("flights", "fl_ghts", True),
        ("flights", "light", False),
        ("a_b", r"a\_b", True),
        ("axb", r"a\_b", False),
        ("a%", r"a\%", True),
        ("aab", "%ab", True),
        ("abab", "%ab", True),
        ("", "", True),
        ("", "%", True),
        ("", "_", False),
        ("a.c", "a.c", True),
        ("abc", "a.c", False),
        ("a\nb", "a%b", True),
    ],
)
def test_it_matches_as_sql_does(name: str, like: str, expected: bool) -> None:
    assert is_like(name, like) is expected


def _slow(name: str, like: str) -> bool:
    if not like:
        return not name
    if like[0] == "%":
        return any(_slow(name[i:], like[1:]) for i in range(len(name) + 1))
    return bool(name) and like[0] in ("_", name[0]) and _slow(name[1:], like[1:])


@given(st.text("ab", max_size=8), st.text("ab%_", max_size=8))
def test_it_agrees_with_the_definition(name: str, like: str) -> None:
    assert is_like(name, like) is _slow(name, like)


def test_a_hostile_pattern_is_answered_at_once() -> None:
    assert not is_like("a" * 5000, "%a" * 200 + "b")
