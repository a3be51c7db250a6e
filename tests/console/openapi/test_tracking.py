"""Change tracking tasks by the management API."""

from __future__ import annotations

import json

import pytest

from analytics.inflow.event_log import EventLog
from analytics.inflow.segments import NewEntry
from console.audit.models import Entry
from console.rights import limits
from console.rights.services import set_limits
from console.tracking import queries, services
from tests.console.openapi.caller import Caller
from tests.support.cast import Cast

pytestmark = [pytest.mark.django_db, pytest.mark.process]
TASK = {
    "name": "orders", "kind": "postgresql", "host": "127.0.0.1", "port": "1", "database": "shop", "user": "reader",
    "password": "read-it-all", "tables": "public.*",
}  # fmt: skip
GROUP = {"group": "readers", "account": "reader", "password": "read-it-all"}


def test_a_task_is_made_paused_resumed_and_deleted(alice: Caller, cast: Cast) -> None:
    made = alice.data("tracking/create", **TASK)
    assert (made["name"], made["state"]) == ("orders", "Starting")
    task = made["task"]
    assert "read-it-all" not in str(alice.data("tracking/get", task=task))
    assert alice.symbol("tracking/create", **TASK) == "BIZ_TRACKING_TASK_EXISTED"
    assert alice.symbol("tracking/pause", task=task) == "SUCCESS"
    assert alice.symbol("tracking/pause", task=task) == "BIZ_TRACKING_TASK_STATE_INVALID"
    assert [row["state"] for row in alice.data("tracking/list")] == ["Paused"]
    assert alice.symbol("tracking/delete", task=task) == "SUCCESS"
    assert alice.symbol("tracking/get", task=task) == "BIZ_TRACKING_TASK_NOT_FOUND"
    found = Entry.objects.filter(action__startswith="tracking.").values_list("channel", flat=True)
    assert set(found) == {"api"}


def test_the_newest_events_and_a_test_by_the_kept_password(alice: Caller, cast: Cast) -> None:
    task = alice.data("tracking/create", **TASK)["task"]
    assert alice.data("tracking/events", task=task) == []
    found = queries.task(cast.acme, task)
    assert found is not None
    with EventLog(found.folder, 1) as log:
        events = [{"subject": "public.orders", "data": {"operation": "INSERT", "after": {"id": n}}} for n in (1, 2)]
        log.append(NewEntry(f"0/{n}", n * 1000, json.dumps(event).encode()) for n, event in enumerate(events, 1))
    rows = alice.data("tracking/events", task=task, most="1")
    assert [(row["number"], row["time"], row["position"], row["operation"], row["table"]) for row in rows] == [
        (2, 2000, "0/2", "INSERT", "public.orders")
    ]
    assert json.loads(rows[0]["event"])["data"]["after"] == {"id": 2}
    (fault,) = alice.data("tracking/check", task=task)
    assert fault["code"] == "UNREACHABLE"
    assert "read-it-all" not in str(fault)


def test_a_consumer_group_that_is_held_stays(alice: Caller, cast: Cast) -> None:
    task = alice.data("tracking/create", **TASK)["task"]
    assert alice.symbol("tracking/createGroup", task=task, **GROUP) == "SUCCESS"
    found = queries.task(cast.acme, task)
    assert found is not None
    group = queries.group(found, "readers")
    assert group is not None
    services.hold_group(group=group, holder="7", name="one")
    assert alice.symbol("tracking/deleteGroup", task=task, group="readers") == "BIZ_TRACKING_TASK_STATE_INVALID"
    services.release_group(group=group, holder="7")
    assert alice.symbol("tracking/deleteGroup", task=task, group="readers") == "SUCCESS"
    assert alice.symbol("tracking/deleteGroup", task=task, group="readers") == "BIZ_CONSUMER_GROUP_NOT_FOUND"


def test_an_account_has_so_many_and_no_more(alice: Caller, cast: Cast) -> None:
    none = dict.fromkeys((kind.name for kind in limits.KINDS), None)
    set_limits(actor=cast.actor("petra"), tenant=cast.acme, values=none | {"tracking_tasks": 1})
    assert alice.symbol("tracking/create", **TASK) == "SUCCESS"
    assert alice.symbol("tracking/create", **TASK | {"name": "other"}) == "BIZ_TRACKING_TASK_QUOTA_EXCEEDED"
