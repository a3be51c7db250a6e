"""`show query_task …`: the database filters by what the 27 columns show."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from console import statements
from console.outbox.models import Notification, NotificationStatus
from console.sql import answers, queries
from console.sql.models import QueryTask, TaskStatus
from console.web.errors import Refused
from tests.support.sql_cast import Cast, allow

pytestmark = pytest.mark.django_db


@pytest.fixture
def tasks(cast: Cast) -> list[QueryTask]:
    """q1 waits, q2 runs, q3 succeeded with a notification, q4 failed without one, q5 is another tenant's."""
    made = []
    for number, (status, actor) in enumerate(
        [
            (TaskStatus.QUEUED, cast.alice),
            (TaskStatus.RUNNING, cast.alice),
            (TaskStatus.SUCCESS, cast.alice),
            (TaskStatus.FAILURE, cast.bob),
            (TaskStatus.SUCCESS, cast.charlie),
        ],
        1,
    ):
        task = QueryTask.objects.create(
            id=f"q{number}",
            tenant=actor.tenant,
            creator=actor.user if number != 2 else None,
            submitter=actor.name,
            table_schema="demo",
            command=f"select {number}",
            statement=f"select {number}",
            task_name="SELECT",
            status=status,
            row_count=number * 10,
            connection_id=10**13 + number,
        )
        moment = datetime(2026, 1, 15, 10, number, 30, 999_000, tzinfo=UTC)
        QueryTask.objects.filter(pk=task.pk).update(create_time=moment, update_time=moment + timedelta(seconds=5))
        made.append(task)
    notification = Notification.objects.create(
        tenant=cast.alice.tenant,
        notify_by="ons",
        key="q3",
        body="",
        status=NotificationStatus.SUCCESS,
        due_at=timezone.now(),
        message_id="C0A8",
        total_time_ms=12,
    )
    notify = {"mq-notify-by": "ons", "mq-topic": "done", "mq-producer-id": "GID_p", "mq-endpoint": "http://x"}
    QueryTask.objects.filter(pk="q3").update(
        notification=notification, notify=notify, result_file="oss://r/result.csv", message=""
    )
    QueryTask.objects.filter(pk="q1").update(notify={"mq-notify-by": "mns", "mq-queue": "q"})
    return list(QueryTask.objects.filter(tenant=cast.alice.tenant).order_by("id"))


def ask(cast: Cast, clauses: str) -> list[str]:
    """Ids of the rows that `show query_task <clauses>` gives the administrator."""
    answer = answers.answer(cast.alice, statements.parse(f"show query_task {clauses}"), "demo")
    assert answer is not None
    assert answer.columns == queries.COLUMNS
    return [str(row[0]) for row in answer.rows]


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ("", ["q4", "q3", "q2", "q1"]),
        ("where id = 'q2'", ["q2"]),
        ("where status = 'RUNNING'", ["q2", "q1"]),
        ("where Status='running' order by id", ["q1", "q2"]),
        ("where status != 'RUNNING'", ["q4", "q3"]),
        ("where not (status = 'RUNNING' or id = 'q4')", ["q3"]),
        ("where mq_status is null order by id", ["q1", "q2", "q4"]),
        ("where mq_status is not null", ["q3"]),
        ("where mq_status = 'FAILURE' or mq_total_time >= 12", ["q3"]),
        ("where not mq_status = 'FAILURE'", ["q3"]),
        ("where mq_model = 'queue'", ["q1"]),
        ("where mq_topic like 'DO%'", ["q3"]),
        ("where create_time >= '2026-01-15 10:03:30'", ["q4", "q3"]),
        ("where create_time between '2026-01-15 10:02' and '2026-01-15 10:03:30'", ["q3", "q2"]),
        ("where create_time = '2026-01-15 10:02:30'", ["q2"]),
        ("where row_count > 15 and row_count <= 30", ["q3", "q2"]),
        ("where 20 < row_count", ["q4", "q3"]),
        ("where row_count in (10, '40')", ["q4", "q1"]),
        ("where row_count = -1", []),
        ("where command not like 'select 1%' limit 2", ["q4", "q3"]),
        ("where connection_id like '%03'", ["q3"]),
        ("where cancellable_task = 1", ["q2", "q1"]),
        ("where creator_id like '%@demo'", ["q2"]),
        ("order by row_count desc, id limit 1, 2", ["q3", "q2"]),
        ("order by row_count limit 2 offset 1", ["q2", "q3"]),
        ("like 'Q%' where id <> 'q1' order by id limit 1", ["q2"]),
        ("like '%select 3'", ["q3"]),
        ("limit 0", []),
    ],
)
def test_it_finds_tasks(cast: Cast, tasks: list[QueryTask], clauses: str, expected: list[str]) -> None:
    assert ask(cast, clauses) == expected


def test_every_column_is_searched_by_what_it_shows(cast: Cast, tasks: list[QueryTask]) -> None:
    rows = [queries.row_of(task) for task in tasks]
    for column in queries.COLUMNS:
        for value in {row[column] for row in rows}:
            condition = f"{column} is null" if value is None else f"{column} = '{value}'"
            expected = [row["id"] for row in rows if row[column] == value]
            assert ask(cast, f"where {condition} order by id") == expected, condition


@pytest.mark.parametrize(
    ("clauses", "symbol", "message"),
    [
        ("where state = 'x'", "UNKNOWN_COLUMN", "query_task has no column `state`; it has id, mpp_query_id, status"),
        ("order by nothing", "UNKNOWN_COLUMN", "no column `nothing`"),
        ("where row_count = 'many'", "SYNTAX_ERROR", "`many` is not a number, and row_count is one"),
        ("where upper(id) = 'Q1'", "SYNTAX_ERROR", "is not a column"),
        ("where id = (select 1)", "SYNTAX_ERROR", "is not a value"),
        ("where id", "SYNTAX_ERROR", "is not a condition; allowed are =, !="),
        ("where id = 'q1' group by id", "SYNTAX_ERROR", "is allowed"),
        ("limit 'x'", "SYNTAX_ERROR", "need a number"),
        ("where (id = 'q1'", "SYNTAX_ERROR", "Line 1, column"),
        ("where " + "(" * 3000 + "id" + ")" * 3000, "SYNTAX_ERROR", "nested too deeply"),
        ("for ever", "SYNTAX_ERROR", "only where, like, order by or limit is allowed"),
    ],
)
def test_it_says_what_it_does_not_understand(
    cast: Cast, tasks: list[QueryTask], clauses: str, symbol: str, message: str
) -> None:
    with pytest.raises(Refused) as refused:
        ask(cast, clauses)
    assert refused.value.symbol == symbol
    assert message in refused.value.message


def test_a_ram_user_finds_the_own_tasks_only(cast: Cast, tasks: list[QueryTask]) -> None:
    bob = allow(cast.bob.person)
    answer = answers.answer(bob, statements.parse("show query_task where id like 'q%'"), "demo")
    assert answer is not None
    assert [row[0] for row in answer.rows] == ["q4"]


def test_several_tasks_are_cancelled_at_once_or_none(cast: Cast, tasks: list[QueryTask]) -> None:
    with pytest.raises(Refused, match="'q9'"):
        answers.answer(cast.alice, statements.parse("cancel query_task where id in ('q1', 'q9')"), "demo")
    assert QueryTask.objects.get(pk="q1").status == TaskStatus.QUEUED
    done = answers.answer(cast.alice, statements.parse("cancel query_task where id in ('q1', 'q2', 'q3')"), "demo")
    assert done is not None
    assert done.affected == 2
    assert QueryTask.objects.get(pk="q1").status == TaskStatus.CANCELLED
    assert QueryTask.objects.get(pk="q2").cancel_requested
