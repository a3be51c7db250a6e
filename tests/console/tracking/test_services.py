"""Making, changing and deleting change tracking tasks and consumer groups, and the leases of those who capture."""

from __future__ import annotations

import socket
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from analytics.inflow import source as sources
from analytics.inflow.changes import CaptureFailed
from analytics.inflow.event_log import EventLog
from analytics.inflow.segments import NewEntry
from console.audit.models import Entry
from console.tracking import addresses, lifecycle, queries, services, tasks
from console.tracking.lifecycle import LeaseLost
from console.tracking.models import Kind, State, Tls, TrackingTask
from console.web.errors import Refused
from tests.console.tracking.conftest import VALUES, reloaded
from tests.support.cast import Cast


def refused(cast: Cast, **more: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        services.create(actor=cast.actor("alice"), **({"name": "x", "kind": Kind.POSTGRESQL} | VALUES | more))
    return caught.value


def resolved(monkeypatch: pytest.MonkeyPatch, *found: str) -> None:
    answers = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in found]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers)


def test_a_task_has_an_id_and_keeps_its_password_encrypted(cast: Cast, task: TrackingTask) -> None:
    assert len(task.task_id) == 13
    assert task.task_id.startswith("dts")
    assert "read-it-all" not in task.password_encrypted
    assert addresses.source_of(task).password == "read-it-all"
    assert "read-it-all" not in repr(addresses.source_of(task))
    assert list(queries.tasks(cast.acme)) == [task]
    assert queries.task(cast.charlies.tenant, task.task_id) is None
    entry = Entry.objects.get(action="tracking.task.create")
    assert entry.detail["tables"] == ["public.*"]
    assert "read-it-all" not in str(entry.detail)


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"name": "a b"}, "name"),
        ({"host": "/var/run/postgresql"}, "host"),
        ({"host": "a,b"}, "host"),
        ({"host": ""}, "host"),
        ({"port": 0}, "port"),
        ({"user": ""}, "user"),
        ({"database": ""}, "database"),
        ({"kind": Kind.MYSQL}, "database"),
        ({"password": ""}, "password"),
        ({"tables": []}, "tables"),
        ({"tables": ["orders"]}, "tables"),
        ({"tables": ["a.b"] * 101}, "tables"),
        ({"kind": Kind.MYSQL, "database": "", "tables": ["orders"]}, "tables"),
        ({"retention_days": 0}, "retention_days"),
        ({"ca": "no certificate"}, "ca"),
    ],
)
def test_what_cannot_be_a_task_is_refused(cast: Cast, more: dict[str, Any], field: str) -> None:
    assert refused(cast, **more).field == field


def test_a_name_that_is_taken_is_refused_until_its_task_is_deleted(cast: Cast, task: TrackingTask) -> None:
    assert refused(cast, name="orders").symbol == "NAME_TAKEN"
    services.delete(actor=cast.actor("alice"), task=task)
    assert list(queries.tasks(cast.acme)) == []
    services.create(actor=cast.actor("alice"), name="orders", kind=Kind.POSTGRESQL, **VALUES)


def test_an_account_has_so_many_tasks_at_most(cast: Cast, task: TrackingTask, settings: Settings) -> None:
    settings.TENANT_LIMITS = settings.TENANT_LIMITS | {"tracking_tasks": 1}
    assert refused(cast).symbol == "TRACKING_TASK_LIMIT"


@pytest.mark.parametrize("address", ["10.0.0.5", "169.254.169.254", "::ffff:10.0.0.5", "fd00::1"])
def test_no_capture_goes_to_private_addresses(cast: Cast, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    resolved(monkeypatch, "93.184.216.34", address)
    told = refused(cast, host="db.example.com")
    assert told.symbol == "ADDRESS_REFUSED"
    assert address not in told.message


def test_the_address_that_was_judged_is_the_one_that_is_connected_to(
    task: TrackingTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    task.host = "db.example.com"
    resolved(monkeypatch, "2606:2800:220::1", "93.184.216.34")
    source = addresses.source_of(task)
    assert (source.host, source.address) == ("db.example.com", "93.184.216.34")


def test_the_password_is_typed_again_where_another_server_would_get_it(cast: Cast, task: TrackingTask) -> None:
    alice = cast.actor("alice")
    for more in ({"host": "127.0.0.2"}, {"port": 2}, {"user": "other"}, {"tls": Tls.REQUIRED}):
        with pytest.raises(Refused) as caught:
            services.change(actor=alice, task=task, **more)
        assert caught.value.field == "password"
        with pytest.raises(Refused):
            services.test(actor=alice, kind=Kind.POSTGRESQL, task=task, **(VALUES | {"password": ""} | more))
    services.change(actor=alice, task=task, port=2, password="new")
    assert addresses.source_of(reloaded(task)).password == "new"
    services.change(actor=alice, task=task, tables=["public.a"], name="renamed")
    assert (reloaded(task).patterns, reloaded(task).name, reloaded(task).revision) == (["public.a"], "renamed", 2)
    with pytest.raises(Refused, match="database"):
        services.change(actor=alice, task=task, database="other")


def test_a_test_tells_all_that_is_wrong(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = [CaptureFailed("No log.", "LOG_OFF", "SET it"), CaptureFailed("No right.", "RIGHT_MISSING")]
    monkeypatch.setattr(sources, "check", lambda *_: faults)
    assert services.test(actor=cast.actor("alice"), kind=Kind.POSTGRESQL, **VALUES) == faults
    assert Entry.objects.get(action="tracking.task.test").detail["found"] == ["LOG_OFF", "RIGHT_MISSING"]


def test_a_lease_ends_with_a_pause_a_claim_of_another_and_silence(cast: Cast, task: TrackingTask) -> None:
    lease = lifecycle.claim(task.pk, "one")
    assert lease is not None
    assert lifecycle.claim(task.pk, "two") is None
    lifecycle.normal(lease, position="0/1", position_at=0)
    assert reloaded(task).is_normal
    TrackingTask.objects.update(heartbeat_at=timezone.now() - timedelta(seconds=16))
    assert not reloaded(task).is_normal
    assert lifecycle.waiting() == [task.pk]
    other = lifecycle.claim(task.pk, "two")
    assert other is not None and other.fence == lease.fence + 1
    with pytest.raises(LeaseLost):
        lifecycle.tell(lease, events=7)
    assert lifecycle.beat("one", [lease]) == {}
    assert lifecycle.beat("two", [other]) == {other: 0}
    services.pause(actor=cast.actor("alice"), task=task)
    assert lifecycle.beat("two", [other]) == {}
    with pytest.raises(LeaseLost):
        lifecycle.fail(other, CaptureFailed("No.", "UNREACHABLE"))
    assert reloaded(task).state == State.PAUSED
    assert lifecycle.waiting() == []
    with pytest.raises(Refused):
        services.pause(actor=cast.actor("alice"), task=task)
    services.resume(actor=cast.actor("alice"), task=task)
    assert lifecycle.waiting() == [task.pk]


def test_what_is_wrong_is_told_until_it_is_normal_again(task: TrackingTask) -> None:
    lease = lifecycle.claim(task.pk, "one")
    assert lease is not None
    lifecycle.fail(lease, CaptureFailed("No log.", "LOG_OFF", "SET it"))
    told = reloaded(task)
    assert (told.state, told.sentence, told.code, told.mend) == (State.FAILED, "No log.", "LOG_OFF", "SET it")
    lifecycle.normal(lease)
    assert (reloaded(task).state, reloaded(task).sentence) == (State.NORMAL, "")
    lifecycle.outrank(lease, 41)
    again = lifecycle.claim(task.pk, "one")
    assert again is not None and again.fence == 42


def test_logs_of_tasks_that_are_gone_are_removed(cast: Cast, task: TrackingTask) -> None:
    for name in (task.task_id, "dtsgonegonego"):
        with EventLog(task.folder.parent / name, 1) as log:
            log.append([NewEntry("0/1", 7, b"{}")])
    tasks.expire()
    assert [one.name for one in task.folder.parent.iterdir()] == [task.task_id]


def test_a_consumer_group_has_one_client(cast: Cast, task: TrackingTask) -> None:
    alice = cast.actor("alice")
    group = services.create_group(actor=alice, task=task, name="readers", account="reader", password="read-it-all")
    assert "read-it-all" not in group.password_hash
    services.require_password(group=group, account="reader", password="read-it-all")
    for account, password in (("reader", "wrong-one"), ("other", "read-it-all")):
        with pytest.raises(Refused, match="Account or password"):
            services.require_password(group=group, account=account, password=password)
    services.hold_group(group=group, holder="7", name="the task one")
    services.hold_group(group=group, holder="7", name="the task one")
    with pytest.raises(Refused, match="the task one reads"):
        services.hold_group(group=group, holder="8", name="the task two")
    with pytest.raises(Refused, match="the task one reads"):
        services.delete_group(actor=alice, task=task, group=group)
    with pytest.raises(Refused, match="the task one reads"):
        services.delete(actor=alice, task=task)
    services.release_group(group=group, holder="8")
    services.release_group(group=group, holder="7")
    services.hold_group(group=group, holder="8", name="the task two")
    services.release_group(group=group, holder="8")
    services.delete_group(actor=alice, task=task, group=group)
    assert list(queries.groups(task)) == []


def test_group_names_and_passwords_have_rules(cast: Cast, task: TrackingTask) -> None:
    alice = cast.actor("alice")
    for name, account, password in (("a b", "a", "12345678"), ("a", "", "12345678"), ("a", "a", "short")):
        with pytest.raises(Refused):
            services.create_group(actor=alice, task=task, name=name, account=account, password=password)
    services.create_group(actor=alice, task=task, name="a", account="a", password="12345678")
    with pytest.raises(Refused, match="already"):
        services.create_group(actor=alice, task=task, name="a", account="b", password="12345678")
