"""The list of unowned names as the page shows it. Of a cluster with many names it is kept for a short while.

Key space (Django's cache, in Redis):
  adoption:names:<cluster's primary key>   the names, when they were asked, and what the database had then
  adoption:looked:<cluster's primary key>   somebody has looked lately, so that workers ask anew by themselves
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from django.core.cache import cache
from django.db.models import Count, Max, Model, QuerySet
from django.utils import timezone

from console.adoption.models import Forgotten, Kind
from console.adoption.unowned import Unowned, unowned
from console.instances.models import Cluster, Instance
from console.topics.models import Group, Topic

MANY = 2_000
"""So many names are asked anew for each page; of more, which brokers take seconds to tell, the list is kept."""

KEPT_S = 120
LOOKED_S = 900
Kept = str
"""Thousands of texts are read in a moment; objects are not."""

_SEPARATOR = "\x1f"
_KINDS = {kind.value: kind for kind in Kind}


@dataclass(frozen=True)
class Listing:
    """The names as they were at a time, each as it is kept: see `unowned_of`."""

    names: list[Kept]
    at: datetime


def listed(cluster: Cluster) -> Listing:
    """What no account has, at most KEPT_S old, and as the database is now. Raises ClientError for an outage."""
    kept: dict[str, Any] | None = cache.get(_key(cluster))
    if kept is None or kept["database"] != _database(cluster):
        return ask(cluster)
    cache.set(_looked(cluster), 1, timeout=LOOKED_S)
    return Listing(orjson.loads(kept["names"]), kept["at"])


def ask(cluster: Cluster) -> Listing:
    """Ask the brokers, and keep what they say if it is much. Raises ClientError for an outage."""
    database, at = _database(cluster), timezone.now()
    names = [
        _SEPARATOR.join((one.kind, one.name, one.refusal, "1"[: one.forgotten], one.differing))
        for one in unowned(cluster)
    ]
    if len(names) > MANY:
        kept = {"names": orjson.dumps(names), "at": at, "database": database}
        cache.set(_key(cluster), kept, timeout=KEPT_S)
        cache.add(_looked(cluster), 1, timeout=LOOKED_S)
    else:
        cache.delete(_key(cluster))
    return Listing(names, at)


def unowned_of(kept: Kept) -> Unowned:
    """The name that was kept."""
    kind, name, refusal, forgotten, differing = kept.split(_SEPARATOR)
    return Unowned(_KINDS[kind], name, refusal, bool(forgotten), differing)


def is_looked_at(cluster: Cluster) -> bool:
    """Whether somebody has looked at a list that is kept."""
    return bool(cache.get(_looked(cluster)))


def _database(cluster: Cluster) -> list[tuple[int, int | None]]:
    """Changes with all that makes a name somebody's, or nobody's."""
    tables: tuple[QuerySet[Any], ...] = (
        Topic.objects.all(),
        Group.objects.all(),
        Instance.objects.filter(independent_naming=True),
        Forgotten.objects.filter(cluster=cluster),
    )
    return [_state(rows) for rows in tables]


def _state(rows: QuerySet[Model]) -> tuple[int, int | None]:
    found = rows.order_by().aggregate(number=Count("pk"), last=Max("pk"))
    return found["number"], found["last"]


def _key(cluster: Cluster) -> str:
    return f"adoption:names:{cluster.pk}"


def _looked(cluster: Cluster) -> str:
    return f"adoption:looked:{cluster.pk}"
