"""Inflow tasks by their services: made, changed, started and deleted, with what is refused at its place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.utils import timezone

from analytics.errors import PipelineEnded
from analytics.inflow.event_log import EventLog
from analytics.pipelines.plan import Plan
from console.accounts.models import Policy, User
from console.audit.models import Entry
from console.catalog.models import ExternalTable, Schema
from console.inflow import queries, services
from console.pipelines import lifecycle, starts
from console.pipelines.lifecycle import Lease
from console.pipelines.models import BUSY, Pipeline, StartFrom, State
from console.topics.models import OrderType
from console.web.errors import Refused
from tests.console.inflow.conftest import SOURCE, document, reloaded
from tests.support.broker import BrokerProcess
from tests.support.cast import Cast, make_topic

pytestmark = pytest.mark.process


def allow(cast: Cast, name: str, *actions: str, resource: str = "*") -> None:
    statement = {"Effect": "Allow", "Action": list(actions), "Resource": resource}
    policy = Policy.objects.create(
        tenant=cast.acme,
        name=f"of-{name}-{Policy.objects.count()}",
        document={"Version": "1", "Statement": [statement]},
    )
    User.objects.get(pk=cast.users[name].pk).policies.add(policy)


def claimed(task: Pipeline) -> Lease:
    lease = lifecycle.claim(task.pk, "one")
    assert lease is not None
    return lease


def test_a_task_is_made_with_a_version_and_started(cast: Cast, log: EventLog, topics: None) -> None:
    made = services.create(actor=cast.actor("alice"), document=document(cast))
    task = reloaded(cast)
    assert made.pk == task.pk and task.version is not None
    assert (task.state, queries.state_of(task)) == (State.STARTING, "Starting")
    assert services.document_of(task) == document(cast)
    plan = Plan.from_json(task.version.plan)
    assert [(one.connector, one.options["task"]) for one in plan.sources] == [("events", SOURCE)]
    assert [one.connector for one in plan.sinks] == ["inflow"]
    assert Entry.objects.filter(action="pipelines.inflow.create", resource="orders-to-topic").exists()


def test_the_engine_is_given_the_log_and_the_endpoint(cast: Cast, task: Pipeline, broker: BrokerProcess) -> None:
    services.begin(actor=cast.actor("alice"), pipeline=task)
    given = starts.spec_of(claimed(task)).given
    assert given["events"] == {"log": f"oss://acme-logs/event-logs/{SOURCE}/"}
    assert given["messages"] == {
        "endpoint": broker.namesrv,
        "accessId": broker.access_key_id,
        "accessKey": broker.access_key_secret,
    }


def test_a_function_gets_the_key_of_the_account_and_no_page_of_a_failure_tells_it(
    cast: Cast, log: EventLog, topics: None
) -> None:
    told = document(cast, transform={"kind": "function", "url": "https://functions.example.com/f"})
    task = services.create(actor=cast.actor("alice"), document=told)
    spec = starts.spec_of(claimed(task))
    key = starts.function_key(cast.acme)
    assert spec.given["messages"]["functionKey"] == key
    assert key not in starts.without(starts.hidden(spec), f"what has {key}")
    assert key != starts.function_key(cast.charlies.tenant)


def test_events_route_themselves_only_where_the_starter_may_publish(cast: Cast, log: EventLog, topics: None) -> None:
    make_topic(cast.alice, cast.instance, "private")
    told = document(cast)
    told["sink"] = told["sink"] | {"routes": ["private"]}
    allow(cast, "nora", "mq:PUB", resource=f"acs:mq:*:*:{cast.instance.instance_id}%order_changes*")
    allow(cast, "nora", "dla:ReadBucket", "dts:*")
    with pytest.raises(PermissionDenied, match="private"):
        services.create(actor=cast.actor("nora"), document=told)
    assert services.create(actor=cast.actor("alice"), document=told).name == "orders-to-topic"


def test_a_query_takes_the_right_to_each_table_as_long_as_it_runs(cast: Cast, log: EventLog, topics: None) -> None:
    schema = Schema.objects.create(tenant=cast.acme, name="shop")
    for name in ("customers", "secrets"):
        columns = [{"name": "id", "type": "int"}]
        ExternalTable.objects.create(schema=schema, name=name, location=f"oss://acme/{name}/", columns=columns)
    allow(cast, "nora", "mq:*", "dts:*", "dla:ReadBucket")
    told = {
        name: document(cast, transform={"kind": "sql", "sql": f"select e.event from events e join shop.{name} on true"})
        for name in ("customers", "secrets")
    }
    with pytest.raises(Refused, match=r"no table shop\.customers"):
        services.look(actor=cast.actor("nora"), document=told["customers"])
    allow(cast, "nora", "dla:SubmitQuery", resource="acs:dla:*:*:shop/customers")
    with pytest.raises(Refused, match=r"no table shop\.secrets") as refused:
        services.look(actor=cast.actor("nora"), document=told["secrets"])
    assert refused.value.field == "transform.sql"
    task = services.create(actor=cast.actor("nora"), document=told["customers"])
    lease = claimed(task)
    assert [one.name for one in starts.spec_of(lease).tables["shop"]] == ["customers"]
    starts.require_still(lease)
    ExternalTable.objects.filter(name="customers").delete()
    with pytest.raises(Refused, match=r"no table shop\.customers"):
        starts.require_still(lease)


def test_topics_take_the_right_to_publish_the_dead_letters_too(cast: Cast, log: EventLog, topics: None) -> None:
    allow(cast, "nora", "dla:ReadBucket")
    with pytest.raises(PermissionDenied, match="mq:PUB"):
        services.create(actor=cast.actor("nora"), document=document(cast))
    allow(cast, "nora", "mq:PUB", resource=f"acs:mq:*:*:{cast.instance.instance_id}%order_changes")
    services.look(actor=cast.actor("nora"), document=document(cast))
    with pytest.raises(PermissionDenied, match="order_changes_dead"):
        services.look(actor=cast.actor("nora"), document=document(cast, deadLetterTopic="order_changes_dead"))


def changed(cast: Cast, path: str, value: Any) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(json.dumps(document(cast)))
    *folders, last = path.split(".")
    inner = told
    for folder in folders:
        inner = inner.setdefault(folder, {})
    inner[last] = value
    return told


JSONATA = {"kind": "expression", "language": "jsonata", "expression": "$"}


@pytest.mark.parametrize(
    ("path", "value", "field", "sentence"),
    [
        ("name", "a b", "name", "A name has 1 to 127"),
        ("source.task", "dtsnone", "source.task", "There is no change tracking task dtsnone."),
        ("source.group", "nobody", "source.group", "has no consumer group nobody."),
        ("source.group", "", "source.group", "Choose a consumer group."),
        ("source.startTimeMs", 5, "source.startTimeMs", "has data from 1970-01-01 00:00:01"),
        ("source.messages", 0, "source.messages", "from 1 to 10,000"),
        ("pattern", {"data": {"n": [{"prefix": 1}]}}, "pattern.data.n[0].prefix", "text"),
        ("transform", {"kind": "expression", "expression": "a["}, "transform.expression", "cannot be read"),
        ("transform", JSONATA | {"expression": "merge(@, {})"}, "transform.expression", "character 7"),
        ("transform", JSONATA | {"language": "xslt"}, "transform.language", "It is jmespath or jsonata"),
        ("transform", {"kind": "function", "url": "ftp://x"}, "transform.url", "begins with http"),
        ("transform", {"kind": "sql", "sql": "select from"}, "transform.sql", "This is no SELECT"),
        ("transform", {"kind": "sql", "sql": "select * from events, s.none"}, "transform.sql", "no table s.none"),
        ("sink.topic", "nowhere", "sink.topic", "There is no topic"),
        ("sink.topic", "in_order", "sink.topic", "of the kind Partitionally ordered"),
        ("sink.ordered", True, "sink.topic", "of the kind Normal; an ordered one"),
        ("sink.key", {"method": "data_extraction", "path": "x"}, "sink.key.path", ""),
        ("deadLetterTopic", "nowhere", "deadLetterTopic", "There is no topic"),
        ("deadLetterTopic", "in_order", "deadLetterTopic", "of the kind Partitionally ordered"),
    ],
)
def test_what_is_wrong_is_refused_at_its_place(  # noqa: PLR0917
    cast: Cast, log: EventLog, topics: None, path: str, value: Any, field: str, sentence: str
) -> None:
    make_topic(cast.alice, cast.instance, "in_order", order_type=OrderType.PARTITIONALLY_ORDERED)
    with pytest.raises(Refused) as refused:
        services.create(actor=cast.actor("alice"), document=changed(cast, path, value))
    assert refused.value.field == field
    assert sentence in refused.value.message
    assert not Pipeline.objects.exists()


def test_a_log_of_another_account_is_not_there(cast: Cast, task: Pipeline) -> None:
    told = document(cast, source={"log": f"oss://acme-logs/event-logs/{SOURCE}/"})
    services.look(actor=cast.actor("alice"), document=told)
    told["sink"]["instanceID"] = cast.charlies.instance_id
    with pytest.raises(Refused, match="no bucket"):
        services.look(actor=cast.actor("charlie"), document=told)
    with pytest.raises(Refused, match="There is no change tracking task"):
        services.look(actor=cast.actor("charlie"), document=document(cast))


def test_a_change_of_a_running_task_restarts_it_where_it_was(cast: Cast, task: Pipeline) -> None:
    alice = cast.actor("alice")
    services.begin(actor=alice, pipeline=task)
    lease = claimed(task)
    lifecycle.run(lease)
    told = document(cast, pattern={})
    assert services.change(actor=alice, pipeline=reloaded(cast), document=told).number == 2
    stopping = reloaded(cast)
    assert (stopping.state, queries.state_of(stopping)) == (State.STOPPING, "Pausing")
    lifecycle.stop(lease)
    again = reloaded(cast)
    assert again.version is not None
    assert (again.state, again.started_version_id, again.start_from) == (
        State.STARTING, again.version.pk, StartFrom.CHECKPOINT,
    )  # fmt: skip


def test_a_pause_ends_a_restart_that_was_asked_for(cast: Cast, task: Pipeline) -> None:
    alice = cast.actor("alice")
    services.begin(actor=alice, pipeline=task)
    lease = claimed(task)
    services.change(actor=alice, pipeline=reloaded(cast), document=document(cast, pattern={}))
    services.pause(actor=alice, pipeline=reloaded(cast))
    lifecycle.stop(lease)
    assert queries.state_of(reloaded(cast)) == "Paused"


def test_a_save_that_changes_nothing_restarts_nothing(cast: Cast, task: Pipeline) -> None:
    services.begin(actor=cast.actor("alice"), pipeline=task)
    services.change(actor=cast.actor("alice"), pipeline=reloaded(cast), document=document(cast))
    assert reloaded(cast).state == State.STARTING and reloaded(cast).version_id == task.version_id


def test_another_source_is_read_from_where_the_document_says(cast: Cast, task: Pipeline) -> None:
    alice = cast.actor("alice")
    services.begin(actor=alice, pipeline=task)
    lease = claimed(task)
    lifecycle.run(lease)
    services.pause(actor=alice, pipeline=task)
    lifecycle.stop(lease)
    told = document(cast, source={"log": f"oss://acme-logs/event-logs/{SOURCE}/"})
    services.change(actor=alice, pipeline=reloaded(cast), document=told)
    services.begin(actor=alice, pipeline=reloaded(cast))
    assert reloaded(cast).start_from == StartFrom.NOTHING


def test_a_task_whose_events_are_gone_begins_anew_when_it_is_told_to(cast: Cast, task: Pipeline) -> None:
    alice = cast.actor("alice")
    services.begin(actor=alice, pipeline=task)
    lifecycle.fail(claimed(task), "The events before number 7 have been removed from the log.", for_good=True)
    services.begin(actor=alice, pipeline=reloaded(cast))
    assert reloaded(cast).start_from == StartFrom.CHECKPOINT
    lifecycle.fail(claimed(task), "The events before number 7 have been removed from the log.", for_good=True)
    services.begin(actor=alice, pipeline=reloaded(cast), anew=True)
    assert (reloaded(cast).state, reloaded(cast).start_from) == (State.STARTING, StartFrom.NOTHING)


def test_the_offset_counts_at_the_first_consumption_only(cast: Cast, task: Pipeline) -> None:
    told = document(cast)
    told["source"]["startTimeMs"] = 5
    services.change(actor=cast.actor("alice"), pipeline=task, document=told)


def test_the_name_of_a_task_stays(cast: Cast, task: Pipeline) -> None:
    with pytest.raises(Refused, match="cannot be changed") as refused:
        services.change(actor=cast.actor("alice"), pipeline=task, document=document(cast, name="other"))
    assert refused.value.field == "name"


@pytest.mark.parametrize(
    ("is_misset", "state"), [(False, "Ready"), (True, "Start Failed")], ids=["a fault", "an invalid setting"]
)
def test_what_stopped_a_task_tells_its_state(cast: Cast, task: Pipeline, is_misset: bool, state: str) -> None:
    services.begin(actor=cast.actor("alice"), pipeline=task)
    error = PipelineEnded("The event failed.", is_misset=is_misset)
    lifecycle.fail(claimed(task), error.user_message, for_good=True, halted=not error.is_misset)
    assert queries.state_of(reloaded(cast)) == state
    services.begin(actor=cast.actor("alice"), pipeline=reloaded(cast))
    assert (reloaded(cast).halted, reloaded(cast).reason) == (False, "")


@pytest.mark.parametrize("state", State)
def test_a_task_is_deleted_from_every_state(cast: Cast, task: Pipeline, state: State) -> None:
    worker = "one" if state in BUSY else ""
    Pipeline.objects.update(state=state, worker=worker, heartbeat_at=timezone.now())
    services.delete(actor=cast.actor("alice"), pipeline=reloaded(cast))
    assert not queries.tasks(cast.acme)
    if worker:
        lifecycle.stop(Lease(task.pk, worker, task.fence))  # what it has begun is delivered
    assert not Pipeline.objects.exists()
