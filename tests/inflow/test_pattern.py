"""Event patterns: what each operator lets pass, what is refused and how, and that a plain second reading agrees."""

from __future__ import annotations

import json
import math
import time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from analytics.inflow.pattern import MAX_DEPTH, MAX_TEXT, MAX_VALUES, Pattern, PatternError
from tests.inflow.pattern_reference import passes

CHANGE = {
    "specversion": "1.0",
    "id": "1",
    "source": "dts:shop",
    "type": "dts:Change",
    "subject": "public.orders",
    "data": {
        "operation": "UPDATE",
        "schemaName": None,
        "tableName": "orders",
        "primaryKey": {"id": 7},
        "before": {"state": "new", "amount": 5, "note": ""},
        "after": {
            "state": "paid",
            "amount": 7.5,
            "tags": ["gift", "eu"],
            "lines": [{"sku": "a"}, {"sku": "b", "n": 2}],
        },
        "snapshot": False,
    },
}
NOTHING = object()


def matches(item: object, value: object) -> bool:
    """Whether a field of this value passes an array with this one item."""
    pattern = Pattern.compile(json.dumps({"a": [item]}))
    event = {} if value is NOTHING else {"a": value}
    answer = pattern.matches(event)
    assert bool(pattern.explain(event)) != answer
    assert passes(pattern.text, event) == answer
    return answer


def refused(text: object) -> str:
    with pytest.raises(PatternError) as caught:
        Pattern.compile(text if isinstance(text, str) else json.dumps(text))
    assert caught.value.user_message == str(caught.value)
    assert str(caught.value).count("\n") == 0
    return str(caught.value)


@pytest.mark.parametrize(
    ("item", "good", "bad"),
    [
        ("a", ["a", ["b", "a"], [[["a"]]]], ["A", "aa", "", 1, None, {}, [], {"a": "a"}, NOTHING]),
        ("", ["", [""]], [" ", None, [], False, NOTHING]),
        (None, [None, [1, None]], ["null", "", 0, False, [], NOTHING]),
        (True, [True], [False, 1, 1.0, "true", NOTHING]),
        (False, [False], [True, 0, None, "", NOTHING]),
        (1, [1, 1.0, [0, 1]], [True, "1", 2, 1.5, math.nan, NOTHING]),
        (1.0, [1, 1.0], [True, 10**400]),
        (0, [0, -0.0], [False, None]),
        (2**53 + 1, [2**53 + 1], [2**53, float(2**53)]),
        ({"prefix": "a."}, ["a.", "a.b", ["x", "a.c"]], ["a", "A.b", ".a.", 1, None, NOTHING, {"a.": 1}]),
        ({"prefix": ""}, ["", "x"], [1, None, NOTHING]),
        ({"suffix": ".z"}, [".z", "y.z"], ["z", ".z.", ".Z", 5, NOTHING]),
        ({"contains": "x"}, ["x", "axb"], ["X", "", None, ["X"], NOTHING]),
        ({"anything-but": "a"}, ["b", "", None, 1, True, ["a", "b"], {}], ["a", ["a"], [], ["a", ["a"]], NOTHING]),
        ({"anything-but": 1}, [2, "1", True], [1, 1.0, NOTHING]),
        ({"anything-but": None}, ["", 0, {"x": 1}], [None, NOTHING]),
        ({"anything-but": ["a", 1, True]}, ["b", 2, False, None], ["a", 1, 1.0, True, NOTHING]),
        ({"anything-but": {"prefix": "a"}}, ["b", "", "A", 1, None], ["a", "ab", NOTHING]),
        ({"numeric": [">", 0, "<=", 5]}, [5, 0.1, 5.0, [9, 1]], [0, 5.01, -1, "1", True, None, math.nan, NOTHING]),
        ({"numeric": ["=", 5]}, [5, 5.0], [4, "5", [4], 10**400]),
        ({"numeric": [">=", 5]}, [5, 6, math.inf, 10**400], [4.9, math.nan]),
        ({"numeric": ["<", 5, ">", 4]}, [4.5], [4, 5]),
        ({"numeric": [">=", 5, "<=", 5]}, [5], [4, 6]),
        ({"cidr": "10.0.0.0/24"}, ["10.0.0.0", "10.0.0.255"],
         ["10.0.1.0", "10.0.0", "10.0.0.0/24", "::a00:0", "x", "", "1" * 10_000, 167772160, NOTHING]),
        ({"cidr": "0.0.0.0/0"}, ["255.255.255.255"], ["::1", "010.0.0.1", "１.1.1.1"]),
        ({"cidr": "2001:db8::/32"}, ["2001:db8::1", "2001:DB8:0:0::1"], ["2001:db9::1", "10.0.0.1"]),
        ({"exists": True}, [1, None, "", [], {}, False], [NOTHING]),
        ({"exists": False}, [NOTHING], [1, None, "", [], {}, False]),
        ({"exists": True, "prefix": "a"}, ["a"], ["b", NOTHING]),
        ({"prefix": "a", "suffix": "z"}, ["az", "abz"], ["a", "z", ["ab", "yz"]]),
        ({"anything-but": "abc", "prefix": "a"}, ["ab"], ["abc", "b"]),
    ],
)  # fmt: skip
def test_each_operator_lets_its_values_pass(item: object, good: list[object], bad: list[object]) -> None:
    assert [value for value in good if not matches(item, value)] == []
    assert [value for value in bad if matches(item, value)] == []


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ({}, True),
        ({"data": {"tableName": ["orders"]}}, True),
        ({"data": {"tableName": ["customers", "orders"], "operation": ["INSERT", "UPDATE"]}}, True),
        ({"data": {"tableName": ["orders"], "operation": ["INSERT"]}}, False),
        ({"data": {"tableName": ["customers", {"prefix": "ord"}], "after": {"amount": [{"numeric": [">", 7]}]}}}, True),
        ({"data": {"schemaName": [None], "snapshot": [False]}}, True),
        ({"data": {"before": {"note": [""]}}}, True),
        ({"data": {"before": {"missing": [""]}}}, False),
        ({"data": {"after": {"tags": ["eu"]}}}, True),
        ({"data": {"before": [{"anything-but": None}]}}, True),
        # One element matches as a whole, not each field by another.
        ({"data": {"after": {"lines": {"sku": ["b"], "n": [2]}}}}, True),
        ({"data": {"after": {"lines": {"sku": ["a"], "n": [2]}}}}, False),
        ({"data": {"after": {"lines": {"n": [{"exists": False}]}}}}, True),
        # What is no object has no fields.
        ({"none": {"at": {"all": [{"exists": False}]}}}, True),
        ({"none": {"at": [{"exists": False}], "b": [1]}}, False),
        ({"data": {"schemaName": {"x": [{"exists": False}]}}}, True),
        ({"data": {"tableName": {"x": [{"exists": True}]}}}, False),
        ({"data": {"after": {"tags": [{"exists": False}, "gift"]}}}, True),
    ],
)
def test_a_pattern_selects_by_the_shape_of_the_event(pattern: dict[str, Any], expected: bool) -> None:
    text = json.dumps(pattern)
    assert Pattern.compile(text).matches(CHANGE) is expected
    assert passes(text, CHANGE) is expected


def test_an_empty_pattern_lets_every_object_pass_and_nothing_else() -> None:
    for text in ("{}", "", " \n"):
        assert Pattern.compile(text).matches({})
        assert Pattern.compile(text).matches(CHANGE)
        assert not Pattern.compile(text).matches([CHANGE])
    assert Pattern.compile("{}").explain([]) == [("", "An event is an object, not an array.")]


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        ("{", "Line 1, column 2: the pattern is no JSON there: expecting property name enclosed in double quotes."),
        ('{"a":\n ["x",]}', "Line 2, column 7: the pattern is no JSON there: "),
        ("{} {}", "Line 1, column 4: the pattern is no JSON there: extra data."),
        ("\ufeff{}", "Line 1, column 1: the pattern is no JSON there: "),
        ("[1]", "A pattern is a JSON object of fields, not an array."),
        ("null", "A pattern is a JSON object of fields, not null."),
        ({"data": {"tableName": "orders"}},
         'data.tableName: a field has an array of values, such as ["a"], or an object of fields, not a text.'),
        ({"data": None},
         'data: a field has an array of values, such as ["a"], or an object of fields, not null.'),
        ({"data": {}}, 'data: an object has at least one field; to ask for the field itself write [{"exists": true}].'),
        ({"data": {"a": []}}, "data.a: an array has at least one value."),
        ({"a": [["x"]]},
         "a[0]: a value is a text, a number, true, false, null or an object of operators, not an array."),
        ({"a": ["x", {}]},
         "a[1]: an object in an array has an operator: prefix, suffix, contains, anything-but, numeric, cidr, exists."),
        ({"a": [{"wildcard": "x"}]},
         'a[0]: "wildcard" is no operator; there are prefix, suffix, contains, anything-but, numeric, cidr, exists.'),
        ({"data": {"tableName": [{"prefix": 5}]}},
         'data.tableName[0].prefix: prefix takes a text, such as "a.", not a number.'),
        ({"a": [{"suffix": None}]}, 'a[0].suffix: suffix takes a text, such as ".z", not null.'),
        ({"a": [{"contains": ["x"]}]}, 'a[0].contains: contains takes a text, such as "x", not an array.'),
        ({"a": [{"anything-but": []}]}, "a[0].anything-but: the list of anything-but has at least one value."),
        ({"a": [{"exists": 1}]}, "a[0].exists: exists is true or false, not a number."),
        ({"a": [{"exists": False, "prefix": "a"}]},
         "a[0].exists: a field that is missing has no value, so false stands without other operators."),
        ({"a": [{"numeric": 5}]},
         'a[0].numeric: numeric takes one comparison or two, such as [">", 0] or [">", 0, "<=", 5].'),
        ({"a": [{"numeric": [">"]}]}, "a[0].numeric: numeric takes one comparison or two"),
        ({"a": [{"numeric": ["!=", 5]}]}, 'a[0].numeric[0]: a comparison is one of =, <, <=, >, >=, not "!=".'),
        ({"a": [{"numeric": [">", "5"]}]}, "a[0].numeric[1]: this is a number, not a text."),
        ({"a": [{"numeric": [">", True]}]}, "a[0].numeric[1]: this is a number, not true."),
        ({"a": [{"numeric": [">", 1, ">", 2]}]},
         "a[0].numeric: two comparisons are a lower bound (> or >=) and an upper one (< or <=)."),
        ({"a": [{"numeric": ["=", 1, "=", 1]}]}, "a[0].numeric: two comparisons are a lower bound"),
        ({"a": [{"numeric": [">", 5, "<", 0]}]}, "a[0].numeric: no number is > 5 and < 0."),
        ({"a": [{"numeric": [">=", 5, "<", 5]}]}, "a[0].numeric: no number is >= 5 and < 5."),
        ({"a": [{"cidr": "10.0.0.1/24"}]},
         'a[0].cidr: "10.0.0.1/24" begins inside of a block; the block is "10.0.0.0/24".'),
        ({"a": [{"cidr": "10.0.0.0"}]},
         'a[0].cidr: cidr takes a block of addresses, such as "10.0.0.0/24", not "10.0.0.0".'),
        ({"a": [{"cidr": "10.0.0.0/33"}]}, 'a[0].cidr: "10.0.0.0/33" is no block of addresses; one is "10.0.0.0/24".'),
        ({"a": [{"cidr": "10.0.0.0/255.255.255.0"}]}, "a[0].cidr: cidr takes a block of addresses"),
        ({"a": [{"cidr": 10}]}, "a[0].cidr: cidr takes a block of addresses"),
        ('{"a": {"b": [1], "b": [2]}}', 'a: the name "b" stands twice in one object.'),
        ('{"a": [1], "a": [2]}', 'The name "a" stands twice in one object.'),
        ('{"a": [{"prefix": "a", "prefix": "b"}]}', 'a[0]: the name "prefix" stands twice in one object.'),
        ('{"a": [NaN]}', "a[0]: a number is finite and of the range of a double, up to 1.79e308."),
        ('{"a": [1e999]}', "a[0]: a number is finite"),
        ('{"a": [{"numeric": [">", ' + "9" * 309 + "]}]}", "a[0].numeric[1]: a number is finite"),
        ('{"a": [' + "9" * 10_000 + "]}", "a[0]: a number is finite"),
        ({"": {"x y": "v"}}, '[""]["x y"]: a field has an array of values'),
    ],
)  # fmt: skip
def test_each_mistake_is_refused_with_one_sentence_that_says_where(pattern: object, sentence: str) -> None:
    said = refused(pattern)
    assert said.startswith(sentence)
    assert said.endswith(".")


@pytest.mark.parametrize(
    ("operand", "sentence"),
    [
        ({"suffix": "a"}, ": the object of anything-but has the one operator prefix"),
        ({}, ": the object of anything-but has the one operator prefix"),
        ({"prefix": 1}, '.prefix: prefix takes a text, such as "a.", not a number.'),
        ([["a"]], "[0]: a value is a text, a number"),
        ([{"prefix": "a"}], "[0]: a list of anything-but has texts, numbers, true, false and null, not an object."),
    ],
)
def test_anything_but_takes_values_or_a_prefix(operand: object, sentence: str) -> None:
    assert refused({"a": [{"anything-but": operand}]}).startswith("a[0].anything-but" + sentence)


def test_the_place_of_bad_json_and_the_path_of_a_bad_part_are_known_apart_from_the_sentence() -> None:
    with pytest.raises(PatternError) as caught:
        Pattern.compile('{"a":\n[}')
    assert (caught.value.line, caught.value.column, caught.value.path) == (2, 2, "")
    with pytest.raises(PatternError) as caught:
        Pattern.compile('{"a": {"b": [{"prefix": 1}]}}')
    assert (caught.value.line, caught.value.column, caught.value.path) == (None, None, "a.b[0].prefix")


def nested(levels: int) -> str:
    return '{"a":' * (levels - 1) + "[1]" + "}" * (levels - 1)


def test_size_depth_and_number_of_values_are_bounded() -> None:
    assert Pattern.compile(nested(MAX_DEPTH)).matches(json.loads(nested(MAX_DEPTH)))
    assert refused(nested(MAX_DEPTH + 1)) == "The pattern is nested deeper than 32 levels."
    assert refused("[" * 60_000) == "The pattern is nested deeper than 32 levels."
    assert Pattern.compile(json.dumps({"a": [*range(MAX_VALUES)]})).matches({"a": MAX_VALUES - 1})
    assert refused({"a": [*range(MAX_VALUES + 1)]}) == "The pattern has 2,001 values; at most 2,000 are allowed."
    assert Pattern.compile('{"a":["' + "x" * (MAX_TEXT - 10) + '"]}').matches({"a": "x" * (MAX_TEXT - 10)})
    assert (
        refused('{"a":["' + "ä" * (MAX_TEXT // 2) + '"]}')
        == "The pattern has 65,546 bytes; at most 65,536 are allowed."
    )


def test_sentences_stay_short_and_can_be_shown_whatever_the_names_are() -> None:
    for name in ("x" * 50_000, "\ud800", "\x00\x1b[31m", "\u202e", "a\nb"):
        said = refused('{"a": ' + json.dumps({name: 1}) + "}")
        assert len(said.encode()) < 300
        assert said.isprintable() or "\u202e" in name
    pattern = Pattern.compile(json.dumps({"a": ["y" * 5_000, *map(str, range(100))]}))
    ((path, said),) = pattern.explain({"a": "\ud800" + "z" * 100_000})
    assert path == "a"
    assert len(said.encode()) < 600


def test_explain_names_each_part_that_says_no() -> None:
    pattern = Pattern.compile(
        json.dumps(
            {
                "type": ["dts:Change"],
                "subject": [{"prefix": "sales."}, "x", None],
                "data": {
                    "operation": ["INSERT"],
                    "missing": [1],
                    "snapshot": [{"exists": False}],
                    "before": {"amount": [{"numeric": [">", 5, "<=", 9]}], "note": [{"anything-but": ["", "x"]}]},
                    "after": {"lines": {"sku": ["c"]}, "tags": ["us"]},
                },
            }
        )
    )
    assert pattern.explain(CHANGE) == [
        ("subject", 'The event has "public.orders" there; allowed is a text that begins with "sales." or "x" or null.'),
        ("data.operation", 'The event has "UPDATE" there; allowed is "INSERT".'),
        ("data.missing", "The event has no such field; allowed is 1."),
        ("data.snapshot", "The event has false there; allowed is no such field."),
        ("data.before.amount", "The event has 5 there; allowed is a number > 5 and <= 9."),
        ("data.before.note", 'The event has "" there; allowed is anything but "" or "x".'),
        ("data.after.lines", "None of the 2 elements of the array matches all fields of the pattern."),
        ("data.after.tags", 'The event has an array there; allowed is "us".'),
    ]
    assert Pattern.compile('{"a": {"b": [1]}}').explain({"a": [[{"b": 2}]]}) == [
        ("a.b", "The event has 2 there; allowed is 1.")
    ]


def test_events_without_end_are_no_danger() -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    assert Pattern.compile('{"a": ["x"]}').matches({"a": deep})
    assert not Pattern.compile('{"a": {"x": ["x"]}}').matches({"a": deep})
    assert Pattern.compile('{"a": {"x": ["x"]}}').explain({"a": deep}) == [
        ("a.x", 'The event has no such field; allowed is "x".')
    ]
    pattern = Pattern.compile('{"a": [{"numeric": ["<", 5]}, {"cidr": "10.0.0.0/8"}, 1]}')
    assert not pattern.matches({"a": [10**5000, math.nan, math.inf, object(), b"10.0.0.1", "%" * 10**6, {"a": 1}]})
    assert pattern.explain({"a": 10**5000})[0][1].startswith("The event has a long number there")
    assert pattern.explain({"a": object()})[0][1].startswith("The event has something that JSON has not there")
    # Many values on both sides: values to equal are looked up together.
    wide = Pattern.compile(json.dumps({"a": [*map(str, range(MAX_VALUES))]}))
    begin = time.monotonic()
    assert not wide.matches({"a": ["x"] * 200_000})
    assert time.monotonic() - begin < 10


TEXTS = st.sampled_from(["", "a", "b", "ab", "ba", "1", "10.0.0.1", "10.0.0.200", "::1", "A", "é"])
NUMBERS = st.sampled_from([0, 1, 1.0, -1, 2, 0.5, 2**53, 2**53 + 1, float(2**53), 1e300])
PLAIN = TEXTS | NUMBERS | st.sampled_from([None, True, False])
NAMES = st.sampled_from(["a", "b", "c"])
RANGES = st.tuples(st.sampled_from([">", ">="]), NUMBERS, st.sampled_from(["<", "<="]), NUMBERS).filter(
    lambda r: r[1] < r[3] or (r[1] == r[3] and r[0] + r[2] == ">=<=")
)
OPERATORS: dict[str, st.SearchStrategy[Any]] = {
    "prefix": TEXTS,
    "suffix": TEXTS,
    "contains": TEXTS,
    "anything-but": PLAIN | st.lists(PLAIN, min_size=1, max_size=3) | st.fixed_dictionaries({"prefix": TEXTS}),
    "numeric": st.tuples(st.sampled_from(["=", "<", "<=", ">", ">="]), NUMBERS) | RANGES,
    "cidr": st.sampled_from(["10.0.0.0/24", "10.0.0.0/25", "0.0.0.0/0", "::/64", "10.0.0.1/32"]),
    "exists": st.just(True),
}
CONDITIONS = st.just({"exists": False}) | st.fixed_dictionaries({}, optional=OPERATORS).filter(bool)
ITEMS = st.lists(PLAIN | CONDITIONS, min_size=1, max_size=3)
PATTERNS = st.recursive(ITEMS, lambda inner: st.dictionaries(NAMES, inner, min_size=1, max_size=3), max_leaves=6)
EVENTS = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=12
)


@settings(max_examples=1_000, deadline=None)
@given(st.dictionaries(NAMES, PATTERNS, max_size=3), st.dictionaries(NAMES, EVENTS, max_size=3))
@example({"a": {"b": [{"exists": False}]}}, {"a": [[], []]})
@example({"a": {"b": [{"exists": False}]}}, {"a": [[[]], {"b": 1}]})
@example({"a": {"b": [{"exists": False}]}}, {"a": []})
def test_a_plain_second_reading_agrees(pattern: dict[str, Any], event: dict[str, Any]) -> None:
    text = json.dumps(pattern)
    compiled = Pattern.compile(text)
    answer = compiled.matches(event)
    assert answer == passes(text, event)
    reasons = compiled.explain(event)
    assert (reasons == []) == answer
    assert all(path and said.endswith(".") for path, said in reasons)


@settings(max_examples=500, deadline=None)
@given(
    st.recursive(
        PLAIN | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(NAMES | st.sampled_from([*OPERATORS, "exists"]) | st.text(max_size=3), inner, max_size=3)
        ),
        max_leaves=10,
    ).map(json.dumps)
    | st.text(max_size=40)
    | st.text(alphabet='{}[]":,0123456789.eE+-ntrufalse ', max_size=60)
)
def test_any_text_is_compiled_or_refused_with_a_sentence(text: str) -> None:
    try:
        pattern = Pattern.compile(text)
    except PatternError as error:
        said = str(error)
        assert said.endswith(".")
        assert "\n" not in said
        said.encode()
    else:
        pattern.explain(CHANGE)
