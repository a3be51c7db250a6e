"""Reads of tasks for the pages and the JSON API: lists with filters, and the place in the queue."""

from __future__ import annotations

from django.db.models import QuerySet

from console.accounts.actor import Actor
from console.sql import queries
from console.sql.models import QueryTask, TaskStatus

#: The states that a list can be narrowed to, as they are shown: waiting tasks are among the running ones.
STATUSES = (TaskStatus.RUNNING, TaskStatus.SUCCESS, TaskStatus.FAILURE, TaskStatus.CANCELLED)


def search(actor: Actor, text: str = "", status: str = "") -> QuerySet[QueryTask]:
    """The tasks that the actor may see, latest first; `text` is part of the statement or the beginning of the id."""
    found = queries.visible_tasks(actor)
    if text:
        found = found.filter(command__icontains=text) | found.filter(pk__startswith=text)
    if status == TaskStatus.RUNNING:
        return found.filter(status__in=(TaskStatus.QUEUED, TaskStatus.RUNNING))
    return found.filter(status=status) if status in TaskStatus.values else found


def mine(actor: Actor, text: str = "", status: str = "") -> QuerySet[QueryTask]:
    """As `search`, the actor's own only: the history that the editor shows."""
    found = search(actor, text, status)
    return found.filter(creator=actor.user) if actor.user else found.filter(role=actor.role)


def waiting_before(task: QueryTask) -> int | None:
    """How many statements of the account wait in front of this one; None when it does not wait."""
    if task.status != TaskStatus.QUEUED:
        return None
    waiting = QueryTask.objects.filter(tenant=task.tenant, status=TaskStatus.QUEUED)
    return waiting.filter(create_time__lt=task.create_time).count()
