"""Each type of column has its exact value, the same from the log as from a snapshot."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from analytics.inflow.mysql_json import binary_json, json_value
from analytics.inflow.mysql_position import Gtids, Position
from analytics.inflow.mysql_values import decimal_text, geometry, shortest
from tests.inflow.mysql_reading import brief, capture, new_database, read
from tests.support.mariadb import PASSWORD, MariaDbServer, mariadb_server

_SOME_BYTES = bytes(range(256))
_POINT = "ST_GeomFromText('{}')"


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


#: Type, then SQL values with what they become.
TYPES: list[tuple[str, list[tuple[str, Any]]]] = [
    ("TINYINT", [("-128", -128), ("127", 127), ("NULL", None)]),
    ("TINYINT UNSIGNED", [("255", 255), ("0", 0)]),
    ("SMALLINT", [("-32768", -32768)]),
    ("SMALLINT UNSIGNED", [("65535", 65535)]),
    ("MEDIUMINT", [("-8388608", -8388608), ("8388607", 8388607)]),
    ("MEDIUMINT UNSIGNED", [("16777215", 16777215)]),
    ("YEAR", [("1901", 1901), ("2155", 2155), ("0", 0)]),
    ("INT", [("-2147483648", -2147483648)]),
    ("INT(8) UNSIGNED ZEROFILL", [("42", 42), ("4294967295", 4294967295)]),
    ("BIGINT", [("-9223372036854775808", -(2**63))]),
    ("BIGINT UNSIGNED", [("18446744073709551615", 2**64 - 1)]),
    ("BOOLEAN", [("TRUE", 1)]),
    ("DECIMAL(10,2)", [("1.5", "1.50"), ("-0.05", "-0.05"), ("0", "0.00"), ("-99999999.99", "-99999999.99")]),
    ("DECIMAL(65,30)", [("1e-30", "0." + "0" * 29 + "1"), (f"-{'9' * 35}.{'9' * 30}", f"-{'9' * 35}.{'9' * 30}")]),
    ("DECIMAL(5,0)", [("-12345", "-12345")]),
    ("DECIMAL(3,3)", [("0.125", "0.125"), ("-0.125", "-0.125")]),
    ("DECIMAL(18,9)", [("123456789.987654321", "123456789.987654321")]),
    ("DECIMAL(8,2) ZEROFILL", [("7.1", "7.10"), ("0.5", "0.50")]),
    ("FLOAT", [("0.1", 0.1), ("16777216", 16777216.0), ("3.4028234e38", 3.4028235e38), ("-1.17549e-38", -1.17549e-38)]),
    ("DOUBLE", [("0.1", 0.1), ("1.7976931348623157e308", 1.7976931348623157e308), ("1e-5", 1e-5)]),
    ("BIT(1)", [("b'1'", "1")]),
    ("BIT(10)", [("b'1000000001'", "1000000001"), ("b'11'", "0000000011")]),
    ("BIT(64)", [("0xFFFFFFFFFFFFFFFE", "1" * 63 + "0")]),
    ("DATE", [("'2024-02-29'", "2024-02-29"), ("'0000-00-00'", "0000-00-00"), ("'2024-00-10'", "2024-00-10")]),
    ("TIME", [("'-838:59:59'", "-838:59:59"), ("'00:00:01'", "00:00:01")]),
    ("TIME(1)", [("'-00:00:00.5'", "-00:00:00.5"), ("'12:13:14.9'", "12:13:14.9")]),
    ("TIME(2)", [("'-00:00:01.25'", "-00:00:01.25")]),
    ("TIME(6)", [("'-10:11:12.000001'", "-10:11:12.000001"), ("'838:59:59.999999'", "838:59:59.999999")]),
    ("DATETIME", [("'9999-12-31 23:59:59'", "9999-12-31T23:59:59"), ("'0000-00-00'", "0000-00-00T00:00:00")]),
    ("DATETIME(3)", [("'2024-01-02 03:04:05.006'", "2024-01-02T03:04:05.006")]),
    ("DATETIME(6)", [("'1000-01-01 00:00:00.000001'", "1000-01-01T00:00:00.000001")]),
    ("TIMESTAMP NULL", [("'2024-01-02 03:04:05'", "2024-01-02T03:04:05Z"), ("0", "0000-00-00T00:00:00")]),
    ("TIMESTAMP(5) NULL", [("'2038-01-19 03:14:07.99999'", "2038-01-19T03:14:07.99999Z")]),
    ("CHAR(10)", [("'ab  '", "ab"), ("''", ""), ("'😀日本語'", "😀日本語")]),
    ("CHAR(200) CHARACTER SET utf8mb4", [("'😀'", "😀")]),
    ("VARCHAR(300)", [("CONCAT(REPEAT('ä', 299), '\\n')", "ä" * 299 + "\n")]),
    ("VARCHAR(20) CHARACTER SET latin1", [("'€ÄÖÜ'", "€ÄÖÜ"), ("0x81", "\x81")]),
    ("VARCHAR(20) CHARACTER SET cp1251", [("'Привет'", "Привет")]),
    ("VARCHAR(20) CHARACTER SET armscii8", [("'Բար'", "Բար")]),
    ("VARCHAR(20) CHARACTER SET ucs2", [("'日本'", "日本")]),
    ("VARCHAR(20) CHARACTER SET utf16", [("'😀'", "😀")]),
    ("VARCHAR(20) CHARACTER SET sjis", [("'日本'", "日本")]),
    ("VARCHAR(20) CHARACTER SET gbk", [("'中文'", "中文")]),
    ("VARCHAR(20) COLLATE uca1400_ai_ci", [("'ß😀'", "ß😀")]),
    ("TEXT", [("REPEAT('x', 60000)", "x" * 60000)]),
    ("MEDIUMTEXT", [("'😀'", "😀")]),
    ("TINYTEXT", [("'t'", "t")]),
    ("BINARY(4)", [("0xFF00", _b64(b"\xff\0\0\0")), ("0x00000000", _b64(b"\0\0\0\0"))]),
    ("BINARY(255)", [("0x01", _b64(b"\1" + b"\0" * 254))]),
    ("VARBINARY(300)", [(f"0x{_SOME_BYTES.hex()}", _b64(_SOME_BYTES)), ("''", "")]),
    ("BLOB", [(f"0x{_SOME_BYTES.hex()}", _b64(_SOME_BYTES))]),
    ("LONGBLOB", [("REPEAT(0x00, 70000)", _b64(b"\0" * 70000))]),
    ("VARCHAR(1000) COMPRESSED", [("REPEAT('ä', 900)", "ä" * 900), ("'kurz'", "kurz"), ("''", "")]),
    ("BLOB COMPRESSED", [("REPEAT(0xFE, 900)", _b64(b"\xfe" * 900))]),
    ("ENUM('a','it''s','ü')", [("'it''s'", "it's"), ("'ü'", "ü")]),
    ("ENUM('ä','€') CHARACTER SET latin1", [("'€'", "€")]),
    ("SET('z','ä','b')", [("'b,z'", ["z", "b"]), ("''", []), ("'ä'", ["ä"])]),
    ("JSON", [
        ("'{\"a\": [1, 2.5, null, \"😀\"]}'", {"a": [1, 2.5, None, "😀"]}),
        ("'123456789012345678901234567890'", "123456789012345678901234567890"),
        ("'[0.1, 0.12345678901234567890]'", [0.1, "0.12345678901234567890"]),
    ]),
    ("UUID", [
        ("'123e4567-e89b-12d3-a456-426655440000'", "123e4567-e89b-12d3-a456-426655440000"),
        ("'f81d4fae-7dec-41d0-a765-00a0c91e6bf6'", "f81d4fae-7dec-41d0-a765-00a0c91e6bf6"),
        ("'018f2b7c-1111-7abc-8def-0123456789ab'", "018f2b7c-1111-7abc-8def-0123456789ab"),
        ("'00000000-0000-0000-0000-000000000000'", "00000000-0000-0000-0000-000000000000"),
    ]),
    ("INET6", [
        ("'2001:db8::ff00:42:8329'", "2001:db8::ff00:42:8329"),
        ("'::ffff:1.2.3.4'", "::ffff:1.2.3.4"),
        ("'::'", "::"),
    ]),
    ("INET4", [("'192.168.0.0'", "192.168.0.0")]),
    ("POINT", [(_POINT.format("POINT(1.5 -2)"), "POINT(1.5 -2)")]),
    ("GEOMETRY", [
        (_POINT.format("POLYGON((0 0,4 0,4 4,0 0),(1 1,2 1,2 2,1 1))"), "POLYGON((0 0,4 0,4 4,0 0),(1 1,2 1,2 2,1 1))"),
        (_POINT.format("MULTIPOINT(1 2,3 4)"), "MULTIPOINT((1 2),(3 4))"),
        ("ST_GeomFromText('LINESTRING(0 0,1 1)', 4326)", "SRID=4326;LINESTRING(0 0,1 1)"),
        (
            _POINT.format("GEOMETRYCOLLECTION(POINT(1 2),MULTILINESTRING((0 0,1 1),(2 2,3 3)))"),
            "GEOMETRYCOLLECTION(POINT(1 2),MULTILINESTRING((0 0,1 1),(2 2,3 3)))",
        ),
        (_POINT.format("MULTIPOLYGON(((0 0,1 0,1 1,0 0)))"), "MULTIPOLYGON(((0 0,1 0,1 1,0 0)))"),
    ]),
]  # fmt: skip


def _fill(server: MariaDbServer) -> tuple[str, list[dict[str, Any]]]:
    """A table with all types at once, whose order tells a mistake in one from the next; its rows."""
    columns = ", ".join(f"`c{number}` {kind}" for number, (kind, _) in enumerate(TYPES))
    database = new_database(server, f"CREATE TABLE every (id INT PRIMARY KEY, {columns}) ROW_FORMAT=DYNAMIC")
    expected = []
    statements = ["SET SESSION sql_mode = 'ALLOW_INVALID_DATES'", "SET SESSION time_zone = '+00:00'"]
    for row in range(max(len(values) for _, values in TYPES)):
        names, given, wanted = ["id"], [str(row)], {"id": row} | {f"c{number}": None for number in range(len(TYPES))}
        for number, (_, values) in enumerate(TYPES):
            if row < len(values):
                names.append(f"c{number}")
                given.append(values[row][0])
                wanted[f"c{number}"] = values[row][1]
        expected.append(wanted)
        statements.append(f"INSERT INTO every ({', '.join(names)}) VALUES ({', '.join(given)})")
    server.run(*statements, database=database)
    return database, expected


def _assert_equal(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    kinds = {f"c{number}": kind for number, (kind, _) in enumerate(TYPES)}
    different = {
        f"{name} {kinds.get(name)}": (found.get(name, "absent"), value)
        for name, value in wanted.items()
        if found.get(name, "absent") != value or type(found.get(name)) is not type(value)
    }
    assert not different
    assert list(found) == list(wanted)
    json.dumps(found, allow_nan=False).encode()


def _captured(server: MariaDbServer) -> None:
    empty = new_database(server, "CREATE TABLE t (id INT)")
    first = capture(server, empty)
    start = first.position
    first.close()
    database, expected = _fill(server)
    log = capture(server, database, start)
    found = read(log, len(expected))
    log.close()
    for change, wanted in zip(found, expected, strict=True):
        _assert_equal(change.event["data"]["after"], wanted)
    picture = capture(server, database, snapshot=True)
    rows = read(picture, len(expected))
    picture.close()
    for change, wanted in zip(rows, expected, strict=True):
        _assert_equal(change.event["data"]["after"], wanted)


@pytest.mark.process
def test_every_type_has_its_value_in_the_log_and_in_a_snapshot(mariadb: MariaDbServer) -> None:
    _captured(mariadb)


@pytest.mark.process
@pytest.mark.parametrize("metadata", ["MINIMAL", "NO_LOG"])
def test_they_have_it_where_the_log_does_not_describe_its_columns(mariadb: MariaDbServer, metadata: str) -> None:
    mariadb.run(f"SET GLOBAL binlog_row_metadata = {metadata}")
    try:
        _captured(mariadb)
    finally:
        mariadb.run("SET GLOBAL binlog_row_metadata = FULL")


@pytest.mark.process
def test_they_have_it_in_a_compressed_log_without_checksums() -> None:
    with mariadb_server(log_bin_compress="ON", log_bin_compress_min_len="10", binlog_checksum="NONE") as server:
        _captured(server)
        database = new_database(server, "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
        reader = capture(server, database)
        server.run(
            "INSERT INTO t VALUES (1, REPEAT('a', 500))", "UPDATE t SET v = 'b'", "DELETE FROM t", database=database
        )
        old, new = {"id": 1, "v": "a" * 500}, {"id": 1, "v": "b"}
        assert brief(read(reader, 3)) == [("INSERT", None, old), ("UPDATE", old, new), ("DELETE", new, None)]
        reader.close()


@pytest.mark.process
def test_a_second_library_reads_the_same_where_it_reads_right(mariadb: MariaDbServer) -> None:
    """Not what it reads otherwise: zero dates, fractions of negative times, labels in latin1, zeros of BINARY."""
    reader_module = pytest.importorskip("pymysqlreplication")
    from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

    columns = (
        "id INT PRIMARY KEY, d DECIMAL(30,12), b BIGINT UNSIGNED, v VARCHAR(90), f DOUBLE, t DATETIME(4), x BIT(9)"
    )
    database = new_database(mariadb, f"CREATE TABLE t ({columns})")
    reader = capture(mariadb, database)
    file, offset = reader.position.partition(" ")[0].split(":")
    mariadb.run(
        "INSERT INTO t SELECT seq, (CAST(seq AS SIGNED) - 250) * 12345678.90123456, POW(seq, 7), REPEAT('ä', seq % 45),"
        " seq / 7 - 20, '2000-01-01' + INTERVAL seq * 1234567.8901 SECOND, seq FROM seq_0_to_500",
        "UPDATE t SET d = -d WHERE id % 3 = 0",
        "DELETE FROM t WHERE id % 5 = 0",
        database=database,
    )
    settings = {"host": "127.0.0.1", "port": mariadb.port, "user": "root", "password": PASSWORD}
    other = reader_module.BinLogStreamReader(
        connection_settings=settings,
        server_id=4711,
        resume_stream=True,
        log_file=file,
        log_pos=int(offset),
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
        only_schemas=[database],
        enable_logging=False,
    )
    theirs: list[tuple[str, Any, Any]] = []
    for event in other:
        for row in event.rows:
            if isinstance(event, UpdateRowsEvent):
                theirs.append(("UPDATE", _ours(row["before_values"]), _ours(row["after_values"])))
            elif isinstance(event, WriteRowsEvent):
                theirs.append(("INSERT", None, _ours(row["values"])))
            else:
                theirs.append(("DELETE", _ours(row["values"]), None))
    other.close()
    assert brief(read(reader, len(theirs))) == theirs
    reader.close()


def _ours(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"d": f"{row['d']:f}", "t": row["t"].isoformat(timespec="microseconds")[:-2]}


def test_json_keeps_each_number() -> None:
    assert json_value("[1, 18446744073709551615, -9223372036854775809, 1e400, 0.1]") == [
        1,
        18446744073709551615,
        "-9223372036854775809",
        "1e400",
        0.1,
    ]
    assert json_value("no document") == "no document"
    assert json_value('"\\ud83d"') == '"\\ud83d"'  # half of a pair


def test_mysqls_binary_json_is_read() -> None:
    # {"a": 1, "b": [true, "x", 2.5]} as MySQL stores it.
    inner = bytes.fromhex("030018000401000c0d000b0f00") + b"\1x" + b"\0\0\0\0\0\0\4\x40"
    inner = inner.replace(b"\x18\0", len(inner).to_bytes(2, "little"), 1)
    head = 4 + 2 * 4 + 2 * 3
    keys = (head).to_bytes(2, "little") + b"\1\0" + (head + 1).to_bytes(2, "little") + b"\1\0"
    values = b"\5\1\0" + b"\2" + (head + 2).to_bytes(2, "little")
    size = head + 2 + len(inner)
    data = b"\0" + (2).to_bytes(2, "little") + size.to_bytes(2, "little") + keys + values + b"ab" + inner
    assert binary_json(data, decimal_text) == {"a": 1, "b": [True, "x", 2.5]}


def test_what_is_no_geometry_is_base64() -> None:
    assert geometry(b"\0\0\0\0\1") == "AAAAAAE="


def test_a_float_has_its_shortest_digits() -> None:
    assert [shortest(value) for value in (0.10000000149011612, 16777216.0, 3.4028234663852886e38)] == [
        0.1,
        16777216.0,
        3.4028235e38,
    ]


@pytest.mark.parametrize(
    "text",
    [
        "mysql-bin.000012:4711",
        "mysql-bin.000012:4711 0-1-35,2-1-7",
        "log.1.000001:4 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:7",
        "mysql-bin.000012:4711 0-1-35 +3@0-1-36",
        "mysql-bin.000012:4711 +3@mysql-bin.000012:4711",
    ],
)
def test_a_position_is_text_and_back(text: str) -> None:
    assert str(Position.parse(text)) == text


def test_gtids_grow() -> None:
    uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    assert str(Gtids.parse(f"{uuid}:1-5:7").with_done(f"{uuid}:6")) == f"{uuid}:1-7"
    assert str(Gtids.parse("0-1-5").with_done("0-2-6").with_done("1-1-1")) == "0-2-6,1-1-1"
    assert Gtids.parse(f"{uuid}:1-5").packed().hex() == "0100000000000000" + uuid.replace("-", "") + (
        "010000000000000001000000000000000600000000000000"
    )
