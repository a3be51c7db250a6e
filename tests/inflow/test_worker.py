"""A task of the console by the worker of pipelines as `make up` starts it: a change in the log arrives in the topic."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from analytics import lake
from analytics.inflow.event_log import EventLog
from brokercore.client import Admin, Credentials, MessageQueue
from console.catalog.models import Bucket
from console.inflow import queries, services
from console.pipelines import samples
from console.pipelines.models import Pipeline, State
from tests.console.inflow.conftest import append, change, document
from tests.pipelines.test_worker import WorkerProcess, is_in, start_worker, wait
from tests.support.broker import BrokerProcess
from tests.support.cast import Cast, cast, console, make_topic, queues, running_queues

__all__ = ["cast", "console", "queues", "running_queues", "start_worker"]
pytestmark = [pytest.mark.spark, pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]


@pytest.fixture
def folder(cast: Cast) -> Iterator[str]:
    """Of an event log of acme's."""
    bucket = f"logs-{uuid.uuid4().hex[:8]}"
    Bucket.objects.create(tenant=cast.acme, name=bucket)
    yield f"oss://{bucket}/orders/"
    shutil.rmtree(lake.lake_path(f"oss://{bucket}/"), ignore_errors=True)


@pytest.fixture
def log(folder: str) -> Iterator[EventLog]:
    path = Path(lake.lake_path(folder))
    path.parent.mkdir(parents=True)
    with EventLog(path) as log:
        yield log


def arrived(broker: BrokerProcess, cast: Cast, topic: str) -> list[Any]:
    """The bodies of a topic's messages, in the order of their keys."""
    name = cast.instance.physical_name(topic)
    found = []
    with Admin(broker.namesrv, Credentials(broker.access_key_id, broker.access_key_secret)) as admin:
        for place, stats in admin.topics.stats(name).items():
            queue = MessageQueue(name, place.broker_name, place.queue_id)
            for messages in admin.messages.read_range(queue, stats.min_offset, stats.max_offset):
                found += messages
    return sorted((json.loads(one.decoded_body()) for one in found), key=lambda one: str(one["id"]))


def test_a_change_arrives_in_the_topic_and_a_change_of_the_task_loses_none(
    cast: Cast,
    broker: BrokerProcess,
    log: EventLog,
    folder: str,
    start_worker: Callable[..., WorkerProcess],
) -> None:
    make_topic(cast.alice, cast.instance, "order_changes")
    alice = cast.actor("alice")
    told = document(cast, source={"log": folder, "interval": 0})
    task = services.create(actor=alice, document=told)
    append(log, change(1), change(2, "customers"))
    worker = start_worker()
    wait(lambda: is_in(task, State.RUNNING), worker)
    wait(lambda: [one["id"] for one in arrived(broker, cast, "order_changes")] == ["e1"], worker)

    append(log, change(3))
    wait(lambda: [one["id"] for one in arrived(broker, cast, "order_changes")] == ["e1", "e3"], worker)

    def standing() -> queries.Standing:
        return queries.standing(task, samples.latest([task.pk]).get(task.pk))

    wait(lambda: standing().counts.get("messagesDelivered") == 2, worker)  # type: ignore[call-overload]
    assert standing().reached is not None and standing().figures[0][1] == 3
    wait(lambda: standing().behind_ms == 0, worker)

    services.change(actor=alice, pipeline=Pipeline.objects.get(pk=task.pk), document=told | {"pattern": {}})
    append(log, change(4, "customers"))
    wait(lambda: [one["id"] for one in arrived(broker, cast, "order_changes")][-1] == "e4", worker)
    wait(lambda: is_in(task, State.RUNNING), worker)
    assert task.started_version is not None and task.started_version.number == 2
    services.pause(actor=alice, pipeline=task)
    wait(lambda: is_in(task, State.STOPPED), worker)
    assert queries.state_of(task) == "Paused"


def test_a_fault_that_is_prohibited_makes_a_task_ready_and_another_one_buries_it(
    cast: Cast,
    broker: BrokerProcess,
    log: EventLog,
    folder: str,
    start_worker: Callable[..., WorkerProcess],
) -> None:
    for name in ("order_changes", "order_changes_dead"):
        make_topic(cast.alice, cast.instance, name)
    alice, source = cast.actor("alice"), {"log": folder, "interval": 0}
    sink = document(cast)["sink"] | {"body": {"method": "data_extraction", "path": "$.data.nothing"}}
    strict = services.create(actor=alice, document=document(cast, source=source, sink=sink, faults="prohibited"))
    told = document(cast, name="patient", source=source, sink=sink, deadLetterTopic="order_changes_dead")
    patient = services.create(actor=alice, document=told)
    append(log, change(1))
    worker = start_worker()
    wait(lambda: is_in(strict, State.FAILED), worker)
    assert queries.state_of(strict) == "Ready" and "$.data.nothing" in strict.reason
    wait(lambda: [one["id"] for one in arrived(broker, cast, "order_changes_dead")] == ["e1"], worker)
    wait(lambda: is_in(patient, State.RUNNING), worker)
    wait(lambda: queries.standing(patient, samples.latest([patient.pk]).get(patient.pk)).failed == 1, worker)
    assert arrived(broker, cast, "order_changes") == []
    services.delete(actor=alice, pipeline=patient)
    assert [task.name for task in queries.tasks(cast.acme)] == [strict.name]
    wait(lambda: not Pipeline.objects.filter(pk=patient.pk).exists(), worker)
