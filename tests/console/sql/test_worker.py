"""What a Spark worker does with a task, whatever analytics answers. Spark itself runs in the end-to-end tests."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.utils import timezone

from analytics import engine, errors
from analytics.specs import Column, Progress, QueryResult, QuerySpec
from console.accounts.models import Tenant, User
from console.instances import broker
from console.outbox.models import Notification
from console.sql import heartbeats, lifecycle, services, worker
from console.sql.models import QueryTask, TaskStatus
from console.statements import read
from tests.support.broker import eventually
from tests.support.sql_cast import Cast, allow

pytestmark = pytest.mark.django_db(transaction=True)
RESULT = QueryResult(4, 10, 230, "20260115_103000_00001_abcde", 490, [Column("n", "bigint")])
Answer = Callable[[QuerySpec], QueryResult]


@pytest.fixture
def task(cast: Cast, handed_over: list[str], kicked: list[int]) -> QueryTask:
    return services.submit(cast.alice, read("/*+ run_async=true, mq-notify-by=ons, mq-topic=t */ select 1"), "demo")


@pytest.fixture(autouse=True)
def fresh_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """A worker process that has lost nothing yet; returns the exit codes it would end with."""
    exits: list[int] = []
    monkeypatch.setattr(worker, "_end_process", lambda: exits.append(worker.ENGINE_LOST_EXIT))
    monkeypatch.setattr(engine, "stop", lambda: None)
    # Else every later engine of this process would ask the database.
    monkeypatch.setattr(engine, "ask_for_addresses", lambda look: None)
    yield exits
    worker._engine_lost.clear()
    worker._shutting_down.clear()
    worker.places = worker.Places()


def run(monkeypatch: pytest.MonkeyPatch, task: QueryTask, answer: Answer) -> QueryTask:
    monkeypatch.setattr(engine, "run_query", answer)
    worker.run(task.pk)
    task.refresh_from_db()
    return task


def noting(specs: list[QuerySpec]) -> Answer:
    def answer(spec: QuerySpec) -> QueryResult:
        specs.append(spec)
        return RESULT

    return answer


def raising(error: Exception) -> Answer:
    def answer(spec: QuerySpec) -> QueryResult:
        raise error

    return answer


def test_a_success_is_told_with_its_figures(task: QueryTask, monkeypatch: pytest.MonkeyPatch) -> None:
    specs: list[QuerySpec] = []
    run(monkeypatch, task, noting(specs))
    assert (task.status, task.row_count, task.elapse_time) == (TaskStatus.SUCCESS, 4, 490)
    assert (task.scanned_row_count, task.scanned_data_bytes) == (10, 230)
    assert task.mpp_query_id == specs[0].engine_query_id
    assert re.fullmatch(r"\d{8}_\d{6}_\d{5}_[a-z0-9]{5}", task.mpp_query_id)
    assert task.result_columns == [{"name": "n", "type": "bigint"}]
    assert task.result_file == specs[0].result_file
    assert task.result_file.endswith(f"/{task.pk}/result.csv")
    assert Notification.objects.get().tag == "SUCCESS"


def test_the_engine_is_told_what_the_author_may_read(
    cast: Cast, handed_over: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    document = {
        "Version": "1",
        "Statement": [{"Effect": "Allow", "Action": "dla:SubmitQuery", "Resource": "acs:dla:*:*:demo/flights"}],
    }
    task = services.submit(allow(cast.bob.person, document), read("select ?"), "demo", parameters=("it's",))
    specs: list[QuerySpec] = []
    run(monkeypatch, task, noting(specs))
    assert {s: [t.name for t in tables] for s, tables in specs[0].tables.items()} == {"demo": ["flights"]}
    assert specs[0].parameters == ("it's",)
    assert specs[0].max_result_rows is None


@pytest.mark.parametrize("rows", [User.objects.all(), Tenant.objects.all()], ids=["user", "account"])
def test_an_author_who_was_disabled_reads_nothing(
    task: QueryTask, monkeypatch: pytest.MonkeyPatch, rows: QuerySet[User] | QuerySet[Tenant]
) -> None:
    rows.update(**{"enabled" if rows.model is Tenant else "is_active": False})
    specs: list[QuerySpec] = []
    run(monkeypatch, task, noting(specs))
    assert specs[0].tables == {}


@pytest.mark.parametrize(
    ("error", "message", "condition"),
    [
        (errors.QueryFailed("No such table.", "TABLE_OR_VIEW_NOT_FOUND"), "No such table.", "TABLE_OR_VIEW_NOT_FOUND"),
        (errors.QueryRefused("Not allowed.", 2, 7), "Not allowed. (line 2, column 7)", "QUERY_REFUSED"),
        (errors.QueryTimedOut("Too long."), "Too long.", "QUERY_TIMED_OUT"),
        (errors.LakeError("No such file."), "No such file.", ""),
    ],
)
def test_a_failure_has_its_reason(
    task: QueryTask, monkeypatch: pytest.MonkeyPatch, error: Exception, message: str, condition: str
) -> None:
    run(monkeypatch, task, raising(error))
    assert (task.status, task.message, task.error_condition) == (TaskStatus.FAILURE, message, condition)
    assert Notification.objects.get().tag == "FAILURE"


def test_an_unknown_error_is_logged_not_shown(task: QueryTask, monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch, task, raising(RuntimeError("secret detail")))
    assert task.status == TaskStatus.FAILURE
    assert "secret" not in task.message
    assert task.pk in task.message


def test_a_lost_engine_ends_the_process_and_the_next_one_runs_it_alone(
    task: QueryTask, monkeypatch: pytest.MonkeyPatch, fresh_worker: list[int]
) -> None:
    monkeypatch.setattr(worker, "ONLY_BEGUN_MS", 0)
    lost = raising(errors.EngineLost("The JVM died."))
    run(monkeypatch, task, lost)
    assert task.status == TaskStatus.QUEUED
    eventually(lambda: fresh_worker == [worker.ENGINE_LOST_EXIT])
    assert run(monkeypatch, task, lost).attempts == 1, "a dying worker takes nothing on"
    worker._engine_lost.clear()
    assert run(monkeypatch, task, lost).attempts == 1, "it is not run beside others any more"
    worker.run_alone()
    task.refresh_from_db()
    assert (task.status, task.error_condition) == (TaskStatus.FAILURE, "ENGINE_LOST")
    assert "The JVM died. The statement was tried twice" in task.message


def test_nobody_else_is_a_suspect_when_the_statement_is_known_for_which_the_engine_was_ended(
    cast: Cast, task: QueryTask, monkeypatch: pytest.MonkeyPatch, fresh_worker: list[int]
) -> None:
    monkeypatch.setattr(worker, "ONLY_BEGUN_MS", 0)
    bomb = services.submit(cast.charlie, read("select 1"), "secret")
    QueryTask.objects.filter(pk=bomb.pk).update(status=TaskStatus.CANCELLED, update_time=timezone.now())
    monkeypatch.setattr(engine, "culprit", lambda: bomb.pk)
    run(monkeypatch, task, raising(errors.EngineLost("The engine was ended.", culprit=bomb.pk)))
    assert (task.status, task.attempts, task.engine_losses) == (TaskStatus.QUEUED, 0, 0), "claimed anew by anybody"
    eventually(lambda: fresh_worker == [worker.ENGINE_LOST_EXIT])
    again = services.submit(cast.charlie, read("select 1"), "secret")
    assert again.engine_losses == 1, "it runs alone when it comes again"


def test_the_statement_for_which_the_engine_was_ended_is_run_alone(
    task: QueryTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "ONLY_BEGUN_MS", 0)
    monkeypatch.setattr(engine, "culprit", lambda: task.pk)
    run(monkeypatch, task, raising(errors.EngineLost("The engine was ended.", culprit=task.pk)))
    assert (task.status, task.attempts, task.engine_losses) == (TaskStatus.QUEUED, 1, 1)


def test_one_that_was_only_near_a_lost_engine_ends_well(
    cast: Cast, task: QueryTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    QueryTask.objects.update(engine_losses=1)
    monkeypatch.setattr(worker, "_ALONE_IDLE_S", 0.1)
    monkeypatch.setattr(engine, "run_query", lambda spec: RESULT)
    worker.run_alone()
    task.refresh_from_db()
    assert task.status == TaskStatus.SUCCESS


def test_what_runs_alone_may_connect_to_the_clusters_that_were_added(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(engine, "ask_for_addresses", told.append)
    monkeypatch.setattr(worker, "_ALONE_IDLE_S", 0.0)
    worker.run_alone()
    assert told == [broker.added_addresses]


OUTDATED = errors.EngineOutdated("The engine started before these brokers were known.", addresses=["10.0.0.5:9876"])


def needing_another_engine(spec: QuerySpec) -> QueryResult:
    if "outdated" in spec.sql:
        raise OUTDATED
    return RESULT


def test_a_statement_that_needs_another_engine_gets_one_and_is_run(
    task: QueryTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewed: list[object] = []
    monkeypatch.setattr(engine, "renew", renewed.append)
    run(monkeypatch, task, lambda spec: RESULT if renewed else raising(OUTDATED)(spec))
    assert renewed == [("10.0.0.5:9876",)]
    assert (task.status, task.attempts, task.engine_losses, task.message) == (TaskStatus.SUCCESS, 1, 0, "")


def test_a_statement_that_needs_another_engine_waits_while_that_is_busy_and_others_go_on(
    cast: Cast, handed_over: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = services.submit(cast.alice, read("select 'outdated'"), "demo")
    other = services.submit(cast.alice, read("select 1"), "demo")
    monkeypatch.setattr(engine, "renew", raising(OUTDATED))
    run(monkeypatch, waiting, needing_another_engine)
    other.refresh_from_db()
    assert other.status == TaskStatus.SUCCESS
    assert (waiting.status, waiting.attempts, waiting.engine_losses) == (TaskStatus.QUEUED, 0, 0)
    assert waiting.message == OUTDATED.user_message
    assert run(monkeypatch, waiting, lambda spec: RESULT).status == TaskStatus.QUEUED, "not tried again at once"
    monkeypatch.setattr(worker, "places", worker.Places())  # a while later, or in another process
    run(monkeypatch, waiting, lambda spec: RESULT)
    assert (waiting.status, waiting.attempts, waiting.message) == (TaskStatus.SUCCESS, 1, "")


def test_a_postponed_statement_comes_back_after_a_while(task: QueryTask, monkeypatch: pytest.MonkeyPatch) -> None:
    places = worker.Places()
    places.postpone(task)
    assert places.claim() is None
    monkeypatch.setattr(worker, "POSTPONED_S", 0.0)
    places.postpone(task)
    assert places.claim() == task


def test_a_statement_that_waits_for_another_engine_can_be_cancelled(
    cast: Cast, task: QueryTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "renew", raising(OUTDATED))
    run(monkeypatch, task, raising(OUTDATED))
    services.cancel(cast.alice, task)
    task.refresh_from_db()
    assert task.status == TaskStatus.CANCELLED


def test_alone_a_statement_gets_another_engine_too(task: QueryTask, monkeypatch: pytest.MonkeyPatch) -> None:
    QueryTask.objects.update(engine_losses=1)
    renewed: list[object] = []
    monkeypatch.setattr(worker, "_ALONE_IDLE_S", 0.1)
    monkeypatch.setattr(engine, "renew", renewed.append)
    monkeypatch.setattr(engine, "run_query", lambda spec: RESULT if renewed else raising(OUTDATED)(spec))
    worker.run_alone()
    task.refresh_from_db()
    assert (task.status, task.engine_losses, len(renewed)) == (TaskStatus.SUCCESS, 1, 1)


def test_what_had_only_begun_when_the_engine_died_is_no_suspect_the_first_time(
    task: QueryTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    for losses in (0, 1):
        run(monkeypatch, task, raising(errors.EngineLost("The JVM died.")))
        assert (task.status, task.engine_losses) == (TaskStatus.QUEUED, losses)
        worker._engine_lost.clear()


def test_a_suspect_is_given_back_when_the_worker_dies_and_that_is_no_loss(
    task: QueryTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    QueryTask.objects.update(engine_losses=1)
    monkeypatch.setattr(worker, "_end_process", lambda status: None)

    def orphaned(spec: QuerySpec) -> QueryResult:
        worker.end_with_parent()
        given_back = QueryTask.objects.get()
        assert (given_back.status, given_back.attempts, given_back.engine_losses) == (TaskStatus.QUEUED, 0, 1)
        raise errors.QueryCancelled("The worker ended.")

    monkeypatch.setattr(engine, "run_query", orphaned)
    worker.run_alone()
    task.refresh_from_db()
    assert (task.status, task.engine_losses, task.message) == (TaskStatus.QUEUED, 1, "")


def test_one_thread_runs_all_that_waits(cast: Cast, task: QueryTask, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        services.submit(cast.charlie, read("select 1"), "secret")
    run(monkeypatch, task, lambda spec: RESULT)
    assert set(QueryTask.objects.values_list("status", flat=True)) == {TaskStatus.SUCCESS}


def test_a_thread_gives_its_turn_back(
    cast: Cast, task: QueryTask, monkeypatch: pytest.MonkeyPatch, handed_over: list[str]
) -> None:
    services.submit(cast.alice, read("select 2"), "demo")
    handed_over.clear()
    monkeypatch.setattr(worker, "TURN_S", 0)
    run(monkeypatch, task, lambda spec: RESULT)
    assert QueryTask.objects.filter(status=TaskStatus.QUEUED).count() == 1
    assert handed_over == [task.pk]


def test_another_worker_is_told_when_a_thread_turns_to_another_account(
    cast: Cast, task: QueryTask, monkeypatch: pytest.MonkeyPatch, handed_over: list[str]
) -> None:
    services.submit(cast.alice, read("select 2"), "demo")
    services.submit(cast.charlie, read("select 1"), "secret")
    handed_over.clear()
    run(monkeypatch, task, lambda spec: RESULT)
    assert handed_over == [task.pk]


def test_places_are_kept_for_clients_that_wait(cast: Cast, handed_over: list[str]) -> None:
    places = worker.Places()
    places.set_threads(4)
    for _ in range(4):
        services.submit(cast.alice, read("select 1"), "demo")
    held = [places.claim() for _ in range(4)]
    assert [task is not None for task in held] == [True, True, True, False]
    services.submit(cast.charlie, read("select 1"), "secret", synchronous=True)
    waited_for = places.claim()
    assert waited_for is not None
    assert waited_for.synchronous
    assert held[0] is not None
    places.release(held[0])
    lifecycle.end(held[0], lifecycle.CANCELLED)
    assert places.claim() is not None


def test_a_worker_that_shuts_down_gives_its_task_back(task: QueryTask, monkeypatch: pytest.MonkeyPatch) -> None:
    def cancelled(spec: QuerySpec) -> QueryResult:
        worker._shutting_down.set()
        raise errors.QueryCancelled("shutting down")

    run(monkeypatch, task, cancelled)
    assert (task.status, task.attempts) == (TaskStatus.QUEUED, 0)
    worker._shutting_down.clear()
    assert run(monkeypatch, task, lambda spec: RESULT).status == TaskStatus.SUCCESS


def test_a_task_that_was_cancelled_before_is_not_run(task: QueryTask, monkeypatch: pytest.MonkeyPatch) -> None:
    QueryTask.objects.update(cancel_requested=True)
    assert run(monkeypatch, task, raising(AssertionError("ran"))).status == TaskStatus.CANCELLED


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "HEARTBEAT_S", 0.01)
    monkeypatch.setattr(heartbeats, "LOOK_S", 0.01)


def test_the_keeper_beats_and_passes_a_cancel_on(cast: Cast, task: QueryTask, quick: None) -> None:
    stopped = threading.Event()
    kept = heartbeats.Keeper(lambda task_id: stopped.set(), lambda task_id: None)
    held = lifecycle.claim(task.pk, kept.name)
    assert held is not None
    with kept.holding(held):
        eventually(lambda: QueryTask.objects.get().heartbeat_at != held.heartbeat_at)
        services.cancel(cast.alice, task)
        assert stopped.wait(20)
    assert kept.running == []
    connection.close()


def test_a_cancel_is_passed_on_until_the_engine_has_begun_with_the_statement(
    cast: Cast, task: QueryTask, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeats, "PATIENCE_S", 60.0)
    asked = threading.Semaphore(0)
    kept = heartbeats.Keeper(lambda task_id: asked.release(), lambda task_id: None)
    held = lifecycle.claim(task.pk, kept.name)
    assert held is not None
    with kept.holding(held):
        services.cancel(cast.alice, task)
        for _ in range(3):
            assert asked.acquire(timeout=20)
    connection.close()


def test_the_keeper_writes_down_how_far_it_is_when_that_has_changed(
    task: QueryTask, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    report = lifecycle.report

    def counted(task: QueryTask, progress: Progress) -> None:
        report(task, progress)
        written.append(progress.tasks_done)

    monkeypatch.setattr(lifecycle, "report", counted)
    far = [1]
    kept = heartbeats.Keeper(lambda task_id: None, lambda task_id: Progress(1, 0, 9, far[0], 100 * far[0], 0))
    held = lifecycle.claim(task.pk, kept.name)
    assert held is not None
    with kept.holding(held):
        eventually(lambda: QueryTask.objects.get().scanned_row_count == 100)
        eventually(lambda: QueryTask.objects.get().elapse_time > 0)
        far[0] = 2
        eventually(lambda: (QueryTask.objects.get().progress or {}).get("tasks_done") == 2)
    assert written == [1, 2]
    connection.close()


def test_a_cancelled_statement_that_the_engine_cannot_break_off_ends_all_the_same(
    cast: Cast, task: QueryTask, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeats, "PATIENCE_S", 0.05)
    kept = heartbeats.Keeper(lambda task_id: None, lambda task_id: None)
    held = lifecycle.claim(task.pk, kept.name)
    assert held is not None
    with kept.holding(held):
        services.cancel(cast.alice, task)
        eventually(lambda: QueryTask.objects.get().status == TaskStatus.CANCELLED)
    assert not lifecycle.end(held, lifecycle.Outcome(TaskStatus.SUCCESS)), "its own end comes too late"
    assert Notification.objects.get().tag == "CANCELLED"
    connection.close()


def test_two_workers_never_have_the_same_name() -> None:
    assert heartbeats.worker_name() != heartbeats.worker_name()
