"""A task that reads a change tracking task, by the worker of pipelines: its log lies in no bucket of the account."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from analytics.inflow.event_log import EventLog
from console.inflow import services
from console.pipelines.models import State
from console.tracking.models import ConsumerGroup, TrackingTask
from tests.console.inflow.conftest import append, change, document, topics
from tests.console.inflow.test_sources import READERS, tracked
from tests.inflow.test_worker import arrived
from tests.pipelines.test_worker import WorkerProcess, is_in, start_worker, wait
from tests.support.broker import BrokerProcess
from tests.support.cast import Cast, cast, console, queues, running_queues

__all__ = ["cast", "console", "queues", "running_queues", "start_worker", "topics", "tracked"]
pytestmark = [pytest.mark.spark, pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]


@pytest.mark.usefixtures("topics")
def test_changes_of_a_tracked_database_arrive_in_the_topic(
    cast: Cast, broker: BrokerProcess, tracked: TrackingTask, start_worker: Callable[..., WorkerProcess]
) -> None:
    told = document(cast, source={"task": tracked.task_id, "group": "readers", "interval": 0})
    task = services.create(actor=cast.actor("alice"), document=told, login=READERS)
    worker = start_worker()
    wait(lambda: is_in(task, State.RUNNING), worker)
    wait(lambda: [one["id"] for one in arrived(broker, cast, "order_changes")] == ["e1", "e2"], worker)
    with EventLog(tracked.folder) as log:
        append(log, change(3))
    wait(lambda: [one["id"] for one in arrived(broker, cast, "order_changes")] == ["e1", "e2", "e3"], worker)
    # What was delivered and not yet committed when a task is paused comes once more: only what is committed counts.
    wait(lambda: ConsumerGroup.objects.get(task=tracked).read_up_to == 3, worker)
    services.pause(actor=cast.actor("alice"), pipeline=task)
    wait(lambda: is_in(task, State.STOPPED), worker)
    assert ConsumerGroup.objects.get(task=tracked).read_up_to == 3
