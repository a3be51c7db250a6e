"""The decoder of PostgreSQL's replication stream, with frames that a server of version 18 sent."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.inflow.pgoutput import (
    UNCHANGED,
    Begin,
    Column,
    Commit,
    Decoded,
    DecodingFailed,
    Delete,
    Insert,
    Keepalive,
    Message,
    Origin,
    Relation,
    Truncate,
    Type,
    Update,
    XLogData,
    decoded,
    epoch_ms,
    frame_of,
    lsn_of,
    lsn_text,
    status_update,
)

COLUMNS = (Column("id", 23, -1, True), Column("m", 16386, -1, False), Column("long", 25, -1, False))
#: The messages, each with the payload that carried it.
MESSAGES: list[tuple[str, Decoded]] = [
    (
        "42" "0000000001af8bd8" "00030420c2a0d320" "000002f5",
        Begin(commit_lsn=28281816, commit_us=848963680916256, xid=757),
    ),
    (
        "43" "00" "0000000001af8bd8" "0000000001af8c08" "00030420c2a0d320",
        Commit(commit_lsn=28281816, end_lsn=28281864, commit_us=848963680916256),
    ),
    ("4f" "0000000000000000" "656c7365776865726500", Origin(0, "elsewhere")),
    ("59" "00004002" "7075626c696300" "6d6f6f6400", Type(16386, "public", "mood")),
    (
        "52" "00004005" "7075626c696300" "7400" "64" "0003" "0169640000000017ffffffff" "006d0000004002ffffffff"
        "006c6f6e670000000019ffffffff",
        Relation(16389, "public", "t", "d", COLUMNS),
    ),
    ("49" "00004005" "4e0003" "740000000137" "6e" "6e", Insert(16389, [b"7", None, None])),
    (
        "55" "00004005" "4e0003" "740000000131" "6e" "75",
        Update(16389, None, old_is_key=False, new=[b"1", None, UNCHANGED]),
    ),
    (
        "55" "00004005" "4b0003" "740000000131" "6e" "6e" "4e0003" "740000000132" "6e" "740000000179",
        Update(16389, [b"1", None, None], old_is_key=True, new=[b"2", None, b"y"]),
    ),
    (
        "55" "00004005" "4f0003" "740000000132" "6e" "740000000179" "4e0003" "740000000132" "6e" "74000000017a",
        Update(16389, [b"2", None, b"y"], old_is_key=False, new=[b"2", None, b"z"]),
    ),
    ("44" "00004005" "4f0003" "740000000132" "6e" "74000000017a", Delete(16389, [b"2", None, b"z"], old_is_key=False)),
    ("44" "00004005" "4b0003" "740000000137" "6e" "6e", Delete(16389, [b"7", None, None], old_is_key=True)),
    ("54" "00000001" "03" "00004005", Truncate((16389,), cascade=True, restart_identity=True)),
    ("4d" "01" "0000000001af8bd8" "61626300" "00000003" "00ff01", Message(True, 28281816, "abc", b"\x00\xff\x01")),
]  # fmt: skip
PAYLOADS = [bytes.fromhex(text) for text, _ in MESSAGES]


@pytest.mark.parametrize(("payload", "message"), MESSAGES, ids=[type(message).__name__ for _, message in MESSAGES])
def test_each_message_is_decoded(payload: str, message: Decoded) -> None:
    assert decoded(bytes.fromhex(payload)) == message


def test_data_is_taken_out_of_its_frame() -> None:
    frame = bytes.fromhex("770000000001af8c080000000001af8c0900030420c2a1ba0543aa")
    assert frame_of(frame) == XLogData(0x1AF8C08, 0x1AF8C09, 0x00030420C2A1BA05, b"\x43\xaa")


def test_a_keepalive_tells_how_far_the_server_is_and_whether_it_waits() -> None:
    assert frame_of(bytes.fromhex("6b0000000001afa3e800030420c2a61f8901")) == Keepalive(
        28287976, 848963681263497, wants_reply=True
    )


def test_a_status_update_tells_what_was_received_and_what_is_kept() -> None:
    update = status_update(written=7, flushed=5, now_ms=946_684_800_123)
    assert struct.unpack(">cqqqqB", update) == (b"r", 7, 5, 5, 123_000, 0)


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: chr(payload[0]))
def test_a_message_that_ends_early_is_refused_wherever_it_ends(payload: bytes) -> None:
    for end in range(len(payload)):
        with pytest.raises(DecodingFailed):
            decoded(payload[:end])


@given(st.sampled_from(PAYLOADS), st.data())
def test_a_message_with_a_wrong_byte_is_decoded_or_refused(payload: bytes, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(0, len(payload) - 1))
    wrong = bytearray(payload)
    wrong[at] = draw.draw(st.integers(0, 255))
    with contextlib.suppress(DecodingFailed):
        decoded(bytes(wrong))


@given(st.binary(max_size=40))
def test_any_bytes_are_a_frame_or_refused(data: bytes) -> None:
    with contextlib.suppress(DecodingFailed):
        frame_of(data)


@pytest.mark.parametrize("letter", [b"S", b"E", b"c", b"A", b"P", b"?", b""])
def test_a_message_of_a_later_version_is_refused(letter: bytes) -> None:
    with pytest.raises(DecodingFailed, match="version 1"):
        decoded(letter + bytes(40))


@given(st.integers(0, 2**64 - 1))
def test_a_position_survives_its_text(lsn: int) -> None:
    assert lsn_of(lsn_text(lsn)) == lsn


def test_a_position_is_written_as_postgresql_does() -> None:
    assert lsn_text(0x1_016B3748) == "1/16B3748"


@pytest.mark.parametrize("text", ["", "0", "/", "0/", "/0", "x/1", "123456789/0", "0/123456789", "0/-1 "])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        lsn_of(text)


def test_times_are_counted_from_1970() -> None:
    assert epoch_ms(0) == 946_684_800_000 and epoch_ms(-1) == 946_684_799_999
