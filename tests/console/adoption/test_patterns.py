"""Patterns of names come from people, and are asked about thousands of names in a process that all accounts share."""

from __future__ import annotations

import time
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.adoption.patterns import MOST, matcher

LONGEST_NAME = 127
HOSTILE = ["*a" * 30 + "*b", "*a" * (MOST // 2 - 1) + "b", "*?" * 30 + "b", "*a*b" * 20, "?*" * 30, "*" * MOST]
#: Seconds of a processor for all names; backtracking takes years.
SOON = 2.0


@pytest.mark.unit
@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda text: text[:12])
def test_no_pattern_takes_more_time_than_it_is_long(hostile: str) -> None:
    began = time.process_time()
    fits = matcher(f"{hostile} {hostile}", hostile)
    for name in ("a" * LONGEST_NAME, "ab" * (LONGEST_NAME // 2)):
        fits(name)
    assert time.process_time() - began < SOON


@pytest.mark.unit
@given(
    st.lists(st.text("ab*?|%", min_size=1, max_size=12), min_size=1, max_size=3),
    st.text("ab|%-", min_size=1, max_size=12),
)
def test_patterns_mean_what_a_plain_second_reading_says(words: list[str], name: str) -> None:
    assert matcher(" ".join(words))(name) == any(fnmatchcase(name, word) for word in words)
