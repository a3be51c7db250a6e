"""Submitting and cancelling statements."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from celery import Celery
from django.core.exceptions import PermissionDenied

from console.audit.models import Entry
from console.sql import lifecycle, services
from console.sql.models import QueryTask, TaskStatus
from console.statements import LONGEST_STATEMENT, read
from console.web.errors import Refused
from tests.support.sql_cast import Cast, allow

pytestmark = pytest.mark.django_db(transaction=True)
HINT = "/*+ run_async=true, mq-notify-by=ons, mq-topic=t, mq-producer-id=GID_p, mq-endpoint=http://MQ_INST_1 */"


def test_it_keeps_the_statement_as_it_was_written(cast: Cast, handed_over: list[str]) -> None:
    text = f"{HINT} select * from flights;"
    task = services.submit(cast.alice, read(text), "demo", 10_000_000_000_017)
    assert task.command == text
    assert task.statement == "select * from flights"
    assert task.task_name == "SELECT"
    assert task.status == TaskStatus.QUEUED
    assert task.connection_id == 10_000_000_000_017
    assert task.notify == {
        "mq-notify-by": "ons",
        "mq-topic": "t",
        "mq-producer-id": "GID_p",
        "mq-endpoint": "http://MQ_INST_1",
    }
    assert handed_over == [task.pk]
    assert Entry.objects.filter(action="sql.query.submit", detail__task=task.pk).count() == 1


def test_the_plan_of_a_query_is_a_task_of_its_own_kind(cast: Cast, handed_over: list[str]) -> None:
    task = services.submit(cast.alice, read("/* x */ explain formatted select * from flights"), "DEMO")
    assert (task.explain, task.statement, task.task_name) == ("formatted", "select * from flights", "EXPLAIN")
    assert task.table_schema == "demo"


def test_a_virtual_schema_can_be_the_default_one(cast: Cast, handed_over: list[str]) -> None:
    assert services.submit(cast.alice, read("select 1"), "MQ").table_schema == "mq"
    with pytest.raises(PermissionDenied):
        services.submit(cast.bob, read("select 1"), "gantry")


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("select * from demo.flights", "demo"),
        ("SELECT f.* FROM `Demo` . `flights` f JOIN mq.orders o ON true", "demo"),
        ("select * from elsewhere.flights join mq.orders", "mq"),
        ("select 'from mq.orders' /* from mq.orders */ from demo.flights -- join mq.orders", "demo"),
        ("select * from /* the */ demo.flights", "demo"),
    ],
)
def test_without_a_chosen_schema_the_first_that_is_named_is_the_default_one(
    cast: Cast, handed_over: list[str], text: str, schema: str
) -> None:
    assert services.submit(cast.alice, read(text), "").table_schema == schema


@pytest.mark.parametrize(
    "text",
    ["select * from flights", "select * from elsewhere.flights", "select 1", "select 'from demo.x' -- from demo.x"],
)
def test_without_a_schema_anywhere_one_is_asked_for(cast: Cast, handed_over: list[str], text: str) -> None:
    with pytest.raises(Refused, match="Choose a schema"):
        services.submit(cast.alice, read(text), "")


def test_a_named_schema_that_one_may_not_query_is_refused_as_a_chosen_one(cast: Cast, handed_over: list[str]) -> None:
    with pytest.raises(PermissionDenied):
        services.submit(cast.bob, read("select * from demo.flights"), "")


def test_where_it_is_notified_is_read_in_any_case(cast: Cast, handed_over: list[str]) -> None:
    task = services.submit(cast.alice, read(HINT.replace("ons", "ONS") + " select 1"), "demo")
    assert task.notify is not None and task.notify["mq-notify-by"] == "ons"


def test_the_id_has_the_form_of_the_vendor() -> None:
    task_id = services.new_task_id(datetime(2026, 1, 15, 10, 30, tzinfo=UTC))
    assert re.fullmatch(r"q202601151030mq[0-9a-f]{15}", task_id)


def test_without_receipt_options_no_notification_is_wanted(cast: Cast, handed_over: list[str]) -> None:
    assert services.submit(cast.alice, read("/*+ run_async=true */ select 1"), "demo").notify is None
    assert services.submit(cast.alice, read("select 1"), "demo").notify is None


@pytest.mark.parametrize(
    ("text", "schema", "symbol"),
    [
        ("", "demo", "STATEMENT_EMPTY"),
        ("/*+ run_async=true */ ;", "demo", "STATEMENT_EMPTY"),
        ("/*+ run_async=true * / select 1", "demo", "HINT_INVALID"),
        ("show tables", "demo", "STATEMENT_NOT_A_QUERY"),
        ("select '" + "x" * LONGEST_STATEMENT + "'", "demo", "STATEMENT_TOO_LONG"),
        ("select " + "(" * 10_000 + "1" + ")" * 10_000, "demo", "STATEMENT_REFUSED"),
        ("select 1", "secret", "SCHEMA_NOT_FOUND"),
        ("select 1", "", "SCHEMA_NOT_FOUND"),
    ],
)
def test_it_refuses_what_cannot_run(cast: Cast, handed_over: list[str], text: str, schema: str, symbol: str) -> None:
    with pytest.raises(Refused) as refused:
        services.submit(cast.alice, read(text), schema)
    assert refused.value.symbol == symbol
    assert not QueryTask.objects.exists()
    assert handed_over == []


def test_a_ram_user_needs_a_policy(cast: Cast, handed_over: list[str]) -> None:
    with pytest.raises(PermissionDenied):
        services.submit(cast.bob, read("select 1"), "demo")
    assert Entry.objects.filter(result="refused", action="dla:SubmitQuery").exists()
    assert services.submit(allow(cast.bob.person), read("select 1"), "demo").creator == cast.bob.person


def test_a_right_on_one_table_is_enough_to_submit(cast: Cast, handed_over: list[str]) -> None:
    document = {
        "Version": "1",
        "Statement": [{"Effect": "Allow", "Action": "dla:SubmitQuery", "Resource": "acs:dla:*:*:demo/flights"}],
    }
    assert services.submit(allow(cast.bob.person, document), read("select 1"), "demo")


def test_a_waiting_task_is_cancelled_at_once_and_notifies(
    cast: Cast, handed_over: list[str], kicked: list[int]
) -> None:
    task = services.submit(cast.alice, read(f"{HINT} select 1"), "demo")
    assert services.cancel(cast.alice, task)
    assert task.status == TaskStatus.CANCELLED
    assert task.notification is not None
    assert task.notification.tag == "CANCELLED"
    assert kicked == [task.notification.pk]


def test_a_running_task_is_asked_to_stop(cast: Cast, handed_over: list[str]) -> None:
    task = services.submit(cast.alice, read("select 1"), "demo")
    QueryTask.objects.update(status=TaskStatus.RUNNING, attempts=1, worker="w")
    assert services.cancel(cast.alice, task)
    assert (task.status, task.cancel_requested, task.cancellable) == (TaskStatus.RUNNING, True, False)


def test_an_ended_task_is_not_cancelled(cast: Cast, handed_over: list[str]) -> None:
    task = services.submit(cast.alice, read("select 1"), "demo")
    QueryTask.objects.update(status=TaskStatus.SUCCESS)
    assert not services.cancel(cast.alice, task)
    assert task.status == TaskStatus.SUCCESS


def test_a_statement_is_answered_with_its_id_though_no_worker_can_be_told(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row is there and the sweep hands it over: an error would have it sent, and run, a second time."""
    monkeypatch.setattr(lifecycle, "app", Celery("nowhere", broker="redis://127.0.0.1:1/0"))
    task = services.submit(cast.alice, read("/*+ run_async=true */ select 1"), "demo")
    assert QueryTask.objects.get().pk == task.pk
    assert Entry.objects.filter(action="sql.query.submit", detail__task=task.pk).exists()
