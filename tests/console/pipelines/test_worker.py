"""What a pipeline worker does, whatever the engine answers. tests/pipelines/test_worker.py has Spark."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest
from django.db import DatabaseError, InterfaceError, connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings
from redis.exceptions import RedisError

from analytics import engine, errors, session, uses
from analytics.pipelines import runner
from analytics.pipelines.waits import Waiting
from console.accounts.models import User
from console.pipelines import journal, lifecycle, room, samples, services, starts, worker
from console.pipelines.lifecycle import Lease
from console.pipelines.models import Pipeline, Savepoint, StartFrom, State
from console.pipelines.worker import Worker
from console.sql.worker import ENGINE_LOST_EXIT
from tests.console.pipelines.conftest import Engine, Run, plan_of
from tests.console.pipelines.test_room import fill, writing_files
from tests.support.broker import eventually
from tests.support.cast import Cast

pytestmark = pytest.mark.django_db(transaction=True)
PATIENCE_SECONDS = 30.0


def state(pipeline: Pipeline) -> str:
    pipeline.refresh_from_db()
    return pipeline.state


def until(process: Worker, pipeline: Pipeline, wanted: State) -> None:
    """Take turns until the pipeline is in a state."""

    def reached() -> bool:
        process.look()
        return state(pipeline) == wanted

    eventually(reached, PATIENCE_SECONDS)


def running(process: Worker, pipeline: Pipeline, spark: Engine) -> Run:
    until(process, pipeline, State.RUNNING)
    return spark.runs[-1]


def told(pipeline: Pipeline) -> list[str]:
    return [line.text for line in journal.lines(pipeline.pk)]


def test_it_runs_what_waits_and_tells_of_it(process: Worker, started: Pipeline, spark: Engine) -> None:
    run = running(process, started, spark)
    assert (run.spec.number, run.spec.origin) == (started.fence, "nothing")
    assert run.spec.location == f"oss://gantry-pipelines/{started.tenant.uid}/{started.pk}/"
    eventually(lambda: started.pk in samples.latest([started.pk]), PATIENCE_SECONDS)
    assert samples.latest([started.pk])[started.pk].point.rows_in == 2.5
    eventually(lambda: "+I(7)" in told(started), PATIENCE_SECONDS)


def test_of_many_printed_lines_the_last_are_kept_and_it_says_how_many_are_left_out(
    process: Worker, started: Pipeline, spark: Engine
) -> None:
    run = running(process, started, spark)
    run.lines = [f"+I({number})" for number in range(1_500)]
    eventually(lambda: "+I(1499)" in told(started), PATIENCE_SECONDS)
    lines = told(started)
    at = lines.index("1,300 printed rows are left out here: of those of a second the last 200 are kept.")
    assert lines[at + 1 : at + 201] == run.lines[-200:]


def test_a_stop_keeps_a_savepoint_when_it_is_to_and_a_start_goes_on_from_it(
    cast: Cast, process: Worker, started: Pipeline, spark: Engine
) -> None:
    running(process, started, spark)
    services.stop(actor=cast.actor("alice"), pipeline=started, with_savepoint=True)
    until(process, started, State.STOPPED)
    savepoint = Savepoint.objects.get()
    assert savepoint.folder == f"{spark.runs[0].spec.location}savepoint-00000001/"
    assert savepoint.version == started.version

    services.start(actor=cast.actor("alice"), pipeline=started, start_from=StartFrom.SAVEPOINT, savepoint=savepoint)
    again = running(process, started, spark)
    assert (again.spec.number, again.spec.origin) == (2, "savepoint:00000001")
    services.stop(actor=cast.actor("alice"), pipeline=started)
    until(process, started, State.STOPPED)
    assert again.was_stopped_with == ""
    services.start(actor=cast.actor("alice"), pipeline=started)
    assert running(process, started, spark).spec.origin == "checkpoint"


def test_what_comes_to_its_end_is_finished(process: Worker, started: Pipeline, spark: Engine) -> None:
    running(process, started, spark).end()
    until(process, started, State.FINISHED)
    eventually(lambda: "It has come to its end." in told(started), PATIENCE_SECONDS)


def test_a_failure_is_told_with_its_line_and_starts_again_after_a_pause(
    process: Worker, started: Pipeline, spark: Engine
) -> None:
    running(process, started, spark).end(errors.PipelineFailed("The topic is gone.", 7))
    eventually(lambda: state(started) == State.STARTING, PATIENCE_SECONDS)
    assert (started.reason, started.line, started.worker, started.restarts) == ("The topic is gone.", 7, "", 1)
    assert started.due_at is not None
    eventually(lambda: "The topic is gone." in told(started), PATIENCE_SECONDS)
    again = running(process, started, spark)  # the pause is a second
    assert (again.spec.number, again.spec.origin) == (2, "checkpoint")


def test_a_machine_that_is_too_busy_is_no_failure_of_the_pipeline(
    process: Worker, started: Pipeline, spark: Engine
) -> None:
    for number in (1, 2):
        running(process, started, spark).end(errors.EngineBusy("The machine is busy."))
        eventually(lambda: state(started) == State.STARTING, PATIENCE_SECONDS)
        assert (started.failures, started.restarts, started.reason) == (0, number, "The machine is busy.")
        Pipeline.objects.filter(pk=started.pk).update(due_at=None)


def test_an_engine_that_must_start_again_and_is_busy_is_no_failure_of_the_pipeline(
    process: Worker, started: Pipeline, spark: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def renew(addresses: object) -> None:
        asked.append(addresses)
        if len(asked) == 1:
            raise errors.EngineOutdated("The engine started before these brokers were known.")

    monkeypatch.setattr(starts, "brokers_of", lambda spec: {"10.0.0.5:9876"})
    monkeypatch.setattr(engine, "renew", renew)
    eventually(lambda: _looked(process) and _reason(started) != "", PATIENCE_SECONDS)
    assert (started.state, started.failures, started.losses, spark.runs) == (State.STARTING, 0, 1, [])
    assert started.reason == "The engine started before these brokers were known."
    Pipeline.objects.filter(pk=started.pk).update(due_at=None)
    running(process, started, spark)
    assert asked == [{"10.0.0.5:9876"}] * 2


def test_the_engine_is_not_started_again_while_a_pipeline_is_in_it(
    cast: Cast, process: Worker, started: Pipeline, spark: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[str] = []
    monkeypatch.setattr(uses, "PATIENCE_S", 0.05)
    monkeypatch.setattr(engine, "stop", lambda: ends.append("ended"))
    running(process, started, spark)
    monkeypatch.setattr(session, "outdated", lambda addresses: errors.EngineOutdated("Later."))
    monkeypatch.setattr(session, "running", lambda: "the same")
    with pytest.raises(errors.EngineOutdated):
        engine.renew(["10.0.0.5:9876"])
    services.stop(actor=cast.actor("alice"), pipeline=started)
    until(process, started, State.STOPPED)
    eventually(lambda: not process._held(), PATIENCE_SECONDS)
    engine.renew(["10.0.0.5:9876"])
    assert ends == ["ended"]


def test_while_the_engine_ends_its_worker_shows_that_it_lives(
    process: Worker, started: Pipeline, spark: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending, go_on = threading.Event(), threading.Event()

    def renew(_addresses: object) -> None:
        ending.set()
        go_on.wait(PATIENCE_SECONDS)

    monkeypatch.setattr(engine, "renew", renew)
    process.look()
    assert ending.wait(PATIENCE_SECONDS)
    before = _heartbeat(started)
    process.look()
    assert _heartbeat(started) != before
    go_on.set()
    running(process, started, spark)


def _heartbeat(pipeline: Pipeline) -> object:
    return Pipeline.objects.values_list("heartbeat_at", flat=True).get(pk=pipeline.pk)


@pytest.mark.parametrize(
    "refusal",
    [errors.PipelineRefused("The query gives 2 columns."), errors.QueryRefused("No such table.")],
    ids=["pipeline", "query"],
)
def test_what_is_refused_is_not_tried_again(
    process: Worker, started: Pipeline, spark: Engine, refusal: errors.AnalyticsError
) -> None:
    spark.refusal = refusal
    until(process, started, State.FAILED)
    assert started.reason == refusal.user_message


def test_what_ended_for_good_is_not_started_again(process: Worker, started: Pipeline, spark: Engine) -> None:
    running(process, started, spark).end(errors.PipelineEnded("The task allows no faults."))
    until(process, started, State.FAILED)
    assert (started.reason, started.restarts) == ("The task allows no faults.", 0)


def test_a_fault_of_ours_is_told_by_its_number_alone(process: Worker, started: Pipeline, spark: Engine) -> None:
    spark.refusal = ZeroDivisionError("secret")
    eventually(lambda: _looked(process) and "Internal error" in _reason(started), PATIENCE_SECONDS)
    assert "secret" not in started.reason


def _looked(process: Worker) -> bool:
    process.look()
    return True


def _reason(pipeline: Pipeline) -> str:
    pipeline.refresh_from_db()
    return pipeline.reason


def test_who_has_lost_the_lease_kills_its_queries_and_writes_nothing(
    process: Worker, started: Pipeline, spark: Engine
) -> None:
    run = running(process, started, spark)
    Pipeline.objects.filter(pk=started.pk).update(worker="another", fence=9)
    process.look()
    eventually(lambda: run.was_abandoned, PATIENCE_SECONDS)
    eventually(lambda: not process._held(), PATIENCE_SECONDS)
    started.refresh_from_db()
    assert (started.state, started.worker, started.fence) == (State.RUNNING, "another", 9)


def test_one_that_is_fenced_off_writes_nothing(process: Worker, started: Pipeline, spark: Engine) -> None:
    running(process, started, spark).end(errors.PipelineFenced("Taken over."))
    eventually(lambda: not process._held(), PATIENCE_SECONDS)
    assert (state(started), started.reason) == (State.RUNNING, "")


def test_a_state_of_a_later_start_than_the_database_knows_is_taken_over(
    process: Worker, started: Pipeline, spark: Engine
) -> None:
    spark.refusal = errors.PipelineFenced("Held by the runner with the number 41; 1 is too low.", 41)
    process.look()
    eventually(lambda: started.events.filter(kind="lost").exists(), PATIENCE_SECONDS)
    spark.refusal = None
    assert running(process, started, spark).spec.number == 42


@pytest.mark.parametrize("error", [DatabaseError("the disk is full"), InterfaceError("connection already closed")])
def test_an_end_that_the_database_does_not_take_is_told_once_it_does(
    process: Worker, started: Pipeline, spark: Engine, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(worker, "BEAT_S", 0.05)
    run = running(process, started, spark)
    finish, asked = lifecycle.finish, threading.Semaphore(0)
    outage = threading.Event()

    def away(lease: Lease) -> None:
        asked.release()
        if not outage.is_set():
            raise error
        finish(lease)

    monkeypatch.setattr(lifecycle, "finish", away)
    run.end()
    for _ in range(3):
        assert asked.acquire(timeout=PATIENCE_SECONDS)
    assert state(started) == State.RUNNING
    outage.set()
    until(process, started, State.FINISHED)
    assert len(spark.runs) == 1


def test_a_database_that_is_away_at_a_start_is_no_failure_of_the_pipeline(
    process: Worker, started: Pipeline, spark: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "BEAT_S", 0.05)
    answers = iter([DatabaseError("the disk is full"), InterfaceError("connection already closed")])
    spec_of = starts.spec_of

    def away(lease: Lease) -> runner.Start:
        for error in answers:
            raise error
        return spec_of(lease)

    monkeypatch.setattr(starts, "spec_of", away)
    running(process, started, spark)
    assert (started.failures, started.restarts, started.fence) == (0, 0, 1)


def test_a_further_attempt_is_told_to_be_of_the_same_start(
    cast: Cast, process: Worker, started: Pipeline, spark: Engine
) -> None:
    first = running(process, started, spark)
    first.end(errors.PipelineFailed("The topic is away."))
    eventually(lambda: state(started) == State.STARTING, PATIENCE_SECONDS)
    Pipeline.objects.filter(pk=started.pk).update(due_at=None)
    second = running(process, started, spark)
    assert first.spec.begun == second.spec.begun != ""
    second.end()
    until(process, started, State.FINISHED)
    services.start(actor=cast.actor("alice"), pipeline=started)
    assert running(process, started, spark).spec.begun != first.spec.begun


def test_a_dead_engine_gives_all_back_and_ends_the_process(
    cast: Cast, process: Worker, started: Pipeline, spark: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = another(cast)
    running(process, started, spark)
    until(process, other, State.RUNNING)
    monkeypatch.setattr(engine, "is_lost", lambda: True)

    process.look()

    assert spark.exits == [ENGINE_LOST_EXIT]
    for pipeline in (started, other):
        assert (state(pipeline), pipeline.worker, pipeline.losses) == (State.STARTING, "", 1)
        assert pipeline.due_at is not None
    eventually(lambda: all(run.was_abandoned for run in spark.runs), PATIENCE_SECONDS)


def test_an_engine_that_dies_while_the_database_is_away_ends_the_process(
    cast: Cast, process: Worker, started: Pipeline, spark: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = another(cast)
    running(process, started, spark)
    until(process, other, State.RUNNING)
    asked: list[int] = []

    def away(lease: Lease, reason: str, *, is_blamed: bool = False) -> None:
        asked.append(lease.pipeline_id)
        raise InterfaceError("connection already closed")

    monkeypatch.setattr(lifecycle, "lose", away)
    monkeypatch.setattr(engine, "is_lost", lambda: True)
    process.look()
    assert sorted(asked) == sorted([started.pk, other.pk])
    assert spark.exits == [ENGINE_LOST_EXIT]


def test_a_process_that_ends_gives_back_what_it_can_while_the_database_fails(
    cast: Cast, process: Worker, started: Pipeline, spark: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = another(cast)
    starting, go_on = threading.Semaphore(0), threading.Event()
    start = runner.start

    def slow(spec: runner.Start) -> object:
        starting.release()
        go_on.wait(PATIENCE_SECONDS)
        return start(spec)

    monkeypatch.setattr(runner, "start", slow)
    monkeypatch.setattr(worker, "_END_S", 0.0)
    process.look()
    for _ in range(2):
        assert starting.acquire(timeout=PATIENCE_SECONDS)
    release, refused = lifecycle.release, iter([InterfaceError("connection already closed")])

    def away(lease: Lease) -> None:
        for error in refused:
            raise error
        release(lease)

    monkeypatch.setattr(lifecycle, "release", away)
    process.leave()
    go_on.set()
    assert sorted(Pipeline.objects.filter(pk__in=(started.pk, other.pk)).values_list("worker", flat=True))[0] == ""
    eventually(lambda: not process._held(), PATIENCE_SECONDS)


def another(cast: Cast) -> Pipeline:
    """A further pipeline of acme's that was asked to start."""
    made = services.create(actor=cast.actor("alice"), name="other")
    services.deploy(actor=cast.actor("alice"), pipeline=made, text="SELECT 1", plan=plan_of())
    services.start(actor=cast.actor("alice"), pipeline=made, start_from=StartFrom.NOTHING)
    return made


def test_a_process_that_ends_gives_its_pipelines_back(process: Worker, started: Pipeline, spark: Engine) -> None:
    run = running(process, started, spark)
    process.leave()
    eventually(lambda: run.was_abandoned, PATIENCE_SECONDS)
    assert (state(started), started.worker) == (State.STARTING, "")
    assert lifecycle.waiting() == [started.pk]
    process.look()
    assert state(started) == State.STARTING  # this one takes nothing on any more


def test_it_ends_when_its_starter_is_disabled(
    cast: Cast, process: Worker, started: Pipeline, spark: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "RIGHTS_S", 0.0)
    run = running(process, started, spark)
    User.objects.filter(pk=cast.alice.pk).update(is_active=False)
    until(process, started, State.FAILED)
    assert run.was_abandoned
    assert "who started late_flights, was disabled or deleted" in started.reason


def test_rights_that_cannot_be_looked_at_end_nothing_and_are_looked_at_again(
    cast: Cast, process: Worker, started: Pipeline, spark: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = running(process, started, spark)
    asked, outage, require_still = threading.Semaphore(0), threading.Event(), starts.require_still

    def away(lease: Lease) -> None:
        asked.release()
        if not outage.is_set():
            raise InterfaceError("connection already closed")
        require_still(lease)

    monkeypatch.setattr(starts, "require_still", away)
    monkeypatch.setattr(worker, "RIGHTS_S", 0.0)
    for _ in range(2):
        assert asked.acquire(timeout=PATIENCE_SECONDS)
    assert (state(started), run.was_abandoned) == (State.RUNNING, False)
    User.objects.filter(pk=cast.alice.pk).update(is_active=False)
    outage.set()
    until(process, started, State.FAILED)


def test_a_process_holds_so_many_and_no_more(
    cast: Cast, process: Worker, started: Pipeline, spark: Engine, settings: Settings
) -> None:
    settings.PIPELINES_PER_WORKER = 1
    other = another(cast)
    running(process, started, spark)
    process.look()
    assert state(other) == State.STARTING
    spark.runs[0].end()
    until(process, other, State.RUNNING)


def test_a_lease_is_given_up_where_no_sign_of_life_can_be_given(
    process: Worker, started: Pipeline, spark: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = running(process, started, spark)
    (life,) = process._held()
    life.beaten -= lifecycle.LEASE.total_seconds()

    def away(lease: Lease) -> State:
        raise DatabaseError("away")

    monkeypatch.setattr(lifecycle, "beat", away)
    process.look()
    eventually(lambda: run.was_abandoned, PATIENCE_SECONDS)


def test_whether_spark_is_to_start_is_asked_every_ten_seconds_and_not_with_every_turn(
    cast: Cast, process: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    warmed = threading.Event()
    monkeypatch.setattr(runner, "warm", warmed.set)
    monkeypatch.setattr(worker, "WARM_S", 3600.0)  # however long the next lines take
    process._warm_once()
    services.create(actor=cast.actor("alice"), name="draft")
    with CaptureQueriesContext(connection) as asked:
        process._warm_once()
    assert not asked.captured_queries and not warmed.is_set()
    process._warm_due = 0.0
    process._warm_once()
    assert warmed.wait(PATIENCE_SECONDS)


def test_a_sink_that_waits_is_told_once_without_secrets_and_that_it_waits_no_more(
    process: Worker, started: Pipeline, spark: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "REPORT_S", 0.0)
    monkeypatch.setattr(starts, "hidden", lambda spec: {"10.9.8.7:9876": "${secret_values.broker}"})
    run = running(process, started, spark)
    for tries in (1, 2):
        run.waiting = (Waiting("o", "10.9.8.7:9876 does not answer.", tries, 11, 1_000, 2_000),)
        eventually(lambda: [one.tries for one in _waiting(started)] == [tries], PATIENCE_SECONDS)  # noqa: B023
    sentence = "The table o waits to be written, before try 2 of 11: ${secret_values.broker} does not answer."
    assert [line for line in told(started) if "waits" in line] == [sentence]
    run.waiting = ()
    eventually(lambda: "The table o waits no more." in told(started), PATIENCE_SECONDS)
    assert _waiting(started) == ()


def test_what_is_printed_while_redis_is_away_is_told_once_it_is_back(
    process: Worker, started: Pipeline, spark: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "REPORT_S", 0.0)
    write_all, asked, is_back = journal.write_all, threading.Semaphore(0), threading.Event()

    def away(account: str, pipeline_id: int, level: journal.Level, texts: Sequence[str]) -> None:
        if level == "print" and not is_back.is_set():
            asked.release()
            raise RedisError("no answer")
        write_all(account, pipeline_id, level, texts)

    monkeypatch.setattr(journal, "write_all", away)
    run = running(process, started, spark)
    lines = iter([["+I(1)"], ["+I(2)"]])
    monkeypatch.setattr(run, "printed", lambda: next(lines, []))
    for _ in range(4):
        assert asked.acquire(timeout=PATIENCE_SECONDS)
    is_back.set()
    eventually(lambda: "+I(2)" in told(started), PATIENCE_SECONDS)
    assert told(started)[-2:] == ["+I(1)", "+I(2)"]


def _waiting(pipeline: Pipeline) -> tuple[Waiting, ...]:
    now = samples.latest([pipeline.pk]).get(pipeline.pk)
    return now.waiting if now is not None else ()


def test_a_full_lake_is_told_in_the_log_and_ends_only_what_writes_files_to_it(
    process: Worker, started: Pipeline, spark: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "LOOK_S", 0.0)
    settings.TENANT_LIMITS = settings.TENANT_LIMITS | {"lake_bytes": 1_000}
    run = running(process, started, spark)
    fill(started.tenant, 5_000)
    eventually(lambda: any(line.startswith("acme may store 1000 bytes") for line in told(started)), PATIENCE_SECONDS)
    assert (state(started), run.was_abandoned) == (State.RUNNING, False)
    run.spec = replace(run.spec, plan=writing_files())
    until(process, started, State.FAILED)
    assert run.was_abandoned
    assert started.reason.startswith("It writes files to the lake, which is full: acme may store 1000 bytes")
