"""Events of a binary log, read from bytes; no I/O, and nothing of what values mean.

Anything that could hold a row change and is not understood raises `Unreadable`: skipping it would lose the change.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID

HEADER_BYTES = 19
_HEADER = struct.Struct("<IBIIIH")
_CHECKSUM_BYTES = 4
_IGNORABLE = 0x80
_STANDALONE = 1
"""Flag of MariaDB's GTID event: the transaction is one statement, which has no end of its own."""
_BITS = (0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80)


class Unreadable(Exception):  # noqa: N818
    """The log holds something that cannot be read; the message says what."""


class Kind(IntEnum):
    """Types of events, by their numbers in a log."""

    QUERY = 2
    STOP = 3
    ROTATE = 4
    INTVAR = 5
    RAND = 13
    USER_VAR = 14
    FORMAT = 15
    XID = 16
    BEGIN_LOAD = 17
    EXECUTE_LOAD = 18
    TABLE_MAP = 19
    WRITE_1 = 23
    UPDATE_1 = 24
    DELETE_1 = 25
    INCIDENT = 26
    HEARTBEAT = 27
    IGNORABLE = 28
    ROWS_QUERY = 29
    WRITE_2 = 30
    UPDATE_2 = 31
    DELETE_2 = 32
    GTID = 33
    ANONYMOUS_GTID = 34
    PREVIOUS_GTIDS = 35
    TRANSACTION_CONTEXT = 36
    VIEW_CHANGE = 37
    XA_PREPARE = 38
    PARTIAL_UPDATE = 39
    PAYLOAD = 40
    HEARTBEAT_2 = 41
    TAGGED_GTID = 42
    MARIADB_ANNOTATE = 160
    MARIADB_CHECKPOINT = 161
    MARIADB_GTID = 162
    MARIADB_GTID_LIST = 163
    MARIADB_START_ENCRYPTION = 164
    MARIADB_QUERY_COMPRESSED = 165
    MARIADB_WRITE_1 = 166
    MARIADB_UPDATE_1 = 167
    MARIADB_DELETE_1 = 168
    MARIADB_WRITE_2 = 169
    MARIADB_UPDATE_2 = 170
    MARIADB_DELETE_2 = 171


_COMPRESSED = {*range(Kind.MARIADB_WRITE_1, Kind.MARIADB_DELETE_2 + 1)}
_WITH_EXTRA = {Kind.WRITE_2, Kind.UPDATE_2, Kind.DELETE_2, *range(Kind.MARIADB_WRITE_2, Kind.MARIADB_DELETE_2 + 1)}
INSERTS = {Kind.WRITE_1, Kind.WRITE_2, Kind.MARIADB_WRITE_1, Kind.MARIADB_WRITE_2}
UPDATES = {Kind.UPDATE_1, Kind.UPDATE_2, Kind.MARIADB_UPDATE_1, Kind.MARIADB_UPDATE_2}
DELETES = {Kind.DELETE_1, Kind.DELETE_2, Kind.MARIADB_DELETE_1, Kind.MARIADB_DELETE_2}
ROWS = INSERTS | UPDATES | DELETES
_REFUSED = {
    Kind.INCIDENT: "an incident: the server itself lost changes here",
    Kind.PARTIAL_UPDATE: "parts of JSON documents (binlog_row_value_options = PARTIAL_JSON)",
    Kind.PAYLOAD: "a compressed transaction (binlog_transaction_compression = ON)",
    Kind.TAGGED_GTID: "a GTID with a tag",
}


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its `body` is without header and checksum."""

    kind: Kind
    seconds: int
    """Time of the server, seconds since 1970."""
    size: int
    end: int
    """Offset in the file behind it; 0 for what the server made up for this reader."""
    body: bytes
    server_id: int = 0
    """Of the server where it was made."""


class Framing:
    """Packets of a dump into events. Checksums are as the current file has them, and are verified."""

    def __init__(self) -> None:
        self._has_checksum = False

    def event(self, packet: bytes) -> Event | None:
        """The event of a packet without its leading status byte; None for what holds no change. Raises Unreadable."""
        seconds, number, server_id, size, end, flags = _HEADER.unpack_from(packet)
        try:
            kind = Kind(number)
        except ValueError:
            if flags & _IGNORABLE:
                return None
            raise Unreadable(f"an event of type {number} at {end - size}") from None
        if kind in _REFUSED:
            raise Unreadable(_REFUSED[kind])
        body = packet[HEADER_BYTES:]
        if kind is Kind.FORMAT:
            self._has_checksum = body[-_CHECKSUM_BYTES - 1] == 1
            body = body[:-_CHECKSUM_BYTES]
        elif kind is Kind.ROTATE:  # made up, it comes before any format, and has a sum if the last file had
            body = body[:-_CHECKSUM_BYTES] if _sum_fits(packet) else body
        elif self._has_checksum:
            if not _sum_fits(packet):
                raise Unreadable(f"an event with a wrong checksum at {end - size}")
            body = body[:-_CHECKSUM_BYTES]
        return Event(kind, seconds, size, end, body, server_id)


def _sum_fits(packet: bytes) -> bool:
    view = memoryview(packet)
    return zlib.crc32(view[:-_CHECKSUM_BYTES]) == int.from_bytes(view[-_CHECKSUM_BYTES:], "little")


def rotation(body: bytes) -> tuple[str, int]:
    """File and offset of what follows."""
    return body[8:].decode(), int.from_bytes(body[:8], "little")


def is_start_of_server(body: bytes) -> bool:
    """Whether a FORMAT event was written as the server started: a transaction that was open then has no end."""
    return int.from_bytes(body[52:56], "little") != 0


@dataclass(frozen=True, slots=True)
class Begin:
    """The start of a transaction. `gtid` is empty where the server numbers none, `micros` 0 where it tells no time."""

    gtid: str
    is_standalone: bool
    micros: int


def mariadb_begin(event: Event) -> Begin:
    """Read MariaDB's GTID event; the number of the server is that of the event."""
    number, domain, flags = struct.unpack_from("<QIB", event.body)
    return Begin(f"{domain}-{event.server_id}-{number}", bool(flags & _STANDALONE), 0)


def mysql_begin(event: Event) -> Begin:
    """Read MySQL's GTID event, or that of a transaction without one."""
    body = event.body
    gtid = f"{UUID(bytes=body[1:17])}:{int.from_bytes(body[17:25], 'little')}" if event.kind is Kind.GTID else ""
    micros = 0
    if len(body) >= 49:  # since 8.0.1: when it was committed here and, if it came from elsewhere, there
        micros = int.from_bytes(body[42:49], "little")
        if micros >> 55 and len(body) >= 56:
            micros = int.from_bytes(body[49:56], "little")
        micros &= (1 << 55) - 1
    return Begin(gtid, False, micros)


def query(event: Event) -> tuple[str, str]:
    """The database in use and the text of a statement."""
    body = event.body
    schema_length, variables_length = body[8], int.from_bytes(body[11:13], "little")
    at = 13 + (13 if event.kind is Kind.EXECUTE_LOAD else 0) + variables_length
    schema = body[at : at + schema_length].decode("utf-8", "replace")
    text = body[at + schema_length + 1 :]
    if event.kind is Kind.MARIADB_QUERY_COMPRESSED:
        text = _inflated(text)
    return schema, text.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class TableMap:
    """A table as rows after it are written. What only a full description tells is empty where there is none."""

    table_id: int
    schema: str
    table: str
    types: tuple[int, ...]
    metas: tuple[int, ...]
    """Of each column what its type needs: lengths, decimals, sizes."""
    names: tuple[str, ...] = ()
    key: tuple[int, ...] = ()
    extra: bytes = b""
    """The rest of the description, for `descriptions`."""


def table_id(body: bytes) -> int:
    """The number that a table map and the rows after it share."""
    return int.from_bytes(body[:6], "little")


def names_of_table(body: bytes) -> tuple[str, str]:
    """Schema and table of a table map."""
    at = 9 + body[8]
    return body[9:at].decode(), body[at + 2 : at + 2 + body[at + 1]].decode()


def table_map(body: bytes) -> TableMap:
    """Read a table map. Raises Unreadable."""
    schema, table = names_of_table(body)
    at = 9 + body[8]
    count, at = lenenc(body, at + 3 + body[at + 1])
    types = list(body[at : at + count])
    meta_length, at = lenenc(body, at + count)
    metas, block = [], body[at : at + meta_length]
    used = 0
    for index, number in enumerate(types):
        length = _META_BYTES.get(number, 0)
        meta = block[used : used + length]
        used += length
        # A string's first byte is its real type, an enum or a set perhaps, and two bits of its length.
        if number == 254:
            real = meta[0]
            if real in (247, 248):
                types[index], metas_value = real, meta[1]
            else:
                metas_value = (((real << 4) & 0x300) ^ 0x300) + meta[1]
        elif number == 246:
            metas_value = (meta[0] << 8) | meta[1]
        else:
            metas_value = int.from_bytes(meta, "little")
        metas.append(metas_value)
    if used != meta_length:
        raise Unreadable(f"columns of an unknown type in {schema}.{table} (types {sorted(set(types))})")
    extra = body[at + meta_length + (count + 7) // 8 :]
    names: list[str] = []
    key: list[int] = []
    for tag, value in descriptions(extra):
        if tag == 4:
            names = [name.decode() for name in _strings(value)]
        elif tag == 8:
            key = _numbers(value)
        elif tag == 9:
            key = _numbers(value)[::2]  # each with the length of its prefix
    return TableMap(table_id(body), schema, table, tuple(types), tuple(metas), tuple(names), tuple(key), extra)


#: Bytes that each type has in a table map's block of metadata.
_META_BYTES = {
    **dict.fromkeys((4, 5, 17, 18, 19, 140, 242, 245, 252, 255, 249, 250, 251), 1),
    **dict.fromkeys((15, 16, 141, 246, 247, 248, 253, 254), 2),
}
_NUMERIC = frozenset({1, 2, 3, 4, 5, 8, 9, 13, 246})
_CHARACTER = frozenset({15, 252, 253, 254, 140, 141})
_GEOMETRY = 255
_ENUM, _SET = 247, 248


@dataclass(frozen=True, slots=True)
class Description:
    """What a table map's optional part tells of one column; None where it tells nothing."""

    is_unsigned: bool | None = None
    collation: int | None = None
    labels: tuple[bytes, ...] | None = None
    """Of an enum or a set, in the column's own character set."""


def described(table: TableMap, *, is_mariadb: bool) -> list[Description]:
    """Spread the optional part of a table map over its columns."""
    types = table.types
    numeric = [i for i, number in enumerate(types) if number in _NUMERIC]
    # MariaDB counts a geometry among the blobs here.
    text = [i for i, number in enumerate(types) if number in _CHARACTER or (is_mariadb and number == _GEOMETRY)]
    labelled = [i for i, number in enumerate(types) if number in (_ENUM, _SET)]
    unsigned: dict[int, bool] = {}
    collations: dict[int, int] = {}
    labels: dict[int, tuple[bytes, ...]] = {}
    for tag, value in descriptions(table.extra):
        if tag == 1:
            unsigned = {i: bool(value[n >> 3] & (0x80 >> (n & 7))) for n, i in enumerate(numeric)}
        elif tag in (2, 10):
            default, *pairs = _numbers(value)
            others = dict(zip(pairs[::2], pairs[1::2], strict=True))
            of = text if tag == 2 else labelled
            collations |= {i: others.get(n, default) for n, i in enumerate(of)}
        elif tag in (3, 11):
            collations |= dict(zip(text if tag == 3 else labelled, _numbers(value), strict=True))
        elif tag in (5, 6):
            of = [i for i in labelled if types[i] == (_SET if tag == 5 else _ENUM)]
            labels |= dict(zip(of, _label_lists(value), strict=True))
    return [Description(unsigned.get(i), collations.get(i), labels.get(i)) for i in range(len(types))]


def descriptions(extra: bytes) -> Iterator[tuple[int, bytes]]:
    """The parts of a table map's optional end: a number for what it is, and its bytes."""
    at = 0
    while at < len(extra):
        tag = extra[at]
        length, at = lenenc(extra, at + 1)
        yield tag, extra[at : at + length]
        at += length


def _numbers(value: bytes) -> list[int]:
    numbers, at = [], 0
    while at < len(value):
        number, at = lenenc(value, at)
        numbers.append(number)
    return numbers


def _strings(value: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(value):
        length, at = lenenc(value, at)
        yield value[at : at + length]
        at += length


def _label_lists(value: bytes) -> Iterator[tuple[bytes, ...]]:
    at = 0
    while at < len(value):
        count, at = lenenc(value, at)
        labels = []
        for _ in range(count):
            length, at = lenenc(value, at)
            labels.append(value[at : at + length])
            at += length
        yield tuple(labels)


def lenenc(data: bytes, at: int) -> tuple[int, int]:
    """An integer of one to nine bytes, and the offset behind it."""
    first = data[at]
    if first < 251:
        return first, at + 1
    length = {252: 2, 253: 3, 254: 8}[first]
    return int.from_bytes(data[at + 1 : at + 1 + length], "little"), at + 1 + length


@dataclass(frozen=True, slots=True)
class Rows:
    """The images of an event: `data` from `start` on, and the columns that each image has."""

    data: bytes
    start: int
    columns: tuple[int, ...]
    columns_after: tuple[int, ...]
    """Of an update's second image; else empty."""


def rows(event: Event) -> Rows:
    """Read what stands before the images of an event with rows."""
    body, at = event.body, 8
    if event.kind in _WITH_EXTRA:
        at += int.from_bytes(body[8:10], "little")
    count, at = lenenc(body, at)
    width = (count + 7) // 8
    columns = _present(body, at, count)
    after: tuple[int, ...] = ()
    at += width
    if event.kind in UPDATES:
        after = _present(body, at, count)
        at += width
    if event.kind in _COMPRESSED:
        return Rows(_inflated(body[at:]), 0, columns, after)
    return Rows(body, at, columns, after)


def _present(body: bytes, at: int, count: int) -> tuple[int, ...]:
    return tuple(i for i in range(count) if body[at + (i >> 3)] & _BITS[i & 7])


def _inflated(data: bytes) -> bytes:
    """MariaDB's compressed events: a byte that counts those of the length, the length, and zlib's bytes."""
    if data[0] & 0x70:
        raise Unreadable("an event that is compressed in an unknown way")
    return zlib.decompress(data[1 + (data[0] & 0x07) :])
