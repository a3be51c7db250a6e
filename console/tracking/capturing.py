"""What a capturing process does: claims tasks, reads their databases, and keeps the changes in their logs.

One thread gives signs of life for all tasks, writes down how far they are, and claims; it is the only one that is busy
while there is no task. Each task has a thread of its own:

    changes from the database ──▶ log, durable ──▶ confirmed to the database

so that a process which is killed at any point loses nothing: the next one goes on behind the last entry of the log.
What fails is told in the task's row, and tried again. Whoever has lost a lease writes nothing any more, which the
number of the log's writer makes sure of.
"""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from django.db import Error, close_old_connections, connection
from django.utils import timezone

from analytics import lake
from analytics.errors import AnalyticsError
from analytics.inflow import quick_json
from analytics.inflow import source as sources
from analytics.inflow.changes import CaptureFailed, Change
from analytics.inflow.event_log import EventLog, LogFenced, LogHeld
from analytics.inflow.event_reader import Reader
from analytics.inflow.segments import MOST_EVENT_BYTES, NewEntry, runs
from console.accounts.models import Tenant
from console.catalog import storage
from console.feeds.filling import Filler
from console.sql.heartbeats import worker_name
from console.tracking import addresses, lifecycle, retention
from console.tracking.lifecycle import Lease, LeaseLost
from console.tracking.models import LEASE, State, TrackingTask
from console.web.errors import Refused
from console.web.holding import Hold

log = logging.getLogger(__name__)
T = TypeVar("T")

#: How often the process looks for tasks, and shows that it lives, s.
LOOK_S = 2.0
#: How long one call waits for changes, s: so long may a stop take.
WAIT_S = 1.0
#: How often figures are taken, the database is asked for the lag, the lake for room, and the log is trimmed, s.
FIGURES_S, LAG_S, ROOM_S, TRIM_S = 1.0, 5.0, 10.0, 60.0
#: How long the first pause after a failure is, and the longest, s: of what may pass by itself, of what a user has to
#: mend, and of a wrong password, for which databases lock accounts.
_PASSING, _MENDED, _PASSWORD = (1.0, 30.0), (5.0, 60.0), (30.0, 300.0)
_PASSING_CODES = frozenset({"UNREACHABLE", "SLOT_TAKEN", "STREAM_BROKEN", "TAKEN_OVER", "DISK_FULL", "LOG_HELD"})
#: How long a database that is away is tried when its task is deleted.
_REMOVAL = timedelta(minutes=2)
_REMOVAL_S = 3.0
#: How long threads may take to end when the process does, s; the launcher's patience is longer.
_END_S = 4.0
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Life:
    """One task that this process holds, from its claim to its end."""

    def __init__(self, process: Process, lease: Lease) -> None:
        self.lease = lease
        #: By the monotonic clock, when the last sign of life was given.
        self.beaten = time.monotonic()
        self._process = process
        #: Of the row that is captured.
        self._revision: int | None = None
        #: Whether the attempt that is under way has come so far that it captures.
        self._has_begun = False
        self._told: dict[str, Any] = {}
        self._figures: dict[str, Any] = {}
        self._stop = threading.Event()
        loss = partial(LeaseLost, f"task {lease.pk} is not {lease.worker}'s any more")
        self._hold = Hold(f"task {lease.pk}", loss, LOOK_S)
        self._wake = threading.Event()
        self.thread = threading.Thread(target=self._live, name=f"tracking {lease.pk}", daemon=True)

    def want(self, revision: int) -> None:
        """What the row says; another one than that which is captured ends what is under way."""
        if self._revision not in (None, revision):
            self._wake.set()

    def leave(self) -> None:
        """The process ends: leave the task to another one."""
        self._stop.set()
        self._wake.set()

    def lose(self) -> None:
        """Another one has it, or nobody may: end, and write nothing."""
        self._hold.lose()
        self._wake.set()

    def take_figures(self) -> dict[str, Any]:
        """What has changed since it was taken last."""
        figures = self._figures
        changed = {name: value for name, value in figures.items() if self._told.get(name, self) != value}
        self._told = figures
        return changed

    def _live(self) -> None:
        try:
            self._run()
            lifecycle.release(self.lease)
        except LeaseLost as lost:
            log.info("%s", lost)
        except Exception:
            # The border of the thread: the lease ends by itself, and the task is claimed again.
            log.exception("task %s was given up", self.lease.pk)
        finally:
            self._process.forget(self)
            connection.close()

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            self._wake.clear()
            self._hold.require()
            task = self._hold.insist(lambda: lifecycle.task_of(self.lease))
            self._revision = task.revision
            if task.state == State.DELETING:
                self._remove(task)
                return
            self._has_begun = False
            failure = self._try(task)
            if failure is None:
                failures = 0
                continue
            failures = 1 if self._has_begun else failures + 1
            log.warning("task %s: %s", task.task_id, failure.sentence)
            self._hold.insist(lambda told=failure: lifecycle.fail(self.lease, told))  # type: ignore[misc]
            connection.close()  # nothing is asked for a while
            self._wake.wait(_pause(failure.code, failures))

    def _try(self, task: TrackingTask) -> CaptureFailed | None:
        """Capture until something else is wanted: None, or what went wrong. Raises LeaseLost."""
        try:
            self._capture(task)
        except CaptureFailed as failure:
            return failure
        except Refused as refused:
            return CaptureFailed(refused.message, refused.symbol)
        except LogFenced as fenced:
            lifecycle.outrank(self.lease, max(runs(task.folder), default=0))
            raise LeaseLost(fenced.user_message) from fenced
        except AnalyticsError as error:
            return CaptureFailed(error.user_message, "LOG_HELD" if isinstance(error, LogHeld) else "LOG_DAMAGED")
        except OSError as error:
            return _of_disk(error)
        except LeaseLost:
            raise
        except Exception:  # the border of an attempt: told to its owner, and to the log by its ID
            log.exception("task %s cannot be captured", task.task_id)
            text = f"Internal error; the log of the capturing process has the reason under task {task.task_id}."
            return CaptureFailed(text, "INTERNAL")
        return None

    def _capture(self, task: TrackingTask) -> None:
        with EventLog(task.folder, self.lease.fence) as kept:
            writer = _Writer(task, kept)
            writer.look_for_room()
            source = addresses.source_of(task)
            position = self._position(task, source, kept)
            with sources.opened(source, task.patterns, position, snapshot=task.snapshot) as capture:
                # Before anything else: without a position MySQL's next capture would begin where the log ends then.
                place = {"position": capture.position, "position_at": kept.last}
                self._hold.insist(lambda: lifecycle.normal(self.lease, **place))
                connection.close()
                self._has_begun = True
                self._follow(capture, writer)

    def _position(self, task: TrackingTask, source: sources.Source, kept: EventLog) -> str | None:
        """Where to go on; None for a beginning."""
        if task.begins_anew:
            sources.remove(source)
            self._hold.insist(lambda: lifecycle.tell(self.lease, position="", position_at=kept.last, begins_anew=False))
            return None
        return (task.position if kept.last <= task.position_at else kept.last_position()) or None

    def _follow(self, capture: Any, writer: _Writer) -> None:
        while not (self._wake.is_set() or self._stop.is_set()):
            changes = capture.changes(WAIT_S)
            self._hold.require()
            if changes:
                writer.append(changes)
                capture.confirm(changes[-1].position)
            self._figures = writer.figures(capture, is_idle=not changes) or self._figures

    def _remove(self, task: TrackingTask) -> None:
        """Remove what a deleted task has made, in its database as far as that can be reached."""
        patience = _REMOVAL if task.position else timedelta(0)
        until = (task.deleted_at or timezone.now()) + patience
        while not self._stop.is_set():
            try:
                sources.remove(addresses.source_of(task))
                break
            except (CaptureFailed, Refused) as failure:
                if timezone.now() >= until or getattr(failure, "code", "") not in _PASSING_CODES:
                    log.warning("of task %s something stays in its database: %s", task.task_id, failure)
                    break
            self._wake.clear()
            self._wake.wait(_REMOVAL_S)
            self._hold.require()
        else:
            return
        lake.remove(task.log)
        storage.changed(task.tenant)
        self._hold.insist(lambda: lifecycle.forget(self.lease))


@dataclass
class _Timer:
    """Tells when something is due again, by the monotonic clock."""

    every: float
    at: float = 0.0

    def is_due(self) -> bool:
        now = time.monotonic()
        if now < self.at:
            return False
        self.at = now + self.every
        return True


class _Writer:
    """Writes what one capture reads, within the room that its account has, and measures."""

    def __init__(self, task: TrackingTask, kept: EventLog) -> None:
        self._task, self._log = task, kept
        self._reader = Reader(kept.folder)
        self._room, self._trim = _Timer(ROOM_S), _Timer(TRIM_S)
        self._take, self._ask = _Timer(FIGURES_S), _Timer(LAG_S)
        self._lag = sources.Lag(None, None)
        self._bytes = 0
        self._counted, self._counted_at = kept.last, time.monotonic()

    def look_for_room(self) -> None:
        """Trim, and raise CaptureFailed when the account may store nothing more."""
        if self._trim.is_due():
            retention.trim(self._task, self._log)
        if self._room.is_due():
            self._count_bytes()
            reason = retention.why_no_room(self._task, self._log)
            connection.close()
            if reason:
                text = f"{reason} Until then the database keeps the changes, as long as it has room for its own log."
                raise CaptureFailed(text, "LAKE_FULL")

    def append(self, changes: list[Change]) -> None:
        """Keep changes; when it returns they are durable. Raises CaptureFailed, LogFenced, OSError."""
        self.look_for_room()
        entries = [_entry(change) for change in changes]
        self._log.append(entries)
        self._bytes += sum(len(entry.event) for entry in entries)

    def figures(self, capture: Any, *, is_idle: bool) -> dict[str, Any]:
        """What the row is to say; empty when it is not time."""
        if not self._take.is_due():
            return {}
        if is_idle:
            self.look_for_room()
        if self._ask.is_due():
            self._lag = sources.lag_of(capture, is_idle=is_idle)
        now, last, found = time.monotonic(), self._log.last, self._reader.range()
        rate = (last - self._counted) / max(now - self._counted_at, 0.001)
        self._counted, self._counted_at = last, now
        return {
            "position": capture.position,
            "position_at": last,
            "events": last,
            "first_ms": found.first_ms,
            "last_ms": found.last_ms,
            "rate": round(rate, 1),
            "lag_bytes": self._lag.bytes,
            "lag_ms": self._lag.ms,
        }

    def _count_bytes(self) -> None:
        if self._bytes:
            tenant: Tenant = self._task.tenant
            storage.add(tenant, lake=self._bytes)
            self._bytes = 0


class Process:
    """All tasks of this process."""

    def __init__(self) -> None:
        self.name = worker_name()
        self._filler = Filler(self.name)
        self._lives: dict[int, Life] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._ending = threading.Event()

    def run(self, ready: Callable[[], None]) -> None:
        """Capture, and fill feeds, until `end`; `ready` is called once the first look is done."""
        self._filler.start()
        while not self._ending.is_set():
            try:
                self.look()
            except Exception:
                # The border of the thread: without it all tasks of the process would lose their signs of life.
                log.exception("a look at the tasks failed; trying again")
                connection.close()
            else:
                ready()
                ready = _nothing
            close_old_connections()
            self._wake.wait(LOOK_S)
            self._wake.clear()
        self._leave()
        connection.close()

    def end(self) -> None:
        """Give all tasks back, and return from `run`."""
        self._ending.set()
        self._wake.set()

    def look(self) -> None:
        """One turn: signs of life, figures, what users want, and what waits."""
        lives = self._held()
        try:
            wanted = lifecycle.beat(self.name, [life.lease for life in lives])
        except Error:
            for life in lives:
                # Others may have it by now: the log's number is the last word, but nothing is to run twice.
                if time.monotonic() - life.beaten >= LEASE.total_seconds():
                    life.lose()
            raise
        for life in lives:
            if life.lease not in wanted:
                life.lose()
                continue
            life.beaten = time.monotonic()
            life.want(wanted[life.lease])
            if changed := life.take_figures():
                try:
                    lifecycle.tell(life.lease, **changed)
                except LeaseLost:
                    life.lose()
        held = {life.lease.pk for life in self._held()}
        for pk in lifecycle.waiting():
            if pk not in held and (lease := lifecycle.claim(pk, self.name)) is not None:
                self._begin(lease)

    def forget(self, life: Life) -> None:
        """A task has ended here."""
        with self._lock:
            if self._lives.get(life.lease.pk) is life:
                del self._lives[life.lease.pk]

    def _begin(self, lease: Lease) -> None:
        life = Life(self, lease)
        with self._lock:
            self._lives[lease.pk] = life
        life.thread.start()

    def _leave(self) -> None:
        lives = self._held()
        for life in lives:
            life.leave()
        deadline = time.monotonic() + _END_S
        self._filler.end(_END_S)
        for life in lives:
            life.thread.join(max(0.0, deadline - time.monotonic()))
        for life in self._held():  # busy with a database that does not answer: the next one fences it off
            life.lose()
            lifecycle.release(life.lease)

    def _held(self) -> list[Life]:
        with self._lock:
            return list(self._lives.values())


def _nothing() -> None:
    return


def _entry(change: Change) -> NewEntry:
    """A change for the log. Of a row that no log takes the values are left out, and their size is told."""
    text = quick_json.dumps(change.event)
    if len(text) > MOST_EVENT_BYTES:
        data = change.event["data"] | {"before": None, "after": None, "omittedBytes": len(text)}
        text = quick_json.dumps(change.event | {"data": data})
    return NewEntry(change.position, change.commit_ms, text)


def _of_disk(error: OSError) -> CaptureFailed:
    if error.errno in _FULL:
        text = (
            "The disk of the lake is full: the changes wait in the database. The platform's administrator makes room."
        )
        return CaptureFailed(text, "DISK_FULL")
    return CaptureFailed(f"The log cannot be written: {error.strerror or error}.", "LOG_UNWRITABLE")


def _pause(code: str, failures: int) -> float:
    """How long to wait after so many failures in a row: doubled each time, up to the longest, s."""
    first, longest = _PASSING if code in _PASSING_CODES else _PASSWORD if code == "PASSWORD_WRONG" else _MENDED
    return float(min(longest, first * 2 ** min(failures - 1, 10)))
