"""Who sees what, and the 27 columns."""

from __future__ import annotations

import re

import pytest
from django.utils import timezone

from console.accounts.actor import Actor
from console.accounts.models import Policy, Role
from console.catalog import queries as catalog_queries
from console.outbox.models import Notification, NotificationStatus
from console.sql import queries, services
from console.sql.models import QueryTask, TaskStatus
from console.statements import read
from tests.support.roles import make_role
from tests.support.sql_cast import ALLOW_SQL, Cast, allow

pytestmark = pytest.mark.django_db


def submit(actor: Actor, text: str = "/*+ run_async=true */ select 1") -> QueryTask:
    return services.submit(actor, read(text), "demo")


def test_a_row_has_the_27_columns_in_order(cast: Cast, handed_over: list[str]) -> None:
    row = queries.row_of(submit(cast.alice))
    assert tuple(row) == queries.COLUMNS
    assert len(row) == 27
    assert row["status"] == "RUNNING"
    assert row["cancellable_task"] == 1
    assert row["creator_id"] == cast.alice.person.uid
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", str(row["create_time"]))


def test_without_receipt_options_all_mq_columns_are_null(cast: Cast, handed_over: list[str]) -> None:
    row = queries.row_of(submit(cast.alice))
    assert {row[name] for name in queries.COLUMNS if name.startswith("mq_")} == {None}


def test_the_receipt_is_told_once_it_has_ended(cast: Cast, handed_over: list[str]) -> None:
    hint = "/*+ run_async=true, mq-notify-by=mns, mq-queue=q */"
    task = submit(cast.alice, f"{hint} select 1")
    task.notification = Notification.objects.create(
        tenant=cast.alice.tenant, notify_by="mns", queue="q", key=task.pk, body="{}", due_at=timezone.now()
    )
    row = queries.row_of(task)
    assert (row["mq_product"], row["mq_model"], row["mq_queue"], row["mq_status"]) == ("mns", "queue", "q", None)
    task.notification.status = NotificationStatus.FAILURE
    task.notification.error = "no endpoint"
    row = queries.row_of(task)
    assert (row["mq_status"], row["mq_error_msg"], row["mq_message_id"]) == ("FAILURE", "no endpoint", None)
    assert row["status"] == "RUNNING"


def test_an_ended_task_cannot_be_cancelled(cast: Cast, handed_over: list[str]) -> None:
    task = submit(cast.alice)
    task.status = TaskStatus.SUCCESS
    assert queries.row_of(task)["cancellable_task"] == 0


def test_a_ram_user_sees_own_tasks_only(cast: Cast, handed_over: list[str]) -> None:
    bob = allow(cast.bob.person)
    of_alice, of_bob = submit(cast.alice), submit(bob)
    assert list(queries.visible_tasks(bob)) == [of_bob]
    assert set(queries.visible_tasks(cast.alice)) == {of_alice, of_bob}
    assert list(queries.visible_tasks(cast.charlie)) == []
    assert list(queries.tasks_of(cast.alice.tenant)[:1]) == [of_bob]


def test_only_readable_schemas_and_tables_are_there(cast: Cast) -> None:
    assert [t.name for t in catalog_queries.readable_schemas(cast.alice)["demo"]] == ["airlines", "flights"]
    assert catalog_queries.readable_schemas(cast.bob) == {}
    document = {
        "Version": "1",
        "Statement": [
            {"Effect": "Allow", "Action": "dla:*", "Resource": "*"},
            {"Effect": "Deny", "Action": "dla:SubmitQuery", "Resource": "acs:dla:*:*:demo/flights"},
        ],
    }
    bob = allow(cast.bob.person, document)
    assert [t.name for t in catalog_queries.readable_schemas(bob)["demo"]] == ["airlines"]


def acting(role: Role) -> Actor:
    role.policies.add(Policy.objects.create(tenant=role.tenant, name=f"sql of {role.name}", document=ALLOW_SQL))
    return Actor(role=role)


def test_a_role_sees_the_tasks_of_its_own_only_and_none_of_others_without_a_user(
    cast: Cast, handed_over: list[str]
) -> None:
    one, other = acting(make_role(cast.alice, "One")), acting(make_role(cast.alice, "Other"))
    of_one, of_other, of_alice = submit(one), submit(other), submit(cast.alice)
    assert (of_one.creator, of_other.creator) == (None, None)
    assert list(queries.visible_tasks(one)) == [of_one]
    assert list(queries.visible_tasks(other)) == [of_other]
    assert set(queries.visible_tasks(cast.alice)) == {of_one, of_other, of_alice}
