"""Reads of change tracking tasks. The account comes first; what is being deleted is there for nobody."""

from __future__ import annotations

import json
from dataclasses import dataclass

from django.db.models import Q, QuerySet

from analytics.errors import AnalyticsError
from analytics.inflow.event_reader import Reader
from console.accounts.models import Tenant
from console.tracking.models import ConsumerGroup, State, TrackingTask

EVENTS_SHOWN = 20
"""Events of a log that are shown at most."""
#: Bytes of them.
_BYTES_SHOWN = 256 * 1024
#: Old events go by whole files, and by looks from time to time: so much older ones tell nothing yet.
_LATE_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class ShownEvent:
    """An event of a log: its number, what it says in short, and all of it as JSON."""

    sequence: int
    time_ms: int
    position: str
    operation: str
    table: str
    text: str


def tasks(tenant: Tenant, text: str = "") -> QuerySet[TrackingTask]:
    """The account's tasks whose name or ID has `text` in it, in any case."""
    found = TrackingTask.objects.filter(tenant=tenant).exclude(state=State.DELETING).select_related("tenant")
    return found.filter(Q(name__icontains=text) | Q(task_id__icontains=text)) if text else found


def task(tenant: Tenant, task_id: str) -> TrackingTask | None:
    """The task of an ID."""
    return tasks(tenant).filter(task_id=task_id).first()


def groups(task: TrackingTask) -> QuerySet[ConsumerGroup]:
    """Its consumer groups by name."""
    return task.groups.all()


def group(task: TrackingTask, name: str) -> ConsumerGroup | None:
    """The consumer group of a name."""
    return task.groups.filter(name=name).first()


def slowest(task: TrackingTask) -> ConsumerGroup | None:
    """That one of the groups that are read by which has the most still to read; one that never read has nothing."""
    return task.groups.exclude(holder="").filter(read_up_to__isnull=False).order_by("read_up_to").first()


def kept_for(task: TrackingTask) -> ConsumerGroup | None:
    """The group for whose reader events are kept for longer than the task says; None where that is not so."""
    if task.first_ms is None or task.first_ms >= task.before_ms - _LATE_MS:
        return None
    found = slowest(task)
    return found if found is not None and (found.read_up_to or 0) < task.events else None


def held(tenant: Tenant, holder: str) -> QuerySet[ConsumerGroup]:
    """The consumer groups that a client has."""
    return ConsumerGroup.objects.filter(task__tenant=tenant, holder=holder)


def used(tenant: Tenant) -> int:
    """How many tasks the account has; what is being deleted counts until it is gone."""
    return TrackingTask.objects.filter(tenant=tenant).count()


def recent(task: TrackingTask, most: int = EVENTS_SHOWN) -> list[ShownEvent]:
    """The newest events first. Raises AnalyticsError."""
    try:
        with Reader(task.folder) as reader:
            entries = reader.tail(most, _BYTES_SHOWN)
    except OSError as error:
        raise AnalyticsError(f"The log of {task.name} cannot be read: {error.strerror or error}.") from error
    found = []
    for entry in reversed(entries):
        event = json.loads(entry.event)
        operation, text = event["data"]["operation"], json.dumps(event, indent=2, ensure_ascii=False)
        found.append(
            ShownEvent(entry.sequence, entry.time_ms, entry.position, operation, event.get("subject", ""), text)
        )
    return found
