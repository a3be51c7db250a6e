"""Whose turn it is: fair between accounts, limited per account, and the same for workers in several processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from console.accounts.actor import Actor
from console.sql import lifecycle, scheduling, services
from console.sql.lifecycle import Outcome
from console.sql.models import QueryTask, TaskStatus
from console.statements import read
from console.web.errors import Refused
from tests.support.sql_cast import Cast

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("handed_over", "kicked")]
ROOT = Path(__file__).resolve().parents[3]


def submit(actor: Actor, number: int = 1, *, synchronous: bool = False) -> list[str]:
    """Submit so many statements, in this order."""
    schema = "secret" if actor.tenant.name == "other" else "demo"
    return [services.submit(actor, read("select 1"), schema, synchronous=synchronous).pk for _ in range(number)]


def claim(**options: Any) -> QueryTask:
    task = scheduling.claim("w1", **options)
    assert task is not None
    return task


def test_an_account_with_many_statements_does_not_keep_the_others_waiting(cast: Cast, settings: Settings) -> None:
    settings.SQL_RUNNING_PER_TENANT = 6
    alices, charlies = submit(cast.alice, 4), submit(cast.charlie, 2)
    assert [claim().pk for _ in range(6)] == [
        alices[0], charlies[0], alices[1], charlies[1], alices[2], alices[3],
    ]  # fmt: skip


def test_with_one_place_the_accounts_take_turns(cast: Cast) -> None:
    alices, charlies = submit(cast.alice, 3), submit(cast.charlie, 3)
    order = []
    for _ in range(6):
        task = claim()
        order.append(task.pk)
        lifecycle.end(task, Outcome(TaskStatus.SUCCESS))
    assert order == [alices[0], charlies[0], alices[1], charlies[1], alices[2], charlies[2]]


def test_the_account_with_the_fewest_running_is_next(cast: Cast) -> None:
    alices = submit(cast.alice, 3)
    claim(), claim()
    (charlies,) = submit(cast.charlie)
    QueryTask.objects.filter(pk=alices[2]).update(create_time=timezone.now() - timedelta(hours=1))
    assert claim().pk == charlies


def test_no_more_than_the_limit_of_an_account_run(cast: Cast, settings: Settings) -> None:
    settings.SQL_RUNNING_PER_TENANT = 3
    alices = submit(cast.alice, 3)
    first = claim()
    claim()
    assert scheduling.claim("w2") is None
    lifecycle.end(first, Outcome(TaskStatus.SUCCESS))
    assert claim().pk == alices[2]


def test_a_statement_whose_client_waits_overtakes_those_of_the_last_seconds_only(cast: Cast) -> None:
    old, new = submit(cast.alice, 2)
    QueryTask.objects.filter(pk=old).update(create_time=timezone.now() - scheduling.HEAD_START * 2)
    (waited_for,) = submit(cast.alice, synchronous=True)
    assert [claim().pk for _ in range(3)] == [old, waited_for, new]


def test_only_statements_whose_client_waits(cast: Cast) -> None:
    submit(cast.alice)
    assert scheduling.claim("w1", asynchronous=False) is None
    (waited_for,) = submit(cast.alice, synchronous=True)
    assert claim(asynchronous=False).pk == waited_for


def test_what_lost_an_engine_is_only_for_who_runs_it_alone(cast: Cast) -> None:
    suspect, innocent = submit(cast.alice, 2)
    QueryTask.objects.filter(pk=suspect).update(engine_losses=1)
    assert scheduling.suspects_wait()
    assert claim().pk == innocent
    assert scheduling.claim("w1") is None
    assert claim(alone=True).pk == suspect
    assert scheduling.claim("w1", alone=True) is None
    assert not scheduling.suspects_wait()


@pytest.mark.parametrize(("limit", "without_client"), [(1, 1), (2, 1), (4, 3), (8, 6)])
def test_places_are_kept_for_those_whose_client_waits(
    cast: Cast, settings: Settings, limit: int, without_client: int
) -> None:
    settings.SQL_RUNNING_PER_TENANT = limit
    submit(cast.alice, limit + 2)
    while scheduling.claim("w1") is not None:
        pass
    assert QueryTask.objects.filter(status=TaskStatus.RUNNING).count() == without_client
    waited_for = submit(cast.alice, limit, synchronous=True)
    taken = [task.pk for _ in range(limit) if (task := scheduling.claim("w1")) is not None]
    assert taken == waited_for[: limit - without_client], "however many of the own ones run and wait"
    assert QueryTask.objects.filter(status=TaskStatus.RUNNING).count() == limit


def test_those_whose_client_waits_may_take_every_place(cast: Cast, settings: Settings) -> None:
    settings.SQL_RUNNING_PER_TENANT = 4
    waited_for = submit(cast.alice, 5, synchronous=True)
    assert [claim().pk for _ in range(4)] == waited_for[:4]
    assert scheduling.claim("w1") is None


def test_too_many_waiting_are_refused_with_the_limit(cast: Cast, settings: Settings) -> None:
    settings.SQL_WAITING_PER_TENANT = 2
    submit(cast.alice, 2)
    with pytest.raises(Refused, match="2 statements of this account are already waiting") as refused:
        submit(cast.alice)
    assert refused.value.symbol == "TOO_MANY_WAITING"
    submit(cast.charlie)
    claim(), claim()
    submit(cast.alice)


def killed(actor: Actor, statement: str) -> None:
    """A statement that cost two engines."""
    task = services.submit(actor, read(statement), "demo")
    QueryTask.objects.filter(pk=task.pk).update(
        status=TaskStatus.FAILURE, error_condition=lifecycle.ENGINE_LOST, engine_losses=2, update_time=timezone.now()
    )


def test_a_statement_that_stopped_the_engine_for_good_runs_alone_for_an_hour(cast: Cast) -> None:
    killed(cast.alice, "select 2")
    again = services.submit(cast.alice, read("/*+ run_async=true */ select 2"), "demo")
    assert again.engine_losses == 1
    assert services.submit(cast.alice, read("select 1"), "demo").engine_losses == 0
    assert services.submit(cast.charlie, read("select 2"), "secret").engine_losses == 0
    lifecycle.lose(claim(alone=True), "Spark died.")
    again.refresh_from_db()
    assert again.status == TaskStatus.FAILURE
    assert "tried once, alone" in again.message
    QueryTask.objects.update(update_time=timezone.now() - scheduling.REMEMBERED_FOR)
    assert services.submit(cast.alice, read("select 2"), "demo").engine_losses == 0


@pytest.mark.parametrize("status", [TaskStatus.CANCELLED, TaskStatus.FAILURE, TaskStatus.SUCCESS])
def test_one_for_which_the_engine_was_ended_runs_alone_however_it_ended_itself(cast: Cast, status: TaskStatus) -> None:
    task = services.submit(cast.alice, read("select 2"), "demo")
    claimed = claim()
    assert lifecycle.end(claimed, Outcome(status))
    assert services.submit(cast.alice, read("select 2"), "demo").engine_losses == 0
    lifecycle.blame(task.pk)
    assert services.submit(cast.alice, read("select 2"), "demo").engine_losses == 1


def test_one_that_waits_again_is_not_blamed_for_good(cast: Cast) -> None:
    task = services.submit(cast.alice, read("select 2"), "demo")
    lifecycle.lose(claim(), "Spark died.")
    lifecycle.blame(task.pk)
    task.refresh_from_db()
    assert (task.status, task.engine_losses) == (TaskStatus.QUEUED, 1)


def test_an_account_with_several_of_them_runs_alone(cast: Cast) -> None:
    for number in range(scheduling.MOST_KILLERS):
        assert services.submit(cast.alice, read("select 'other'"), "demo").engine_losses == 0
        killed(cast.alice, f"select {number}")
    assert services.submit(cast.alice, read("select 'other'"), "demo").engine_losses == 1
    assert services.submit(cast.charlie, read("select 'other'"), "secret").engine_losses == 0


def test_the_number_of_queries_does_not_depend_on_what_waits(cast: Cast) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            claim()
        return len(captured)

    submit(cast.alice, 2)
    few = queries()
    submit(cast.alice, 20)
    submit(cast.charlie, 20)
    assert queries() == few


def test_threads_that_race_claim_each_task_once_and_keep_the_limit(cast: Cast, settings: Settings) -> None:
    settings.SQL_RUNNING_PER_TENANT = 4
    submit(cast.alice, 12)
    submit(cast.charlie, 12)
    start, claims = threading.Barrier(8), []

    def race(number: int) -> None:
        start.wait()
        while (task := scheduling.claim(f"w{number}")) is not None:
            claims.append(task)
        connection.close()

    threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(task.tenant.name for task in claims) == {"demo": 3, "other": 3}
    assert len({task.pk for task in claims}) == 6


#: Takes and ends tasks until there are none; prints how many ran at once at most, and the ids.
PROCESS = """
import os, sys, django
from django.conf import settings
settings.DATABASES["default"]["NAME"] = sys.argv[1]
settings.SQL_RUNNING_PER_TENANT = 2
django.setup()
from console.sql import lifecycle, scheduling
from console.sql.models import QueryTask, TaskStatus
from console.outbox import services as outbox
from console.sql.lifecycle import Outcome
print("ready", flush=True)
sys.stdin.readline()
most, taken = 0, []
while QueryTask.objects.filter(status=TaskStatus.QUEUED).exists():
    task = scheduling.claim(f"process {os.getpid()}")
    if task is None:
        continue
    running = QueryTask.objects.filter(status=TaskStatus.RUNNING).values_list("tenant", flat=True)
    most = max([most, *map(list(running).count, set(running))])
    taken.append(task.pk)
    assert lifecycle.end(task, Outcome(TaskStatus.SUCCESS))
print(most, *taken)
"""


def test_worker_processes_that_race_claim_each_task_once_and_keep_the_limit(cast: Cast) -> None:
    submitted = {*submit(cast.alice, 10), *submit(cast.charlie, 10)}
    name = connection.settings_dict["NAME"]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(name)],
            cwd=ROOT,
            text=True,
            env=os.environ | {"DJANGO_SETTINGS_MODULE": "console.settings"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    answers = [process.communicate("go\n", timeout=120)[0].split() for process in processes]
    assert max(int(answer[0]) for answer in answers) <= 2
    taken = [task_id for answer in answers for task_id in answer[1:]]
    assert len(taken) == 20
    assert set(taken) == submitted
    assert set(QueryTask.objects.values_list("attempts", flat=True)) == {1}
