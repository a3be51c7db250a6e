"""The stream of PostgreSQL's logical replication without I/O: frames of COPY BOTH, and messages of pgoutput.

PostgreSQL's documentation, "Streaming Replication Protocol" and "Logical Replication Message Formats", version 1 of the
protocol: only committed transactions come, one after the other. Positions (LSN) are integers here, times microseconds
since 2000-01-01 UTC. Values are the bytes of their text, None for null, UNCHANGED for what was stored out of line and
did not change.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

#: Milliseconds from 1970-01-01 to 2000-01-01, where PostgreSQL's times begin.
_EPOCH_MS = 946_684_800_000
_LSN = re.compile(r"[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}")
_US_PER_MS = 1000


class DecodingFailed(Exception):  # noqa: N818
    """Bytes that are no frame, or no message of this protocol."""


class _Unchanged(Enum):
    UNCHANGED = "unchanged"


UNCHANGED: Final = _Unchanged.UNCHANGED
"""A value stored out of line (TOAST) that an UPDATE left alone: the log does not have it."""

Value = bytes | None | _Unchanged
Row = list[Value]


# --- Positions and times ----------------------------------------------------------------------------------------------


def lsn_text(lsn: int) -> str:
    """A position as PostgreSQL writes it, such as 0/16B3748."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_of(text: str) -> int:
    """The position that a text tells. Raises ValueError for what is none."""
    if not _LSN.fullmatch(text):
        raise ValueError(f"{text!r} is no position of a PostgreSQL log; one is 0/16B3748.")
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def epoch_ms(microseconds: int) -> int:
    """A time of the stream in milliseconds since 1970."""
    return microseconds // _US_PER_MS + _EPOCH_MS


# --- Frames -----------------------------------------------------------------------------------------------------------


class XLogData(NamedTuple):
    """A message of the output plugin. `start` is where its change stands, 0 for one that belongs to no place."""

    start: int
    end: int
    sent_us: int
    payload: bytes


class Keepalive(NamedTuple):
    """The server has read its log up to `end`, and sent all that it found."""

    end: int
    sent_us: int
    wants_reply: bool


_XLOG_DATA = struct.Struct(">xqqq")
_KEEPALIVE = struct.Struct(">xqq?")
_STATUS = struct.Struct(">cqqqq?")


def frame_of(data: bytes) -> XLogData | Keepalive:
    """What one CopyData message of the server says."""
    kind = data[:1]
    try:
        if kind == b"w":
            start, end, sent_us = _XLOG_DATA.unpack_from(data)
            return XLogData(start, end, sent_us, data[_XLOG_DATA.size :])
        if kind == b"k":
            return Keepalive(*_KEEPALIVE.unpack_from(data))
    except struct.error as error:
        raise DecodingFailed(f"A frame of {len(data)} bytes ends early.") from error
    raise DecodingFailed(f"A frame begins with {kind!r}.")


def status_update(*, written: int, flushed: int, now_ms: int) -> bytes:
    """What the client tells: received up to `written`, and kept up to `flushed`, which the server may forget."""
    return _STATUS.pack(b"r", written, flushed, flushed, (now_ms - _EPOCH_MS) * _US_PER_MS, False)


# --- Messages ---------------------------------------------------------------------------------------------------------


class Begin(NamedTuple):
    """A transaction begins; its commit stands at `commit_lsn`."""

    commit_lsn: int
    commit_us: int
    xid: int


class Commit(NamedTuple):
    """The transaction is complete; its commit ends before `end_lsn`."""

    commit_lsn: int
    end_lsn: int
    commit_us: int


class Origin(NamedTuple):
    """The transaction was replicated to this server from elsewhere."""

    lsn: int
    name: str


class Column(NamedTuple):
    """A column; `in_identity` tells whether it is part of what identifies rows (REPLICA IDENTITY)."""

    name: str
    type_oid: int
    modifier: int
    in_identity: bool


class Relation(NamedTuple):
    """A table as it is from here on. `identity` is d (primary key), i (an index), f (all columns) or n (nothing)."""

    oid: int
    schema: str
    name: str
    identity: str
    columns: tuple[Column, ...]


class Type(NamedTuple):
    """A type that is not built in; of a domain schema and name are those of its base."""

    oid: int
    schema: str
    name: str


class Insert(NamedTuple):
    """A new row."""

    relation: int
    new: Row


class Update(NamedTuple):
    """A changed row. `old` is the row before, with all values (`old_is_key` false) or those of its identity only.

    It is None where the identity is the primary key, or an index, and did not change.
    """

    relation: int
    old: Row | None
    old_is_key: bool
    new: Row


class Delete(NamedTuple):
    """A row that is gone: all of its values, or those of its identity only."""

    relation: int
    old: Row
    old_is_key: bool


class Truncate(NamedTuple):
    """Tables that were emptied by one statement."""

    relations: tuple[int, ...]
    cascade: bool
    restart_identity: bool


class Message(NamedTuple):
    """What pg_logical_emit_message wrote."""

    transactional: bool
    lsn: int
    prefix: str
    content: bytes


Decoded = Begin | Commit | Origin | Relation | Type | Insert | Update | Delete | Truncate | Message


def decoded(payload: bytes) -> Decoded:
    """The message that one XLogData carries. Raises DecodingFailed."""
    try:
        decode = _DECODERS[payload[0]]
    except (IndexError, KeyError):
        raise DecodingFailed(f"A message begins with {payload[:1]!r}, which version 1 does not have.") from None
    try:
        return decode(payload)
    except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
        raise DecodingFailed(f"A message {payload[:1]!r} of {len(payload)} bytes is malformed.") from error


_BEGIN = struct.Struct(">xqqI")
_COMMIT = struct.Struct(">xBqqq")
_OID = struct.Struct(">I")
_COUNT = struct.Struct(">H")
_COLUMN = struct.Struct(">Ii")
_TRUNCATE = struct.Struct(">xIB")
_MESSAGE = struct.Struct(">xBq")
_ROW_AT = 6  # behind the letter, the table's number and the letter of the row
_NULL, _TEXT, _UNCHANGED = b"ntu"


def _begin(data: bytes) -> Begin:
    return Begin(*_BEGIN.unpack(data))


def _commit(data: bytes) -> Commit:
    return Commit(*_COMMIT.unpack(data)[1:])


def _origin(data: bytes) -> Origin:
    name, _ = _string(data, 9)
    return Origin(int.from_bytes(data[1:9], "big"), name)


def _relation(data: bytes) -> Relation:
    (oid,) = _OID.unpack_from(data, 1)
    schema, at = _string(data, 5)
    name, at = _string(data, at)
    identity = chr(data[at])
    (count,) = _COUNT.unpack_from(data, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        flags = data[at]
        column, at = _string(data, at + 1)
        type_oid, modifier = _COLUMN.unpack_from(data, at)
        at += _COLUMN.size
        columns.append(Column(column, type_oid, modifier, bool(flags & 1)))
    # The schema of the built-in tables comes as an empty text.
    return Relation(oid, schema or "pg_catalog", name, identity, tuple(columns))


def _type(data: bytes) -> Type:
    (oid,) = _OID.unpack_from(data, 1)
    schema, at = _string(data, 5)
    name, _ = _string(data, at)
    return Type(oid, schema or "pg_catalog", name)


def _insert(data: bytes) -> Insert:
    (oid,) = _OID.unpack_from(data, 1)
    _expect(data, 5, b"N")
    row, _ = _row(data, _ROW_AT)
    return Insert(oid, row)


def _update(data: bytes) -> Update:
    (oid,) = _OID.unpack_from(data, 1)
    kind = data[5]
    if kind == ord("N"):
        new, _ = _row(data, _ROW_AT)
        return Update(oid, None, False, new)
    _expect(data, 5, b"KO")
    old, at = _row(data, _ROW_AT)
    _expect(data, at, b"N")
    new, _ = _row(data, at + 1)
    return Update(oid, old, kind == ord("K"), new)


def _delete(data: bytes) -> Delete:
    (oid,) = _OID.unpack_from(data, 1)
    _expect(data, 5, b"KO")
    old, _ = _row(data, _ROW_AT)
    return Delete(oid, old, data[5] == ord("K"))


def _truncate(data: bytes) -> Truncate:
    count, options = _TRUNCATE.unpack_from(data)
    relations = struct.unpack_from(f">{count}I", data, _TRUNCATE.size)
    return Truncate(relations, bool(options & 1), bool(options & 2))


def _message(data: bytes) -> Message:
    flags, lsn = _MESSAGE.unpack_from(data)
    prefix, at = _string(data, _MESSAGE.size)
    (size,) = _OID.unpack_from(data, at)
    content = data[at + 4 : at + 4 + size]
    if len(content) != size:
        raise ValueError("the content ends early")
    return Message(bool(flags & 1), lsn, prefix, content)


def _string(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


def _expect(data: bytes, at: int, kinds: bytes) -> None:
    if data[at] not in kinds:
        raise ValueError("a row is missing")


def _row(data: bytes, at: int) -> tuple[Row, int]:
    (count,) = _COUNT.unpack_from(data, at)
    at += 2
    row: Row = []
    append = row.append
    for _ in range(count):
        kind = data[at]
        if kind == _TEXT:
            (size,) = _OID.unpack_from(data, at + 1)
            at += 5
            end = at + size
            append(data[at:end])
            at = end
        elif kind == _NULL:
            append(None)
            at += 1
        elif kind == _UNCHANGED:
            append(UNCHANGED)
            at += 1
        else:
            raise ValueError("a value has an unknown form")
    if at > len(data):  # a slice does not say that it is short
        raise ValueError("a value ends early")
    return row, at


_DECODERS: dict[int, Callable[[bytes], Decoded]] = {
    ord("B"): _begin,
    ord("C"): _commit,
    ord("O"): _origin,
    ord("R"): _relation,
    ord("Y"): _type,
    ord("I"): _insert,
    ord("U"): _update,
    ord("D"): _delete,
    ord("T"): _truncate,
    ord("M"): _message,
}
