"""Changes of a real MariaDB: each operation, transactions, definitions that change, restarts, and nothing lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from analytics.inflow.changes import CaptureFailed, Change
from analytics.inflow.mysql import PIECE_CHANGES, open_capture
from tests.inflow.mysql_reading import brief, capture, new_database, read, read_until
from tests.support.mariadb import MariaDbServer, mariadb_server

pytestmark = pytest.mark.process
ROOT = Path(__file__).resolve().parents[2]


def _last_id(number: int) -> Any:
    return lambda data: (data["after"] or {}).get("id") == number


def test_each_operation_has_its_images_and_its_key(mariadb: MariaDbServer) -> None:
    database = new_database(mariadb, "CREATE TABLE t (a INT, b VARCHAR(9), c INT, PRIMARY KEY (b, a))")
    reader = capture(mariadb, database)
    mariadb.run(
        "INSERT INTO t VALUES (1, 'x', 10)",
        "UPDATE t SET c = 11",
        "UPDATE t SET a = 2, b = 'y'",
        "REPLACE INTO t VALUES (2, 'y', 12)",
        "DELETE FROM t",
        "TRUNCATE TABLE t",
        database=database,
    )
    found = read(reader, 6)
    reader.close()
    rows = [
        dict(zip("abc", values, strict=True)) for values in [(1, "x", 10), (1, "x", 11), (2, "y", 11), (2, "y", 12)]
    ]
    assert brief(found) == [
        ("INSERT", None, rows[0]),
        ("UPDATE", rows[0], rows[1]),
        ("UPDATE", rows[1], rows[2]),
        ("UPDATE", rows[2], rows[3]),
        ("DELETE", rows[3], None),
        ("TRUNCATE", None, None),
    ]
    keys = [change.event["data"]["primaryKey"] for change in found]
    assert keys == [*[{"b": "x", "a": 1}] * 2, *[{"b": "y", "a": 2}] * 3, None]
    event = found[0].event
    data = event["data"]
    assert (event["type"], event["subject"], event["source"]) == ("dts:Change", f"{database}.t", "test")
    assert event["time"].endswith("Z") and abs(data["commitTime"] - time.time() * 1000) < 60_000
    assert (data["databaseName"], data["schemaName"], data["tableName"]) == (database, None, "t")
    assert data["position"].startswith("mysql-bin.0") and data["transaction"].startswith("0-1-")
    assert len({change.event["id"] for change in found}) == 6


def test_only_tables_that_match_are_read(mariadb: MariaDbServer) -> None:
    database = new_database(mariadb, "CREATE TABLE order_1 (id INT)", "CREATE TABLE orders (id INT)")
    reader = open_capture(mariadb.address(), [f"{database}.order_?"], None, snapshot=False)
    before = reader.position
    mariadb.run("INSERT INTO orders VALUES (1)", "INSERT INTO order_1 VALUES (2)", database=database)
    assert [change.event["subject"] for change in read(reader, 1)] == [f"{database}.order_1"]
    # It goes on with what others change, so that the log that it needs is not an old one.
    passed = reader.position
    mariadb.run("INSERT INTO orders VALUES (3)", database=database)
    assert reader.changes(0.5) == []
    assert len({before, passed, reader.position}) == 3
    reader.close()


def test_transactions_end_together_and_rolled_back_ones_are_not_there(mariadb: MariaDbServer) -> None:
    database = new_database(mariadb, "CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE m (id INT) ENGINE=MyISAM")
    reader = capture(mariadb, database)
    mariadb.run(
        *("BEGIN", "INSERT INTO t VALUES (1)", "SAVEPOINT a", "INSERT INTO t VALUES (2)", "ROLLBACK TO a"),
        *("INSERT INTO t VALUES (3)", "COMMIT"),
        *("BEGIN", "INSERT INTO t VALUES (4)", "ROLLBACK"),
        "INSERT INTO m VALUES (5)",
        *("XA START 'x'", "INSERT INTO t VALUES (6)", "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'"),
        "INSERT INTO t VALUES (7)",
        database=database,
    )
    found = read_until(reader, _last_id(7))
    reader.close()
    assert [change.event["data"]["after"]["id"] for change in found] == [1, 3, 5, 6, 7]
    first, second, *others = [change.event["data"]["transaction"] for change in found]
    assert first == second and first not in others
    assert "+1@" in found[0].position and "+" not in found[1].position


def test_definitions_that_change_in_between_are_followed(mariadb: MariaDbServer) -> None:
    database = new_database(mariadb, "CREATE TABLE t (id INT PRIMARY KEY, a INT, e ENUM('x','y'))")
    reader = capture(mariadb, database)
    mariadb.run(
        "INSERT INTO t VALUES (1, 10, 'x')",
        "ALTER TABLE t ADD b VARCHAR(9) FIRST, CHANGE a c DECIMAL(4,1), MODIFY e ENUM('w','x','y')",
        "INSERT INTO t (id, b, c, e) VALUES (2, 'n', 1.5, 'x')",
        "RENAME TABLE t TO u",
        "INSERT INTO u (id) VALUES (3)",
        "CREATE TABLE v AS SELECT id FROM u WHERE id < 2",
        "ALTER TABLE u DROP PRIMARY KEY",
        "DELETE FROM u WHERE id = 3",
        "DROP TABLE u",
        "/* why */ TRUNCATE `v`",
        database=database,
    )
    found = read(reader, 6)
    reader.close()
    assert [(change.event["data"]["tableName"], *each) for change, each in zip(found, brief(found), strict=True)] == [
        ("t", "INSERT", None, {"id": 1, "a": 10, "e": "x"}),
        ("t", "INSERT", None, {"b": "n", "id": 2, "c": "1.5", "e": "x"}),
        ("u", "INSERT", None, {"b": None, "id": 3, "c": None, "e": None}),
        ("v", "INSERT", None, {"id": 1}),
        ("u", "DELETE", {"b": None, "id": 3, "c": None, "e": None}, None),
        ("v", "TRUNCATE", None, None),
    ]
    assert [change.event["data"]["primaryKey"] for change in found[2:5]] == [{"id": 3}, None, None]


def test_generated_and_invisible_columns_are_the_same_in_both(mariadb: MariaDbServer) -> None:
    generated = "a INT AS (id + 1) VIRTUAL, b INT AS (id + 2) STORED"
    columns = f"id INT PRIMARY KEY, {generated}, h INT INVISIBLE DEFAULT 5, k BLOB UNIQUE"
    database = new_database(mariadb, f"CREATE TABLE t ({columns})")
    reader = capture(mariadb, database)
    mariadb.run("INSERT INTO t (id, k) VALUES (1, 'k')", database=database)
    (change,) = read(reader, 1)
    reader.close()
    picture = capture(mariadb, database, snapshot=True)
    (row,) = read(picture, 1)
    picture.close()
    assert change.event["data"]["after"] == {"id": 1, "a": 2, "b": 3, "h": 5, "k": "aw=="} == row.event["data"]["after"]


def test_names_of_columns_that_are_not_known_any_more_are_not_guessed(mariadb: MariaDbServer) -> None:
    database = new_database(mariadb, "CREATE TABLE t (id INT PRIMARY KEY, a INT UNSIGNED)")
    mariadb.run("SET GLOBAL binlog_row_metadata = NO_LOG")
    try:
        reader = capture(mariadb, database)
        start = reader.position
        mariadb.run("INSERT INTO t VALUES (1, 4294967295)", database=database)
        (change,) = read(reader, 1)
        assert change.event["data"]["after"] == {"id": 1, "a": 4294967295}
        assert any("no names of columns" in remark for remark in reader.remarks)
        reader.close()
        mariadb.run("ALTER TABLE t ADD b INT", database=database)
        again = capture(mariadb, database, start)
        with pytest.raises(CaptureFailed) as failed:
            read(again, 1)
        again.close()
        assert (failed.value.code, failed.value.mend) == (
            "SCHEMA_UNKNOWN",
            "SET GLOBAL binlog_row_metadata = FULL",
        )
    finally:
        mariadb.run("SET GLOBAL binlog_row_metadata = FULL")


def test_a_statement_that_is_in_the_log_as_text_is_no_silent_loss(mariadb: MariaDbServer) -> None:
    database = new_database(mariadb, "CREATE TABLE t (id INT)", "CREATE TABLE other (id INT)")
    reader = open_capture(mariadb.address(), [f"{database}.t"], None, snapshot=False)
    text = "SET SESSION binlog_format = STATEMENT"
    mariadb.run(text, "INSERT INTO other VALUES (1)", database=database)
    assert reader.changes(0.3) == []
    mariadb.run(text, f"INSERT INTO `{database}`.t VALUES (1)")
    with pytest.raises(CaptureFailed) as failed:
        read(reader, 1)
    reader.close()
    assert failed.value.code == "LOG_FORMAT" and f"{database}.t" in failed.value.sentence


def test_a_long_transaction_comes_in_pieces_of_bounded_memory(mariadb: MariaDbServer) -> None:
    database = new_database(mariadb, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(200))")
    reader = capture(mariadb, database)
    mariadb.run("INSERT INTO t SELECT seq, REPEAT('v', 200) FROM seq_1_to_100000", database=database)
    tracemalloc.start()
    seen, largest, position = 0, 0, ""
    while seen < 60_000:
        piece = reader.changes(5)
        assert [change.event["data"]["after"]["id"] for change in piece] == [*range(seen + 1, seen + len(piece) + 1)]
        seen, largest, position = seen + len(piece), max(largest, len(piece)), piece[-1].position
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    reader.close()
    assert largest < PIECE_CHANGES + 200
    assert peak < 24 * 1024**2
    # It is left in the middle, and gone on with after the last change that was kept.
    again = capture(mariadb, database, position)
    rest = read(again, 100_000 - seen)
    again.close()
    assert [change.event["data"]["after"]["id"] for change in rest] == [*range(seen + 1, 100_001)]
    assert "+" not in rest[-1].position


def test_what_is_read_again_has_the_same_id(mariadb: MariaDbServer) -> None:
    database = new_database(mariadb, "CREATE TABLE t (id INT)")
    first = capture(mariadb, database)
    start = first.position
    mariadb.run("INSERT INTO t VALUES (1), (2)", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (3)", database=database)
    found = read(first, 3)
    first.close()
    for after in range(4):
        again = capture(mariadb, database, found[after - 1].position if after else start)
        assert (read(again, 3 - after) if after < 3 else again.changes(0.3)) == found[after:]
        again.close()
    only_file = capture(mariadb, database, start.partition(" ")[0])
    assert [change.event for change in read(only_file, 3)] == [change.event for change in found]
    only_file.close()


def test_a_snapshot_and_what_follows_miss_nothing_and_double_nothing(mariadb: MariaDbServer) -> None:
    database = new_database(
        mariadb, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t SELECT seq, 0 FROM seq_1_to_5000"
    )
    stopped = threading.Event()

    def write() -> None:
        with mariadb.connect(database) as connection, connection.cursor() as cursor:
            number = 5000
            while not stopped.is_set():
                number += 1
                cursor.execute("BEGIN")
                cursor.execute("INSERT INTO t VALUES (%s, 0)", (number,))
                cursor.execute("UPDATE t SET v = v + 1 WHERE id = %s", (number % 5000 + 1,))
                cursor.execute("COMMIT")

    writer = threading.Thread(target=write)
    writer.start()
    rows: dict[int, dict[str, Any]] = {}
    try:
        time.sleep(0.2)
        reader = capture(mariadb, database, snapshot=True)
        for change in read_until(reader, lambda data: data["operation"] == "READ" and data["after"]["id"] >= 5000):
            _apply(rows, change)
        for _ in range(20):
            for change in reader.changes(0.2):
                _apply(rows, change)
    finally:
        stopped.set()
        writer.join()
    mariadb.run("INSERT INTO t VALUES (0, 0)", database=database)
    for change in read_until(reader, _last_id(0)):
        _apply(rows, change)
    reader.close()
    assert sorted((row["id"], row["v"]) for row in rows.values()) == sorted(
        mariadb.run("SELECT id, v FROM t", database=database)
    )


def _apply(rows: dict[int, dict[str, Any]], change: Change) -> None:
    """Do a change to a copy, on which it has to fit exactly."""
    data = change.event["data"]
    if data["before"] is not None:
        assert rows.pop(data["before"]["id"]) == data["before"]
    if data["after"] is not None:
        assert data["after"]["id"] not in rows
        rows[data["after"]["id"]] = data["after"]


def test_a_snapshot_that_did_not_end_begins_again(mariadb: MariaDbServer) -> None:
    database = new_database(mariadb, "CREATE TABLE t (id INT)", "INSERT INTO t SELECT seq FROM seq_1_to_5000")
    reader = capture(mariadb, database, snapshot=True)
    piece = reader.changes(1)
    reader.close()
    assert {change.position for change in piece} == {"snapshot"}
    again = capture(mariadb, database, piece[-1].position)
    rows = read(again, 5000)
    assert len(rows) == 5000 and {row.event["data"]["operation"] for row in rows} == {"READ"}
    assert rows[-1].position == again.position != "snapshot"
    # Nothing is left behind that keeps the table from being altered.
    mariadb.run("SET SESSION lock_wait_timeout = 2", f"ALTER TABLE {database}.t ADD a INT")
    again.close()


_READER = """
import json, sys
from analytics.inflow.mysql import open_capture
from analytics.inflow.mysql_server import Address
port, password, database, path, position = sys.argv[1:]
reader = open_capture(Address("127.0.0.1", int(port), "root", password), [f"{database}.*"], position, snapshot=False)
with open(path, "a") as out:
    while True:
        for change in reader.changes(1):
            out.write(json.dumps([change.position, change.event["id"], change.event["data"]["after"]["id"]]) + "\\n")
            out.flush()
"""


def test_a_reader_that_is_killed_loses_nothing(mariadb: MariaDbServer, tmp_path: Path) -> None:
    database = new_database(mariadb, "CREATE TABLE t (id INT PRIMARY KEY)")
    first = capture(mariadb, database)
    position = first.position
    first.close()
    path = tmp_path / "changes"
    path.touch()
    total = 0
    for round_ in range(4):
        command = [sys.executable, "-c", _READER, str(mariadb.port), "given-to-tests", database, str(path), position]
        process = subprocess.Popen(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)})
        for _ in range(5):
            mariadb.run(f"INSERT INTO t SELECT seq FROM seq_{total + 1}_to_{total + 1000}", database=database)
            total += 1000
        deadline = time.monotonic() + 30
        while path.stat().st_size < 1000 * (round_ + 1) * 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        whole = path.read_text().rpartition("\n")[0]  # the last line may be a part
        path.write_text(whole + "\n")
        position = json.loads(whole.splitlines()[-1])[0]
    last = capture(mariadb, database, position)
    seen = [json.loads(line)[2] for line in path.read_text().splitlines()]
    seen += [change.event["data"]["after"]["id"] for change in read(last, total - len(seen))]
    last.close()
    assert seen == [*range(1, total + 1)]


def test_a_server_that_dies_is_told_and_gone_on_with_when_it_is_back() -> None:
    with mariadb_server(innodb_flush_log_at_trx_commit="1", sync_binlog="1") as server:
        database = new_database(server, "CREATE TABLE t (id INT)")
        reader = capture(server, database)
        server.run("INSERT INTO t VALUES (1)", database=database)
        (change,) = read(reader, 1)
        server.kill()
        with pytest.raises(CaptureFailed) as failed:
            reader.changes(5)
        assert failed.value.code == "UNREACHABLE"
        reader.close()
        with pytest.raises(CaptureFailed) as failed:
            capture(server, database, change.position)
        assert failed.value.code == "UNREACHABLE"
        server.start()
        server.run("INSERT INTO t VALUES (2)", database=database)
        again = capture(server, database, change.position)
        assert brief(read(again, 1)) == [("INSERT", None, {"id": 2})]
        again.close()


def test_a_replica_takes_over_by_gtid(mariadb: MariaDbServer) -> None:
    database = new_database(mariadb, "CREATE TABLE t (id INT PRIMARY KEY)")
    with mariadb_server(server_id="2", log_bin="other-bin") as replica:
        replica.run(
            "RESET MASTER",
            "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_USER='root', MASTER_PASSWORD='given-to-tests',"
            f" MASTER_PORT={mariadb.port}, MASTER_USE_GTID=slave_pos",
            "START SLAVE",
        )
        reader = capture(mariadb, database)
        mariadb.run("INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2), (3)", database=database)
        found = read(reader, 3)
        reader.close()
        mariadb.run("INSERT INTO t VALUES (4)", database=database)
        end = mariadb.run("SELECT @@gtid_binlog_pos")[0][0]
        assert replica.run(f"SELECT MASTER_GTID_WAIT('{end}', 30)")[0][0] == 0
        replica.run("STOP SLAVE", f"INSERT INTO {database}.t VALUES (5)")
        for given, ids in ((found[1], [3, 4, 5]), (found[2], [4, 5])):
            taken = capture(replica, database, given.position)
            rest = read(taken, len(ids))
            taken.close()
            assert [change.event["data"]["after"]["id"] for change in rest] == ids
            assert rest[-1].position.startswith("other-bin.")
        assert found[2].event["id"].endswith(":2")
