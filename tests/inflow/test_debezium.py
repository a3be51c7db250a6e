"""Our records beside those of Debezium's embedded engine, of the same changes of real databases, field by field.

Where ours are other than Debezium's on purpose the tables here say what ours are, and `docs/develop/debezium.md` why.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from analytics.inflow.changes import Capture, Change
from analytics.inflow.debezium import KEY, records
from analytics.inflow.postgres import open_capture
from tests.inflow import mysql_reading
from tests.inflow.databases import Database, listening_postgres
from tests.inflow.debezium import Record, engine, of_mariadb, of_postgres
from tests.support.mariadb import MariaDbServer
from tests.support.patience import Patience
from tests.support.postgres import PostgresServer

pytestmark = [pytest.mark.process, pytest.mark.postgres]
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "develop" / "debezium.md"
_WAIT_S = 20
ABSENT = "a column that Debezium leaves out"


class Differs(NamedTuple):
    """What ours is, and what Debezium's."""

    ours: Any
    theirs: Any
    #: Whether it does in a snapshot too, and not only where changes are followed.
    in_snapshot: bool = True


#: Type, value in SQL, and what differs.
POSTGRES: list[tuple[str, str, Differs | None]] = [
    ("boolean", "true", None),
    ("smallint", "-32768", None),
    ("integer", "2147483647", None),
    ("bigint", "-9223372036854775808", None),
    ("oid", "4294967295", None),
    ("real", "0.1", None),
    ("double precision", "0.1::float8 + 0.2", None),
    ("numeric", "-12345678901234567890123456789.00000000000000000001", None),
    ("numeric(10,4)", "3", None),
    ("numeric", "'NaN'", Differs("NaN", "NAN")),
    ("money", "'-1234.56'", Differs("-$1,234.56", "-1234.56")),
    ("text", "E'tab\\t line\\n \"q\" 😀'", None),
    ("varchar(5)", "'abc'", None),
    ("char(5)", "'ab'", None),
    ("citext", "'AbC'", None),
    ("bytea", "'\\x00ff5c'", None),
    ("date", "'2024-02-29'", None),
    ("date", "'1066-10-14'", None),
    ("time", "'23:59:59.999999'", None),
    ("time(0)", "'12:13:14'", None),
    ("time(3)", "'12:13:14.5'", None),
    ("time", "'24:00'", None),
    ("timetz", "'12:00:00.5+02'", None),
    ("timetz", "'01:00:00+05:30'", None),
    ("timestamp", "'2024-02-29 23:59:59.123456'", None),
    ("timestamp(3)", "'2024-02-29 23:59:59.123'", None),
    ("timestamp(0)", "'1969-12-31 23:59:59'", None),
    ("timestamp", "'-infinity'", None),
    ("timestamp", "'infinity'", None),
    ("timestamptz", "'2024-02-29 23:59:59.5+01'", None),
    ("timestamptz(3)", "'2024-02-29 23:59:59.5+01'", None),
    ("timestamptz(0)", "'2024-02-29 23:59:59+01'", None),
    ("interval", "'1 year 2 months 3 days 04:05:06.7'", None),
    ("interval", "'-1 day'", None),
    ("uuid", "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", None),
    ("json", "'{\"a\": [1, 2.5, null, \"😀\"]}'", Differs('{"a":[1,2.5,null,"😀"]}', '{"a": [1, 2.5, null, "😀"]}')),
    ("jsonb", "'{\"b\":true}'", Differs('{"b":true}', '{"b": true}')),
    ("jsonb", "'\"text\"'", None),
    ("jsonb", "'null'", Differs(None, "null")),
    ("hstore", "'a=>1'", None),
    ("mood", "'glad'", None),
    ("positive", "5", None),
    ("int4range", "'[1,5]'", None),
    ("tstzrange", "'[2024-01-01 00:00+00,)'", None),
    ("bit(1)", "B'1'", None),
    ("bit(12)", "B'000100000101'", None),
    ("bit varying", "B'1'", None),
    ("inet", "'192.168.0.1/24'", None),
    ("cidr", "'2001:db8::/32'", None),
    ("macaddr", "'08:00:2b:01:02:03'", None),
    ("point", "'(1.5,2)'", None),
    ("tsvector", "'a fat cat'", None),
    ("ltree", "'a.b'", None),
    ("int[]", "'{1,NULL,3}'", None),
    ("text[]", "ARRAY['a', NULL, '', 'x,y']", None),
    ("bool[]", "'{t,f}'", None),
    ("float8[]", "'{1.5}'", None),
    ("numeric(5,2)[]", "'{1.5}'", None),
    ("uuid[]", "'{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11}'", None),
    ("date[]", "'{2024-02-29}'", None),
    ("timestamp[]", "'{2024-02-29 23:59:59.5}'", None),
    ("timestamptz[]", "'{2024-01-01 00:00:00+00}'", None),
    ("jsonb[]", "ARRAY['\"a\"'::jsonb]", None),
    ("int[][]", "'{{1,2},{3,4}}'", Differs([[1, 2], [3, 4]], [None, None])),
    ("xid8", "'18446744073709551615'", Differs(18446744073709551615, ABSENT)),
    ("interval[]", "'{1 day}'", Differs([86_400_000_000], ABSENT)),
    ("polygon", "'((0,0),(1,1),(1,0))'", Differs("((0,0),(1,1),(1,0))", ABSENT)),
    ("place", "ROW('a b', 2)", Differs('("a b",2)', ABSENT)),
    ("int4multirange", "'{[1,3)}'", Differs("{[1,3)}", ABSENT)),
    ("pg_lsn", "'0/16B3748'", Differs("0/16B3748", ABSENT)),
]  # fmt: skip
_MADE = (
    "CREATE EXTENSION hstore",
    "CREATE EXTENSION citext",
    "CREATE EXTENSION ltree",
    "CREATE TYPE mood AS ENUM ('very sad', 'glad')",
    "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
    "CREATE TYPE place AS (name text, number int)",
)
MARIADB: list[tuple[str, str, Differs | None]] = [
    ("TINYINT", "-128", None),
    ("TINYINT UNSIGNED", "255", None),
    ("SMALLINT UNSIGNED", "65535", None),
    ("MEDIUMINT", "-8388608", None),
    ("INT UNSIGNED", "4294967295", None),
    ("BIGINT", "-9223372036854775808", None),
    ("BIGINT UNSIGNED", "18446744073709551615", Differs(18446744073709551615, -1)),
    ("BOOLEAN", "TRUE", None),
    ("YEAR", "2155", None),
    ("DECIMAL(10,2)", "-0.05", None),
    ("DECIMAL(65,30)", "1e-30", None),
    ("FLOAT", "0.1", None),
    ("DOUBLE", "0.1", None),
    ("BIT(1)", "b'1'", None),
    ("BIT(10)", "b'1000000001'", None),
    ("BIT(10)", "b'11'", None),
    ("BIT(64)", "0xFFFFFFFFFFFFFFFE", None),
    ("DATE", "'2024-02-29'", None),
    ("DATE", "'1066-10-14'", None),
    ("TIME", "'-838:59:59'", None),
    ("TIME(1)", "'-00:00:00.5'", None),
    ("TIME(6)", "'838:59:58.999999'", None),
    ("DATETIME", "'9999-12-31 23:59:59'", None),
    ("DATETIME(3)", "'2024-01-02 03:04:05.006'", None),
    ("DATETIME(6)", "'1969-01-01 00:00:00.000001'", None),
    ("TIMESTAMP NULL", "'2024-01-02 03:04:05'", None),
    ("TIMESTAMP(3) NULL", "'2024-01-02 03:04:05.506'", None),
    ("TIMESTAMP(5) NULL", "'2038-01-19 03:14:07.99999'", None),
    ("CHAR(10)", "'ab  '", None),
    ("VARCHAR(300)", "'ä😀\\n'", None),
    ("VARCHAR(20) CHARACTER SET latin1", "'€ÄÖÜ'", None),
    ("TEXT", "REPEAT('x', 60000)", None),
    ("BINARY(4)", "0xFF00", None),
    ("VARBINARY(30)", "0x00ff5c", None),
    ("BLOB", "0x00ff5c", None),
    ("ENUM('a','it''s','ü')", "'it''s'", None),
    ("SET('z','ä','b')", "'b,z'", None),
    ("SET('z','ä','b')", "''", None),
    ("JSON", "'{\"a\": [1, 2.5]}'", Differs('{"a":[1,2.5]}', '{"a": [1, 2.5]}')),
    ("UUID", "'123e4567-e89b-12d3-a456-426655440000'", Differs(
        "123e4567-e89b-12d3-a456-426655440000", "0000123e-4567-e89b-12d3-a45642665544", in_snapshot=False)),
    ("POINT", "ST_GeomFromText('POINT(1.5 -2)')", None),
    ("LINESTRING", "ST_GeomFromText('LINESTRING(0 0,1 1)')", Differs("LINESTRING(0 0,1 1)", {
        "wkb": "AQIAAAACAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAPA/AAAAAAAA8D8=", "srid": None})),
]  # fmt: skip
#: Of `source`: what is other in each record, and what is only in rows of before.
_OTHER = {"version", "name", "sequence", "ts_us", "ts_ns"}
_OF_BINLOG = {"connector", "pos", "row"}


@pytest.fixture(scope="module")
def listening() -> Iterator[PostgresServer]:
    """A server that JDBC can reach, and that waits for who reads nothing while the other engine starts."""
    with listening_postgres("wal_sender_timeout=0") as server:
        yield server


def ours_of(changes: list[Change]) -> list[Record]:
    """Our records: of changes as the log of events has them."""
    found = []
    for change in changes:
        for record in records(json.loads(json.dumps(change.event))):
            key = record.pop(KEY, None)
            found.append(Record(None if key is None else json.loads(key), json.loads(json.dumps(record))))
    return found


def next_changes(capture: Capture, count: int) -> list[Change]:
    """The next changes, confirmed."""
    found: list[Change] = []
    patience = Patience(_WAIT_S, 1)
    while len(found) < count:
        found += capture.changes(1)
        assert not patience.is_over(), [change.event["data"] for change in found]
    return found


def assert_values(types: list[tuple[str, str, Differs | None]], ours: Record, theirs: Record) -> None:
    """The rows behind a change, column by column."""
    for number, (kind, value, differs) in enumerate(types):
        name = f"c{number}"
        mine, other = ours.value["after"][name], theirs.value["after"].get(name, ABSENT)
        if differs is None or (ours.value["op"] == "r" and not differs.in_snapshot):
            assert (mine, type(mine)) == (other, type(other)), (kind, value)
        else:
            assert (mine, other) == (differs.ours, differs.theirs), (kind, value)


def assert_records(ours: list[Record], theirs: list[Record], *more: str) -> None:
    """All of the records but the values of before that only Debezium makes up, and what is said to differ."""
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.key == other.key
        assert mine.value.keys() == other.value.keys()
        assert mine.value["source"].keys() == other.value["source"].keys()
        for name in ("op", "transaction", "after"):
            assert mine.value[name] == other.value[name], name
        differing = {name for name, value in mine.value["source"].items() if value != other.value["source"][name]}
        assert differing <= _OTHER | set(more), (mine.value["source"], other.value["source"])


def test_the_records_of_postgresql_are_debeziums(listening: PostgresServer, tmp_path: Path) -> None:
    database = Database(listening, "postgres")
    columns = ", ".join(f"c{number} {kind}" for number, (kind, *_) in enumerate(POSTGRES))
    values = ", ".join(f"({value})::{kind}" for kind, value, _ in POSTGRES)
    database.sql(
        *_MADE,
        f"CREATE TABLE every (id int PRIMARY KEY, {columns})",
        "CREATE TABLE orders (id int PRIMARY KEY, what text, price numeric)",
        "CREATE TABLE whole (a int, b text, PRIMARY KEY (b, a))",
        "ALTER TABLE whole REPLICA IDENTITY FULL",
        "CREATE TABLE loose (a int)",
        "ALTER TABLE loose REPLICA IDENTITY FULL",
        f"INSERT INTO every VALUES (1, {values})",
    )
    with (
        open_capture(database.source(port=listening.port), ["public.*"], None, snapshot=True) as capture,
    ):
        before = ours_of(next_changes(capture, 1))  # a slot is made only while no snapshot is open
        with engine(tmp_path, of_postgres(listening)) as debezium:
            assert_values(POSTGRES, before[0], debezium.wait_for(1)[0])
            database.sql(
                f"INSERT INTO every VALUES (2, {values})",
                "INSERT INTO orders VALUES (1, 'tea', 2.50)",
                "UPDATE orders SET price = 3",
                "UPDATE orders SET id = 2",
                "DELETE FROM orders",
                "INSERT INTO whole VALUES (1, 'x')",
                "UPDATE whole SET a = 2",
                "UPDATE whole SET b = 'y' WHERE a = 2",
                "DELETE FROM whole",
                "INSERT INTO loose VALUES (1)",
                "TRUNCATE orders",
            )
            ours = ours_of(next_changes(capture, 11))
            theirs = debezium.wait_for(1 + len(ours))
    database.connection.close()
    assert before[0].key == theirs[0].key and before[0].value["op"] == theirs[0].value["op"] == "r"
    assert_values(POSTGRES, ours[0], theirs[1])
    ours, theirs = ours[1:], theirs[2:]
    assert_records(ours, theirs)
    assert [mine.value["op"] for mine in ours] == list("cudcdcdcdcdct")
    for mine, other in zip(ours, theirs, strict=True):
        if mine.value["source"]["table"] == "whole":
            assert mine.value["before"] == other.value["before"]
        elif mine.value["before"] is not None:  # nothing but the key is known, and Debezium fills up the others
            assert mine.value["before"] == mine.key
            assert other.value["before"] == {"id": mine.value["before"]["id"], "what": None, "price": None}


def test_a_value_that_did_not_come_is_debeziums_placeholder(listening: PostgresServer, tmp_path: Path) -> None:
    database = Database(listening, "postgres")
    name = f"big{secrets.token_hex(4)}"
    database.sql(
        f"CREATE TABLE {name} (id int PRIMARY KEY, n int, v text)",
        f"ALTER TABLE {name} ALTER v SET STORAGE EXTERNAL",
        f"INSERT INTO {name} VALUES (1, 1, repeat('x', 20000))",
    )
    source = database.source(port=listening.port, slot=f"slot_{name}")
    with open_capture(source, [f"public.{name}"], None, snapshot=True) as capture:
        next_changes(capture, 1)
        settings = of_postgres(listening) | {"slot.name": name, "table.include.list": f"public.{name}"}
        with engine(tmp_path, settings | {"publication.name": name}) as debezium:
            debezium.wait_for(1)
            database.sql(f"UPDATE {name} SET n = 2")
            (mine,) = ours_of(next_changes(capture, 1))
            other = debezium.wait_for(2)[1]
    database.connection.close()
    assert mine.value["after"] == other.value["after"] != {"id": 1, "n": 2}


def test_the_records_of_mariadb_are_debeziums(mariadb: MariaDbServer, tmp_path: Path) -> None:
    columns = ", ".join(f"c{number} {kind}" for number, (kind, *_) in enumerate(MARIADB))
    values = ", ".join(value for _, value, _ in MARIADB)
    database = mysql_reading.new_database(
        mariadb,
        "SET SESSION time_zone = '+00:00'",
        f"CREATE TABLE every (id INT PRIMARY KEY, {columns}) ROW_FORMAT=DYNAMIC",
        "CREATE TABLE orders (id INT PRIMARY KEY, what TEXT, price DECIMAL(10,2))",
        "CREATE TABLE loose (a INT)",
        f"INSERT INTO every VALUES (1, {values})",
    )
    capture = mysql_reading.capture(mariadb, database, snapshot=True)
    before = ours_of(next_changes(capture, 1))
    with engine(tmp_path, of_mariadb(mariadb, database)) as debezium:
        assert_values(MARIADB, before[0], debezium.wait_for(1)[0])
        mariadb.run(
            "SET SESSION time_zone = '+00:00'",
            f"INSERT INTO every VALUES (2, {values})",
            "INSERT INTO orders VALUES (1, 'tea', 2.50), (2, 'mate', 1)",
            "UPDATE orders SET price = 3 WHERE id = 1",
            "UPDATE orders SET id = 3 WHERE id = 1",
            "DELETE FROM orders",
            "INSERT INTO loose VALUES (1)",
            "TRUNCATE orders",
            database=database,
        )
        ours = ours_of(next_changes(capture, 9))
        theirs = debezium.wait_for(1 + len(ours))
    capture.close()
    assert before[0].key == theirs[0].key and before[0].value["op"] == theirs[0].value["op"] == "r"
    assert_values(MARIADB, ours[0], theirs[1])
    assert_records(ours[1:], theirs[2:], *_OF_BINLOG)
    assert [mine.value["op"] for mine in ours[1:]] == list("ccudcddct")
    assert [mine.value["before"] for mine in ours] == [other.value["before"] for other in theirs[1:]]


def test_each_difference_is_told_with_its_reason() -> None:
    told = DOCUMENT.read_text()
    kinds = {kind for types in (POSTGRES, MARIADB) for kind, _, differs in types if differs is not None}
    assert [kind for kind in sorted(kinds) if f"`{kind}`" not in told] == []
    assert [name for name in sorted(_OTHER | _OF_BINLOG) if f"`source.{name}`" not in told] == []
