"""Change tracking tasks as sources of inflow tasks."""

from __future__ import annotations

import pytest
from django.urls import reverse
from django.utils import timezone, translation

from analytics.inflow.event_log import EventLog
from console.inflow import services
from console.inflow.sources import TrackingTasks
from console.pipelines.event_logs import NORMAL, Holder, Login
from console.tracking import queries
from console.tracking import services as tracking
from console.tracking.models import Kind, State, TrackingTask
from console.web.errors import Refused
from tests.console.inflow.conftest import append, change, document
from tests.console.inflow.test_services import allow
from tests.support.cast import Cast

READERS = Login("reader", "read-it-all")


@pytest.fixture
def tracked(cast: Cast) -> TrackingTask:
    """A task of acme's with two changes in its log and one consumer group, as if a process captured it."""
    alice = cast.actor("alice")
    task = tracking.create(
        actor=alice, name="orders", kind=Kind.POSTGRESQL, host="127.0.0.1", port=1, database="shop", user="reader",
        password="read-it-all", tables=["public.*"],
    )  # fmt: skip
    tracking.create_group(actor=alice, task=task, name="readers", account="reader", password="read-it-all")
    with EventLog(task.folder) as log:
        append(log, change(1), change(2))
    TrackingTask.objects.update(
        state=State.NORMAL, worker="one", heartbeat_at=timezone.now(), first_ms=1_000, last_ms=2_000
    )
    return TrackingTask.objects.select_related("tenant").get(pk=task.pk)


def test_a_task_is_a_source_with_its_range_and_groups(cast: Cast, tracked: TrackingTask) -> None:
    (found,) = TrackingTasks().sources(cast.actor("alice"))
    assert (found.id, found.log, found.state, found.groups) == (tracked.task_id, tracked.log, NORMAL, ("readers",))
    assert (found.first_ms, found.last_ms) == (1_000, 2_000)
    TrackingTask.objects.update(state=State.PAUSED)
    assert TrackingTasks().sources(cast.actor("alice"))[0].state == "Paused"


def test_nobody_reads_rows_without_the_right_to_see_them(cast: Cast, tracked: TrackingTask) -> None:
    allow(cast, "nora", "dts:QueryTrackingTask")
    assert TrackingTasks().sources(cast.actor("nora")) == []
    assert TrackingTasks().source(cast.actor("nora"), tracked.task_id) is None
    allow(cast, "nora", "dts:QueryTrackingEvents")
    assert len(TrackingTasks().sources(cast.actor("nora"))) == 1
    assert TrackingTasks().source(cast.actor("charlie"), tracked.task_id) is None


def test_a_group_has_one_client_which_its_password_lets_in(cast: Cast, tracked: TrackingTask) -> None:
    alice, sources = cast.actor("alice"), TrackingTasks()
    one, other = Holder("1", "one"), Holder("2", "other")
    with pytest.raises(Refused, match="Account or password"):
        sources.hold(alice, tracked.task_id, "readers", Login("reader", "wrong-one"), one)
    sources.hold(alice, tracked.task_id, "readers", READERS, one)
    sources.hold(alice, tracked.task_id, "readers", Login(), one)  # who holds it needs none
    with pytest.raises(Refused, match="one reads by the consumer group readers"):
        sources.hold(alice, tracked.task_id, "readers", READERS, other)
    with pytest.raises(Refused, match="no consumer group writers"):
        sources.hold(alice, tracked.task_id, "writers", READERS, one)
    sources.release(cast.acme, one)
    sources.hold(alice, tracked.task_id, "readers", READERS, other)


@pytest.mark.usefixtures("topics")
def test_an_inflow_task_holds_the_group_until_it_is_deleted(cast: Cast, tracked: TrackingTask) -> None:
    alice = cast.actor("alice")
    told = document(cast, source={"task": tracked.task_id, "group": "readers"})
    task = services.create(actor=alice, document=told, login=READERS, start=False)
    group = queries.group(tracked, "readers")
    assert group is not None and group.read_by == "The inflow task orders-to-topic"
    with translation.override("zh-hans"):
        assert group.read_by == "流入任务 orders-to-topic"
    services.delete(actor=alice, pipeline=task)
    group.refresh_from_db()
    assert group.holder == ""


@pytest.mark.usefixtures("topics")
def test_a_log_of_the_platform_is_reached_by_its_task_alone(cast: Cast, tracked: TrackingTask) -> None:
    """Its folder, written down as one of the account's own, is none."""
    for who in ("alice", "charlie"):
        with pytest.raises(Refused, match="bucket"):
            services.create(actor=cast.actor(who), document=document(cast, source={"log": tracked.log}))


@pytest.mark.usefixtures("topics")
def test_a_task_whose_source_keeps_no_changes_says_why(cast: Cast, tracked: TrackingTask) -> None:
    """It runs all the same: what has been kept is delivered."""
    alice = cast.actor("alice")
    told = document(cast, source={"task": tracked.task_id, "group": "readers"})
    services.create(actor=alice, document=told, login=READERS, start=False)

    def shown(who: str) -> str:
        return cast.client(who).get(reverse("inflow.detail", args=("orders-to-topic",))).content.decode()

    assert "The change tracking task orders" not in shown("alice")
    TrackingTask.objects.update(state=State.FAILED, code="SLOT_LOST", sentence="The slot gantry_x is lost.")
    assert "The change tracking task orders is Failed. The slot gantry_x is lost." in shown("alice")
    allow(cast, "nora", "dts:QueryInflowTask")
    assert "gantry_x" not in shown("nora")
    TrackingTask.objects.update(state=State.PAUSED, sentence="")
    assert "orders is Paused. No change is kept until it is resumed." in shown("alice")
    TrackingTask.objects.update(state=State.NORMAL, heartbeat_at=None)
    assert "orders is Starting. No change is kept until a process captures it." in shown("alice")
