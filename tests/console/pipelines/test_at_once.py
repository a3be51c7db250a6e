"""What several users do to pipelines of one account at the same moment, each with a connection of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest
from django.db import connection
from pytest_django import Settings as Settings_

from console.pipelines import lifecycle, services
from console.pipelines.models import BUSY, Pipeline, Savepoint, StartFrom, State
from console.web.errors import Refused
from tests.console.pipelines.conftest import plan_of
from tests.support.cast import Cast

pytestmark = pytest.mark.django_db(transaction=True)
PATIENCE_SECONDS = 120.0


@pytest.fixture(autouse=True)
def nobody_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Celery runs beside these tests."""
    monkeypatch.setattr(services, "hand_over", lambda: None)
    monkeypatch.setattr(services, "after_commit", lambda *_, **__: None)


def at_once(*acts: Callable[[], object]) -> list[str]:
    """All acts together, each in a thread; the symbols of their refusals, and `done`, in order."""
    begin, outcomes = threading.Barrier(len(acts)), list[str]()

    def one(act: Callable[[], object]) -> None:
        begin.wait(PATIENCE_SECONDS)
        try:
            act()
            outcomes.append("done")
        except Refused as refused:
            outcomes.append(refused.symbol)
        finally:
            connection.close()

    threads = [threading.Thread(target=one, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    return sorted(outcomes)


def deployed(cast: Cast, name: str) -> Pipeline:
    made = services.create(actor=cast.actor("alice"), name=name)
    services.deploy(actor=cast.actor("alice"), pipeline=made, text="SELECT 1", plan=plan_of())
    return made


def test_of_starts_at_once_only_as_many_run_as_there_are_places(cast: Cast, settings: Settings_) -> None:
    settings.TENANT_LIMITS = settings.TENANT_LIMITS | {"running_jobs": 2}
    jobs = [deployed(cast, f"job-{number}") for number in range(7)]
    services.start(actor=cast.actor("alice"), pipeline=jobs[0], start_from=StartFrom.NOTHING)
    actor = cast.actor("alice")
    acts = [partial(services.start, actor=actor, pipeline=job, start_from=StartFrom.NOTHING) for job in jobs[1:]]
    assert at_once(*acts) == ["RUNNING_JOB_LIMIT"] * 5 + ["done"]
    assert Pipeline.objects.filter(state__in=BUSY).count() == 2


def test_a_job_is_started_or_deleted_and_never_both(cast: Cast) -> None:
    actor = cast.actor("alice")
    for number in range(3):
        job = deployed(cast, f"job-{number}")
        outcomes = at_once(
            partial(services.delete, actor=actor, pipeline=job),
            partial(services.start, actor=actor, pipeline=job, start_from=StartFrom.NOTHING),
        )
        left = Pipeline.objects.filter(pk=job.pk).first()
        assert outcomes == (["JOB_NOT_FOUND", "done"] if left is None else ["PIPELINE_BUSY", "done"])
        assert left is None or left.state == State.STARTING


def test_a_job_that_stops_is_not_deleted_under_its_worker(cast: Cast) -> None:
    job = deployed(cast, "job")
    services.start(actor=cast.actor("alice"), pipeline=job, start_from=StartFrom.NOTHING)
    lease = lifecycle.claim(job.pk, "one")
    assert lease is not None
    lifecycle.run(lease)
    services.stop(actor=cast.actor("alice"), pipeline=job, with_savepoint=True)
    delete = partial(services.delete, actor=cast.actor("alice"), pipeline=job)
    assert at_once(delete, partial(lifecycle.keep_savepoint, lease, "oss://x/savepoint-00000001/")) == [
        "PIPELINE_BUSY", "done",
    ]  # fmt: skip
    assert job.savepoints.count() == 1
    lifecycle.stop(lease)
    delete()
    assert not Pipeline.objects.filter(pk=job.pk).exists()


@pytest.mark.parametrize("give_back", [lifecycle.release, partial(lifecycle.fail, reason="x")], ids=["release", "fail"])
def test_a_stop_is_carried_out_though_its_worker_gives_the_job_back_at_that_moment(
    cast: Cast, give_back: Callable[[lifecycle.Lease], object]
) -> None:
    job = deployed(cast, "job")
    services.start(actor=cast.actor("alice"), pipeline=job, start_from=StartFrom.NOTHING)
    lease = lifecycle.claim(job.pk, "one")
    assert lease is not None
    lifecycle.run(lease)
    worker = threading.Thread(target=at_once, args=(partial(give_back, lease),))

    def between(execute: Callable[..., object], sql: str, params: object, many: bool, context: object) -> object:
        done = execute(sql, params, many, context)
        if worker.ident is None and Pipeline._meta.db_table in sql:
            worker.start()
            worker.join(1)  # it comes to its end here, or waits for the one who stops
        return done

    with connection.execute_wrapper(between):
        services.stop(actor=cast.actor("alice"), pipeline=job)
    worker.join(PATIENCE_SECONDS)
    job.refresh_from_db()
    assert (job.state, job.worker) == (State.STOPPED, "")


def test_of_those_who_delete_one_savepoint_at_once_one_does_and_others_go_beside_it(cast: Cast) -> None:
    job = deployed(cast, "job")
    first, second = (Savepoint.objects.create(pipeline=job, folder=f"oss://x/savepoint-{n}/") for n in (1, 2))
    actor = cast.actor("alice")
    acts = [
        partial(services.delete_savepoint, actor=actor, pipeline=job, savepoint=one)
        for one in (Savepoint(pk=first.pk, folder=first.folder), Savepoint(pk=first.pk, folder=first.folder), second)
    ]
    assert at_once(*acts) == ["SAVEPOINT_NOT_FOUND", "done", "done"]
    assert not job.savepoints.exists()
    assert job.events.filter(kind="savepoint deleted").count() == 2


def test_a_savepoint_is_started_from_or_deleted_and_never_both(cast: Cast) -> None:
    actor = cast.actor("alice")
    for number in range(3):
        job = deployed(cast, f"job-{number}")
        one = Savepoint.objects.create(pipeline=job, version=job.versions.first(), folder="oss://x/savepoint-1/")
        same = Savepoint(pk=one.pk, pipeline=job, folder=one.folder)
        outcomes = at_once(
            partial(services.delete_savepoint, actor=actor, pipeline=job, savepoint=same),
            partial(services.start, actor=actor, pipeline=job, start_from=StartFrom.SAVEPOINT, savepoint=one),
        )
        job.refresh_from_db()
        if job.state == State.STARTING:
            assert outcomes == ["SAVEPOINT_IN_USE", "done"] and job.savepoint_id == one.pk
        else:
            assert outcomes == ["SAVEPOINT_OF_ANOTHER", "done"] and not job.savepoints.exists()
