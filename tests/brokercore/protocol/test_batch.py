"""Batch bodies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokercore.protocol.errors import MessageFormatError
from brokercore.protocol.message import BatchMessage, encode_batch, iterate_batch

MESSAGES = st.builds(BatchMessage, st.integers(0, 9), st.binary(max_size=50), st.binary(max_size=50))


@given(st.lists(MESSAGES, max_size=5))
def test_a_batch_comes_back_as_it_was(messages: list[BatchMessage]) -> None:
    assert list(iterate_batch(encode_batch(messages))) == messages


@given(st.lists(MESSAGES, min_size=1, max_size=3), st.data())
def test_a_batch_cut_off_is_refused(messages: list[BatchMessage], data: st.DataObject) -> None:
    body = encode_batch(messages[:1])
    with pytest.raises(MessageFormatError):
        list(iterate_batch(body[: data.draw(st.integers(1, len(body) - 1))]))


@given(st.binary(min_size=1, max_size=100))
def test_arbitrary_bytes_raise_nothing_but_format_errors(data: bytes) -> None:
    try:
        list(iterate_batch(data))
    except MessageFormatError:
        return
