"""The protocol without I/O: bytes as the documentation has them, and readers that nothing can break."""

from __future__ import annotations

import codecs
import struct
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mysqlwire.protocol import answers, charsets, commands, handshake, packets, texts
from mysqlwire.protocol import handshake as passwords
from mysqlwire.protocol.answers import Change, Column
from mysqlwire.protocol.charsets import UTF8MB4
from mysqlwire.protocol.commands import Binding
from mysqlwire.protocol.constants import OFFERED, Capability, ColumnType, SessionTrack, Status
from mysqlwire.protocol.errors import PacketError, SqlError, sqlstate
from mysqlwire.protocol.handshake import SignIn, TlsRequest
from mysqlwire.protocol.packets import FULL, Outgoing, Reader
from tests.mysqlwire.client import caching, native

ALL = Capability((1 << 32) - 1)
LATIN1 = charsets.CHARACTER_SETS["latin1"]
NONCE = b"0123456789abcdefghij"


def payloads(data: bytes) -> list[tuple[int, bytes]]:
    """Numbers and payloads of packets."""
    found = []
    while data:
        word = struct.unpack_from("<I", data)[0]
        found.append((word >> 24, data[4 : 4 + (word & FULL)]))
        data = data[4 + (word & FULL) :]
    return found


# --- Packets and fields


@pytest.mark.parametrize(
    ("number", "data"),
    [
        (0, "00"), (250, "fa"), (251, "fcfb00"), (0xFFFF, "fcffff"), (0x10000, "fd000001"), (0xFFFFFF, "fdffffff"),
        (0x1000000, "fe0000000100000000"), (2**64 - 1, "feffffffffffffffff"),
    ],
)  # fmt: skip
def test_lengths_are_written_as_documented(number: int, data: str) -> None:
    assert packets.length(number) == bytes.fromhex(data)
    assert Reader(bytes.fromhex(data)).length() == number


@given(st.lists(st.binary(max_size=300), max_size=300))
def test_packets_are_numbered_round_the_clock(written: list[bytes]) -> None:
    outgoing = Outgoing()
    for payload in written:
        outgoing.add(payload)
    assert payloads(bytes(outgoing.data_to_send())) == [(n % 256, payload) for n, payload in enumerate(written)]
    assert not outgoing.data_to_send()


@pytest.mark.parametrize("size", [FULL - 1, FULL, FULL + 1])
def test_what_is_large_goes_in_several(size: int) -> None:
    outgoing = Outgoing()
    outgoing.add(b"x" * size)
    sent = payloads(bytes(outgoing.data_to_send()))
    assert sum(len(payload) for _, payload in sent) == size
    assert len(sent) == (1 if size < FULL else 2)
    assert len(sent[-1][1]) < FULL


def test_packets_out_of_order_are_not_taken() -> None:
    outgoing = Outgoing()
    outgoing.add(b"greeting")
    outgoing.received(1)
    with pytest.raises(PacketError):
        outgoing.received(1)


CELLS = st.one_of(st.none(), st.text(max_size=300), st.binary(max_size=300), st.integers())


@given(st.lists(st.lists(CELLS, min_size=2, max_size=2), max_size=20))
def test_rows_of_texts_are_read_back(rows: list[list[Any]]) -> None:
    outgoing = Outgoing()
    outgoing.add_rows(rows, "utf-8")
    expected = [[None if cell is None else cell if isinstance(cell, bytes) else str(cell).encode() for cell in row]
                for row in rows]  # fmt: skip
    got = []
    for _, payload in payloads(bytes(outgoing.data_to_send())):
        cells: list[bytes | None] = []
        left = payload
        while left:
            null = left[:1] == b"\xfb"
            reader = Reader(left[1:] if null else left)
            cells.append(None if null else reader.bytes_with_length())
            left = reader.rest()
        got.append(cells)
    assert got == expected


def test_what_a_character_set_lacks_is_a_question_mark() -> None:
    outgoing = Outgoing()
    outgoing.add_rows([("zł", "ok")], "iso8859-1")
    assert outgoing.data_to_send()[4:] == b"\2z?\2ok"


# --- Answers


def test_ok_eof_and_errors_are_written_as_documented() -> None:
    plain = Capability.PROTOCOL_41
    ok = answers.ok(plain, Status.AUTOCOMMIT, charset=UTF8MB4, affected_rows=300, warnings=2)
    assert ok == b"\0\xfc\x2c\1\0\2\0\2\0"
    assert answers.eof(Status.AUTOCOMMIT, warnings=1) == b"\xfe\1\0\2\0"
    assert answers.last(plain, Status.AUTOCOMMIT, charset=UTF8MB4) == b"\xfe\0\0\2\0"
    assert answers.last(plain | Capability.DEPRECATE_EOF, Status.AUTOCOMMIT, charset=UTF8MB4) == b"\xfe\0\0\2\0\0\0"
    problem = SqlError(1146, "no table ł")
    assert answers.error(plain, problem, LATIN1) == b"\xff\x7a\4#42S02no table ?"
    assert answers.error(Capability(0), problem, UTF8MB4) == b"\xff\x7a\4no table \xc5\x82"
    assert (sqlstate(1045), sqlstate(9999), SqlError(1, "x", "01000").state) == ("28000", "HY000", "01000")
    assert answers.prepared(7, columns=0, parameters=2) == b"\0\7\0\0\0\0\0\2\0\0\0\0"


def test_who_tracks_the_session_is_told_what_changed() -> None:
    change = [Change(SessionTrack.SCHEMA, ("test",))]
    told = answers.ok(ALL, Status.AUTOCOMMIT, charset=UTF8MB4, changes=change)
    assert (
        told == b"\0\0\0\2\x40\0\0" + b"\0" + b"\7" + b"\1\5\4test"
    )  # as in the documentation's example of `use test`
    assert answers.ok(OFFERED, Status.AUTOCOMMIT, charset=UTF8MB4, changes=change) == b"\0\0\0\2\0\0\0"


def test_columns_say_what_they_are() -> None:
    text = answers.column(Column("ä"), UTF8MB4, table="t")
    assert text == b"\3def\0\1t\1t\2\xc3\xa4\2\xc3\xa4\x0c" + struct.pack("<HIBHBH", 255, 65_532, 0xFD, 0, 0, 0)
    number = answers.column(Column("n", ColumnType.LONGLONG, 20), LATIN1)
    assert number.endswith(struct.pack("<HIBHBH", 63, 20, 8, 0x8000, 0, 0))
    data = answers.column(Column("b", ColumnType.BLOB, 2**32 - 1), LATIN1)
    assert data.endswith(struct.pack("<HIBHBH", 63, 2**32 - 1, 0xFC, 0x90, 0, 0))
    assert answers.listed_column(Column("b"), UTF8MB4, table="t").endswith(b"\0\0\xfb")
    assert answers.column_count(OFFERED, 300) == b"\xfc\x2c\1"


@pytest.mark.parametrize(
    ("value", "kind", "data"),
    [
        (1, ColumnType.TINY, "01"), (True, ColumnType.TINY, "01"), (-1, ColumnType.SHORT, "ffff"),
        (1, ColumnType.LONG, "01000000"), (-(2**63), ColumnType.LONGLONG, "0000000000000080"),
        (10.2, ColumnType.DOUBLE, "6666666666662440"), (10.25, ColumnType.FLOAT, "00002441"),
        (Decimal("1E+3"), ColumnType.NEWDECIMAL, "0431303030"), ("foo", ColumnType.VAR_STRING, "03666f6f"),
        (b"\0\xff", ColumnType.BLOB, "0200ff"), (date(2010, 10, 17), ColumnType.DATE, "04da070a11"),
        (datetime(2010, 10, 17, 19, 27, 30), ColumnType.DATETIME, "07da070a11131b1e"),  # noqa: DTZ001
        (datetime(2010, 10, 17, 19, 27, 30, 1), ColumnType.DATETIME, "0bda070a11131b1e01000000"),  # noqa: DTZ001
        (datetime(2010, 10, 17), ColumnType.TIMESTAMP, "04da070a11"),  # noqa: DTZ001
        (-timedelta(days=120, hours=19, minutes=27, seconds=30, microseconds=1), ColumnType.TIME,
         "0c0178000000131b1e01000000"),
        (timedelta(days=120, hours=19, minutes=27, seconds=30), ColumnType.TIME, "080078000000131b1e"),
        (timedelta(), ColumnType.TIME, "00"),
    ],
)  # fmt: skip
def test_values_are_written_as_documented(value: object, kind: ColumnType, data: str) -> None:
    assert answers.binary_value(value, kind, "utf-8").hex() == data


@pytest.mark.parametrize(
    ("value", "kind"), [(2**63, ColumnType.LONGLONG), ("x", ColumnType.LONG), ("x", ColumnType.DATE)]
)
def test_what_a_type_cannot_hold_is_an_error(value: object, kind: ColumnType) -> None:
    with pytest.raises(ValueError, match="cannot hold"):
        answers.binary_value(value, kind, "utf-8")


def test_nulls_of_a_row_are_bits_behind_two() -> None:
    columns = [Column(str(n)) for n in range(9)]
    row = answers.binary_row([None, *"1234567", None], columns, "utf-8")
    assert row[:3] == b"\0\x04\x04"
    assert row[3:] == b"".join(b"\1" + str(n).encode() for n in range(1, 8))


# --- Sign-in

#: HandshakeResponse41 of the documentation, with its connection attributes cut to one.
RESPONSE = bytes.fromhex(
    "8da60f00 00000001 08 0000000000000000000000000000000000000000000000 70616d00 14"
    "ab09eef6bcb1322e612314381465 5a88fa1b2c2d 7465737400"
    "6d7973716c5f6e61746976655f70617373776f726400".replace(" ", "")
)


def test_a_sign_in_of_the_documentation_is_read() -> None:
    request = handshake.read_response(RESPONSE, OFFERED, 1000)
    assert isinstance(request, SignIn)
    assert (request.username, request.schema, request.method) == ("pam", "test", "mysql_native_password")
    assert (request.charset.name, request.largest_packet, len(request.scramble)) == ("latin1", 1 << 24, 20)
    assert "scramble" not in repr(request)


def test_a_request_for_tls_is_one() -> None:
    assert handshake.read_response(RESPONSE[:32], OFFERED, 1000) == TlsRequest()


@pytest.mark.parametrize("size", [*range(32), 35, 40, 60])
def test_a_sign_in_that_breaks_off_is_refused(size: int) -> None:
    with pytest.raises(PacketError):
        handshake.read_response(RESPONSE[:size], OFFERED, 1000)


def test_a_sign_in_has_a_size() -> None:
    with pytest.raises(PacketError, match="at most 20 bytes"):
        handshake.read_response(RESPONSE, OFFERED, 20)
    with pytest.raises(PacketError, match="at most 20 bytes"):
        handshake.read_change_user(RESPONSE, OFFERED, UTF8MB4, 20)


@given(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=50),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=50),
    st.binary(max_size=250),
    st.dictionaries(st.text(max_size=20), st.text(max_size=20), max_size=5),
)
def test_changes_of_user_are_read_back(user: str, schema: str, scramble: bytes, attributes: dict[str, str]) -> None:
    pairs = b"".join(packets.with_length(text.encode()) for pair in attributes.items() for text in pair)
    data = (
        user.encode() + b"\0" + bytes([len(scramble)]) + scramble + schema.encode() + b"\0\x2d\0method\0"
        + packets.with_length(pairs)
    )  # fmt: skip
    request = handshake.read_change_user(data, OFFERED, UTF8MB4, 10_000)
    assert (request.username, request.schema, request.scramble) == (user, schema, scramble)
    assert (request.method, request.attributes) == ("method", attributes)


def test_damaged_attributes_refuse_nobody() -> None:
    data = b"user\0\0\0\x2d\0method\0" + b"\5\4ab"
    assert handshake.read_change_user(data, OFFERED, UTF8MB4, 1000).attributes == {}


@given(st.text(min_size=1), st.text(min_size=1))
def test_only_the_password_opens(password: str, other: str) -> None:
    hashes = passwords.DoubleHashes.of(password)
    for method, scramble in ((passwords.NATIVE, native), (passwords.CACHING_SHA2, caching)):
        assert passwords.matches(method, scramble(password, NONCE), NONCE, hashes)
        assert passwords.matches(method, scramble(other, NONCE), NONCE, hashes) == (password == other)
        assert not passwords.matches(method, scramble(password, NONCE), NONCE[::-1], hashes)


@given(st.binary(max_size=64))
def test_no_scramble_opens_for_nobody(scramble: bytes) -> None:
    for method in (*passwords.METHODS, "mysql_clear_password"):
        assert not passwords.matches(method, scramble, NONCE, passwords.NOBODY)


def test_nonces_differ_and_are_letters_and_digits() -> None:
    nonces = {passwords.nonce() for _ in range(100)}
    assert len(nonces) == 100
    assert all(len(nonce) == 20 and nonce.isalnum() for nonce in nonces)
    assert repr(passwords.DoubleHashes.of("x")) == "DoubleHashes()"


# --- Commands

READERS: list[Callable[[bytes], object]] = [
    lambda data: handshake.read_response(data, ALL, 1000),
    lambda data: handshake.read_response(data, OFFERED, 1000),
    lambda data: handshake.read_change_user(data, OFFERED, UTF8MB4, 1000),
    lambda data: commands.read_query(data, OFFERED, UTF8MB4),
    lambda data: commands.read_execution(data, 2, Binding(), OFFERED, UTF8MB4),
    lambda data: commands.read_execution(data, 3, Binding(b"\x0a\0\x0b\0\xfd\0"), Capability(0), LATIN1),
    lambda data: commands.read_field_list(data, UTF8MB4),
    commands.read_long_data,
    commands.read_fetch,
    commands.read_option,
    commands.read_connection_id,
    commands.read_statement_id,
]


@pytest.mark.parametrize("read", READERS)
@given(st.binary(max_size=200))
def test_no_bytes_break_a_reader(read: Callable[[bytes], object], data: bytes) -> None:
    try:
        read(data)
    except ValueError:  # a PacketError is one, and so is a text that is none
        return


def test_the_attributes_of_a_query_are_read() -> None:
    data = b"\1\1\0\1\xfe\0\2n1\2v1select ?"  # as in the documentation: one, of type string
    query = commands.read_query(data, OFFERED, UTF8MB4)
    assert (query.text, query.attributes) == ("select ?", {"n1": "v1"})
    assert commands.read_query(b"select 1", Capability(0), UTF8MB4).text == "select 1"
    with pytest.raises(PacketError, match="at most 128"):
        commands.read_query(b"\xfe" + b"\xff" * 8 + b"\1", OFFERED, UTF8MB4)


@pytest.mark.parametrize(
    ("kind", "sign", "data", "value"),
    [
        (0x01, 0, "ff", -1), (0x01, 0x80, "ff", 255), (0x02, 0, "feff", -2), (0x03, 0x80, "ffffffff", 2**32 - 1),
        (0x08, 0, "ffffffffffffffff", -1), (0x05, 0, "6666666666662440", 10.2), (0x06, 0, "", None),
        (0x0A, 0, "04da070a11", "2010-10-17"), (0x0C, 0, "07da070a11131b1e", "2010-10-17 19:27:30"),
        (0x07, 0, "0bda070a11131b1e01000000", "2010-10-17 19:27:30.000001"), (0x0C, 0, "00", "0000-00-00"),
        (0x0B, 0, "0c0178000000131b1e01000000", "-2899:27:30.000001"), (0x0B, 0, "00", "00:00:00"),
        (0xFD, 0, "03666f6f", "foo"), (0xFC, 0, "00", ""),
    ],
)  # fmt: skip
def test_bound_values_are_read_as_documented(kind: int, sign: int, data: str, value: object) -> None:
    given = b"\0\1\0\0\0" + b"\0\1" + bytes([kind, sign]) + bytes.fromhex(data)
    execution = commands.read_execution(given, 1, Binding(), Capability(0), UTF8MB4)
    assert execution.values == (value,)
    assert not execution.use_cursor


def test_types_are_sent_once_and_kept_in_two_bytes_each() -> None:
    binding = Binding()
    first = b"\0\1\0\0\0" + b"\0\1" + b"\1\x80" + b"\7"
    assert commands.read_execution(first, 1, binding, Capability(0), UTF8MB4).values == (7,)
    assert binding.types == b"\1\x80"
    assert commands.read_execution(b"\1\1\0\0\0" + b"\0\0" + b"\xff", 1, binding, Capability(0), UTF8MB4).values == (
        255,
    )
    assert commands.read_execution(b"\1\1\0\0\0" + b"\1\0", 1, binding, Capability(0), UTF8MB4).values == (None,)
    with pytest.raises(PacketError, match="never sent"):
        commands.read_execution(b"\0\1\0\0\0" + b"\0\0" + b"\7", 1, Binding(), Capability(0), UTF8MB4)
    with pytest.raises(PacketError, match="read-only cursors"):
        commands.read_execution(b"\2\1\0\0\0", 0, Binding(), Capability(0), UTF8MB4)


def test_attributes_of_an_execution_follow_the_parameters() -> None:
    data = b"\x08\1\0\0\0" + b"\2" + b"\0\1" + b"\1\0\0" + b"\xfe\0\1n" + b"\5" + b"\1v"
    execution = commands.read_execution(data, 1, Binding(), OFFERED, UTF8MB4)
    assert (execution.values, execution.attributes) == ((5,), {"n": "v"})


# --- Texts and character sets


@given(st.text(alphabet="'\"`/*-#?;\\ \nax", max_size=60))
def test_reading_texts_front_to_back_never_fails(text: str) -> None:
    count = texts.count_placeholders(text)
    assert texts.bound(text, (1,) * count).count("1") == count
    statement = texts.single(text)
    assert statement is None or text.startswith(statement)


def test_every_character_set_that_can_be_spoken_has_a_codec_of_one_byte_ascii() -> None:
    for charset in charsets.CHARACTER_SETS.values():
        assert charsets.of_collation(charsets.COLLATIONS[charset.default_collation]) == charset
        if charset.speakable:
            assert codecs.lookup(charset.codec)
            assert charset.encode("select 1; -- '") == b"select 1; -- '"


def test_collations_have_the_numbers_of_mysql() -> None:
    known = {
        "big5_chinese_ci": 1, "latin1_swedish_ci": 8, "utf8_general_ci": 33, "utf8mb3_general_ci": 33,
        "utf8mb4_general_ci": 45, "utf8mb4_bin": 46, "utf16_unicode_ci": 101, "ucs2_vietnamese_ci": 151,
        "utf32_unicode_520_ci": 182, "utf8_unicode_ci": 192, "utf8mb4_unicode_ci": 224, "utf8mb4_unicode_520_ci": 246,
        "gb18030_chinese_ci": 248, "utf8mb4_0900_ai_ci": 255, "utf8mb4_vi_0900_ai_ci": 277,
        "utf8mb4_0900_as_cs": 278, "utf8mb4_vi_0900_as_cs": 300, "utf8mb4_ja_0900_as_cs": 303, "utf8mb4_0900_bin": 309,
    }  # fmt: skip
    assert {name: charsets.COLLATIONS[name] for name in known} == known
    assert charsets.spoken(224) is UTF8MB4
    assert charsets.spoken(54) is charsets.spoken(63) is charsets.spoken(9999) is UTF8MB4
    assert charsets.spoken(5) is LATIN1
    assert charsets.character_set("UTF8MB3") is charsets.CHARACTER_SETS["utf8"]
    assert charsets.character_set("klingon") is None
