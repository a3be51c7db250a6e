"""Patterns of tables come from an account, names from its database: none of them keeps the others' captures waiting.

A regular expression holds the whole process while it searches, so a search that backtracks would stop every capture.
"""

from __future__ import annotations

import time
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.inflow.changes import TablePatterns
from analytics.inflow.mysql_server import matcher

LONGEST_NAME = 63
HOSTILE = ["*" * 8_000, "*a" * 30 + "*b", "*a" * 60 + "b", "*?" * 30 + "b", "*a*b" * 20, "?*" * 30]
#: Seconds for all of them; backtracking takes years.
SOON = 2.0
_TEXTS = st.text("ab*?.\n", min_size=1, max_size=12)
_NAMES = st.text("ab*?[]!\n", min_size=1, max_size=12)


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda text: text[:12])
def test_no_pattern_takes_more_time_than_it_is_long(hostile: str) -> None:
    name, began = "a" * LONGEST_NAME, time.process_time()
    postgres = TablePatterns([f"{hostile}.{hostile}", f"public.{hostile}"] * 50)
    mysql = matcher([f"{hostile}.{hostile}", f"public.{hostile}"] * 50)
    for _ in range(3):
        postgres.match("public", name)
        postgres.match(name, name)
        mysql("public", name)
        mysql(name, name)
    assert time.process_time() - began < SOON


@given(_TEXTS, _NAMES, _NAMES)
def test_the_patterns_mean_what_a_plain_second_reading_says(pattern: str, schema: str, table: str) -> None:
    of_schema, point, of_table = pattern.partition(".")
    if not (of_schema and point and of_table):
        with pytest.raises(ValueError, match="pattern of tables"):
            TablePatterns([pattern])
        return

    def plain(text: str, name: str, single: str) -> bool:
        return fnmatchcase(name, "".join(one if one in f"*{single}" else f"[{one}]" for one in text))

    expected = plain(of_schema, schema, "") and plain(of_table, table, "")
    assert TablePatterns([pattern]).match(schema, table) == expected
    assert matcher([pattern])(schema, table) == (plain(of_schema, schema, "?") and plain(of_table, table, "?"))
