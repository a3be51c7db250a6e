"""The 27 columns of a task are true while it runs, when it has ended, and when it was stopped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.product import Product, eventually
from tests.support.sql_client import Row, SqlClient

#: Runs for minutes, in tasks of less than a second; reads a table, whose rows are counted while it does.
LONG = "select sum(hash(f.tailnum, r.id)) as h from flights f cross join range(0, 100000, 1, 5000) r"
TIME = "%Y-%m-%d %H:%M:%S"


@pytest.fixture
def client(product: Product) -> Iterator[SqlClient]:
    with SqlClient(product.demo) as client:
        yield client


def moment(text: str) -> datetime:
    return datetime.strptime(text, TIME).replace(tzinfo=UTC)


def test_all_columns_of_a_task_that_has_ended(product: Product, client: SqlClient) -> None:
    began = datetime.now(UTC).replace(microsecond=0)
    statement = "select carrier, name from airlines order by carrier limit 4"
    task = client.submit(statement, notify=True)
    row = client.ended(task, notified=True)
    ended = datetime.now(UTC)
    hint = ", ".join(f"{name}={value}" for name, value in {"run_async": "true", **client.receipt}.items())
    location = rf"oss://aliyun-oa-query-results-\d+-oss-[a-z0-9-]+/DLA_Result/\d{{4}}/\d\d/\d\d/{task}/result\.csv"
    exact: Row = {
        "id": task,
        "status": "SUCCESS",
        "task_name": "SELECT",
        "table_schema": "demo",
        "command": f"/*+ {hint} */ {statement}",
        "message": "",
        "row_count": 4,
        "scanned_row_count": 16,
        "cancellable_task": 0,
        "mq_product": "ons",
        "mq_model": "topic",
        "mq_topic": "query-done",
        "mq_queue": None,
        "mq_producer_id": "GID_query",
        "mq_endpoint": client.receipt["mq-endpoint"],
        "mq_status": "SUCCESS",
        "mq_error_msg": None,
    }
    assert {name: row[name] for name in exact} == exact
    patterns = {
        "id": r"q\d{12}[a-z]{2}[0-9a-f]{15}",
        "mpp_query_id": r"\d{8}_\d{6}_\d{5}_[a-z0-9]{5}",
        "creator_id": r"\d+",
        "connection_id": r"\d{14}",
        "result_file_oss_file": location,
        "mq_message_id": r"[0-9A-F]{32}",
    }
    assert {name for name, pattern in patterns.items() if not re.fullmatch(pattern, str(row[name]))} == set()
    assert began <= moment(row["create_time"]) <= moment(row["update_time"]) <= ended
    waited = moment(row["update_time"]) - moment(row["create_time"])
    assert 0 < row["elapse_time"] / 1000 <= (waited + timedelta(seconds=1)).total_seconds()
    assert 0 < row["scanned_data_bytes"] < 100_000
    assert row["mq_total_time"] > 0
    assert len(row) == len(exact) + len(patterns.keys() - exact.keys()) + 5, "each of the 27 was looked at"
    file = product.home / "lake" / row["result_file_oss_file"].removeprefix("oss://")
    assert file.read_text().count("\n") == 5


def test_a_running_task_shows_its_progress_and_a_stopped_one_what_it_did(client: SqlClient) -> None:
    task = client.submit(LONG, notify=True)

    def moved() -> Row | None:
        row = client.task(task)
        return row if row["scanned_row_count"] and row["elapse_time"] else None

    first = eventually(moved, seconds=90, what="the first figures of the running statement")
    assert first is not None
    assert (first["status"], first["cancellable_task"]) == ("RUNNING", 1)
    assert re.fullmatch(r"\d{8}_\d{6}_\d{5}_[a-z0-9]{5}", first["mpp_query_id"])
    eventually(lambda: client.task(task)["elapse_time"] > first["elapse_time"], seconds=30)
    client.cancel(task)
    row = client.ended(task, notified=True)
    assert (row["status"], row["cancellable_task"], row["row_count"]) == ("CANCELLED", 0, 0)
    assert (row["mpp_query_id"], row["mq_status"]) == (first["mpp_query_id"], "SUCCESS")
    assert row["scanned_row_count"] >= first["scanned_row_count"]
    assert row["elapse_time"] >= first["elapse_time"]


def test_a_short_statement_ends_while_another_account_scans(product: Product, client: SqlClient) -> None:
    scans = [client.submit(LONG) for _ in range(2)]
    eventually(lambda: all(client.task(task)["mpp_query_id"] for task in scans), seconds=60)
    keys = product.manage("shell", "--no-imports", "-c", OTHER_ACCOUNT).stdout.split("KEY ")[1].split()
    try:
        with SqlClient(product.demo, user=keys[0], password=keys[1], database="own") as other:
            assert other.ended(other.submit("select count(*) as n from range(1000)"))["status"] == "SUCCESS"
        assert {client.task(task)["status"] for task in scans} == {"RUNNING"}
    finally:
        for task in scans:
            client.cancel(task)
            client.ended(task)


OTHER_ACCOUNT = """
from console.accounts import services as accounts
from console.accounts.actor import Actor
from console.accounts.models import Organization
from console.catalog.models import Schema
organization, _ = Organization.objects.get_or_create(parent=None, name="others")
user = accounts.create_tenant(name="scanned-beside", organization=organization, password=accounts.draw_password())
Schema.objects.create(tenant=user.tenant, name="own")
key = accounts.create_access_key(actor=Actor(user), user=user)
print("KEY", key.access_key_id, key.access_key_secret)
"""


def test_a_waiting_statement_is_cancelled_at_once_and_notified(client: SqlClient) -> None:
    running = [client.submit(LONG) for _ in range(3)]  # of four places one is kept for those whose client waits
    eventually(lambda: all(client.task(task)["mpp_query_id"] for task in running), seconds=60)
    waiting = client.submit("select 1 as one", notify=True)
    assert client.task(waiting)["mpp_query_id"] == ""
    client.cancel(waiting)
    row = client.task(waiting)
    assert (row["status"], row["elapse_time"]) == ("CANCELLED", 0)
    assert client.ended(waiting, notified=True)["mq_status"] == "SUCCESS"
    next_one = client.submit("select 1 as one")
    client.cancel(running[0])
    assert client.ended(next_one)["status"] == "SUCCESS", "it starts as soon as one of the account's has ended"
    for task in running[1:]:
        assert client.task(task)["status"] == "RUNNING"
        client.cancel(task)
        client.ended(task)
