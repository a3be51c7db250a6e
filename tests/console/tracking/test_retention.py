"""How long events are kept, in a real log of the lake."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from django.urls import reverse

from analytics.inflow.event_log import EventLog
from console.catalog import storage
from console.tracking import queries, retention, services
from console.tracking.models import ConsumerGroup, TrackingTask
from tests.console.tracking.conftest import reloaded
from tests.support.cast import Cast

_DAY_MS = 86_400_000


@pytest.fixture
def log(task: TrackingTask) -> Iterator[EventLog]:
    """Of events that are 20, 10, 8 and 0 days old, a file for each; the task keeps them for 7 days."""
    now_ms = int(time.time() * 1000)
    with EventLog(task.folder, segment_bytes=1) as log:
        for number, days in enumerate((20, 10, 8, 0), 1):
            log.append([(f"0/{number}", now_ms - days * _DAY_MS, b"{}")])
        TrackingTask.objects.update(events=4, first_ms=now_ms - 20 * _DAY_MS)
        yield log


@pytest.fixture
def group(cast: Cast, task: TrackingTask) -> ConsumerGroup:
    """Of a reader that has read two events."""
    made = services.create_group(
        actor=cast.actor("alice"), task=task, name="readers", account="readers", password="read-them"
    )
    services.hold_group(group=made, holder="inflow-7", name="The inflow task slow")
    services.note_reached(holder="inflow-7", sequence=2)
    return made


def lost(group: ConsumerGroup) -> bool:
    group.refresh_from_db()
    return group.lost_at is not None


def test_old_events_go_where_nobody_reads(task: TrackingTask, log: EventLog) -> None:
    retention.trim(task, log)
    assert log.first == 4


def test_what_a_slow_reader_has_still_to_read_is_kept_for_longer(
    cast: Cast, task: TrackingTask, log: EventLog, group: ConsumerGroup
) -> None:
    retention.trim(task, log)
    assert log.first == 3 and not lost(group)
    services.note_reached(holder="inflow-7", sequence=3)
    retention.trim(task, log)
    assert log.first == 4 and not lost(group)


def test_events_go_after_twice_the_days_and_it_is_written_down_whose(
    cast: Cast, task: TrackingTask, log: EventLog, group: ConsumerGroup
) -> None:
    services.note_reached(holder="inflow-7", sequence=0)
    retention.trim(task, log)
    assert log.first == 2 and lost(group)
    page = cast.client("alice").get(reverse("tracking.detail", args=[task.task_id])).content.decode()
    assert "Events that it had still to read were removed" in page
    services.note_reached(holder="inflow-7", sequence=2)  # it was made to go on behind them
    assert not lost(group)


def test_one_that_never_read_and_one_that_reads_no_more_are_waited_for_by_nobody(
    task: TrackingTask, log: EventLog, group: ConsumerGroup
) -> None:
    services.release_group(group=group, holder="inflow-7")
    assert queries.slowest(task) is None
    services.hold_group(group=group, holder="inflow-8", name="The inflow task new")
    retention.trim(task, log)
    assert log.first == 4 and not lost(group)


def test_where_the_lake_is_full_nothing_is_kept_for_slow_readers(
    task: TrackingTask, log: EventLog, group: ConsumerGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "why_no_room", lambda _: "acme may store 1 GiB." if log.first < 4 else "")
    assert retention.why_no_room(task, log) == ""
    assert log.first == 4 and lost(group)


def test_the_page_tells_who_is_waited_for(cast: Cast, task: TrackingTask, log: EventLog, group: ConsumerGroup) -> None:
    address = reverse("tracking.detail", args=[task.task_id])
    page = cast.client("alice").get(address).content.decode()
    assert "longer for <strong>The inflow task slow</strong>" in page and "After 14 days" in page
    assert queries.kept_for(reloaded(task)) == group
    services.note_reached(holder="inflow-7", sequence=4)
    assert queries.kept_for(reloaded(task)) is None
