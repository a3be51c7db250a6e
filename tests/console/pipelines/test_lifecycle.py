"""The life of a pipeline as workers and the sweep drive it: never two at once, and nothing by one that was given up."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from analytics.pipelines.plan import Settings
from console.pipelines import lifecycle, queries, services
from console.pipelines.lifecycle import LEASE, STABLE_AFTER, Lease, LeaseLost
from console.pipelines.models import Kind, Pipeline, StartFrom, State
from console.pipelines.suspects import SOUND_AFTER
from console.web.errors import Refused
from tests.console.pipelines.conftest import plan_of, started_with
from tests.support.cast import Cast


def claimed(pipeline: Pipeline, worker: str = "one") -> Lease:
    lease = lifecycle.claim(pipeline.pk, worker)
    assert lease is not None
    return lease


def running(pipeline: Pipeline, worker: str = "one") -> Lease:
    lease = claimed(pipeline, worker)
    lifecycle.run(lease)
    return lease


def now_is(pipeline: Pipeline, **values: object) -> None:
    Pipeline.objects.filter(pk=pipeline.pk).update(**values)


def silent(pipeline: Pipeline) -> None:
    now_is(pipeline, heartbeat_at=timezone.now() - LEASE - timedelta(seconds=1))


def state(pipeline: Pipeline) -> str:
    pipeline.refresh_from_db()
    return pipeline.state


def events(pipeline: Pipeline) -> list[str]:
    return [event.kind for event in pipeline.events.order_by("pk")]


def restart_once(cast: Cast, pipeline: Pipeline) -> None:
    plan = plan_of(settings=Settings(restart_attempts=1, restart_delay_ms=0))
    services.deploy(actor=cast.actor("alice"), pipeline=pipeline, text="once", plan=plan)


def test_only_one_worker_claims_it(started: Pipeline) -> None:
    assert lifecycle.waiting() == [started.pk]
    assert claimed(started).fence == 1
    assert lifecycle.claim(started.pk, "two") is None
    assert lifecycle.waiting() == []


def test_what_was_not_started_is_not_claimed(pipeline: Pipeline) -> None:
    assert pipeline.state == State.STOPPED
    assert lifecycle.claim(pipeline.pk, "one") is None


def test_it_runs_to_its_end(started: Pipeline) -> None:
    lease = running(started)
    assert lifecycle.beat(lease) is State.RUNNING
    lifecycle.finish(lease)
    assert state(started) == State.FINISHED
    assert (started.worker, started.heartbeat_at) == ("", None)
    assert events(started) == ["deployed", "starting", "claimed", "running", "finished"]


def test_after_it_ran_a_new_worker_goes_on_from_the_checkpoint(started: Pipeline) -> None:
    assert started.start_from == StartFrom.NOTHING
    running(started)
    started.refresh_from_db()
    assert started.start_from == StartFrom.CHECKPOINT


def test_a_worker_that_gives_no_sign_of_life_loses_it_and_changes_nothing_more(started: Pipeline) -> None:
    lost = running(started)
    silent(started)
    assert lifecycle.sweep() == [started.pk]
    assert state(started) == State.STARTING
    second = running(started, "two")
    assert second.fence == lost.fence + 1
    for late in (
        lambda: lifecycle.beat(lost),
        lambda: lifecycle.run(lost),
        lambda: lifecycle.finish(lost),
        lambda: lifecycle.stop(lost),
        lambda: lifecycle.fail(lost, "x"),
        lambda: lifecycle.keep_savepoint(lost, "x"),
    ):
        with pytest.raises(LeaseLost):
            late()
    lifecycle.release(lost)
    assert state(started) == State.RUNNING
    assert (started.worker, started.restarts) == ("two", 1)
    assert lifecycle.beat(second) is State.RUNNING


def test_the_same_worker_that_claims_it_again_has_another_number(started: Pipeline) -> None:
    first = running(started)
    silent(started)
    lifecycle.sweep()
    assert claimed(started).fence == first.fence + 1
    with pytest.raises(LeaseLost):
        lifecycle.beat(first)


def test_the_sweep_leaves_alone_who_gives_signs_of_life(started: Pipeline) -> None:
    lease = running(started)
    silent(started)
    lifecycle.beat(lease)
    assert lifecycle.sweep() == []
    assert state(started) == State.RUNNING


def test_a_stop_is_carried_out_by_the_worker(cast: Cast, started: Pipeline) -> None:
    lease = running(started)
    services.stop(actor=cast.actor("alice"), pipeline=started, with_savepoint=True)
    assert lifecycle.beat(lease) is State.STOPPING
    savepoint = lifecycle.keep_savepoint(lease, "oss://x/savepoint-1/")
    lifecycle.stop(lease)
    assert state(started) == State.STOPPED
    assert started.stop_with_savepoint
    assert savepoint.version == started.version
    assert events(started)[-3:] == ["stopping", "savepoint", "stopped"]


def test_a_stop_before_it_runs_stays_asked_for(cast: Cast, started: Pipeline) -> None:
    lease = claimed(started)
    services.stop(actor=cast.actor("alice"), pipeline=started)
    lifecycle.run(lease)
    assert state(started) == State.STOPPING
    lifecycle.stop(lease)
    assert state(started) == State.STOPPED


def test_a_stop_of_one_that_nobody_holds_is_done_at_once(cast: Cast, started: Pipeline) -> None:
    services.stop(actor=cast.actor("alice"), pipeline=started)
    assert state(started) == State.STOPPED
    assert lifecycle.claim(started.pk, "one") is None


def test_a_stop_whose_worker_is_lost_is_done_by_the_sweep(cast: Cast, started: Pipeline) -> None:
    running(started)
    services.stop(actor=cast.actor("alice"), pipeline=started, with_savepoint=True)
    silent(started)
    assert lifecycle.sweep() == [started.pk]
    assert state(started) == State.STOPPED
    assert started.reason.startswith("Its worker was lost before it had stopped")


def test_a_stop_that_no_worker_would_carry_out_is_done_by_the_sweep(started: Pipeline) -> None:
    now_is(started, state=State.STOPPING, worker="", heartbeat_at=None)
    assert lifecycle.sweep() == [started.pk]
    assert state(started) == State.STOPPED
    assert started.ended_at is not None
    assert events(started)[-1] == "stopped"


def deleted_while_it_runs(cast: Cast, pipeline: Pipeline) -> Lease:
    lease = running(pipeline)
    services.delete(actor=cast.actor("alice"), pipeline=pipeline, stops=True)
    return lease


def test_one_that_is_deleted_while_it_runs_is_gone_for_its_owner_stops_and_is_removed(
    cast: Cast, started: Pipeline
) -> None:
    alice = cast.actor("alice")
    with pytest.raises(Refused, match="stop it first"):
        services.delete(actor=alice, pipeline=started)
    lease = deleted_while_it_runs(cast, started)
    assert queries.pipeline(cast.acme, Kind.JOB, started.name) is None and not queries.pipelines(cast.acme, Kind.JOB)
    for act in (services.start, services.stop, services.delete, services.restart):
        with pytest.raises(Refused, match="There is no job"):
            act(actor=alice, pipeline=started)
    another = services.create(actor=alice, name=started.name)  # the name is free at once
    assert lifecycle.beat(lease) == State.STOPPING and lifecycle.sweep() == []
    lifecycle.stop(lease)
    assert list(Pipeline.objects.all()) == [another]


@pytest.mark.parametrize(
    "end",
    [
        lambda lease: lifecycle.fail(lease, "it broke"),
        lambda lease: lifecycle.lose(lease, "the engine died"),
        lifecycle.finish,
        lifecycle.release,
    ],
)
def test_one_that_is_deleted_while_it_runs_is_removed_however_it_ends(
    cast: Cast, started: Pipeline, end: Callable[[Lease], object]
) -> None:
    end(deleted_while_it_runs(cast, started))
    assert not Pipeline.objects.exists()


def test_one_that_was_deleted_and_whose_worker_was_killed_is_removed_by_the_sweep(
    cast: Cast, started: Pipeline
) -> None:
    deleted_while_it_runs(cast, started)
    silent(started)
    lifecycle.sweep()
    assert not Pipeline.objects.exists()


def test_one_whose_worker_was_killed_between_its_stop_and_its_removal_is_removed_by_the_sweep(
    cast: Cast, started: Pipeline
) -> None:
    deleted_while_it_runs(cast, started)
    now_is(started, state=State.STOPPED, worker="")
    lifecycle.sweep()
    assert not Pipeline.objects.exists()


def test_one_that_waits_for_a_worker_is_deleted_at_once(cast: Cast, started: Pipeline) -> None:
    services.delete(actor=cast.actor("alice"), pipeline=started, stops=True)
    assert not Pipeline.objects.exists()


def test_a_failure_starts_it_again_after_a_pause(started: Pipeline) -> None:
    lease = running(started)
    assert lifecycle.fail(lease, "The queue is gone.", line=3) is State.STARTING
    assert state(started) == State.STARTING
    assert (started.reason, started.line, started.failures, started.restarts) == ("The queue is gone.", 3, 1, 1)
    assert started.due_at is not None
    now_is(started, due_at=timezone.now() + timedelta(hours=1))
    assert lifecycle.claim(started.pk, "two") is None, "its pause is not over"
    now_is(started, due_at=timezone.now())
    running(started, "two")
    started.refresh_from_db()
    assert (started.reason, started.line, started.failures) == ("", None, 1)


@pytest.mark.parametrize(("failures", "seconds"), [(1, 1), (2, 2), (3, 4), (9, 256), (10, 300), (1000, 300)])
def test_the_pause_is_doubled_up_to_its_maximum(failures: int, seconds: int) -> None:
    assert lifecycle.pause(Settings(), failures) == timedelta(seconds=seconds)


def test_after_enough_failures_it_has_failed(cast: Cast, pipeline: Pipeline) -> None:
    restart_once(cast, pipeline)
    services.start(actor=cast.actor("alice"), pipeline=pipeline, start_from=StartFrom.NOTHING)
    assert lifecycle.fail(running(pipeline), "first") is State.STARTING
    assert lifecycle.fail(running(pipeline), "second", line=7) is State.FAILED
    assert state(pipeline) == State.FAILED
    assert (pipeline.reason, pipeline.line) == ("second", 7)
    assert lifecycle.claim(pipeline.pk, "one") is None


def test_a_failure_long_after_the_last_one_is_the_first_again(cast: Cast, pipeline: Pipeline) -> None:
    restart_once(cast, pipeline)
    services.start(actor=cast.actor("alice"), pipeline=pipeline, start_from=StartFrom.NOTHING)
    lifecycle.fail(running(pipeline), "first")
    lease = running(pipeline)
    now_is(pipeline, running_at=timezone.now() - STABLE_AFTER)
    assert lifecycle.fail(lease, "much later") is State.STARTING
    pipeline.refresh_from_db()
    assert pipeline.failures == 1


def test_an_error_that_every_start_has_is_not_tried_again(started: Pipeline) -> None:
    assert lifecycle.fail(running(started), "The topic does not exist.", for_good=True) is State.FAILED
    assert state(started) == State.FAILED


def test_a_failure_while_it_stops_is_a_stop_with_a_reason(cast: Cast, started: Pipeline) -> None:
    lease = running(started)
    services.stop(actor=cast.actor("alice"), pipeline=started)
    assert lifecycle.fail(lease, "too late") is State.STOPPED
    assert state(started) == State.STOPPED
    assert started.reason == "too late"


def test_a_worker_that_shuts_down_gives_it_to_another_at_once(started: Pipeline) -> None:
    lifecycle.release(running(started))
    assert claimed(started, "two").fence == 2
    started.refresh_from_db()
    assert started.failures == 0


def test_a_lost_engine_starts_it_again_after_a_growing_pause_and_never_ends_it(cast: Cast, started: Pipeline) -> None:
    plan = plan_of(settings=Settings(restart_attempts=0, restart_delay_ms=5_000))
    started_with(cast.actor("alice"), started, plan)
    lifecycle.lose(running(started), "The engine has ended.")
    assert (state(started), started.worker, started.losses, started.reason) == (
        State.STARTING, "", 1, "The engine has ended.",
    )  # fmt: skip
    now_is(started, due_at=timezone.now() + timedelta(hours=1))
    assert lifecycle.waiting() == []
    for losses, seconds in ((2, 10), (3, 20), (4, 40), (5, 60), (6, 60)):
        now_is(started, due_at=None)
        before = timezone.now()
        lifecycle.lose(running(started, "two"), "The engine has ended.")
        assert (state(started), started.losses, started.failures) == (State.STARTING, losses, 0)
        assert started.due_at is not None
        assert before + timedelta(seconds=seconds) <= started.due_at <= timezone.now() + timedelta(seconds=seconds)
    assert events(started)[-1] == "lost"


def test_the_pause_after_a_lost_engine_grows_only_for_what_had_hardly_run(started: Pipeline) -> None:
    for _ in range(5):
        lease = running(started)
        now_is(started, running_at=timezone.now() - SOUND_AFTER)
        lifecycle.lose(lease, "The engine has ended.")
        assert (state(started), started.losses, started.restarts > 0) == (State.STARTING, 1, True)
        now_is(started, due_at=None)


def test_losses_of_the_engine_are_no_failures_of_its_own(cast: Cast, pipeline: Pipeline) -> None:
    restart_once(cast, pipeline)
    services.start(actor=cast.actor("alice"), pipeline=pipeline)
    for _ in range(3):
        lifecycle.lose(running(pipeline), "The engine has ended.")
        now_is(pipeline, due_at=None)
    assert lifecycle.fail(running(pipeline), "The topic is away.") is State.STARTING


def test_a_state_of_a_later_start_than_the_database_knows_is_taken_over_at_once(started: Pipeline) -> None:
    lease = claimed(started)
    lifecycle.outrank(lease, 41)
    assert claimed(started, "two").fence == 42
    assert "of the start 41, later than what the database knows" in started.events.filter(kind="lost").get().sentence
    with pytest.raises(LeaseLost):
        lifecycle.outrank(lease, 50)
    assert claimed_fence(started) == 42


def claimed_fence(pipeline: Pipeline) -> int:
    pipeline.refresh_from_db()
    return pipeline.fence


def test_a_lost_engine_carries_out_a_stop(cast: Cast, started: Pipeline) -> None:
    lease = running(started)
    services.stop(actor=cast.actor("alice"), pipeline=started)
    lifecycle.lose(lease, "The engine has ended.")
    assert (state(started), started.reason) == (State.STOPPED, "The engine has ended.")
    with pytest.raises(LeaseLost):
        lifecycle.lose(lease, "again")
