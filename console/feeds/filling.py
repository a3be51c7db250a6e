"""Fills the logs of feeds: one thread of a capturing process (`manage.py tracking`) for all that the process holds.

    request ──▶ row, committed, answered ──▶ log, durable ──▶ row deleted
    clock   ──▶ log, durable: its last position is the time that was sent last

What is in the last batch of a log and has its row still was appended by a process that was killed before it could
delete: whoever opens the log deletes those rows first, so nothing comes twice. A batch is never larger than what is
looked at then (`_BATCH`, `_BATCH_BYTES`).
"""

from __future__ import annotations

import errno
import json
import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from django.db import Error, connection, transaction
from django.db.models import F
from django.utils import timezone

from analytics import lake
from analytics.errors import AnalyticsError
from analytics.inflow import schedule
from analytics.inflow.event_log import EventLog, LogFenced
from analytics.inflow.event_reader import Reader
from analytics.inflow.schedule import Schedule
from analytics.inflow.segments import NewEntry, runs
from console.catalog import storage
from console.feeds import leases, queries, services
from console.feeds.leases import Lease
from console.feeds.models import LEASE, Arrival, Feed, Kind, Receipt, Waiting
from console.feeds.receiving import WINDOW

log = logging.getLogger(__name__)

#: How often it is looked for rows and due times, s; and for feeds, which is all that happens while there is none.
STEP_S, LOOK_S = 0.3, 2.0
#: Rows of a batch, and bytes of their events unless one alone has more. What a log's end is looked through for.
_BATCH, _BATCH_BYTES = 500, 8 << 20
_LOOKED_THROUGH_BYTES = 2 * _BATCH_BYTES
#: How often the account's room is looked at, a log is trimmed, and old receipts are removed, s.
_ROOM_S, _TRIM_S, _TIDY_S = 10.0, 3600.0, 600.0
#: How long a feed rests after something went wrong with it, s.
_REST_S = 5.0
#: A log that nothing came to for so long is closed, s: each is three open files. And so many are open at a time.
_IDLE_S, _MOST_OPEN = 600.0, 200
#: A deleted feed's log is removed so long after that: its task may be delivering what it has begun, for half of it.
_REMOVED_AFTER = timedelta(minutes=1)
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(eq=False)
class _Held:
    """A feed that this process fills. Times are of the monotonic clock."""

    feed: Feed
    lease: Lease
    log: EventLog | None = None
    used_at: float = 0.0
    rests_until: float = 0.0
    room_at: float = 0.0
    trim_at: float = 0.0
    #: The due time that was sent last, as far as the log tells; and the next one, by what it was found of.
    sent: datetime | None = None
    next: tuple[object, datetime] | None = None
    told: tuple[str, str] = field(default=("", ""))


class Filler:
    """All feeds of one process. Only one thread uses it, but for `end`."""

    def __init__(self, name: str, now: Callable[[], datetime] = timezone.now) -> None:
        """`now` is the clock of schedules and of what is old."""
        self._name, self._now = name, now
        self._held: dict[int, _Held] = {}
        self._beaten = self._looked_at = self._tidied_at = float("-inf")
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeds", daemon=True)

    def start(self) -> None:
        """Fill in a thread until `end`."""
        self._thread.start()

    def end(self, patience_s: float) -> None:
        """Leave the feeds to others."""
        self._ending.set()
        self._thread.join(patience_s)

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                self.step()
            except Error as error:
                log.warning("feeds wait for the console's database: %s", error)
                connection.close()
            except Exception:
                # The border of the thread: without it no feed of the process would be filled any more.
                log.exception("feeds cannot be filled; trying again")
                connection.close()
            if not self._held:
                connection.close()
            self._ending.wait(STEP_S if self._held else LOOK_S)
        self.leave()
        connection.close()

    def leave(self) -> None:
        """Close all logs, and give the feeds back."""
        held, self._held = list(self._held.values()), {}
        for one in held:
            _close(one)
        try:
            leases.release(one.lease for one in held)
        except Error as error:  # the leases end by themselves
            log.warning("feeds could not be given back: %s", error)

    def step(self) -> None:
        """One turn. Raises django.db.Error; all else is told in the rows of feeds."""
        clock = time.monotonic()
        if clock - self._looked_at >= LOOK_S:
            self._looked_at = clock
            self._look()
        if clock - self._beaten >= LEASE.total_seconds():
            # Others may have them by now: the log's number is the last word, but nothing is to run twice.
            self._drop(list(self._held.values()))
            return
        for one in self._to_fill():
            self._fill(one)
        self._close_idle()

    def _look(self) -> None:
        """Signs of life, what users want, and what nobody fills."""
        clock = time.monotonic()
        leases.claim_all(self._name)
        rows = {leases.lease_of(feed): feed for feed in leases.beat(self._name)}
        self._beaten = clock
        self._drop([one for one in self._held.values() if one.lease not in rows])
        for lease, feed in rows.items():
            one = self._held.get(lease.pk)
            if one is None:
                self._held[lease.pk] = _Held(feed, lease, told=(feed.code, feed.sentence))
            else:
                one.feed = feed
        if clock - self._tidied_at >= _TIDY_S:
            self._tidied_at = clock
            Receipt.objects.filter(at__lt=timezone.now() - WINDOW).delete()

    def _drop(self, gone: Iterable[_Held]) -> None:
        for one in gone:
            _close(one)
            self._held.pop(one.lease.pk, None)

    def _to_fill(self) -> list[_Held]:
        """Feeds with something to do now."""
        clock = time.monotonic()
        awake = {pk: one for pk, one in self._held.items() if clock >= one.rests_until}
        hooks = [pk for pk, one in awake.items() if one.feed.kind == Kind.WEBHOOK]
        rows = Arrival.objects.filter(feed_id__in=hooks).order_by() if hooks else Arrival.objects.none()
        waiting = set(rows.values_list("feed_id", flat=True).distinct())
        return [one for pk, one in awake.items() if self._has_work(one, clock, is_waited_for=pk in waiting)]

    def _has_work(self, one: _Held, clock: float, *, is_waited_for: bool) -> bool:
        if one.feed.deleted_at is not None:
            return one.feed.deleted_at + _REMOVED_AFTER <= timezone.now()
        return is_waited_for or clock >= one.trim_at or self._is_due(one)

    def _is_due(self, one: _Held) -> bool:
        if one.feed.kind != Kind.SCHEDULE or one.feed.paused:
            return False
        found_of = one.feed.settings, one.feed.begins_at, one.sent
        try:
            if one.sent is None:  # the log knows it
                return True
            if one.next is None or one.next[0] != found_of:
                times, last = _times(one)
                one.next = found_of, next(times.after(last))
            return self._now() >= one.next[1]
        except (AnalyticsError, StopIteration):
            return True  # and told there

    # One feed

    def _fill(self, one: _Held) -> None:
        code, sentence = "", ""
        try:
            if one.feed.deleted_at is not None:
                self._remove(one)
                return
            if not self._has_room(one):
                return
            kept = self._log(one)
            self._append(one, kept)
            if time.monotonic() >= one.trim_at:
                self._trim(one, kept)
        except LogFenced:
            leases.outrank(one.lease, max(runs(queries.folder_of(one.feed)), default=0))
            self._drop([one])
            return
        except AnalyticsError as error:
            code, sentence = "LOG_UNUSABLE", error.user_message
        except OSError as error:
            _close(one)
            full = error.errno in _FULL
            code = "DISK_FULL" if full else "LOG_UNWRITABLE"
            sentence = (
                "The disk of the lake is full; the platform's administrator makes room."
                if full
                else f"The log cannot be written: {error.strerror or error}."
            )
        self._tell(one, code, sentence)

    def _tell(self, one: _Held, code: str, sentence: str) -> None:
        if code:
            one.rests_until = time.monotonic() + _REST_S
        if one.told != (code, sentence):
            log.info("feed %s: %s", one.feed.feed_id, sentence or "well again")
            leases.tell(one.lease, code, sentence)
            one.told = code, sentence

    def _has_room(self, one: _Held) -> bool:
        clock = time.monotonic()
        if clock < one.room_at:
            return True
        if reason := storage.why_no_room(one.feed.tenant):
            self._tell(
                one, "LAKE_FULL", f"{reason} Until then requests wait, as many as may, and due times are missed."
            )
            return False
        one.room_at = clock + _ROOM_S
        return True

    def _log(self, one: _Held) -> EventLog:
        one.used_at = time.monotonic()
        if one.log is None:
            one.log = EventLog(queries.folder_of(one.feed), one.lease.fence)
            try:
                self._recover(one, one.log)
            except BaseException:
                _close(one)
                raise
        return one.log

    def _recover(self, one: _Held, kept: EventLog) -> None:
        """Delete the rows of what is in the log already, and learn which due time was sent last."""
        if one.feed.kind == Kind.SCHEDULE:
            position = kept.last_position()
            one.sent = schedule.time_of(position) if position else datetime.fromtimestamp(0, UTC)
            return
        with Reader(kept.folder) as reader:
            there = [entry.position for entry in reader.tail(_BATCH, _LOOKED_THROUGH_BYTES)]
        _delete(one.feed, there)

    def _append(self, one: _Held, kept: EventLog) -> None:
        entries = self._scheduled(one) if one.feed.kind == Kind.SCHEDULE else _arrived(one.feed)
        if not entries:
            return
        kept.append(entries)
        if one.feed.kind == Kind.SCHEDULE:
            one.sent = schedule.time_of(entries[-1].position)
        else:
            _delete(one.feed, [entry.position for entry in entries])
        storage.add(one.feed.tenant, lake=sum(len(entry.event) for entry in entries))

    def _scheduled(self, one: _Held) -> list[NewEntry]:
        if one.feed.paused:
            return []
        event, feed, (times, last) = one.feed.told["event"], one.feed, _times(one)
        return [
            NewEntry(
                schedule.position_of(due),
                int(due.timestamp() * 1000),
                json.dumps(
                    schedule.event_of(due, event, feed=feed.feed_id, task=feed.name), ensure_ascii=False
                ).encode(),
            )
            for due in times.due(last, self._now())
        ]

    def _trim(self, one: _Held, kept: EventLog) -> None:
        with Reader(kept.folder) as reader:
            first = reader.range().first
        before = self._now() - timedelta(days=one.feed.retention_days)
        if kept.trim(before_ms=int(before.timestamp() * 1000)) != first:
            storage.changed(one.feed.tenant)
        one.trim_at = time.monotonic() + _TRIM_S

    def _remove(self, one: _Held) -> None:
        """Of a deleted feed: its log, and its row."""
        _close(one)
        lake.remove(queries.log_of(one.feed))
        storage.changed(one.feed.tenant)
        leases.forget(one.lease)
        self._drop([one])

    def _close_idle(self) -> None:
        """Close the logs to which nothing came for a while, and of too many those used the longest ago."""
        opened = sorted((one for one in self._held.values() if one.log is not None), key=lambda one: -one.used_at)
        for place, one in enumerate(opened):
            if place >= _MOST_OPEN or time.monotonic() - one.used_at >= _IDLE_S:
                _close(one)


def _times(one: _Held) -> tuple[Schedule, datetime]:
    """A schedule, and behind which moment its due times are to be sent. Raises ScheduleError."""
    told, begins_at = one.feed.told, one.feed.begins_at
    return Schedule.read(told["cron"], told["timeZone"]), max(one.sent or begins_at, begins_at)


def _arrived(feed: Feed) -> list[NewEntry]:
    """The next rows, as many as fit a batch."""
    found, size = list[NewEntry](), 0
    for row in Arrival.objects.filter(feed=feed).order_by("pk")[:_BATCH].iterator(chunk_size=16):
        size += row.size
        if found and size > _BATCH_BYTES:
            break
        found.append(NewEntry(row.event_id, row.at_ms, bytes(row.event)))
    return found


def _delete(feed: Feed, event_ids: list[str]) -> None:
    """The rows of these events, as far as they are there."""
    if not event_ids:
        return
    with transaction.atomic():
        # The row is this transaction's from here on: so nobody else takes the same ones off.
        Waiting.objects.filter(tenant=feed.tenant).update(events=F("events"))
        sizes = dict(Arrival.objects.filter(feed=feed, event_id__in=event_ids).values_list("pk", "size"))
        if sizes:
            Arrival.objects.filter(pk__in=sizes).delete()
            services.take_off(feed.tenant, len(sizes), sum(sizes.values()))


def _close(one: _Held) -> None:
    if one.log is not None:
        one.log.close()
        one.log = None
