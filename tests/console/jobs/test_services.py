"""Jobs on behalf of a user: secrets leave the text, and only what is right is deployed."""

from __future__ import annotations

import pytest

from analytics.pipelines.plan import Plan
from console.accounts.actor import Actor
from console.jobs import services
from console.jobs.compiler.words import TextRefused
from console.pipelines import services as pipelines
from console.pipelines.models import Pipeline, Secret, Version
from tests.support.sql_cast import Cast, cast, no_acl

__all__ = ["cast", "no_acl"]
pytestmark = pytest.mark.process

TEXT = """CREATE TEMPORARY TABLE late (carrier STRING, n BIGINT) WITH ('connector' = 'mq', 'topic' = 'late',
  'endpoint' = 'h:9876', 'accessId' = 'x', 'accessKey' = 'sEcReT-4', 'producerGroup' = 'GID_${who}');
CREATE TEMPORARY TABLE seen (id BIGINT) WITH ('connector' = 'datagen');
INSERT INTO late SELECT f.carrier, 1 FROM seen JOIN demo.flights f ON f.carrier = CAST(seen.id AS STRING);
"""


@pytest.fixture
def actor(cast: Cast) -> Actor:
    pipelines.set_variable(actor=cast.alice, name="who", value="late")
    return cast.alice


@pytest.fixture
def job(actor: Actor) -> Pipeline:
    return pipelines.create(actor=actor, name="late")


def test_a_secret_in_a_draft_is_saved_apart_from_it(actor: Actor, job: Pipeline) -> None:
    checked = services.save_draft(actor=actor, pipeline=job, text=TEXT)
    assert checked.refusals == ()
    job.refresh_from_db()
    assert job.draft == TEXT.replace("sEcReT-4", "${secret_values.late_accessKey}")
    assert pipelines.secret_values(actor.tenant, ["late_accessKey"]) == {"late_accessKey": "sEcReT-4"}


def test_a_secret_in_a_draft_that_is_wrong_elsewhere_is_saved_apart_too(actor: Actor, job: Pipeline) -> None:
    checked = services.save_draft(actor=actor, pipeline=job, text=TEXT + "INSERT INTO nowhere SELECT 1;")
    assert checked.plan is None
    job.refresh_from_db()
    assert "sEcReT-4" not in job.draft


def test_a_column_that_a_table_of_the_catalog_has_not_is_told_before_the_start(actor: Actor) -> None:
    (refused,) = services.look(actor=actor, text=TEXT.replace("f.carrier, 1", "f.carier, 1")).refusals
    assert refused.line == 4 and refused.sentence == "there is no column carier in f. Did you mean carrier?"


def test_a_draft_that_cannot_be_read_is_not_kept(actor: Actor, job: Pipeline) -> None:
    with pytest.raises(TextRefused, match="this text in quotes is not closed"):
        services.save_draft(actor=actor, pipeline=job, text=TEXT + "SELECT 'x")
    job.refresh_from_db()
    assert job.draft == ""


def test_a_text_is_deployed_with_its_plan(actor: Actor, job: Pipeline) -> None:
    version = services.deploy(actor=actor, pipeline=job, text=TEXT)
    plan = Plan.from_json(version.plan)
    assert "sEcReT-4" not in version.text + version.plan
    assert plan.tables == (("demo", "flights"),)
    assert plan.sinks[0].options["producerGroup"] == "GID_late"
    assert plan.secrets == ("late_accessKey",)


def test_the_stored_text_is_deployed_to_the_same_version(actor: Actor, job: Pipeline) -> None:
    first = services.deploy(actor=actor, pipeline=job, text=TEXT)
    assert services.deploy(actor=actor, pipeline=job, text=first.text) == first


def test_what_is_wrong_is_not_deployed_and_keeps_nothing(actor: Actor, job: Pipeline) -> None:
    with pytest.raises(TextRefused, match=r"Line 4, column 13: the query gives 1 column, and late takes 2"):
        services.deploy(actor=actor, pipeline=job, text=TEXT.replace("f.carrier, 1", "f.carrier"))
    assert not Version.objects.exists()
    assert not Secret.objects.exists()


def test_a_table_of_another_account_is_not_there(cast: Cast, actor: Actor) -> None:
    (refused,) = services.look(actor=cast.charlie, text=TEXT.replace("GID_${who}", "GID_x")).refusals
    assert refused.sentence.startswith("there is no table flights in schema demo.")


def test_a_table_without_its_schema_is_found_where_there_is_one(actor: Actor) -> None:
    checked = services.look(actor=actor, text=TEXT.replace("demo.flights", "Flights"))
    assert checked.plan is not None
    assert checked.plan.tables == (("demo", "flights"),)
