"""One turn of who fills feeds, with a clock of the test; the whole process: tests/inflow."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from django.utils import timezone

from analytics import lake
from analytics.inflow.event_log import EventLog
from analytics.inflow.event_reader import Reader
from analytics.inflow.segments import Entry, NewEntry
from analytics.inflow.webhook import Request
from console.catalog import storage
from console.feeds import filling, queries, receiving, services
from console.feeds.filling import Filler
from console.feeds.models import Arrival, Feed, Waiting
from console.tracking.tasks import expire
from tests.console.feeds.conftest import tell
from tests.support.cast import Cast

BEGIN = datetime(2026, 1, 15, 10, 30, tzinfo=UTC)


class Clock:
    """The time of schedules."""

    def __init__(self) -> None:
        self.now = BEGIN

    def __call__(self) -> datetime:
        return self.now

    def put(self, **more: float) -> None:
        self.now += timedelta(**more)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def filler(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Filler]:
    monkeypatch.setattr(filling, "connection", SimpleNamespace(close=lambda: None))
    made = Filler("one", clock)
    yield made
    made.leave()


def arrive(feed: Feed, *numbers: int) -> list[str]:
    sent = (Request("POST", "/", [], {"content-type": "text/plain"}, str(number).encode()) for number in numbers)
    return [receiving.store(feed, one) for one in sent]


def entries(feed: Feed) -> list[Entry]:
    with Reader(queries.folder_of(feed)) as reader:
        return reader.read(reader.range().first - 1)


def bodies(feed: Feed) -> list[int]:
    return [int(json.loads(entry.event)["data"]["body"]) for entry in entries(feed)]


def reloaded(feed: Feed) -> Feed:
    return Feed.objects.select_related("tenant").get(pk=feed.pk)


def turn(filler: Filler) -> None:
    """A turn that looks at everything."""
    filler._looked_at = float("-inf")
    for one in filler._held.values():
        one.rests_until = one.room_at = one.trim_at = 0.0
    filler.step()


def test_rows_go_into_the_log_in_their_order_and_wait_no_more(cast: Cast, hook: Feed, filler: Filler) -> None:
    sent = arrive(hook, 1, 2, 3)
    turn(filler)
    assert [entry.position for entry in entries(hook)] == sent
    assert bodies(hook) == [1, 2, 3]
    assert Arrival.objects.count() == 0
    assert list(Waiting.objects.values_list("events", "bytes")) == [(0, 0)]
    arrive(hook, 4)
    filler.step()
    assert bodies(hook) == [1, 2, 3, 4]


def test_more_than_a_batch_goes_batch_by_batch(hook: Feed, filler: Filler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling, "_BATCH", 2)
    arrive(hook, *range(5))
    for _ in range(3):
        turn(filler)
    assert bodies(hook) == list(range(5))
    monkeypatch.setattr(filling, "_BATCH_BYTES", 1)
    arrive(hook, 5, 6)
    turn(filler)
    assert bodies(hook) == list(range(6))


def test_one_that_was_killed_before_it_deleted_the_rows_doubles_nothing(
    hook: Feed, filler: Filler, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def killed(*_: object) -> None:
        raise Killed

    arrive(hook, 1, 2)
    with monkeypatch.context() as patch:
        turn(filler)
        patch.setattr(filling, "_delete", killed)
        arrive(hook, 3, 4)
        with pytest.raises(Killed):
            turn(filler)
    assert Arrival.objects.count() == 2
    for one in filler._held.values():  # as the end of its process does
        filling._close(one)
    arrive(hook, 5)
    Feed.objects.update(heartbeat_at=None)
    following = Filler("two", clock)
    turn(following)
    assert bodies(hook) == [1, 2, 3, 4, 5]
    assert list(Waiting.objects.values_list("events", "bytes")) == [(0, 0)]
    following.leave()


def test_one_that_lost_its_lease_writes_nothing_more(hook: Feed, filler: Filler, clock: Clock) -> None:
    turn(filler)
    Feed.objects.update(heartbeat_at=None)
    following = Filler("two", clock)
    turn(following)
    arrive(hook, 1)
    filler.step()  # it has not looked yet
    assert filler._held == {}
    turn(following)
    assert bodies(hook) == [1]
    turn(filler)
    assert filler._held == {}
    following.leave()


def test_a_log_that_is_further_than_the_database_is_taken_over_by_the_next_claim(hook: Feed, filler: Filler) -> None:
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    with EventLog(queries.folder_of(hook), 9) as log:
        log.append([NewEntry("e", now_ms, b'{"data": {"body": "1"}}')])
    arrive(hook, 2)
    turn(filler)
    turn(filler)
    assert reloaded(hook).fence == 10
    assert bodies(hook) == [1, 2]


@pytest.mark.parametrize(("number", "code"), [(errno.ENOSPC, "DISK_FULL"), (errno.EIO, "LOG_UNWRITABLE")])
def test_a_log_that_cannot_be_written_is_told_and_loses_nothing(
    hook: Feed, filler: Filler, monkeypatch: pytest.MonkeyPatch, number: int, code: str
) -> None:
    def broken(*_: object) -> None:
        raise OSError(number, "no")

    arrive(hook, 1)
    with monkeypatch.context() as patch:
        patch.setattr(EventLog, "append", broken)
        turn(filler)
    assert reloaded(hook).code == code
    filler.step()  # it rests
    assert Arrival.objects.count() == 1
    turn(filler)
    assert (reloaded(hook).code, bodies(hook)) == ("", [1])


def test_without_room_in_the_lake_requests_wait(hook: Feed, filler: Filler, monkeypatch: pytest.MonkeyPatch) -> None:
    arrive(hook, 1)
    with monkeypatch.context() as patch:
        patch.setattr(storage, "why_no_room", lambda _: "acme may store 1 GiB.")
        turn(filler)
    told = reloaded(hook)
    assert told.code == "LAKE_FULL"
    assert told.sentence.startswith("acme may store 1 GiB. Until then")
    assert Arrival.objects.count() == 1
    turn(filler)
    assert (reloaded(hook).code, bodies(hook)) == ("", [1])


def test_what_is_kept_counts_as_the_accounts(cast: Cast, hook: Feed, filler: Filler) -> None:
    turn(filler)
    storage.recount(cast.acme)
    before = storage.in_use(cast.acme)[storage.LAKE] or 0
    arrive(hook, 1)
    turn(filler)
    added = (storage.in_use(cast.acme)[storage.LAKE] or 0) - before
    assert added == len(entries(hook)[0].event)


def test_old_events_go(hook: Feed, filler: Filler, clock: Clock) -> None:
    turn(filler)
    clock.now = datetime.now(UTC) + timedelta(days=6)
    arrive(hook, 1)
    turn(filler)
    turn(filler)
    assert bodies(hook) == [1]
    clock.put(days=2)
    turn(filler)
    assert entries(hook) == []
    clock.now = datetime.now(UTC)
    arrive(hook, 2)
    turn(filler)
    assert [entry.sequence for entry in entries(hook)] == [2]


def test_a_deleted_feed_leaves_nothing(cast: Cast, hook: Feed, filler: Filler) -> None:
    arrive(hook, 1)
    turn(filler)
    arrive(hook, 2)
    services.delete(hook)
    assert queries.feed(cast.acme, hook.name) is None
    turn(filler)
    assert bodies(hook) == [1]  # its task may still be delivering
    Feed.objects.filter(pk=hook.pk).update(deleted_at=timezone.now() - filling._REMOVED_AFTER)
    turn(filler)
    assert not Feed.objects.filter(pk=hook.pk).exists()
    assert lake.files(queries.log_of(hook), hidden=True) == []
    assert list(Waiting.objects.values_list("events", "bytes")) == [(0, 0)]


def test_logs_of_feeds_are_no_leftovers(hook: Feed, filler: Filler) -> None:
    arrive(hook, 1)
    turn(filler)
    expire()
    assert bodies(hook) == [1]
    Feed.objects.all().delete()
    expire()
    assert lake.files(queries.log_of(hook), hidden=True) == []


def test_idle_logs_are_closed_and_opened_again(hook: Feed, filler: Filler) -> None:
    arrive(hook, 1)
    turn(filler)
    one = filler._held[hook.pk]
    one.used_at -= filling._IDLE_S + 1
    filler.step()
    assert one.log is None
    arrive(hook, 2)
    filler.step()
    assert bodies(hook) == [1, 2]


# Schedules


def times(feed: Feed) -> list[str]:
    return [json.loads(entry.event)["time"][11:16] for entry in entries(feed)]


@pytest.fixture
def hourly(nightly: Feed) -> Feed:
    Feed.objects.filter(pk=nightly.pk).update(begins_at=BEGIN)
    return nightly


def test_a_schedule_sends_its_event_at_its_times(hourly: Feed, filler: Filler, clock: Clock) -> None:
    turn(filler)
    assert times(hourly) == []
    clock.put(minutes=29, seconds=59)
    filler.step()
    assert times(hourly) == []
    clock.put(seconds=1)
    filler.step()
    filler.step()
    clock.put(hours=1)
    filler.step()
    assert times(hourly) == ["11:00", "12:00"]
    first = entries(hourly)[0]
    assert (first.position, first.time_ms) == ("2026-01-15T11:00:00Z", 1_768_474_800_000)
    assert json.loads(first.event)["data"] == {"job": "rollup"}


def test_missed_times_are_sent_once_by_the_next_process(hourly: Feed, filler: Filler, clock: Clock) -> None:
    clock.put(minutes=31)
    turn(filler)
    clock.put(hours=5)
    filler.leave()
    following = Filler("two", clock)
    turn(following)
    turn(following)
    assert times(hourly) == ["11:00", "16:00"]
    following.leave()


def test_a_paused_schedule_sends_nothing_that_was_due_meanwhile(
    cast: Cast, hourly: Feed, filler: Filler, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.feeds.services.timezone", SimpleNamespace(now=clock))
    turn(filler)
    services.pause(hourly)
    clock.put(hours=1)
    turn(filler)
    services.resume(hourly)
    services.resume(hourly)
    turn(filler)
    assert times(hourly) == []
    clock.put(minutes=30)
    services.resume(hourly)  # it is not paused: nothing is skipped
    turn(filler)
    assert times(hourly) == ["12:00"]


def test_other_times_begin_when_they_are_told_and_another_event_changes_none(
    cast: Cast, hourly: Feed, filler: Filler, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.feeds.services.timezone", SimpleNamespace(now=clock))
    clock.put(hours=2, minutes=5)
    tell(cast, cron="*/20 * * * *")
    turn(filler)
    assert times(hourly) == []
    clock.put(minutes=10)
    tell(cast, cron="*/20 * * * *", event={})
    turn(filler)
    assert times(hourly) == ["12:40"]
    assert json.loads(entries(hourly)[0].event)["data"] == {}


def test_a_schedule_that_cannot_be_read_any_more_is_told(hourly: Feed, hook: Feed, filler: Filler) -> None:
    Feed.objects.filter(pk=hourly.pk).update(settings='{"cron": "x", "timeZone": "UTC", "event": {}}')
    arrive(hook, 1)
    turn(filler)
    assert reloaded(hourly).code == "LOG_UNUSABLE"
    assert bodies(hook) == [1]
