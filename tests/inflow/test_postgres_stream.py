"""Nothing is missing: a snapshot beside a writer, positions to go on from, killed readers, large transactions."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from analytics.inflow import postgres
from analytics.inflow.changes import CaptureFailed, Change
from analytics.inflow.postgres import open_capture, remove
from tests.inflow.databases import SETTINGS, Database, data, read, read_until
from tests.support.patience import Patience
from tests.support.postgres import embedded_binaries, postgres_server
from tests.support.processes import resident_bytes


@pytest.fixture
def items(database: Database) -> Database:
    database.sql("CREATE TABLE items (id bigint PRIMARY KEY, n int)")
    return database


class Writer:
    """Inserts one row after the other, and changes an older one, until it is stopped."""

    def __init__(self, database: Database, first: int) -> None:
        self._conninfo = database.conninfo()
        self.next = first
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._thread.join()

    def wait_for(self, rows: int) -> None:
        """Until so many more rows are written."""
        goal, patience = self.next + rows, Patience(30, 0.01)
        while self.next < goal:
            assert not patience.is_over()
            time.sleep(0.01)

    def _write(self) -> None:
        with psycopg.connect(self._conninfo, autocommit=True) as connection:
            while not self._stopping.is_set():
                connection.execute("INSERT INTO items VALUES (%s, 0)", [self.next])
                connection.execute("UPDATE items SET n = n + 1 WHERE id = %s", [self.next // 2])
                self.next += 1


def test_each_row_is_in_the_snapshot_or_a_change_while_a_writer_writes(items: Database) -> None:
    items.sql("INSERT INTO items SELECT n, 0 FROM generate_series(0, 4999) n")
    with Writer(items, 5000) as writer:
        writer.wait_for(20)
        with items.capture(snapshot=True) as capture:
            writer.wait_for(20)
            changes = read_until(capture, lambda so_far: bool(so_far) and not so_far[-1].event["data"]["snapshot"])
            writer.wait_for(20)
            writer.__exit__()
            wanted = dict(items.sql("SELECT id, n FROM items"))
            patience = Patience(30, 0.1)
            while (state := final_state(changes)) != wanted:
                assert not patience.is_over(), set(wanted.items()) ^ set(state.items())
                piece = capture.changes(0.1)
                changes += piece
    operations = [change.event["data"]["operation"] for change in changes]
    reads = operations.count("READ")
    assert reads > 5000 and set(operations[:reads]) == {"READ"}, "first the rows that were there"
    inserted = [change.event["data"]["after"]["id"] for change in changes if change.event["data"]["operation"] in
                ("READ", "INSERT")]  # fmt: skip
    assert len(inserted) == len(set(inserted)) == len(wanted), "none twice"
    assert len({change.event["id"] for change in changes}) == len(changes)


def final_state(changes: list[Change]) -> dict[int, int]:
    """What the table is after the changes, each of which must fit to what was before."""
    state: dict[int, int] = {}
    for change in changes:
        told = change.event["data"]
        row = told["after"]
        if told["operation"] == "UPDATE":
            assert row["n"] == state[row["id"]] + 1, "an update is lost, or told twice"
        state[row["id"]] = row["n"]
    return state


def test_from_each_position_exactly_the_rest_follows(items: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "PIECE_CHANGES", 3)
    with items.capture() as capture:
        items.sql("INSERT INTO items VALUES (1, 0)", "INSERT INTO items SELECT n, 0 FROM generate_series(2, 9) n")
        items.transaction(
            "INSERT INTO items VALUES (10, 0), (11, 0)", "UPDATE items SET n = 5 WHERE id < 4", "DELETE FROM items"
        )
        items.sql("INSERT INTO items VALUES (12, 0)")
        changes = read(capture, 1 + 8 + 2 + 3 + 11 + 1, confirms=False)
    for number, change in enumerate(changes, 1):
        with items.capture(position=change.position) as capture:
            rest = read(capture, len(changes) - number, confirms=False)
            assert [(c.position, c.event) for c in rest] == [(c.position, c.event) for c in changes[number:]]


def test_what_was_not_confirmed_is_read_again(items: Database) -> None:
    with items.capture() as capture:
        items.sql("INSERT INTO items VALUES (1)", "INSERT INTO items VALUES (2)")
        first, second = read(capture, 2, confirms=False)
        capture.confirm(first.position)
    with items.capture() as capture:
        assert read(capture, 1)[0].event == second.event


def test_a_snapshot_that_was_interrupted_begins_again(items: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "PIECE_CHANGES", 2)
    items.sql("INSERT INTO items SELECT n, 0 FROM generate_series(1, 5) n")
    with items.capture(snapshot=True) as capture:
        part = capture.changes(1)
        capture.confirm(part[-1].position)
        assert len(part) == 2 and part[-1].position.startswith("snapshot@")
    items.sql("INSERT INTO items VALUES (6, 0)")
    with items.capture(position=part[-1].position) as capture:
        rows = read(capture, 6)
        items.sql("INSERT INTO items VALUES (7, 0)")
        rows += read(capture, 1, confirms=False)
    assert [row.event["data"]["operation"] for row in rows] == ["READ"] * 6 + ["INSERT"]
    with items.capture(position=rows[5].position) as capture:
        assert read(capture, 1)[0].event == rows[6].event, "behind the last row of the snapshot it is complete"


def test_a_snapshot_of_empty_tables_has_no_rows(items: Database) -> None:
    with items.capture(snapshot=True) as capture:
        assert capture.changes(0) == []
        items.sql("INSERT INTO items VALUES (1, 0)")
        assert data(read(capture, 1))[0]["operation"] == "INSERT"
        assert not capture.position.startswith("snapshot@")


@pytest.mark.process
def test_no_change_is_lost_when_readers_are_killed(items: Database, tmp_path: Path) -> None:
    items.sql("INSERT INTO items SELECT n, 0 FROM generate_series(0, 99) n")
    file = tmp_path / "kept"
    with Reader(items, file):
        wait_until(lambda: len(kept(file)) == 100)
    with Writer(items, 100) as writer:
        for _ in range(5):
            before = len(kept(file))
            with Reader(items, file):
                wait_until(lambda before=before: len(kept(file)) > before + 20)  # type: ignore[misc]
            writer.wait_for(20)
    wanted = items.sql("SELECT id, n FROM items")
    with Reader(items, file):
        wait_until(lambda: {(line["row"], line["n"]) for line in kept(file)} >= set(wanted))
    numbers: dict[int, list[int]] = {}
    for line in {line["id"]: line for line in kept(file)}.values():
        numbers.setdefault(line["row"], []).append(line["n"])
    assert numbers == {row: list(range(n + 1)) for row, n in wanted}, "each change once, in order"


class Reader:
    """A reader in a process of its own, which is killed at the end."""

    def __init__(self, database: Database, file: Path) -> None:
        source = json.dumps(dataclasses.asdict(database.source()))
        self._process = subprocess.Popen([sys.executable, "-m", "tests.inflow.reader", source, str(file)])

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process.poll() is None, "it has ended by itself"
        self._process.kill()
        self._process.wait()


def wait_until(holds: Callable[[], bool]) -> None:
    patience = Patience(60, 0.05)
    while not holds():
        assert not patience.is_over()
        time.sleep(0.05)


def kept(file: Path) -> list[dict[str, Any]]:
    """The lines of a reader's file that are whole."""
    lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


@pytest.mark.slow
def test_a_large_transaction_comes_in_pieces_and_little_memory(items: Database) -> None:
    items.sql("ALTER TABLE items ADD COLUMN filler text")
    with items.capture() as capture:
        items.sql(f"INSERT INTO items SELECT n, 0, '{'x' * 500}' FROM generate_series(1, 100000) n")
        before = resident_bytes([os.getpid()])
        expected, most, pieces = 1, 0, 0
        patience = Patience(60, 0.1)
        while expected <= 100_000:
            piece = capture.changes(0.1)
            assert len(piece) <= postgres.PIECE_CHANGES
            for change in piece:
                assert change.event["data"]["after"]["id"] == expected
                expected += 1
            if piece:
                pieces += 1
                capture.confirm(piece[-1].position)
                most = max(most, resident_bytes([os.getpid()]) - before)
            assert piece or not patience.is_over()
    assert pieces >= 50
    assert most < 48 * 1024**2, f"{most / 1024**2:.0f} MiB more for 50 MB of rows"


def test_a_piece_has_so_many_bytes_at_most(items: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "PIECE_BYTES", 10_000)
    items.sql("ALTER TABLE items ADD COLUMN filler text")
    with items.capture(snapshot=True) as capture:
        items.sql(f"INSERT INTO items SELECT n, 0, '{'x' * 3000}' FROM generate_series(1, 600) n")
        sizes: list[int] = []
        patience = Patience(30, 0.2)
        while sum(sizes) < 600:
            sizes.append(len(capture.changes(0.2)))
            assert sizes[-1] or not patience.is_over()
    # A piece ends as well where the server has not sent more yet, which is so with any of them on a busy machine.
    assert max(sizes) == 4
    remove(items.source())
    with items.capture(snapshot=True) as capture:
        assert [len(capture.changes(0.2)) for _ in range(3)] == [4, 4, 4]


def test_the_server_forgets_what_was_confirmed_and_what_has_nothing_for_us(items: Database) -> None:
    items.sql("CREATE TABLE other (a text)")
    query = f"SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = '{items.slot}'"
    with items.capture(["public.items"]) as capture:
        items.sql("INSERT INTO items VALUES (1, 0)")
        [change] = read(capture, 1, confirms=False)
        before = items.sql(query)[0][0]
        items.sql("INSERT INTO other SELECT repeat('x', 1000) FROM generate_series(1, 1000)")
        for _ in range(10):
            assert capture.changes(0.1) == []
        assert items.sql(query)[0][0] == before, "not while a change is not confirmed"
        capture.confirm(change.position)
        patience = Patience(30, 0.1)
        while items.sql(query)[0][0] < before + 1_000_000:
            assert capture.changes(0.1) == [] and not patience.is_over()
            capture.confirm(capture.position)


def test_a_reader_that_is_busy_keeps_its_connection(items: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "HEARTBEAT_S", 0.2)
    items.sql("ALTER ROLE gantry SET wal_sender_timeout = '1s'")
    try:
        with items.capture() as capture:
            items.sql("INSERT INTO items VALUES (1, 0)")
            read(capture, 1)
            time.sleep(2.5)  # the time that is the subject: longer than the server waits
            items.sql("INSERT INTO items VALUES (2, 0)")
            read(capture, 1)
    finally:
        items.sql("ALTER ROLE gantry RESET wal_sender_timeout")


def test_lag_is_told_in_bytes_and_seconds(items: Database) -> None:
    with items.capture() as capture:
        assert capture.lag()[1] is None, "nothing was read yet"
        items.sql("INSERT INTO items SELECT n, 0 FROM generate_series(1, 1000) n")
        kept, _ = capture.lag()
        assert kept > 50_000
        changes = read(capture, 1000, confirms=False)
        time.sleep(0.1)
        kept, seconds = capture.lag()
        assert kept > 50_000 and seconds is not None and seconds >= 0.1
        capture.confirm(changes[-1].position)
        patience = Patience(30, 0.1)
        while capture.lag()[1] != 0.0:
            assert capture.changes(0.1) == [] and not patience.is_over()
        assert capture.lag()[0] < 50_000


def test_a_second_client_is_refused_and_the_first_goes_on(items: Database) -> None:
    with items.capture() as capture:
        with pytest.raises(CaptureFailed) as refused:
            items.capture()
        assert refused.value.code == "SLOT_TAKEN" and "one client" in refused.value.sentence
        assert refused.value.mend.startswith("SELECT pg_terminate_backend(")
        items.sql("INSERT INTO items VALUES (1, 0)")
        read(capture, 1)


@pytest.mark.postgres
def test_a_server_that_restarts_is_told_and_the_next_capture_goes_on() -> None:
    with postgres_server(*SETTINGS, programs=embedded_binaries()) as server:
        database = Database(server, "postgres")
        database.sql("CREATE TABLE items (id bigint PRIMARY KEY)", "CREATE TABLE other (id int)")
        with database.capture(["public.items"]) as capture:
            database.sql("INSERT INTO items VALUES (1)")
            position = read(capture, 1)[0].position
            stopping = threading.Thread(target=server.stop)
            stopping.start()  # it waits until its reader has all of the log
            with pytest.raises(CaptureFailed) as failed:
                read(capture, 1)
            assert failed.value.code == "UNREACHABLE"
            stopping.join()
        server.run()
        database = Database(server, "postgres")
        database.sql("INSERT INTO items VALUES (2)")
        with database.capture(["public.items"], position) as capture:
            assert [change["after"] for change in data(read(capture, 1))] == [{"id": 2}]
        database.connection.close()


def test_removed_nothing_is_left(items: Database) -> None:
    items.capture().close()
    remove(items.source())
    remove(items.source())
    assert items.sql("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()") == [(0,)]
    assert items.sql("SELECT count(*) FROM pg_publication") == [(0,)]


def test_a_position_that_is_none_is_refused(items: Database) -> None:
    with pytest.raises(ValueError, match="no position"):
        open_capture(items.source(), ["public.*"], "mysql-bin.000012:4711", snapshot=False)
