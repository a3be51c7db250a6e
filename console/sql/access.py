"""The first line of every page of async SQL."""

from __future__ import annotations

from django.http import Http404

from console.accounts.http import Request
from console.catalog.access import pages
from console.sql import queries
from console.sql.models import QueryTask


def task(request: Request, task_id: str) -> QueryTask:
    """A task that the caller may see; another user's or another tenant's does not exist."""
    pages(request)
    found = queries.visible_tasks(request.actor).filter(pk=task_id).first()
    if found is None:
        raise Http404("no such task")
    return found
