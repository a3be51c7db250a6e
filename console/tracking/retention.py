"""How long the events of a log are kept: for the days that its task says, and for longer where a reader is slow.

What reads by a consumer group, running or paused, is waited for: events that it has still to read stay for TIMES as
long, unless the account's part of the lake is full. What goes all the same is written down at its group.
"""

from __future__ import annotations

import logging
import time

from django.db import Error, connection
from django.utils import timezone

from analytics.inflow.event_log import EventLog
from console.catalog import storage
from console.tracking import queries
from console.tracking.models import TrackingTask

log = logging.getLogger(__name__)

#: How many times as long as the task says events are kept for a slow reader.
TIMES = 2


def trim(task: TrackingTask, kept: EventLog) -> None:
    """Remove what is old, but for what somebody has still to read. Raises OSError, LogDamaged, LogFenced.

    Nothing is removed while the console's database cannot tell who reads.
    """
    before = kept.first
    try:
        slowest = queries.slowest(task)
    except Error as error:
        log.warning("the log of task %s is not trimmed: %s", task.task_id, error)
        connection.close()
        return
    first = kept.trim(before_ms=task.before_ms, keep_after=slowest.read_up_to if slowest is not None else None)
    if slowest is not None:
        bound_ms = int((time.time() - TIMES * task.retention_days * 86_400) * 1000)
        first = kept.trim(before_ms=bound_ms)
        _note(task, first)
    if first != before:
        storage.changed(task.tenant)


def why_no_room(task: TrackingTask, kept: EventLog) -> str:
    """Why the account may store nothing more; empty when it may. What is kept for slow readers alone goes first.

    Raises OSError, LogDamaged, LogFenced.
    """
    reason = storage.why_no_room(task.tenant)
    if reason and queries.slowest(task) is not None:
        _note(task, kept.trim(before_ms=task.before_ms))
        storage.changed(task.tenant)
        storage.recount(task.tenant, only_changed=True)
        reason = storage.why_no_room(task.tenant)
    return reason


def _note(task: TrackingTask, first: int) -> None:
    """Write down whose events have been removed, as the log begins with this one now."""
    lost = task.groups.exclude(holder="").filter(read_up_to__lt=first - 1, lost_at=None)
    lost.update(lost_at=timezone.now())
