"""What a capture of PostgreSQL tells of changes: operations, keys, identities, definitions that change."""

from __future__ import annotations

import pytest

from analytics.inflow import postgres
from analytics.inflow.changes import CaptureFailed
from tests.inflow.databases import Database, data, read, read_until


@pytest.fixture
def orders(database: Database) -> Database:
    database.sql("CREATE TABLE orders (id int PRIMARY KEY, what text, price numeric)")
    return database


def test_each_operation_is_an_event(orders: Database) -> None:
    with orders.capture() as capture:
        orders.sql(
            "INSERT INTO orders VALUES (1, 'tea', 2.50)",
            "UPDATE orders SET price = 3 WHERE id = 1",
            "DELETE FROM orders WHERE id = 1",
            "TRUNCATE orders",
        )
        changes = read(capture, 4)
    assert data(changes) == [
        {
            "operation": "INSERT", "tableName": "orders", "primaryKey": {"id": 1}, "before": None,
            "after": {"id": 1, "what": "tea", "price": "2.50"},
        },
        {
            "operation": "UPDATE", "tableName": "orders", "primaryKey": {"id": 1}, "before": None,
            "after": {"id": 1, "what": "tea", "price": "3"},
        },
        {"operation": "DELETE", "tableName": "orders", "primaryKey": {"id": 1}, "before": {"id": 1}, "after": None},
        {"operation": "TRUNCATE", "tableName": "orders", "primaryKey": None, "before": None, "after": None},
    ]  # fmt: skip
    assert len({change.event["id"] for change in changes}) == 4


def test_an_event_is_a_cloud_event(orders: Database) -> None:
    with orders.capture() as capture:
        xid = orders.sql("INSERT INTO orders VALUES (1, 'tea', 1) RETURNING pg_current_xact_id()::xid::text")[0][0]
        [change] = read(capture, 1)
    event = change.event
    assert {name: event[name] for name in ("specversion", "source", "type", "subject", "datacontenttype")} == {
        "specversion": "1.0",
        "source": f"postgresql://{orders.server.folder}:5432/{orders.name}",
        "type": "dts:Change",
        "subject": "public.orders",
        "datacontenttype": "application/json",
    }
    assert event["time"].endswith("Z") and event["data"]["commitTime"] == change.commit_ms
    assert event["data"]["databaseName"] == orders.name and event["data"]["schemaName"] == "public"
    assert event["data"]["transaction"] == xid and event["data"]["snapshot"] is False


def test_the_changes_of_a_transaction_stand_in_order_and_a_rolled_back_one_has_none(orders: Database) -> None:
    with orders.capture() as capture:
        orders.transaction(*(f"INSERT INTO orders VALUES ({number})" for number in range(5)))
        with pytest.raises(ZeroDivisionError), orders.connection.transaction():
            orders.connection.execute("INSERT INTO orders VALUES (99)")
            raise ZeroDivisionError
        orders.sql("INSERT INTO orders VALUES (5), (6)")
        changes = read(capture, 7)
    assert [change.event["data"]["after"]["id"] for change in changes] == list(range(7))
    assert len({change.event["data"]["transaction"] for change in changes}) == 2
    assert len({change.event["id"] for change in changes}) == 7


def test_a_changed_key_is_told_with_the_old_one(orders: Database) -> None:
    with orders.capture() as capture:
        orders.sql("INSERT INTO orders VALUES (1, 'tea', 1)", "UPDATE orders SET id = 2")
        update = data(read(capture, 2))[1]
    assert update["primaryKey"] == {"id": 2}
    assert update["before"] == {"id": 1}
    assert update["after"]["id"] == 2


def test_with_identity_full_the_row_before_is_whole(orders: Database) -> None:
    orders.sql("ALTER TABLE orders REPLICA IDENTITY FULL")
    with orders.capture() as capture:
        orders.sql("INSERT INTO orders VALUES (1, 'tea', 1)", "UPDATE orders SET price = 2", "DELETE FROM orders")
        _, update, delete = data(read(capture, 3))
    assert update["before"] == {"id": 1, "what": "tea", "price": "1"}
    assert update["primaryKey"] == {"id": 1}, "all columns identify the row, one of them is the primary key"
    assert delete["before"] == {"id": 1, "what": "tea", "price": "2"} and delete["primaryKey"] == {"id": 1}


def test_an_index_may_identify_rows(database: Database) -> None:
    database.sql(
        "CREATE TABLE t (id int PRIMARY KEY, code text NOT NULL UNIQUE)",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX t_code_key",
    )
    with database.capture() as capture:
        database.sql("INSERT INTO t VALUES (1, 'a')", "DELETE FROM t")
        insert, delete = data(read(capture, 2))
    assert insert["primaryKey"] == {"id": 1}
    assert delete["before"] == {"code": "a"} and delete["primaryKey"] is None


def test_a_table_without_a_key_has_no_primary_key(database: Database) -> None:
    database.sql("CREATE TABLE t (a int)", "ALTER TABLE t REPLICA IDENTITY FULL")
    with database.capture() as capture:
        database.sql("INSERT INTO t VALUES (1)")
        assert data(read(capture, 1))[0]["primaryKey"] is None


def test_a_key_of_two_columns_is_told_whole(database: Database) -> None:
    database.sql("CREATE TABLE t (a int, v int, b text, PRIMARY KEY (b, a))")
    with database.capture() as capture:
        database.sql("INSERT INTO t VALUES (1, 2, 'x')")
        assert data(read(capture, 1))[0]["primaryKey"] == {"a": 1, "b": "x"}


LONG = "(SELECT string_agg(md5(n::text), '') FROM generate_series(1, 1000) n)"


def test_a_long_value_that_did_not_change_is_named_and_not_invented(orders: Database) -> None:
    with orders.capture() as capture:
        orders.sql(f"INSERT INTO orders VALUES (1, {LONG}, 1)", "UPDATE orders SET price = 2")
        insert, update = read(capture, 2)
    assert len(insert.event["data"]["after"]["what"]) == 32_000
    assert update.event["data"]["after"] == {"id": 1, "price": "2"}
    assert update.event["data"]["unavailable"] == ["what"]


def test_with_identity_full_a_long_value_that_did_not_change_is_there(orders: Database) -> None:
    orders.sql("ALTER TABLE orders REPLICA IDENTITY FULL")
    with orders.capture() as capture:
        orders.sql(f"INSERT INTO orders VALUES (1, {LONG}, 1)", "UPDATE orders SET price = 2")
        update = read(capture, 2)[1].event["data"]
    assert len(update["after"]["what"]) == 32_000 and "unavailable" not in update


def test_changes_of_the_table_itself_are_followed(orders: Database) -> None:
    with orders.capture() as capture:
        orders.sql(
            "INSERT INTO orders VALUES (1, 'tea', 1)",
            "ALTER TABLE orders ADD COLUMN tags text[] DEFAULT '{a,b}'",
            "INSERT INTO orders VALUES (2, 'milk', 1)",
            "ALTER TABLE orders DROP COLUMN price",
            "INSERT INTO orders VALUES (3, 'ink', '{c}')",
            "ALTER TABLE orders RENAME COLUMN what TO name",
            "ALTER TABLE orders ALTER COLUMN id TYPE bigint",
            "INSERT INTO orders VALUES (4000000000, 'pen', NULL)",
            "CREATE TYPE mood AS ENUM ('sad', 'glad')",
            "ALTER TABLE orders ADD COLUMN moods mood[]",
            "INSERT INTO orders VALUES (5, 'cup', NULL, '{glad,sad}')",
            "ALTER TABLE orders RENAME TO purchases",
            "INSERT INTO purchases VALUES (6)",
        )
        changes = data(read(capture, 6))
    assert [change["after"] for change in changes] == [
        {"id": 1, "what": "tea", "price": "1"},
        {"id": 2, "what": "milk", "price": "1", "tags": ["a", "b"]},
        {"id": 3, "what": "ink", "tags": ["c"]},
        {"id": 4_000_000_000, "name": "pen", "tags": None},
        {"id": 5, "name": "cup", "tags": None, "moods": ["glad", "sad"]},
        {"id": 6, "name": None, "tags": ["a", "b"], "moods": None},
    ]
    assert changes[-1]["tableName"] == "purchases"


def test_a_type_and_a_table_that_are_gone_when_their_changes_are_read_are_told_all_the_same(database: Database) -> None:
    database.sql("CREATE TYPE mood AS ENUM ('sad')", "CREATE TABLE t (id int PRIMARY KEY, m mood, many mood[])")
    database.capture().close()
    database.sql("INSERT INTO t VALUES (1, 'sad', '{sad}')", "DROP TABLE t", "DROP TYPE mood")
    database.sql("CREATE TABLE other (id int PRIMARY KEY)")
    with database.capture() as capture:
        [change] = data(read(capture, 1))
    assert change["after"] == {"id": 1, "m": "sad", "many": "{sad}"}


def test_a_truncate_of_several_tables_is_an_event_for_each(database: Database) -> None:
    database.sql("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int REFERENCES a, PRIMARY KEY (id))")
    with database.capture() as capture:
        database.sql("TRUNCATE a CASCADE")
        changes = read(capture, 2)
    assert {change["tableName"] for change in data(changes)} == {"a", "b"}
    assert len({change.event["id"] for change in changes}) == 2


def test_only_tables_of_the_patterns_are_told(database: Database) -> None:
    database.sql(
        "CREATE SCHEMA sales", "CREATE TABLE sales.orders (id int PRIMARY KEY)",
        "CREATE TABLE sales.order_lines (id int PRIMARY KEY)", "CREATE TABLE other (id int PRIMARY KEY)",
    )  # fmt: skip
    everything = database.source(slot=database.slot, publication="everything")
    database.sql("CREATE PUBLICATION everything FOR ALL TABLES WITH (publish_via_partition_root = true)")
    with postgres.open_capture(everything, ["sales.order*s"], None, snapshot=False) as capture:
        database.sql("INSERT INTO other VALUES (1)", "INSERT INTO sales.orders VALUES (2)")
        database.transaction("INSERT INTO sales.order_lines VALUES (3)", "INSERT INTO other VALUES (4)")
        changes = read(capture, 2)
        assert [change.event["subject"] for change in changes] == ["sales.orders", "sales.order_lines"]


def test_a_partitioned_table_is_told_by_its_own_name(database: Database) -> None:
    database.sql(
        "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (10) TO (20)",
        "INSERT INTO t VALUES (1)",
    )
    with database.capture(snapshot=True) as capture:
        assert data(read(capture, 1))[0]["tableName"] == "t"
        database.sql("INSERT INTO t VALUES (12)", "CREATE TABLE t3 PARTITION OF t FOR VALUES FROM (20) TO (30)")
        database.sql("INSERT INTO t VALUES (22)", "UPDATE t SET id = 5 WHERE id = 22", "TRUNCATE t")
        changes = data(read_until(capture, lambda so_far: data(so_far[-1:])[:1] != [] and len(so_far) >= 5))
    assert {change["tableName"] for change in changes} == {"t"}
    assert [change["operation"] for change in changes][:2] == ["INSERT", "INSERT"]


def test_a_table_that_is_made_later_is_captured_too(orders: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "NEW_TABLES_S", 0)
    with orders.capture() as capture:
        orders.sql("CREATE TABLE later (id int PRIMARY KEY)", "CREATE TABLE without_key (id int)")
        assert capture.changes(0) == []
        orders.sql("INSERT INTO later VALUES (1)", "INSERT INTO without_key VALUES (1)")
        assert data(read(capture, 1))[0]["tableName"] == "later"
        assert [(str(table), why.code) for table, why in capture.left_out.items()] == [
            ("public.without_key", "NO_IDENTITY")
        ]


def test_a_connection_that_is_ended_is_told_and_the_next_goes_on(orders: Database) -> None:
    with orders.capture() as capture:
        orders.sql("INSERT INTO orders VALUES (1)")
        [first] = read(capture, 1)
        orders.sql(
            f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{orders.slot}'"
        )
        with pytest.raises(CaptureFailed) as failed:
            read(capture, 1)
        assert failed.value.code == "UNREACHABLE"
    orders.sql("INSERT INTO orders VALUES (2)")
    with orders.capture(position=first.position) as capture:
        assert [change["after"]["id"] for change in data(read(capture, 1))] == [2]
