"""SQL jobs run with the rights of who starts them: nobody else's text, and no single right, lends them to others."""

from __future__ import annotations

import pytest

from console.accounts.models import Policy, User
from console.jobs import services as jobs
from console.openapi.operations import OPERATIONS
from console.pipelines import lifecycle, services, starts
from console.pipelines.models import Pipeline, StartFrom, State
from console.web.errors import Refused
from tests.console.jobs.conftest import TEXT
from tests.console.openapi.caller import Caller
from tests.support.cast import Cast

pytestmark = [pytest.mark.django_db, pytest.mark.process]
THEFT = TEXT.replace("seen", "stolen")
#: What is asked of each operation: the job, secret and variable are there.
GIVEN = {
    "job": "late",
    "text": TEXT,
    "version": "1",
    "secret": "key",
    "variable": "who",
    "value": "x",
    "savepoint": "1",
}
#: Action of a policy → the operations that it opens, and no other.
OPENED = {
    "dla:QueryJob": {
        *("job/list", "job/get", "job/validate", "job/versions", "job/version", "job/events", "job/log"),
        "job/savepoints",
    },
    "dla:CreateJob": {"job/create"},
    "dla:UpdateJob": {"job/update", "job/deploy"},
    "dla:DeleteJob": {"job/delete"},
    "dla:DeleteJobSavepoint": {"job/deleteSavepoint"},
    "dla:StartJob": {"job/start"},
    "dla:StopJob": {"job/stop"},
    "dla:ListJobSecrets": {"job/secrets", "job/variables"},
    "dla:PutJobSecret": {"job/putSecret", "job/putVariable"},
    "dla:DeleteJobSecret": {"job/deleteSecret", "job/deleteVariable"},
    "dla:UseJobSecret": set(),
}
OPERATIONS_OF_JOBS = sorted(path for path in OPERATIONS if path.startswith("job/"))


def allow(cast: Cast, name: str, action: str) -> None:
    """A policy of the one action for the user."""
    document = {"Version": "1", "Statement": [{"Effect": "Allow", "Action": [action], "Resource": "*"}]}
    policy = Policy.objects.create(tenant=cast.acme, name=f"of-{name}", document=document)
    User.objects.get(pk=cast.users[name].pk).policies.add(policy)


def deployed(cast: Cast) -> Pipeline:
    job = jobs.create(actor=cast.actor("alice"), name="late", text=TEXT)
    jobs.deploy(actor=cast.actor("alice"), pipeline=job, text=TEXT)
    services.set_secret(actor=cast.actor("alice"), name="key", value="sEcReT-7")
    services.set_variable(actor=cast.actor("alice"), name="who", value="x")
    job.refresh_from_db()
    return job


def running(cast: Cast) -> tuple[Pipeline, lifecycle.Lease]:
    job = deployed(cast)
    jobs.start(actor=cast.actor("alice"), pipeline=job, start_from=StartFrom.NOTHING)
    lease = lifecycle.claim(job.pk, "one")
    assert lease is not None
    lifecycle.run(lease)
    return job, lease


def test_a_text_deployed_meanwhile_does_not_run_with_the_rights_of_who_started_another(cast: Cast) -> None:
    job, lease = running(cast)
    jobs.deploy(actor=cast.actor("bob"), pipeline=job, text=THEFT)

    lifecycle.fail(lease, "Bob sent it a message that it cannot read.")
    Pipeline.objects.filter(pk=job.pk).update(due_at=None)
    again = lifecycle.claim(job.pk, "two")

    assert again is not None
    spec = starts.spec_of(again)
    assert [source.name for source in spec.plan.sources] == ["seen"]
    starts.require_still(again)
    lifecycle.run(again)
    assert job.events.filter(kind=State.RUNNING).values_list("version", flat=True).first() == 1
    assert lifecycle.keep_savepoint(again, "oss://x/1/").version.number == 1  # type: ignore[union-attr]


def test_a_text_deployed_between_the_look_and_the_start_is_not_started(cast: Cast) -> None:
    job = deployed(cast)
    looked_at = Pipeline.objects.select_related("version", "tenant").get(pk=job.pk)
    jobs.deploy(actor=cast.actor("bob"), pipeline=job, text=THEFT)
    with pytest.raises(Refused, match="Version 2 of late was deployed in the meantime") as refused:
        jobs.start(actor=cast.actor("alice"), pipeline=looked_at, start_from=StartFrom.NOTHING)
    assert refused.value.symbol == "DEPLOYED_MEANWHILE"
    job.refresh_from_db()
    assert job.state == State.STOPPED


def test_every_operation_of_jobs_is_opened_by_one_action() -> None:
    opened = [path for paths in OPENED.values() for path in paths]
    assert sorted(opened) == OPERATIONS_OF_JOBS


@pytest.mark.parametrize("action", OPENED)
def test_one_action_opens_its_operations_and_nothing_else(cast: Cast, action: str) -> None:
    deployed(cast)
    allow(cast, "nora", action)
    nora = Caller.of(cast.nora)
    denied = {path for path in OPERATIONS_OF_JOBS if _is_denied(nora, path)}
    assert denied == set(OPERATIONS_OF_JOBS) - OPENED[action]


def _is_denied(caller: Caller, path: str) -> bool:
    """Asked for with all that it takes; operations take what they know, and refuse the rest only by its name."""
    known = OPERATIONS[path].parameters.model_fields
    given = {name: value for name, value in GIVEN.items() if name in known}
    method = "post" if "text" in given else "get"
    return caller.symbol(path, method=method, **given) == "AUTH_PERMISSION_DENIED"
