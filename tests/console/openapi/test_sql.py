"""Async SQL for programs: what each operation answers, whose tasks they reach, and how values are typed."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from analytics import lake
from console.accounts import services as accounts
from console.catalog.models import ExternalTable, Schema
from console.outbox.models import Notification, NotificationStatus
from console.sql import lifecycle, results
from console.sql.models import QueryTask, TaskStatus
from tests.console.openapi.caller import Caller
from tests.support.redis_server import RedisServer
from tests.support.sql_cast import Cast, cast, no_acl

__all__ = ["cast", "no_acl"]

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def uses_of_signatures(redis: RedisServer, settings: Any) -> None:
    """A signature is taken when Redis can tell that it is new."""
    backend = "django.core.cache.backends.redis.RedisCache"
    settings.CACHES = {"default": {"BACKEND": backend, "LOCATION": f"{redis.url}?db=2"}}


@pytest.fixture
def alice(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> Caller:
    """The administrator of demo; statements wait, since no worker runs here."""
    monkeypatch.setattr(lifecycle, "hand_over", lambda task_id: None)
    return Caller(cast.key.access_key_id, cast.key.access_key_secret)


@pytest.fixture
def charlie(cast: Cast) -> Caller:
    key = accounts.create_access_key(actor=cast.charlie, user=cast.charlie.person)
    return Caller(key.access_key_id, key.access_key_secret)


def submitted(alice: Caller, text: str = "select 1", **more: str) -> QueryTask:
    return QueryTask.objects.get(pk=alice.data("sql/submit", text=text, schemaName="demo", **more)["id"])


def ended(task: QueryTask, content: bytes, types: dict[str, str]) -> QueryTask:
    """The task with a result file."""
    location = lake.result_location(task.tenant.uid, "mq-private", task.pk, timezone.localdate())
    file = Path(lake.lake_path(location))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    QueryTask.objects.filter(pk=task.pk).update(
        status=TaskStatus.SUCCESS, result_file=location, row_count=content.count(b"\n") - 1, result_bytes=len(content),
        result_columns=[{"name": name, "type": kind} for name, kind in types.items()],
    )  # fmt: skip
    task.refresh_from_db()
    return task


def test_a_statement_becomes_a_task_that_can_be_followed_and_cancelled(alice: Caller) -> None:
    task = submitted(alice, "/*+ run_async=true */ select ?", parameters='["UA", 1.5, null]')
    assert task.parameters == ["UA", 1.5, None]
    row = alice.data("sql/task", id=task.pk)
    assert (row["id"], row["status"], row["waitingBefore"], row["progress"]) == (task.pk, "RUNNING", 0, None)
    assert len(row) == 29
    progress = {"stages": 2, "stages_done": 1, "tasks": 8, "tasks_done": 5}
    QueryTask.objects.update(status=TaskStatus.RUNNING, progress=progress)
    told = {"stages": 2, "stagesDone": 1, "tasks": 8, "tasksDone": 5}
    assert alice.data("sql/task", id=task.pk)["progress"] == told
    assert alice.data("sql/cancel", id=task.pk) == {"cancelled": True}
    QueryTask.objects.update(status=TaskStatus.CANCELLED)
    assert alice.data("sql/cancel", id=task.pk) == {"cancelled": False}


def test_a_failed_notification_is_sent_again(alice: Caller) -> None:
    task = submitted(alice, "/*+ run_async=true */ select 1")
    assert alice.data("sql/sendAgain", id=task.pk) == {"sentAgain": False}
    task.notification = Notification.objects.create(
        tenant=task.tenant, notify_by="ons", key=task.pk, body="{}", due_at=task.create_time,
        status=NotificationStatus.FAILURE, error="no such topic",
    )  # fmt: skip
    task.save()
    assert alice.data("sql/sendAgain", id=task.pk) == {"sentAgain": True}
    assert alice.data("sql/sendAgain", id=task.pk) == {"sentAgain": False}


def test_what_needs_no_spark_is_answered_at_once(alice: Caller) -> None:
    answered = alice.data("sql/submit", text="show tables", schemaName="demo")
    assert answered["id"] == "" and ["flights"] in answered["answer"]["rows"]
    asked = alice.data("sql/query", text="describe flights", schemaName="demo")
    assert (asked["status"], asked["rows"][0][0]) == ("SUCCESS", "carrier")
    assert not QueryTask.objects.exists()


def test_a_query_returns_typed_rows_once_it_has_ended(alice: Caller) -> None:
    types = {"n": "bigint", "d": "decimal(20,2)", "x": "double", "b": "boolean", "t": "string"}
    content = b'n,d,x,b,t\n1,12.30,0.5,true,"a, ""b"""\n,,NaN,false,""\n9223372036854775807,0.10,1e300,,x\n'
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.05):
            for task in QueryTask.objects.filter(status=TaskStatus.QUEUED):
                ended(task, content, types)
        connection.close()

    worker = threading.Thread(target=work)
    worker.start()
    try:
        got = alice.data("sql/query", text="select 1", schemaName="demo", limit="2", waitSeconds="30")
    finally:
        stop.set()
        worker.join()
    assert (got["status"], got["rowCount"]) == ("SUCCESS", 3)
    assert got["columns"] == [{"name": name, "type": kind} for name, kind in types.items()]
    assert got["rows"] == [[1, "12.30", 0.5, True, 'a, "b"'], [None, None, "NaN", False, ""]]
    page = alice.data("sql/result", id=got["id"], currentPage="2", pageSize="2")
    assert (page["rows"], page["total"]) == ([[2**63 - 1, "0.10", 1e300, None, "x"]], 3)
    assert alice.data("sql/result", id=got["id"], currentPage="9")["rows"] == []
    assert alice.symbol("sql/result", id=got["id"], currentPage="1001", pageSize="100") == "BIZ_FIELD_CHECK_INVALID"


def test_a_query_that_takes_longer_goes_on_in_the_background(alice: Caller) -> None:
    got = alice.data("sql/query", text="select 1", schemaName="demo", waitSeconds="0")
    assert (got["status"], got["rows"]) == ("RUNNING", [])
    assert alice.symbol("sql/result", id=got["id"]) == "BIZ_RESULT_NOT_FOUND"
    QueryTask.objects.update(status=TaskStatus.FAILURE, message="no such column (line 1, position 7)")
    assert alice.data("sql/task", id=got["id"])["message"] == "no such column (line 1, position 7)"


def test_the_plan_comes_as_text(alice: Caller) -> None:
    got = alice.data("sql/explain", text="select 1", schemaName="demo", waitSeconds="0")
    task = QueryTask.objects.get(pk=got["id"])
    assert (got["status"], got["plan"], task.explain) == ("RUNNING", "", "formatted")


@pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume")
def test_a_download_is_an_address_that_needs_no_signature_and_ends(
    alice: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"n\n" + b"1\n" * 300_000
    task = ended(submitted(alice), content, {"n": "int"})
    given = alice.data("sql/download", id=task.pk)
    assert given["size"] == len(content)
    answer = Client().get(given["url"])
    assert b"".join(answer) == content
    assert answer["Content-Disposition"] == f'attachment; filename="{task.pk}.csv"'
    assert Client().get(given["url"].replace("/result.csv", "x/result.csv")).status_code == 404
    monkeypatch.setattr(results, "VALID_SECONDS", -1)
    assert Client().get(given["url"]).status_code == 404
    Path(lake.lake_path(task.result_file)).unlink()
    assert alice.symbol("sql/download", id=task.pk) == "BIZ_RESULT_NOT_FOUND"


def test_lists_have_pages_filters_and_a_total(alice: Caller) -> None:
    for number in range(5):
        submitted(alice, f"select {number} as n")
    QueryTask.objects.filter(statement__contains="3").update(status=TaskStatus.FAILURE)
    answer = alice("sql/tasks", pageSize="2", currentPage="2")
    assert (len(answer["data"]), answer["total"], answer["currentPage"], answer["pageSize"]) == (2, 5, 2, 2)
    [failed] = alice.data("sql/tasks", status="FAILURE")
    assert failed["command"] == "select 3 as n"
    assert len(alice.data("sql/tasks", text="as n")) == 5
    assert alice.symbol("sql/tasks", status="BROKEN") == "BIZ_FIELD_CHECK_INVALID"


def test_what_can_be_queried_is_listed(alice: Caller, charlie: Caller) -> None:
    assert alice.data("sql/schemas") == ["demo", "mq", "gantry"]
    assert alice.data("sql/tables", schemaName="demo", text="fli") == ["flights"]
    assert alice.data("sql/columns", schemaName="demo", table="flights")[0] == {"name": "carrier", "type": "string"}
    assert alice.symbol("sql/columns", schemaName="demo", table="none") == "BIZ_TABLE_NOT_FOUND"
    assert charlie.data("sql/schemas") == ["secret", "mq", "gantry"]
    assert charlie.symbol("sql/tables", schemaName="demo") == "BIZ_SCHEMA_NOT_FOUND"


def test_another_tenants_task_does_not_exist(alice: Caller, charlie: Caller) -> None:
    task = ended(submitted(alice), b"n\n1\n", {"n": "int"})
    for path in ("sql/task", "sql/cancel", "sql/sendAgain", "sql/result", "sql/download"):
        assert charlie.symbol(path, id=task.pk) == "BIZ_TASK_NOT_FOUND"
    assert charlie.data("sql/tasks") == []
    answer = charlie.data("sql/query", text=f"show query_task where id = '{task.pk}'", schemaName="secret")
    assert answer["rows"] == []


@pytest.mark.parametrize(
    ("given", "symbol"),
    [
        ({"text": "/*+ run_async=true * / select 1"}, "BIZ_STATEMENT_REFUSED"),
        ({"text": "kill 4"}, "BIZ_STATEMENT_REFUSED"),
        ({"text": "describe nothing"}, "BIZ_TABLE_NOT_FOUND"),
        ({"text": "select 1", "schemaName": "nowhere"}, "BIZ_SCHEMA_NOT_FOUND"),
        ({"text": "cancel query_task where id = 'q1'"}, "BIZ_TASK_NOT_FOUND"),
        ({"text": "select ?", "parameters": "{"}, "BIZ_FIELD_CHECK_INVALID"),
        ({"text": "select ?", "parameters": "[[1]]"}, "BIZ_FIELD_CHECK_INVALID"),
        ({"text": "select ?", "parameters": "[" * 100_000}, "BIZ_FIELD_CHECK_INVALID"),
        ({"text": ""}, "BIZ_FIELD_CHECK_INVALID"),
    ],
)
def test_what_cannot_be_run_is_refused_with_a_symbol(alice: Caller, given: dict[str, Any], symbol: str) -> None:
    with transaction.atomic():
        assert alice.symbol("sql/submit", method="post", **({"schemaName": "demo"} | given)) == symbol
    assert not QueryTask.objects.exists()


def test_a_ram_user_sees_the_tables_that_its_policy_names(alice: Caller, cast: Cast) -> None:
    key = accounts.create_access_key(actor=cast.alice, user=cast.bob.person)
    bob = Caller(key.access_key_id, key.access_key_secret)
    assert bob.symbol("sql/schemas") == "AUTH_PERMISSION_DENIED"
    assert bob.symbol("sql/submit", text="select 1", schemaName="demo") == "AUTH_PERMISSION_DENIED"
    assert Schema.objects.filter(name="demo").exists() and ExternalTable.objects.count() == 2
