"""Message ids and Java's string hash."""

from __future__ import annotations

import os
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokercore.protocol.errors import MessageFormatError
from brokercore.protocol.ids import java_string_hash, new_unique_id, offset_message_id, parse_offset_message_id


def test_unique_ids_have_32_upper_case_hex_digits_and_differ() -> None:
    ids = [new_unique_id() for _ in range(5000)]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch("[0-9A-F]{32}", item) for item in ids)


def test_a_unique_id_tells_its_time_as_java_reads_it() -> None:
    elapsed_ms = int(new_unique_id()[20:28], 16)
    now = time.localtime()
    month_start = time.mktime((now.tm_year, now.tm_mon, 1, 0, 0, 0, 0, 0, -1))
    assert abs(month_start + elapsed_ms / 1000 - time.time()) < 5


def test_a_forked_child_makes_ids_of_its_own() -> None:
    prefix = new_unique_id()[:20]
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, new_unique_id().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 32).decode()[:20] != prefix


@given(st.ip_addresses().map(str), st.integers(1, 65535), st.integers(0, 2**62))
def test_an_offset_id_comes_back_as_it_was(host: str, port: int, offset: int) -> None:
    message_id = offset_message_id(host, port, offset)
    assert len(message_id) == (56 if ":" in host else 32)
    assert parse_offset_message_id(message_id) == (host, port, offset)


def test_it_reads_a_captured_offset_id() -> None:
    assert parse_offset_message_id("7F000002000051AF00000000000033A0") == ("127.0.0.2", 20911, 13216)


@pytest.mark.parametrize(
    "bad", ["", "7F", "Z" * 32, "7F00000100000000" + "0" * 16, "7F 0 00 1000051AF000000000000033", "F" * 32]
)
def test_it_refuses_what_is_no_offset_id(bad: str) -> None:
    with pytest.raises(MessageFormatError):
        parse_offset_message_id(bad)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("tagA", 3552231), ("tagBatch", -791160896), ("中文", 646394), ("\U0001f600", 1772899)],
)
def test_it_hashes_as_java_does(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected
