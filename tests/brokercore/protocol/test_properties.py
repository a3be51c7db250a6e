"""Property strings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokercore.protocol.errors import MessageFormatError
from brokercore.protocol.properties import decode_properties, encode_properties

WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1)


@given(st.dictionaries(WORDS, WORDS, max_size=6))
def test_properties_come_back_as_they_were(properties: dict[str, str]) -> None:
    assert decode_properties(encode_properties(properties)) == properties


def test_an_entry_without_name_or_value_is_dropped_as_in_java() -> None:
    assert decode_properties("INSTANCE_ID\x01\x02\x01value\x02alone\x02a\x01b\x02") == {"a": "b"}
    assert encode_properties({"INSTANCE_ID": "", "a": "b"}) == b"a\x01b\x02"


def test_the_last_of_a_name_wins_and_the_final_separator_may_be_missing() -> None:
    assert decode_properties("a\x01first\x02a\x01last") == {"a": "last"}


@pytest.mark.parametrize("properties", [{"a\x01": "b"}, {"a": "b\x02"}, {"a": "x" * 32766}])
def test_it_refuses_separators_and_what_is_too_long(properties: dict[str, str]) -> None:
    with pytest.raises(MessageFormatError):
        encode_properties(properties)


def test_it_refuses_bytes_that_are_not_utf8() -> None:
    with pytest.raises(MessageFormatError):
        decode_properties(b"\xff\x01\xfe")
