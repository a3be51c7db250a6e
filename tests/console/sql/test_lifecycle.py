"""Claims, ends, losses and the sweep: every step is exclusive and none leaves a task RUNNING for ever."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from analytics.specs import Progress
from console.outbox.models import Notification
from console.sql import lifecycle, services
from console.sql.lifecycle import Outcome
from console.sql.models import QueryTask, TaskStatus
from console.statements import read
from tests.support.sql_cast import Cast

pytestmark = pytest.mark.django_db(transaction=True)
HINT = "/*+ run_async=true, mq-notify-by=ons, mq-topic=t, mq-producer-id=GID_p, mq-endpoint=http://MQ_INST_1 */"
LONG_AGO = timedelta(hours=1)


@pytest.fixture
def task(cast: Cast, handed_over: list[str], kicked: list[int]) -> QueryTask:
    task = services.submit(cast.alice, read(f"{HINT} select 1"), "demo")
    handed_over.clear()
    return task


def claimed(task: QueryTask, worker: str = "w1") -> QueryTask:
    found = lifecycle.claim(task.pk, worker)
    assert found is not None
    return found


def status_of(task: QueryTask) -> str:
    return QueryTask.objects.get(pk=task.pk).status


def test_two_workers_racing_claim_it_once(task: QueryTask) -> None:
    start, claims = threading.Barrier(8), []

    def race(number: int) -> None:
        start.wait()
        claims.append(lifecycle.claim(task.pk, f"w{number}"))
        connection.close()

    threads = [threading.Thread(target=race, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [c for c in claims if c]
    assert len(winners) == 1
    assert (winners[0].status, winners[0].attempts) == (TaskStatus.RUNNING, 1)


def test_a_message_delivered_again_claims_nothing(task: QueryTask) -> None:
    held = claimed(task)
    assert lifecycle.claim(task.pk, "w2") is None
    lifecycle.end(held, Outcome(TaskStatus.SUCCESS))
    assert lifecycle.claim(task.pk, "w2") is None
    assert lifecycle.claim("q-unknown", "w2") is None


def test_the_end_and_the_notification_are_one_commit(task: QueryTask, kicked: list[int]) -> None:
    outcome = Outcome(TaskStatus.SUCCESS, row_count=4, elapse_time=490, result_file="oss://b/r.csv")
    assert lifecycle.end(claimed(task), outcome)
    notification = Notification.objects.get(query_task=task)
    body = json.loads(notification.body)
    assert (notification.key, notification.tag) == (task.pk, "SUCCESS")
    assert (body["id"], body["status"], body["row_count"], body["elapse_time"]) == (task.pk, "SUCCESS", 4, 490)
    assert (body["mq_product"], body["mq_model"], body["mq_topic"]) == ("ons", "topic", "t")
    assert None not in body.values()
    assert kicked == [notification.pk]


def test_a_crash_before_the_commit_leaves_neither(task: QueryTask, monkeypatch: pytest.MonkeyPatch) -> None:
    held = claimed(task)

    def crash(*_: object, **__: object) -> None:
        raise RuntimeError("power cut")

    monkeypatch.setattr(QueryTask, "save", crash)
    with pytest.raises(RuntimeError):
        lifecycle.end(held, Outcome(TaskStatus.SUCCESS))
    assert status_of(task) == TaskStatus.RUNNING
    assert not Notification.objects.exists()


def test_a_worker_that_was_given_up_ends_nothing(task: QueryTask) -> None:
    first = claimed(task)
    lifecycle.lose(first, "It died.")
    second = claimed(task, "w2")
    assert not lifecycle.end(first, Outcome(TaskStatus.FAILURE))
    assert lifecycle.end(second, Outcome(TaskStatus.SUCCESS))
    assert Notification.objects.count() == 1


@pytest.mark.parametrize("second", ["w1", "w2"], ids=["the same worker", "another worker"])
@pytest.mark.parametrize("step", ["end", "beat", "lose", "give back"])
def test_a_claim_that_was_given_up_changes_nothing_of_the_next_one(task: QueryTask, step: str, second: str) -> None:
    """By its worker another one's, by its attempt one's own: a task that was given back counts one less again."""
    first = claimed(task, "w1")
    (lifecycle.release(first) if second == "w2" else lifecycle.lose(first, "It died."))
    now = claimed(task, second)
    QueryTask.objects.filter(pk=task.pk).update(heartbeat_at=timezone.now() - LONG_AGO)
    before = QueryTask.objects.filter(pk=task.pk).values().get()
    steps: dict[str, Callable[[], object]] = {
        "end": lambda: lifecycle.end(first, Outcome(TaskStatus.FAILURE)),
        "beat": lambda: lifecycle.beat(first),
        "lose": lambda: lifecycle.lose(first, "It died."),
        "give back": lambda: lifecycle.release(first),
    }
    steps[step]()
    assert QueryTask.objects.filter(pk=task.pk).values().get() == before
    assert lifecycle.end(now, Outcome(TaskStatus.SUCCESS))


def test_the_second_loss_is_the_end(task: QueryTask) -> None:
    lifecycle.lose(claimed(task), "Spark died.")
    assert status_of(task) == TaskStatus.QUEUED
    lifecycle.lose(claimed(task, "w2"), "Spark died.")
    task.refresh_from_db()
    assert task.status == TaskStatus.FAILURE
    assert task.message == "Spark died. The statement was tried twice and is not tried again."
    assert Notification.objects.get().tag == "FAILURE"


def test_giving_back_does_not_count(task: QueryTask) -> None:
    for number in range(3):
        lifecycle.release(claimed(task, f"w{number}"))
    assert status_of(task) == TaskStatus.QUEUED
    assert claimed(task).attempts == 1


def test_the_sweep_requeues_what_lost_its_worker_once(task: QueryTask, handed_over: list[str]) -> None:
    claimed(task)
    lifecycle.sweep()
    assert status_of(task) == TaskStatus.RUNNING
    QueryTask.objects.update(heartbeat_at=timezone.now() - LONG_AGO)
    lifecycle.sweep()
    assert status_of(task) == TaskStatus.QUEUED
    assert handed_over == [task.pk]
    claimed(task, "w2")
    QueryTask.objects.update(heartbeat_at=timezone.now() - LONG_AGO)
    lifecycle.sweep()
    assert status_of(task) == TaskStatus.FAILURE
    lifecycle.sweep()
    assert handed_over == [task.pk]


def test_a_heartbeat_keeps_it(task: QueryTask) -> None:
    held = claimed(task)
    QueryTask.objects.update(heartbeat_at=timezone.now() - LONG_AGO)
    lifecycle.beat(held)
    lifecycle.sweep()
    assert status_of(task) == TaskStatus.RUNNING


def test_a_worker_that_was_given_up_keeps_nothing_alive(task: QueryTask) -> None:
    first = claimed(task)
    lifecycle.release(first)
    claimed(task, "w2")
    QueryTask.objects.update(heartbeat_at=timezone.now() - LONG_AGO)
    lifecycle.beat(first)
    lifecycle.sweep()
    assert status_of(task) == TaskStatus.QUEUED


def test_a_running_task_tells_how_far_it_is(task: QueryTask) -> None:
    held = lifecycle.claim(task.pk, "w1", "20260115_103000_00001_abcde")
    assert held is not None
    QueryTask.objects.update(started_at=timezone.now() - timedelta(seconds=3))
    held.refresh_from_db()
    lifecycle.beat(held)
    lifecycle.report(held, Progress(3, 1, 40, 17, 1000, 9000))
    task.refresh_from_db()
    assert task.progress == {"stages": 3, "stages_done": 1, "tasks": 40, "tasks_done": 17}
    assert (task.scanned_row_count, task.scanned_data_bytes) == (1000, 9000)
    assert task.elapse_time >= 3000
    assert task.mpp_query_id == "20260115_103000_00001_abcde"
    lifecycle.end(held, lifecycle.CANCELLED)
    task.refresh_from_db()
    assert task.progress is None
    assert (task.scanned_row_count, task.mpp_query_id) == (1000, "20260115_103000_00001_abcde")


def test_nothing_of_a_lost_run_stays(task: QueryTask) -> None:
    held = claimed(task)
    lifecycle.report(held, Progress(3, 1, 40, 17, 1000, 9000))
    lifecycle.lose(held, "Spark died.")
    task.refresh_from_db()
    assert (task.progress, task.scanned_row_count, task.mpp_query_id, task.elapse_time) == (None, 0, "", 0)
    assert task.engine_losses == 1


def test_a_lost_worker_and_a_cancel_request_end_it(task: QueryTask) -> None:
    claimed(task)
    QueryTask.objects.update(heartbeat_at=timezone.now() - LONG_AGO, cancel_requested=True)
    lifecycle.sweep()
    assert status_of(task) == TaskStatus.CANCELLED


def test_the_sweep_hands_a_lost_message_over_again(task: QueryTask, handed_over: list[str]) -> None:
    lifecycle.sweep()
    assert handed_over == []
    QueryTask.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=1))
    lifecycle.sweep()
    lifecycle.sweep()
    assert handed_over == [task.pk]


def test_a_task_that_nobody_takes_ends(cast: Cast, task: QueryTask) -> None:
    QueryTask.objects.update(update_time=timezone.now() - LONG_AGO)
    running = services.submit(cast.charlie, read("select 1"), "secret")
    held = claimed(running)
    lifecycle.sweep()
    assert status_of(task) == TaskStatus.QUEUED, "it waits behind one that runs"
    lifecycle.end(held, Outcome(TaskStatus.SUCCESS))
    lifecycle.sweep()
    assert status_of(task) == TaskStatus.QUEUED, "one was started not long ago"
    QueryTask.objects.update(started_at=timezone.now() - LONG_AGO)
    lifecycle.sweep()
    task.refresh_from_db()
    assert task.status == TaskStatus.FAILURE
    assert "No Spark worker" in task.message


def test_cancel_requests_are_seen_for_running_tasks_only(task: QueryTask) -> None:
    QueryTask.objects.update(cancel_requested=True)
    assert lifecycle.cancel_requested([task.pk]) == []
    claimed(task)
    assert lifecycle.cancel_requested([task.pk]) == [task.pk]
