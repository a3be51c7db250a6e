"""The first line of every page of async SQL."""

from __future__ import annotations

from django.http import Http404

from analytics import run as engine
from console.accounts import access
from console.sql import queries
from console.sql.ddl import locations
from console.sql.models import Bucket, QueryTask
from console.web.http import Request

READ = "dla:QueryTask"


def pages(request: Request) -> None:
    """Let the caller in to the editor and the lists."""
    access.service(request, "dla", READ)


def bucket(request: Request, name: str, action: str) -> Bucket:
    """A bucket of the caller's account on which the action is allowed; another account's is 404."""
    return place(request, name, action, "")[0]


def place(request: Request, name: str, action: str, key: str) -> tuple[Bucket, engine.Place]:
    """The bucket, and the file or folder `key` in it, on which the action is allowed: what the view then opens.

    What is no place, and what lies in another account's bucket, is 404.
    """
    try:
        wanted = engine.parse_location(f"oss://{name}/{key}")
    except engine.LakeError as error:
        raise Http404(error.user_message) from error
    locations.require_place(request.actor, action, wanted)
    found = Bucket.objects.filter(tenant=request.actor.tenant, name=wanted.bucket).first()
    if found is None:
        raise Http404("no such bucket")
    return found, wanted


def task(request: Request, task_id: str) -> QueryTask:
    """A task that the caller may see; another user's or another tenant's does not exist."""
    pages(request)
    found = queries.visible_tasks(request.actor).filter(pk=task_id).first()
    if found is None:
        raise Http404("no such task")
    return found
