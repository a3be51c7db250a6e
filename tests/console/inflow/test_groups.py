"""A consumer group has one reader, an inflow task or a SQL job; whoever would be the second is told which one it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from console.inflow import services as inflow
from console.jobs import services as jobs
from console.jobs.compiler.words import TextRefused
from console.pipelines import services as pipelines
from console.pipelines.models import Pipeline, State
from console.web.errors import Refused
from tests.console.inflow.conftest import reloaded
from tests.console.inflow.test_messages import document, orders
from tests.console.openapi.caller import Caller
from tests.support.cast import Cast, make_group, make_topic

__all__ = ["orders"]
pytestmark = [pytest.mark.process, pytest.mark.usefixtures("orders")]
KEYS = "'endpoint' = 'http://{}', 'accessId' = 'x', 'accessKey' = '${{secret_values.s}}', "
TEXT = """CREATE TEMPORARY TABLE paid (a STRING) WITH ('connector' = 'mq', {}'instanceID' = '{}', 'topic' = '{}',
  'consumerGroup' = '{}');
CREATE TEMPORARY TABLE seen (a STRING) WITH ('connector' = 'print');
INSERT INTO seen SELECT a FROM paid;
"""


def text_of(cast: Cast, group: str = "GID_orders", topic: str = "orders", keys: str = "") -> str:
    return TEXT.format(keys, cast.instance.instance_id, topic, group)


def deployed(cast: Cast, name: str, text: str) -> Pipeline:
    job = jobs.create(actor=cast.actor("alice"), name=name)
    jobs.deploy(actor=cast.actor("alice"), pipeline=job, text=text)
    return Pipeline.objects.select_related("version", "tenant").get(pk=job.pk)


def start(cast: Cast, job: Pipeline) -> None:
    jobs.start(actor=cast.actor("alice"), pipeline=job)


def refused(act: Callable[[], Any]) -> Refused:
    with pytest.raises(Refused) as found:
        act()
    assert found.value.symbol == "GROUP_HELD"
    return found.value


def test_jobs_that_take_turns_share_a_group_and_two_that_run_do_not(cast: Cast) -> None:
    first, second = (deployed(cast, name, text_of(cast)) for name in ("first", "second"))
    start(cast, first)
    told = refused(lambda: start(cast, second)).message
    assert told == "The SQL job first reads by the group GID_orders; a group is for one task or job only."
    assert Caller.of(cast.alice).symbol("job/start", job="second") == "BIZ_JOB_STATE_INVALID"
    assert Pipeline.objects.get(pk=second.pk).state == State.STOPPED
    pipelines.stop(actor=cast.actor("alice"), pipeline=first)
    start(cast, second)
    refused(lambda: start(cast, first))


def test_a_job_is_refused_the_group_of_a_task_when_it_is_deployed_and_when_it_starts(cast: Cast) -> None:
    before = deployed(cast, "before", text_of(cast))
    task = inflow.create(actor=cast.actor("alice"), document=document(cast), start=False)
    told = refused(lambda: start(cast, before)).message
    assert told == "The inflow task orders-to-topic reads by the group GID_orders; a group is for one task or job only."
    with pytest.raises(TextRefused) as found:
        deployed(cast, "behind", text_of(cast))
    assert found.value.line == 1
    assert found.value.sentence.startswith("table paid: the inflow task orders-to-topic reads by the group GID_orders")
    inflow.delete(actor=cast.actor("alice"), pipeline=reloaded(cast, task.name))
    start(cast, before)


def test_a_task_is_refused_the_group_of_a_job_that_runs(cast: Cast) -> None:
    actor = cast.actor("alice")
    make_group(cast.alice, cast.instance, "GID_other")
    task = inflow.create(actor=actor, document=document(cast, group="GID_other"), start=False)
    start(cast, deployed(cast, "paid", text_of(cast)))
    for act in (
        lambda: inflow.create(actor=actor, document=document(cast) | {"name": "second"}),
        lambda: inflow.change(actor=actor, pipeline=task, document=document(cast)),
    ):
        found = refused(act)
        assert (found.message.partition(" reads")[0], found.field) == ("The SQL job paid", "source.group")
    assert Pipeline.objects.count() == 2


def test_a_task_whose_group_a_job_has_taken_before_it_held_it_does_not_begin(cast: Cast) -> None:
    task = inflow.create(actor=cast.actor("alice"), document=document(cast), start=False)
    job = pipelines.create(actor=cast.actor("alice"), name="old")
    Pipeline.objects.filter(pk=job.pk).update(state=State.RUNNING, started_version=task.version)
    assert "The SQL job old" in refused(lambda: inflow.begin(actor=cast.actor("alice"), pipeline=task)).message


def test_a_group_is_the_same_with_a_key_of_its_own_and_another_one_elsewhere(cast: Cast) -> None:
    actor = cast.actor("alice")
    pipelines.set_secret(actor=actor, name="s", value="secret")
    make_topic(cast.alice, cast.instance, "more")
    start(cast, deployed(cast, "first", text_of(cast)))
    here = deployed(cast, "keyed", text_of(cast, keys=KEYS.format(cast.cluster.namesrv)))
    assert "The SQL job first" in refused(lambda: start(cast, here)).message
    of_another_topic = deployed(cast, "topics", text_of(cast, topic="more"))
    assert "The SQL job first" in refused(lambda: start(cast, of_another_topic)).message
    start(cast, deployed(cast, "elsewhere", text_of(cast, keys=KEYS.format("mq.example.com:9876"))))


def test_another_accounts_readers_are_no_matter(cast: Cast) -> None:
    start(cast, deployed(cast, "first", text_of(cast)))
    Pipeline.objects.update(tenant=cast.charlies.tenant)
    start(cast, deployed(cast, "second", text_of(cast)))
