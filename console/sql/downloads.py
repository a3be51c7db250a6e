"""Addresses of result files that need no signature, for a short time: what a program hands to its downloader."""

from __future__ import annotations

from django.core import signing
from django.urls import reverse

from console.sql.models import QueryTask

#: How long an address can be used; a download that has begun goes on.
VALID_SECONDS = 300
_SALT = "sql.download"


def path_of(task: QueryTask) -> str:
    """The path on this server at which the result of the task can be read."""
    return reverse("sql.fetch", args=[signing.dumps(task.pk, salt=_SALT)])


def task_of(token: str) -> QueryTask | None:
    """The task of an address; None when the address was made up, is too old, or the task is gone."""
    try:
        task_id = signing.loads(token, salt=_SALT, max_age=VALID_SECONDS)
    except signing.BadSignature:
        return None
    return QueryTask.objects.filter(pk=task_id, tenant__enabled=True).first()
