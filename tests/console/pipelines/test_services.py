"""What users do with pipelines: drafts, versions, start and stop, secrets and variables."""

from __future__ import annotations

import pytest
from pytest_django import Settings as Settings_

from analytics.pipelines.plan import Plan
from console.accounts.actor import Actor
from console.audit.models import Entry
from console.pipelines import lifecycle, services
from console.pipelines.models import Pipeline, Savepoint, Secret, StartFrom, State, Variable
from console.rights import limits
from console.web.errors import Refused
from tests.console.pipelines.conftest import plan_of
from tests.support.cast import Cast

GROUPED = "SELECT COUNT(*) FROM `s` GROUP BY WINDOW(`t`, '1 minute')"


@pytest.fixture
def alice(cast: Cast) -> Actor:
    return cast.actor("alice")


def symbol(error: pytest.ExceptionInfo[Refused]) -> str:
    return error.value.symbol


def ran(pipeline: Pipeline) -> None:
    """Started from nothing, run and stopped."""
    lease = lifecycle.claim(pipeline.pk, "w")
    assert lease is not None
    lifecycle.run(lease)
    lifecycle.finish(lease)


def test_a_draft_becomes_a_version_and_the_version_runs(alice: Actor) -> None:
    pipeline = services.create(actor=alice, name="a-1", draft="x")
    assert pipeline.state == State.DRAFT
    services.save_draft(actor=alice, pipeline=pipeline, draft="y")
    version = services.deploy(actor=alice, pipeline=pipeline, text="y", plan=plan_of())
    pipeline.refresh_from_db()
    assert (version.number, version.text, Plan.from_json(version.plan)) == (1, "y", plan_of())
    assert (pipeline.version, pipeline.state, pipeline.draft) == (version, State.STOPPED, "y")


def test_an_equal_text_is_no_new_version(alice: Actor, pipeline: Pipeline) -> None:
    assert services.deploy(actor=alice, pipeline=pipeline, text="SELECT 1", plan=plan_of()).number == 1
    assert services.deploy(actor=alice, pipeline=pipeline, text="SELECT 2", plan=plan_of()).number == 2
    assert services.deploy(actor=alice, pipeline=pipeline, text="SELECT 1", plan=plan_of()).number == 3


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "é"])
def test_a_name_that_cannot_be_one_is_refused(alice: Actor, name: str) -> None:
    with pytest.raises(Refused) as error:
        services.create(actor=alice, name=name)
    assert symbol(error) == "NAME_INVALID"


def test_a_name_is_taken_within_its_account_only(cast: Cast, pipeline: Pipeline) -> None:
    with pytest.raises(Refused) as error:
        services.create(actor=cast.actor("bob"), name=pipeline.name)
    assert symbol(error) == "NAME_TAKEN"
    assert services.create(actor=cast.actor("charlie"), name=pipeline.name).pk != pipeline.pk


def test_a_draft_is_not_started(alice: Actor) -> None:
    pipeline = services.create(actor=alice, name="draft")
    with pytest.raises(Refused, match="deploy its draft first") as error:
        services.start(actor=alice, pipeline=pipeline)
    assert symbol(error) == "NOT_DEPLOYED"


def test_it_is_not_started_twice(alice: Actor, started: Pipeline) -> None:
    with pytest.raises(Refused, match="late_flights is starting; stop it first") as error:
        services.start(actor=alice, pipeline=started)
    assert symbol(error) == "PIPELINE_BUSY"


def test_what_does_not_run_is_not_stopped(alice: Actor, pipeline: Pipeline) -> None:
    with pytest.raises(Refused) as error:
        services.stop(actor=alice, pipeline=pipeline)
    assert symbol(error) == "PIPELINE_NOT_RUNNING"


def test_it_is_stopped_twice_without_a_word(alice: Actor, started: Pipeline) -> None:
    lease = lifecycle.claim(started.pk, "w")
    assert lease is not None
    services.stop(actor=alice, pipeline=started)
    services.stop(actor=alice, pipeline=started)
    assert lifecycle.beat(lease) is State.STOPPING


def test_what_runs_is_not_deleted(alice: Actor, started: Pipeline) -> None:
    with pytest.raises(Refused) as error:
        services.delete(actor=alice, pipeline=started)
    assert symbol(error) == "PIPELINE_BUSY"
    services.stop(actor=alice, pipeline=started)
    services.delete(actor=alice, pipeline=started)
    assert not Pipeline.objects.filter(pk=started.pk).exists()


def test_a_start_from_a_savepoint_names_one_of_its_own(alice: Actor, started: Pipeline) -> None:
    lease = lifecycle.claim(started.pk, "w")
    assert lease is not None
    savepoint = lifecycle.keep_savepoint(lease, "oss://x/1/")
    lifecycle.finish(lease)
    with pytest.raises(Refused) as error:
        services.start(actor=alice, pipeline=started, start_from=StartFrom.SAVEPOINT)
    assert symbol(error) == "SAVEPOINT_MISSING"
    other = services.create(actor=alice, name="other")
    services.deploy(actor=alice, pipeline=other, text="x", plan=plan_of())
    with pytest.raises(Refused) as error:
        services.start(actor=alice, pipeline=other, start_from=StartFrom.SAVEPOINT, savepoint=savepoint)
    assert symbol(error) == "SAVEPOINT_OF_ANOTHER"
    services.start(actor=alice, pipeline=started, start_from=StartFrom.SAVEPOINT, savepoint=savepoint)
    started.refresh_from_db()
    assert started.savepoint == savepoint


def test_a_version_whose_state_does_not_fit_starts_from_nothing_only(alice: Actor, started: Pipeline) -> None:
    ran(started)
    services.deploy(actor=alice, pipeline=started, text="grouped", plan=plan_of(GROUPED))
    with pytest.raises(Refused, match="INSERT INTO o of line 1 groups or joins otherwise than before") as error:
        services.start(actor=alice, pipeline=started)
    assert symbol(error) == "STATE_DOES_NOT_FIT"
    services.start(actor=alice, pipeline=started, start_from=StartFrom.NOTHING)


def test_a_change_without_state_goes_on_from_the_checkpoint(alice: Actor, started: Pipeline) -> None:
    ran(started)
    services.deploy(actor=alice, pipeline=started, text="b", plan=plan_of("SELECT `a` + 1 FROM `s`"))
    services.start(actor=alice, pipeline=started)
    started.refresh_from_db()
    assert (started.state, started.start_from) == (State.STARTING, StartFrom.CHECKPOINT)


def test_a_secret_is_kept_encrypted_and_given_for_a_start_only(cast: Cast, alice: Actor) -> None:
    services.set_secret(actor=alice, name="id", value="sEcReT-2")
    services.set_secret(actor=alice, name="id", value="sEcReT-3")
    (secret,) = Secret.objects.all()
    assert "sEcReT" not in secret.value_encrypted
    assert services.secret_values(cast.acme, ["id"]) == {"id": "sEcReT-3"}
    assert not Entry.objects.filter(detail__icontains="sEcReT").exists()
    with pytest.raises(Refused, match="There is no secret id, or who starts the job may not use it"):
        services.secret_values(cast.actor("charlie").tenant, ["id"])
    services.delete_secret(actor=alice, name="id")
    with pytest.raises(Refused) as error:
        services.delete_secret(actor=alice, name="id")
    assert symbol(error) == "SECRET_NOT_FOUND"


@pytest.mark.parametrize(("name", "value"), [("a b", "x"), ("", "x"), ("a", ""), ("a", "x" * 16385)])
def test_a_secret_that_cannot_be_one_is_refused(alice: Actor, name: str, value: str) -> None:
    with pytest.raises(Refused):
        services.set_secret(actor=alice, name=name, value=value)


def test_a_variable_has_a_name_and_a_value(alice: Actor) -> None:
    services.set_variable(actor=alice, name="region", value="cn-demo")
    services.set_variable(actor=alice, name="region", value="cn-other")
    assert [(one.name, one.value) for one in Variable.objects.all()] == [("region", "cn-other")]
    for name in ("1a", "secret_values", "a.b"):
        with pytest.raises(Refused):
            services.set_variable(actor=alice, name=name, value="x")


def test_changes_are_in_the_audit(alice: Actor, started: Pipeline) -> None:
    services.stop(actor=alice, pipeline=started)
    actions = list(
        Entry.objects.filter(action__startswith="pipelines.").order_by("pk").values_list("action", flat=True)
    )
    assert actions == ["pipelines.job.create", "pipelines.job.deploy", "pipelines.job.start", "pipelines.job.stop"]


def test_an_account_has_so_many_jobs_and_no_more(cast: Cast, alice: Actor, settings: Settings_) -> None:
    settings.TENANT_LIMITS = settings.TENANT_LIMITS | {"jobs": 1}
    services.create(actor=alice, name="first")
    with pytest.raises(Refused, match="acme may have 1 jobs; the platform's administrator sets this limit") as error:
        services.create(actor=alice, name="second")
    assert symbol(error) == "JOB_LIMIT"
    services.create(actor=cast.actor("charlie"), name="second")


def test_so_many_jobs_of_an_account_run_at_a_time(alice: Actor, started: Pipeline, settings: Settings_) -> None:
    settings.TENANT_LIMITS = settings.TENANT_LIMITS | {"running_jobs": 1}
    other = services.create(actor=alice, name="other")
    services.deploy(actor=alice, pipeline=other, text="x", plan=plan_of())
    with pytest.raises(Refused) as error:
        services.start(actor=alice, pipeline=other, start_from=StartFrom.NOTHING)
    assert symbol(error) == "RUNNING_JOB_LIMIT"
    used = {line.kind.name: line.used for line in limits.lines(alice.tenant)[0]}
    assert (used["jobs"], used["running_jobs"]) == (2, 1)
    services.stop(actor=alice, pipeline=started)
    services.start(actor=alice, pipeline=other, start_from=StartFrom.NOTHING)


def kept(pipeline: Pipeline) -> Savepoint:
    """A savepoint of what was asked to start; it has stopped."""
    lease = lifecycle.claim(pipeline.pk, "w")
    assert lease is not None
    lifecycle.run(lease)
    savepoint = lifecycle.keep_savepoint(lease, f"oss://x/savepoint-{lease.fence:08}/")
    lifecycle.finish(lease)
    return savepoint


def test_one_savepoint_is_deleted_and_no_start_goes_on_from_it(alice: Actor, started: Pipeline) -> None:
    savepoint = kept(started)
    services.delete_savepoint(actor=alice, pipeline=started, savepoint=savepoint)
    assert not started.savepoints.exists()
    event = started.events.order_by("pk").last()
    assert event is not None
    assert (event.kind, event.sentence) == ("savepoint deleted", "oss://x/savepoint-00000001/")
    entry = Entry.objects.get(action="pipelines.job.delete_savepoint")
    assert (entry.resource, entry.detail) == ("late_flights", {"savepoint": "00000001"})
    gone = Savepoint(pk=savepoint.pk or 1, pipeline=started, folder=savepoint.folder)
    with pytest.raises(Refused, match="has no savepoint 00000001 any more") as error:
        services.delete_savepoint(actor=alice, pipeline=started, savepoint=gone)
    assert symbol(error) == "SAVEPOINT_NOT_FOUND"
    with pytest.raises(Refused, match="is not one of late_flights") as error:
        services.start(actor=alice, pipeline=started, start_from=StartFrom.SAVEPOINT, savepoint=gone)
    assert symbol(error) == "SAVEPOINT_OF_ANOTHER"


def test_a_savepoint_stays_until_a_start_from_it_has_its_state(alice: Actor, started: Pipeline) -> None:
    savepoint = kept(started)
    services.start(actor=alice, pipeline=started, start_from=StartFrom.SAVEPOINT, savepoint=savepoint)
    lease = lifecycle.claim(started.pk, "w")
    assert lease is not None
    with pytest.raises(Refused, match="is about to start from the savepoint 00000001") as error:
        services.delete_savepoint(actor=alice, pipeline=started, savepoint=savepoint)
    assert symbol(error) == "SAVEPOINT_IN_USE"
    lifecycle.run(lease)
    services.delete_savepoint(actor=alice, pipeline=started, savepoint=savepoint)
    started.refresh_from_db()
    assert (started.state, started.savepoint) == (State.RUNNING, None)


def test_a_savepoint_of_another_job_is_not_deleted(alice: Actor, started: Pipeline) -> None:
    savepoint = kept(started)
    other = services.create(actor=alice, name="other")
    with pytest.raises(Refused) as error:
        services.delete_savepoint(actor=alice, pipeline=other, savepoint=savepoint)
    assert symbol(error) == "SAVEPOINT_NOT_FOUND"
    assert started.savepoints.count() == 1
