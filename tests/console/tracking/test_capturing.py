"""One attempt of the capturing process, with a capture that the test gives; the whole process: tests/inflow."""

from __future__ import annotations

import errno
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from pytest_django import Settings

from analytics.inflow import source as sources
from analytics.inflow.changes import Change
from analytics.inflow.event_log import EventLog
from analytics.inflow.segments import NewEntry
from console.catalog import storage
from console.tracking import capturing, lifecycle
from console.tracking.capturing import Life, Process
from console.tracking.lifecycle import LeaseLost
from console.tracking.models import State, TrackingTask
from tests.console.tracking.conftest import reloaded


class GivenCapture:
    """Gives its changes once, and ends the attempt then."""

    def __init__(self, life: Life, changes: list[Change]) -> None:
        self.life, self.left, self.confirmed = life, [changes], ""
        self.kept_when_confirmed = -1
        self.task = TrackingTask.objects.select_related("tenant").get(pk=life.lease.pk)

    @property
    def position(self) -> str:
        return self.confirmed or "0/0"

    def changes(self, wait_s: float) -> list[Change]:
        if self.left:
            return self.left.pop()
        self.life.leave()
        return []

    def confirm(self, position: str) -> None:
        self.confirmed, self.kept_when_confirmed = position, self.task.range().last


@pytest.fixture
def life(task: TrackingTask, monkeypatch: pytest.MonkeyPatch) -> Life:
    """A claim. The test's connection is one transaction, which is not to be closed."""
    monkeypatch.setattr(capturing, "connection", SimpleNamespace(close=lambda: None))
    lease = lifecycle.claim(task.pk, "one")
    assert lease is not None
    return Life(Process(), lease)


def give(monkeypatch: pytest.MonkeyPatch, life: Life, *names: str) -> tuple[GivenCapture, list[str | None]]:
    """What an attempt captures, and the positions at which captures were opened."""
    changes = [Change(f"0/{name}", 1_900_000_000_000, {"id": name, "data": {}}) for name in names]
    given, at = GivenCapture(life, changes), list[str | None]()

    @contextmanager
    def opened(source: Any, patterns: Any, position: str | None, *, snapshot: bool) -> Iterator[GivenCapture]:
        at.append(position)
        yield given

    monkeypatch.setattr(sources, "opened", opened)
    return given, at


def again(life: Life) -> Life:
    """The next process."""
    TrackingTask.objects.update(worker="", heartbeat_at=None)
    lease = lifecycle.claim(life.lease.pk, "two")
    assert lease is not None
    return Life(Process(), lease)


def test_changes_are_confirmed_once_they_are_kept(
    task: TrackingTask, life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, at = give(monkeypatch, life, "A", "B")
    assert life._try(reloaded(task)) is None
    assert (given.confirmed, given.kept_when_confirmed, at) == ("0/B", 2, [None])
    assert reloaded(task).state == State.NORMAL
    figures = life.take_figures()
    assert (figures["events"], figures["position"], figures["position_at"]) == (2, "0/B", 2)
    assert life.take_figures() == {}


def test_it_goes_on_behind_the_log_or_where_it_was_idle_since(
    task: TrackingTask, life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, life, "A")
    life._try(reloaded(task))  # and the process ends before the row has its figures
    second = again(life)
    _, at = give(monkeypatch, second)
    second._try(reloaded(task))
    assert at == ["0/A"]
    lifecycle.tell(second.lease, position="0/F", position_at=1)
    third = again(second)
    _, at = give(monkeypatch, third)
    third._try(reloaded(task))
    assert at == ["0/F"]
    TrackingTask.objects.update(begins_anew=True)
    monkeypatch.setattr(sources, "remove", lambda _: None)
    fourth = again(third)
    _, at = give(monkeypatch, fourth)
    fourth._try(reloaded(task))
    assert at == [None]
    assert not reloaded(task).begins_anew


def test_a_lake_without_room_is_told_and_nothing_is_read(
    task: TrackingTask, life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, at = give(monkeypatch, life, "A")
    monkeypatch.setattr(storage, "why_no_room", lambda _: "acme may store 1 GiB.")
    failure = life._try(reloaded(task))
    assert failure is not None
    assert failure.code == "LAKE_FULL"
    assert failure.sentence.startswith("acme may store 1 GiB. Until then")
    assert at == []


def test_a_full_disk_is_told_and_nothing_is_confirmed(
    task: TrackingTask, life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    given, _ = give(monkeypatch, life, "A")
    monkeypatch.setattr(EventLog, "append", full)
    failure = life._try(reloaded(task))
    assert failure is not None
    assert failure.code == "DISK_FULL"
    assert given.confirmed == ""


def test_an_address_that_is_not_allowed_any_more_is_told(task: TrackingTask, life: Life, settings: Settings) -> None:
    settings.SMQ_PUSH_ALLOW = []
    failure = life._try(reloaded(task))
    assert failure is not None
    assert failure.code == "ADDRESS_REFUSED"


def test_a_log_that_is_further_than_the_database_is_taken_over_by_the_next_claim(
    task: TrackingTask, life: Life
) -> None:
    with EventLog(task.folder, 9) as log:
        log.append([NewEntry("0/1", 7, b"{}")])
    with pytest.raises(LeaseLost):
        life._try(reloaded(task))
    assert again(life).lease.fence == 10


def test_who_lost_its_lease_writes_nothing(task: TrackingTask, life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    given, _ = give(monkeypatch, life, "A")
    real = given.changes

    def lost(wait_s: float) -> list[Change]:
        life.lose()
        return real(wait_s)

    monkeypatch.setattr(given, "changes", lost)
    with pytest.raises(LeaseLost):
        life._try(reloaded(task))
    assert task.range().last == 0
    assert given.confirmed == ""


def test_pauses_get_longer_and_those_of_a_wrong_password_most() -> None:
    waits = {code: [capturing._pause(code, n) for n in (1, 2, 30)] for code in ("UNREACHABLE", "LOG_OFF")}
    assert waits == {"UNREACHABLE": [1, 2, 30], "LOG_OFF": [5, 10, 60]}
    assert all(a < b for a, b in itertools.pairwise(capturing._pause("PASSWORD_WRONG", n) for n in (1, 2, 3)))
