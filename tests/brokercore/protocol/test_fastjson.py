"""JSON in fastjson's dialect."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokercore.protocol.errors import LenientJsonError
from brokercore.protocol.fastjson import ObjectKeyed, dumps_object_keyed, dumps_with, loads
from tests.brokercore.protocol import captured

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | FLOATS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.tuples(st.dictionaries(TEXT, VALUES, max_size=3), VALUES), min_size=1, max_size=4))
def test_a_map_with_object_keys_comes_back_as_it_was(entries: list[tuple[dict[str, object], object]]) -> None:
    assert loads(dumps_object_keyed(entries)) == ObjectKeyed(entries)


@given(VALUES)
def test_it_reads_standard_json_like_anybody(value: object) -> None:
    # The object-keyed neighbour forces the lenient parser to read the value.
    read = loads(dumps_with({"value": value}, {"map": b'{{"a":1}:2}'}))
    assert read == {"value": value, "map": [({"a": 1}, 2)]}


def test_it_reads_numeric_keys_as_text() -> None:
    assert loads(captured.CLUSTER_INFO)["brokerAddrTable"]["broker-a"]["brokerAddrs"] == {"0": "127.0.0.2:20911"}


def test_it_reads_spaces_and_escapes() -> None:
    assert loads(' { 1 : "a\\u0001\\n\\"" , "b" : [ ] , "c" : { } , "d" : { [1] : -1.5e3 } } ') == {
        "1": 'a\x01\n"',
        "b": [],
        "c": {},
        "d": [([1], -1500.0)],
    }


@pytest.mark.parametrize(
    "broken",
    [b"", b"{", b"{0}", b'{0:"a', b"{0:1}x", b"{0:tru}", b"[1 2]", b"\xff", b'{0:"\\q"}', b"[" * 100_000, b"{0:-}"],
)
def test_it_refuses_what_fastjson_would_not_read(broken: bytes) -> None:
    with pytest.raises(LenientJsonError):
        loads(broken)


@given(st.text('{}[]:,"0a\\ -.e', max_size=40))
def test_arbitrary_text_raises_nothing_but_its_own_error(text: str) -> None:
    try:
        value = loads(text)
    except LenientJsonError:
        return
    try:
        assert value == orjson.loads(text)
    except orjson.JSONDecodeError:
        return
