"""Who ends engines is found and stopped, and nobody else pays for it for long. tests/pipelines has Spark."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from analytics import engine, errors
from console.audit.models import Entry
from console.pipelines import lifecycle, services, starts, suspects
from console.pipelines.lifecycle import Lease, LeaseLost
from console.pipelines.models import Pipeline, StartFrom, State
from console.pipelines.suspects import MOST_DEATHS, PATIENCE, SOUND_AFTER, SUSPECT_AFTER
from console.pipelines.worker import Life, Worker
from tests.console.pipelines.conftest import Engine, plan_of
from tests.support.broker import eventually
from tests.support.cast import Cast

pytestmark = pytest.mark.django_db(transaction=True)
PATIENCE_SECONDS = 120.0
ENDED = "The engine has ended."


@pytest.fixture
def other(cast: Cast, started: Pipeline) -> Pipeline:
    """A second one, asked to start after the first."""
    return another(cast, "other")


def another(cast: Cast, name: str) -> Pipeline:
    made = services.create(actor=cast.actor("alice"), name=name)
    services.deploy(actor=cast.actor("alice"), pipeline=made, text="SELECT 1", plan=plan_of())
    services.start(actor=cast.actor("alice"), pipeline=made, start_from=StartFrom.NOTHING)
    made.refresh_from_db()
    return made


def claimed(pipeline: Pipeline, worker: str = "one") -> Lease:
    now_is(pipeline, due_at=None)
    lease = lifecycle.claim(pipeline.pk, worker)
    assert lease is not None
    return lease


def running(pipeline: Pipeline) -> Lease:
    lease = claimed(pipeline)
    lifecycle.run(lease)
    return lease


def die(pipeline: Pipeline, times: int = 1) -> None:
    """End the engine that it runs in, so often."""
    for _ in range(times):
        lifecycle.lose(running(pipeline), ENDED, is_blamed=True)


def now_is(pipeline: Pipeline, **values: object) -> None:
    Pipeline.objects.filter(pk=pipeline.pk).update(**values)


def state(pipeline: Pipeline) -> str:
    pipeline.refresh_from_db()
    return pipeline.state


def deaths(*pipelines: Pipeline) -> list[int]:
    for pipeline in pipelines:
        pipeline.refresh_from_db()
    return [pipeline.deaths for pipeline in pipelines]


def last_event(pipeline: Pipeline) -> tuple[str, str]:
    event = pipeline.events.order_by("pk").last()
    assert event is not None
    return event.kind, event.sentence


# What the database knows


def test_one_death_is_chance_and_after_two_it_begins_apart_and_at_once(started: Pipeline) -> None:
    die(started)
    now_is(started, due_at=None)
    assert (lifecycle.waiting(), lifecycle.waiting_suspects()) == ([started.pk], [])
    die(started)
    assert (lifecycle.waiting(), lifecycle.waiting_suspects()) == ([], [started.pk])
    assert "2 times in a row" in last_event(started)[1]
    assert started.pk in lifecycle.waiting_suspects()
    lease = lifecycle.claim(started.pk, "two")
    assert lease is not None and lease.is_suspect
    assert last_event(started) == ("claimed", "two begins to start it, with no other job beginning beside it.")


def test_after_five_deaths_in_a_row_it_has_failed_and_is_told_why(started: Pipeline) -> None:
    die(started, MOST_DEATHS - 1)
    assert state(started) == State.STARTING
    die(started)
    assert state(started) == State.FAILED
    assert (started.worker, started.ended_at is not None) == ("", True)
    assert started.reason.startswith("Its engine ended 5 times in a row soon after it had begun")
    assert last_event(started) == ("failed", started.reason)
    entry = Entry.objects.get(action="pipelines.job.run")
    assert (entry.result, entry.resource, entry.tenant, entry.actor) == (
        "failed", "late_flights", started.tenant, started.requester,
    )  # fmt: skip
    assert entry.detail == {"reason": started.reason}
    assert lifecycle.waiting() == lifecycle.waiting_suspects() == []


def test_losses_that_are_not_laid_to_it_never_fail_it(started: Pipeline) -> None:
    for _ in range(30):
        assert lifecycle.lose(running(started), ENDED) is State.STARTING
    assert (deaths(started), started.losses) == ([0], 30)


def test_who_has_run_soundly_is_no_suspect_any_more(started: Pipeline) -> None:
    die(started, SUSPECT_AFTER)
    lifecycle.clear(running(started))
    assert deaths(started) == [0]
    assert last_event(started) == ("cleared", suspects.CLEARED)


def test_who_comes_to_its_end_is_no_suspect_any_more(started: Pipeline) -> None:
    die(started, SUSPECT_AFTER)
    lifecycle.finish(running(started))
    assert (state(started), started.deaths) == (State.FINISHED, 0)


def test_a_worker_that_was_given_up_lays_nothing_to_it(started: Pipeline) -> None:
    old = running(started)
    now_is(started, heartbeat_at=timezone.now() - lifecycle.LEASE - timedelta(seconds=1))
    lifecycle.sweep()
    running(started)
    with pytest.raises(LeaseLost):
        lifecycle.lose(old, ENDED, is_blamed=True)
    lifecycle.clear(old)
    assert deaths(started) == [0]


def test_a_stop_that_was_asked_for_is_a_stop_however_often_its_engine_ended(cast: Cast, started: Pipeline) -> None:
    die(started, MOST_DEATHS - 1)
    lease = running(started)
    services.stop(actor=cast.actor("alice"), pipeline=started)
    assert lifecycle.lose(lease, ENDED, is_blamed=True) is State.STOPPED


def test_what_has_failed_so_is_started_apart_and_once_and_another_version_thrice(cast: Cast, started: Pipeline) -> None:
    die(started, MOST_DEATHS)
    services.start(actor=cast.actor("alice"), pipeline=started)
    assert lifecycle.waiting_suspects() == [started.pk]
    assert last_event(started) == ("starting", suspects.APART)
    die(started)
    assert state(started) == State.FAILED
    services.deploy(actor=cast.actor("alice"), pipeline=started, text="SELECT 2", plan=plan_of())
    services.start(actor=cast.actor("alice"), pipeline=started)
    assert (deaths(started), lifecycle.waiting_suspects()) == ([SUSPECT_AFTER], [started.pk])


def test_a_suspect_that_lost_its_worker_without_a_word_lets_the_others_begin_before_it(started: Pipeline) -> None:
    die(started, SUSPECT_AFTER)
    running(started)
    now_is(started, heartbeat_at=timezone.now() - lifecycle.LEASE - timedelta(seconds=1))
    assert lifecycle.sweep() == [started.pk]
    assert (lifecycle.waiting(), lifecycle.waiting_suspects()) == ([], [])
    now_is(started, due_at=timezone.now())
    assert lifecycle.waiting_suspects() == [started.pk]


def test_first_comes_who_has_most_deaths_and_then_who_was_started_last(
    cast: Cast, started: Pipeline, other: Pipeline
) -> None:
    third = another(cast, "third")
    for pipeline, times in ((started, 2), (third, 2), (other, 3)):
        die(pipeline, times)
    assert lifecycle.waiting_suspects() == [other.pk, third.pk, started.pk]


# What a worker does


def until(process: Worker, pipeline: Pipeline, wanted: State) -> None:
    def reached() -> bool:
        process.look()
        return state(pipeline) == wanted

    eventually(reached, PATIENCE_SECONDS)


def life_of(process: Worker, pipeline: Pipeline) -> Life:
    return next(life for life in process._held() if life.lease.pipeline_id == pipeline.pk)


def age(life: Life, by: timedelta = SOUND_AFTER) -> None:
    """Let it have been claimed, and its queries run, for so much longer."""
    eventually(lambda: life._ran < float("inf"), PATIENCE_SECONDS)  # told to the database first
    life._ran -= by.total_seconds()
    life._begun -= by.total_seconds()


def run_all(process: Worker, *pipelines: Pipeline) -> None:
    for pipeline in pipelines:
        until(process, pipeline, State.RUNNING)


def end_engine(process: Worker, monkeypatch: pytest.MonkeyPatch) -> Worker:
    """The engine dies; the process that is started in its place."""
    with monkeypatch.context() as patched:
        patched.setattr(engine, "is_lost", lambda: True)
        process.look()
    Pipeline.objects.filter(state=State.STARTING).update(due_at=timezone.now())
    return Worker()


def test_a_death_is_laid_to_all_that_had_only_begun(
    process: Worker, started: Pipeline, other: Pipeline, spark: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_all(process, started, other)
    age(life_of(process, started))
    end_engine(process, monkeypatch)
    assert deaths(started, other) == [0, 1]


def test_an_engine_that_somebody_ended_is_laid_to_nobody(
    process: Worker, started: Pipeline, spark: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "was_ended_from_outside", lambda: True)
    run_all(process, started)
    end_engine(process, monkeypatch)
    assert (deaths(started), started.losses) == ([0], 1)


def test_an_engine_that_does_not_start_is_laid_to_nobody(process: Worker, started: Pipeline, spark: Engine) -> None:
    spark.refusal = errors.EngineUnavailable("Spark cannot start.")
    process.look()
    eventually(lambda: spark.exits != [], PATIENCE_SECONDS)
    assert deaths(started) == [0]


def test_where_it_is_known_for_whom_the_engine_was_ended_it_is_laid_to_nobody_else(
    process: Worker, started: Pipeline, other: Pipeline, spark: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_all(process, started, other)
    monkeypatch.setattr(engine, "culprit", lambda: starts.name_of(other))
    end_engine(process, monkeypatch)
    assert deaths(started, other) == [0, 1]


def test_while_a_suspect_begins_nothing_else_does_until_it_has_run_soundly(
    process: Worker, started: Pipeline, other: Pipeline, spark: Engine
) -> None:
    die(other, SUSPECT_AFTER)
    until(process, other, State.RUNNING)
    process.look()
    assert state(started) == State.STARTING
    age(life_of(process, other))
    run_all(process, started)
    assert deaths(other) == [0]


def test_another_worker_takes_on_meanwhile_what_waits(
    process: Worker, started: Pipeline, other: Pipeline, spark: Engine
) -> None:
    die(other, SUSPECT_AFTER)
    until(process, other, State.RUNNING)
    second = Worker()
    run_all(second, started)
    second.leave()


def test_a_death_while_a_suspect_begins_is_laid_to_it_alone(
    cast: Cast, process: Worker, started: Pipeline, spark: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_all(process, started)
    age(life_of(process, started))
    other = another(cast, "other")
    die(other, SUSPECT_AFTER)
    now_is(other, due_at=timezone.now() - PATIENCE)
    run_all(process, other)
    assert end_engine(process, monkeypatch) is not process
    assert deaths(started, other) == [0, SUSPECT_AFTER + 1]


def test_a_worker_that_runs_others_leaves_a_suspect_to_an_empty_one_for_a_while(
    process: Worker, started: Pipeline, cast: Cast, spark: Engine
) -> None:
    run_all(process, started)
    other, third = another(cast, "other"), another(cast, "third")
    die(other, SUSPECT_AFTER)
    run_all(process, third)
    assert state(other) == State.STARTING
    now_is(other, due_at=timezone.now() - PATIENCE)
    fourth = another(cast, "fourth")
    process.look()  # what has only begun there might be to blame as well, and more would
    assert (state(other), state(fourth)) == (State.STARTING, State.STARTING)
    for pipeline in (started, third):
        age(life_of(process, pipeline))
    run_all(process, other)
    assert state(fourth) == State.STARTING


def test_what_takes_long_to_start_keeps_nobody_waiting_for_ever(process: Worker, started: Pipeline) -> None:
    life = Life(process, Lease(started.pk, "one", 1, deaths=SUSPECT_AFTER))
    assert life.is_young
    life._begun -= suspects.BELIEVED_AFTER.total_seconds()
    assert not life.is_young


def test_the_one_that_ends_engines_is_failed_and_its_neighbours_go_on(
    process: Worker, started: Pipeline, other: Pipeline, spark: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both begin at the same time again and again, and whenever `other` runs the engine ends."""
    ends = 0
    while state(other) != State.FAILED:
        until(process, other, State.RUNNING)
        process = end_engine(process, monkeypatch)
        ends += 1
    assert ends == MOST_DEATHS
    run_all(process, started)
    assert deaths(started, other) == [SUSPECT_AFTER, MOST_DEATHS]
    age(life_of(process, started))
    process.look()
    assert deaths(started) == [0]
    process.leave()
