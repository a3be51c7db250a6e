"""Names of schemas, tables and columns are an account's: however they are written, no statement is anything else."""

from __future__ import annotations

import json

import pytest

from analytics.inflow.mysql import open_capture
from tests.inflow.databases import Database, read
from tests.inflow.mysql_reading import new_database
from tests.inflow.mysql_reading import read as read_mysql
from tests.support.mariadb import MariaDbServer

pytestmark = pytest.mark.process
NAMES = [
    'a"b', "a'b", "a`b", "a\\b", "a;DROP TABLE kept;--", "a%sb%(x)s%%", "a.b.c", "a b\nc", "a$1b", "${jndi:x}",
    "<script>", "/*!50000 x */", "ä😀", "x" * 60, "--", "*", "select",
]  # fmt: skip


@pytest.mark.postgres
@pytest.mark.parametrize("snapshot", [False, True])
def test_postgresql(database: Database, snapshot: bool) -> None:
    def quoted(name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    database.sql("CREATE TABLE kept (id int PRIMARY KEY)", "INSERT INTO kept VALUES (7)")
    tables = [(schema, table) for schema, table in zip(NAMES, NAMES[::-1], strict=True) if "." not in schema]
    columns = ", ".join(f"{quoted(name)} text" for name in NAMES)
    for schema, table in tables:
        database.sql(
            f"CREATE SCHEMA {quoted(schema)}",
            f"CREATE TABLE {quoted(schema)}.{quoted(table)} (id int PRIMARY KEY, {columns})",
        )
    inserts = [
        f"INSERT INTO {quoted(schema)}.{quoted(table)} (id, {quoted(NAMES[0])}) VALUES ({number}, 'v')"
        for number, (schema, table) in enumerate(tables)
    ]
    if snapshot:
        database.sql(*inserts)
    with database.capture(["*.*"], snapshot=snapshot) as capture:
        if not snapshot:
            database.sql(*inserts)
        changes = read(capture, len(tables) + snapshot)
    found = {(one.event["data"]["schemaName"], one.event["data"]["tableName"]): one.event["data"] for one in changes}
    assert set(found) - {("public", "kept")} == set(tables)
    assert found[tables[0]]["after"] == {"id": 0, **dict.fromkeys(NAMES), NAMES[0]: "v"}
    assert database.sql("SELECT id FROM kept") == [(7,)]


@pytest.mark.parametrize("snapshot", [False, True])
def test_mariadb(mariadb: MariaDbServer, snapshot: bool) -> None:
    def quoted(name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    names = [name for name in NAMES if "😀" not in name]  # no name of MySQL has a character of four bytes
    columns = ", ".join(f"{quoted(name)} TEXT" for name in names)
    database = new_database(
        mariadb,
        "CREATE TABLE kept (id INT PRIMARY KEY)",
        *(f"CREATE TABLE {quoted(name)} (id INT PRIMARY KEY, {columns})" for name in names),
    )
    inserts = [f"INSERT INTO {quoted(name)} (id, {quoted(names[0])}) VALUES (1, 'v')" for name in names]
    if snapshot:
        mariadb.run(*inserts, database=database)
    reader = open_capture(mariadb.address(), [f"{database}.*"], None, snapshot=snapshot)
    if not snapshot:
        mariadb.run(*inserts, database=database)
    changes = read_mysql(reader, len(names))
    reader.close()
    found = {one.event["data"]["tableName"]: one.event["data"]["after"] for one in changes}
    assert set(found) == set(names)
    assert found[names[0]] == {"id": 1, **dict.fromkeys(names), names[0]: "v"}
    json.dumps([one.event for one in changes])
