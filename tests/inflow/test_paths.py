"""JSONPath into events: what it finds, and that no path costs more than its length times the event."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.inflow.paths import MAX_PATH, MISSING, Path

EVENT: dict[str, Any] = {
    "a": {"b": 1, "x y": None, "": "empty"},
    "rows": [{"n": 1, "t": "u"}, {"n": 2, "t": ["v"]}, {"n": 3}],
    "é": True,
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("$", EVENT),
        ("$.a.b", 1),
        ("$['a'][\"x y\"]", None),
        ("$.a['']", "empty"),
        ("$.é", True),
        ("$.rows[0].n", 1),
        ("$.rows[-1].n", 3),
        ("$.rows[3]", MISSING),
        ("$.rows[-4]", MISSING),
        ("$.rows.n", MISSING),
        ("$.a[0]", MISSING),
        ("$.a.b.c", MISSING),
        ("$.no", MISSING),
        ("$.rows[*].n", [1, 2, 3]),
        ("$.rows[1:].n", [2, 3]),
        ("$.rows[::-1].n", [3, 2, 1]),
        ("$..n", [1, 2, 3]),
        ("$..t[0]", ["v"]),
        ("$.rows[?@.n > 1].n", [2, 3]),
        ("$.rows[?@.t == 'u' || length(@.t) == 1 && !@.x].n", [1, 2]),
        ("$.rows[?@.n == $.a.b].t", ["u"]),
        ("$.a['b','x y']", [1, None]),
        ("$.rows[0,2].n", [1, 3]),
        ("$.rows[?@.n > 9]", MISSING),
        ("$..no", MISSING),
    ],
)
def test_a_path_finds_the_value_of_one_place_or_the_values_of_many(path: str, value: object) -> None:
    assert Path.compile(path).find(EVENT) == value


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "a path begins with $, such as $.data.tableName"),
        ("data.a", "a path begins with $"),
        ("$.a-b", "column 4: expected '.', '..' or a bracketed selection, found '-'; other names than words"),
        ("$.a.", "column "),
        ("$['a", "column "),
        ("$.a\ud800", "column "),
        ("$" + ".a" * MAX_PATH, "the path has 2,049 characters; at most 1,024 are allowed"),
        ("$..a..b", ".. stands at most once in a path"),
        ("$..*..*", ".. stands at most once in a path"),
        ("$[*,*]", "in one pair of brackets, several names or numbers may stand, but nothing else beside others"),
        ("$[0,1:]", "in one pair of brackets"),
        ("$['a','a']", "the names or numbers in one pair of brackets must not lead to the same place twice"),
        ("$[1,1]", "the names or numbers in one pair"),
        ("$[0,-1]", "the names or numbers in one pair"),
        ("$[?@.a][?@.b]", "a filter stands at most once in a path"),
        ("$[?@..a]", "in a filter, @..['a'] must name one place, without .., * and filters"),
        ("$[?@.a[?@.b]]", "in a filter, "),
        ("$[?@.a == $..b]", "column "),
        ("$[?count(@.*) > 1]", "the function count() is not offered; length() is"),
        ("$[?match(@.a, '(a*)*b')]", "the function match() is not offered"),
        ("$[?!search(@.a, '(a*)*b')]", "the function search() is not offered"),
        ("$[?length(value(@..a)) > 1]", "the function value() is not offered"),
        ("$[?nothing(@.a)]", "column 4: function 'nothing' is not defined"),
        ("$[?@.a == 1e999]", "the path has a number that is too large"),
        ("$[99999999999999999999]", "column "),
        ("$[?" + "!" * 1000 + "@.a]", "the path is nested too deep"),
        ("$" + "[?@" * 250 + "]" * 250, "the path is nested too deep"),
    ],
)
def test_a_path_that_is_wrong_or_could_cost_too_much_is_refused(path: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        Path.compile(path)
    assert str(caught.value).startswith(reason)
    str(caught.value).encode()


def test_large_and_deep_events_are_searched_in_time_or_refused() -> None:
    wide = {"k" * 1000: [{"a": [1] * 50, "b": {"c": index}} for index in range(2_000)]}
    for path in ("$..c", "$..*", "$.*[*].a[*]", "$..[?@.c == $.none]", "$" + ".*" * 500, "$..[?@ == $]"):
        begin = time.monotonic()
        Path.compile(path).find(wide)
        assert time.monotonic() - begin < 10, path
    assert Path.compile("$.a[0].a").find(deep(5_000)) != MISSING
    for path in ("$..b", "$[?@ == $.a]"):
        with pytest.raises(ValueError, match="nested too deep to be searched by"):
            Path.compile(path).find({"a": deep(5_000)["a"], "b": deep(5_000)["a"]})


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": [value]}
    return value


@settings(max_examples=500, deadline=None)
@given(st.text(alphabet="$.@?*[]()'\"abc0129-:,!=<>&|\\ue ", max_size=30).map(lambda text: "$" + text))
def test_any_text_is_a_path_or_refused(text: str) -> None:
    try:
        path = Path.compile(text)
    except ValueError as error:
        assert "\n" not in str(error)
    else:
        path.find(EVENT)
