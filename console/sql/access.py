"""The first line of every page of async SQL."""

from __future__ import annotations

from django.http import Http404

from console.accounts import access
from console.sql import queries
from console.sql.models import Bucket, QueryTask
from console.web.http import Request

READ = "dla:QueryTask"


def pages(request: Request) -> None:
    """Let the caller in to the editor and the lists."""
    access.service(request, "dla", READ)


def bucket(request: Request, name: str, action: str, key: str = "") -> Bucket:
    """A bucket of the caller's account on which the action is allowed, for `key` in it; another account's is 404."""
    path = f"{name}/{key.strip('/')}" if key.strip("/") else name
    owner = access.service(request, "oss", action, path)
    found = Bucket.objects.filter(tenant=owner, name=name).first()
    if found is None:
        raise Http404("no such bucket")
    return found


def task(request: Request, task_id: str) -> QueryTask:
    """A task that the caller may see; another user's or another tenant's does not exist."""
    pages(request)
    found = queries.visible_tasks(request.actor).filter(pk=task_id).first()
    if found is None:
        raise Http404("no such task")
    return found
