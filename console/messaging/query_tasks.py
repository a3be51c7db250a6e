"""Query tasks: a time search that is read page by page.

A task lives ten minutes after its last use and is bound to the caller and the topic. The filter and page size of the
first call hold for the later ones (docs/messages.md, vendor operations getByPagedTopic and getByPagedDLQ).
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from typing import Any

from django.core.cache import cache

from console.accounts.actor import Actor
from console.messaging import scan
from console.web.errors import Refused

LIFETIME_SECONDS = 600
MAX_PAGES = 50
MIN_PAGE_SIZE, MAX_PAGE_SIZE = 5, 50
DEFAULT_PAGE_SIZE = 20


@dataclass
class QueryTask:
    """The state of one search. `starts[n]` are the cursors at the beginning of page n + 1."""

    task_id: str
    owner: str
    physical_topic: str
    begin_ms: int
    end_ms: int
    page_size: int
    newest_first: bool
    tag: str
    total: int
    starts: list[list[dict[str, Any]]]

    @property
    def max_page_count(self) -> int:
        """Pages that can be reached. With a tag they are not known before everything is read."""
        return min(MAX_PAGES, math.ceil(self.total / self.page_size))


def create(
    actor: Actor,
    physical_topic: str,
    cursors: list[scan.Cursor],
    *,
    begin_ms: int,
    end_ms: int,
    page_size: int,
    newest_first: bool,
    tag: str,
) -> QueryTask:
    """A new task at its first page."""
    return QueryTask(
        task_id=secrets.token_urlsafe(12),
        owner=_owner(actor),
        physical_topic=physical_topic,
        begin_ms=begin_ms,
        end_ms=end_ms,
        page_size=page_size,
        newest_first=newest_first,
        tag=tag,
        total=sum(c.end - c.begin for c in cursors),
        starts=[scan.dump(cursors)],
    )


def save(task: QueryTask) -> None:
    """Keep the task for another ten minutes."""
    cache.set(_key(task.task_id), vars(task), LIFETIME_SECONDS)


def load(actor: Actor, physical_topic: str, task_id: str) -> QueryTask:
    """The caller's task. Raises Refused when it is unknown, expired, of someone else or of another topic."""
    values = cache.get(_key(task_id)) if task_id.isascii() and len(task_id) <= 64 else None
    if values is None or values["owner"] != _owner(actor) or values["physical_topic"] != physical_topic:
        raise Refused("BIZ_TASK_NOT_FOUND", "This search has expired; please search again.", "task_id")
    return QueryTask(**values)


def _owner(actor: Actor) -> str:
    return actor.name


def _key(task_id: str) -> str:
    return f"messaging:task:{task_id}"
