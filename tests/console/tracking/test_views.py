"""Pages of change tracking."""

from __future__ import annotations

import html
from typing import Any

import pytest
from django.urls import reverse

from analytics.inflow import source as sources
from analytics.inflow.changes import CaptureFailed
from analytics.inflow.event_log import EventLog
from analytics.inflow.segments import NewEntry
from console.tracking import lifecycle, services
from console.tracking.capturing import _entry
from console.tracking.models import Kind, State, TrackingTask
from tests.console.tracking.conftest import VALUES, reloaded
from tests.support.cast import Cast

FORM = {
    "name": "visits", "kind": "postgresql", "host": "127.0.0.1", "port": "1", "database": "shop", "user": "reader",
    "password": "read-it-all", "tables": "public.*\npublic.orders", "tls": "off", "retention_days": "3",
}  # fmt: skip
LOST = CaptureFailed("The slot is lost.", "SLOT_LOST", "SELECT pg_drop_replication_slot('x')")
EVENT = b'{"subject":"public.orders","data":{"operation":"INSERT","after":{"name":"<b>"}}}'


def page(cast: Cast, url_name: str, *arguments: Any, who: str = "alice", part: bool = False) -> str:
    headers = {"HX-Request": "true"} if part else {}
    response = cast.client(who).get(reverse(url_name, args=arguments), headers=headers)
    assert response.status_code == 200
    return response.content.decode()


def act(cast: Cast, url_name: str, *arguments: Any, **data: str) -> Any:
    return cast.client("alice").post(reverse(url_name, args=arguments), data)


def failed(task: TrackingTask, failure: CaptureFailed) -> None:
    lease = lifecycle.claim(task.pk, "one")
    assert lease is not None
    lifecycle.fail(lease, failure)


def test_a_task_is_made_by_the_form_and_listed(cast: Cast) -> None:
    assert "No change tracking task yet" in page(cast, "tracking.list")
    made = act(cast, "tracking.create", **FORM)
    task = TrackingTask.objects.get()
    assert made["Location"] == reverse("tracking.detail", args=[task.task_id])
    assert (task.patterns, task.retention_days, task.tls) == (["public.*", "public.orders"], 3, "off")
    listed = page(cast, "tracking.list")
    assert task.task_id in listed
    assert "public.* and 1 more" in listed
    refused = act(cast, "tracking.create", **FORM | {"host": "/tmp"})
    assert refused.status_code == 422
    assert "folders of sockets" in refused.content.decode()


def test_the_test_shows_everything_with_the_statement_that_mends_it(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = [LOST, CaptureFailed("No right.", "RIGHT_MISSING", "GRANT it")]
    monkeypatch.setattr(sources, "check", lambda *_: faults)
    shown = act(cast, "tracking.try", **FORM).content.decode()
    assert "The slot is lost." in shown
    assert "GRANT it" in shown
    assert shown.count("data-copy") == 2
    faults.clear()
    assert "can be captured" in act(cast, "tracking.try", **FORM).content.decode()
    wrong = act(cast, "tracking.try", **FORM | {"port": "x"})
    assert wrong.status_code == 422
    assert not TrackingTask.objects.exists()


def test_what_is_wrong_stands_on_the_page_and_a_lost_place_can_be_left(cast: Cast, task: TrackingTask) -> None:
    assert "waits for a capturing process" in page(cast, "tracking.detail", task.task_id)
    failed(task, LOST)
    shown = page(cast, "tracking.live", task.task_id, part=True)
    assert "The slot is lost." in shown
    assert "pg_drop_replication_slot" in shown
    assert "Begin anew" in shown
    act(cast, "tracking.resume", task.task_id, anew="on")
    assert (reloaded(task).begins_anew, reloaded(task).state) == (True, State.STARTING)
    act(cast, "tracking.pause", task.task_id)
    assert "It is paused." in page(cast, "tracking.detail", task.task_id)


def test_the_newest_events_open_as_json(cast: Cast, task: TrackingTask) -> None:
    assert "No event yet" in page(cast, "tracking.events", task.task_id)
    with EventLog(task.folder, 1) as log:
        log.append([NewEntry(f"0/{number}", 1_900_000_000_000, EVENT) for number in range(30)])
    shown = page(cast, "tracking.events", task.task_id, part=True)
    assert shown.count("<details>") == 20
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown


def test_a_task_is_changed_and_its_password_is_on_no_page(cast: Cast, task: TrackingTask) -> None:
    shown = page(cast, "tracking.update", task.task_id)
    assert "read-it-all" not in shown
    assert task.password_encrypted not in shown
    changed = act(cast, "tracking.update", task.task_id, **FORM | {"password": "", "name": "renamed"})
    assert changed.status_code == 302
    assert (reloaded(task).name, reloaded(task).retention_days) == ("renamed", 3)
    elsewhere = act(cast, "tracking.update", task.task_id, **FORM | {"password": "", "host": "127.0.0.2"})
    assert elsewhere.status_code == 422
    assert reloaded(task).host == "127.0.0.1"


def test_groups_are_made_and_deleted_on_the_page(cast: Cast, task: TrackingTask) -> None:
    act(cast, "tracking.group_create", task.task_id, name="readers", account="reader", password="read-it-all")
    assert "readers" in page(cast, "tracking.detail", task.task_id)
    group = task.groups.get()
    services.hold_group(group=group, holder="7", name="flights-to-topic")
    held = act(cast, "tracking.group_delete", task.task_id, "readers", name="readers")
    assert held.status_code == 422
    assert "flights-to-topic" in page(cast, "tracking.detail", task.task_id)
    services.release_group(group=group, holder="7")
    assert act(cast, "tracking.group_delete", task.task_id, "readers", name="readers").status_code == 302
    assert not task.groups.exists()


def test_a_task_is_deleted_by_its_name(cast: Cast, task: TrackingTask) -> None:
    told = html.unescape(page(cast, "tracking.delete", task.task_id))
    assert f"SELECT pg_drop_replication_slot('{task.slot}'); DROP PUBLICATION IF EXISTS \"{task.slot}\"" in told
    assert act(cast, "tracking.delete", task.task_id, name="other").status_code == 422
    assert act(cast, "tracking.delete", task.task_id, name="orders").status_code == 302
    assert reloaded(task).state == State.DELETING
    assert cast.client("alice").get(reverse("tracking.detail", args=[task.task_id])).status_code == 404


def test_a_list_takes_as_many_queries_for_many_tasks(cast: Cast, django_assert_max_num_queries: Any) -> None:
    for number in range(15):
        services.create(actor=cast.actor("alice"), name=f"t{number}", kind=Kind.POSTGRESQL, **VALUES)
    page(cast, "tracking.list")
    with django_assert_max_num_queries(12):
        page(cast, "tracking.list", part=True)


def test_a_row_that_no_log_takes_comes_without_its_values() -> None:
    from analytics.inflow.changes import Change

    data = {"operation": "INSERT", "before": None, "after": {"blob": "x" * (65 << 20)}}
    entry = _entry(Change("0/1", 7, {"id": "a", "data": data}))
    assert len(entry.event) < 1000
    assert b"omittedBytes" in entry.event
