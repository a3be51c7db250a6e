"""What each account may take of the embedded brokers, and what it takes (docs/limits.md).

The limits are the settings GANTRY_TENANT_… unless the platform's administrator gave an account its own. Topics and
groups are counted here, where they are made; the brokers hold the rest, by the table that `acl.publish` writes.

Key space (Redis database 0), written by the brokers:
  gantry:acl:use  hash  <ID of an account>/<broker> -> JSON: connections, messages_per_second, bytes_per_second,
                        stored_bytes, refused; /<broker> -> epoch ms of that broker's last writing
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import orjson
import redis
from django.conf import settings
from redis.exceptions import RedisError

from console.accounts.models import Tenant, TenantLimits
from console.topics.models import Group, Topic
from console.web.errors import Refused

USE = "gantry:acl:use"
DEFAULTS = "*"
_FRESH_MS = 15_000
"""A broker tells its use every second: what is older is that of one that is gone."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One of the limits. `size` ones are bytes; `live` ones only the brokers know the use of."""

    name: str
    label: str
    unit: str = ""
    size: bool = False
    live: bool = True


KINDS = (
    Kind("connections", "Connections to each broker"),
    Kind("topics", "Topics", live=False),
    Kind("groups", "Groups", live=False),
    Kind("messages_per_second", "Messages sent", "/s"),
    Kind("bytes_per_second", "Bytes sent", "/s", size=True),
    Kind("stored_bytes", "Bytes stored", size=True),
)


@dataclass(frozen=True, slots=True)
class Line:
    """One limit of an account: 0 is none; `used` is None when no broker tells it; `own` when it is not the default."""

    kind: Kind
    limit: int
    own: bool
    used: int | None

    @property
    def percent(self) -> int:
        """How much of it is taken, from 0 to 100."""
        return min(100, 100 * (self.used or 0) // self.limit) if self.limit else 0

    @property
    def colour(self) -> str:
        """As of the brokers' storage: red is nearly all."""
        return "red" if self.percent >= 90 else "yellow" if self.percent >= 75 else "primary"


@dataclass(frozen=True, slots=True)
class Use:
    """What the brokers tell of one account; `refused` counts requests since their start, by reason."""

    values: dict[str, int]
    refused: dict[str, int]

    @property
    def refused_in_words(self) -> dict[str, int]:
        """The most frequent reason first."""
        ordered = sorted(self.refused.items(), key=lambda item: -item[1])
        return {reason.replace("_", " "): count for reason, count in ordered}


def own(tenant: Tenant) -> dict[str, int | None]:
    """The limits that the account has of its own; None is the default."""
    row = TenantLimits.objects.filter(tenant=tenant).first()
    return {kind.name: getattr(row, kind.name) if row else None for kind in KINDS}


def effective(tenant: Tenant) -> dict[str, int]:
    """What the account may take; 0 is no limit."""
    return _effective(own(tenant))


def published() -> dict[str, str]:
    """The rows of the brokers' table: `*`, and every account with limits of its own."""
    rows = {DEFAULTS: settings.TENANT_LIMITS}
    for row in TenantLimits.objects.select_related("tenant"):
        rows[row.tenant.uid] = _effective({kind.name: getattr(row, kind.name) for kind in KINDS})
    return {uid: orjson.dumps(row, option=orjson.OPT_SORT_KEYS).decode() for uid, row in rows.items()}


def lines(tenant: Tenant) -> tuple[list[Line], Use | None]:
    """Every limit with its use, and what the brokers tell; None when none of them tells anything."""
    mine, use = own(tenant), use_of(tenant)
    limits = _effective(mine)
    used: dict[str, int | None] = {kind.name: use.values[kind.name] if use else None for kind in KINDS if kind.live}
    used |= {"topics": _topics(tenant), "groups": _groups(tenant)}
    return [Line(kind, limits[kind.name], mine[kind.name] is not None, used[kind.name]) for kind in KINDS], use


def use_of(tenant: Tenant) -> Use | None:
    """The account's use of all embedded brokers that run; None when none does, or Redis cannot be asked."""
    try:
        table = cast("dict[str, str]", _redis(settings.REDIS_URL).hgetall(USE))
    except RedisError:
        return None
    oldest = time.time() * 1000 - _FRESH_MS
    brokers = [name[1:] for name, told in table.items() if name.startswith("/") and int(told) > oldest]
    if not brokers:
        return None
    rows = [orjson.loads(row) for name in brokers if (row := table.get(f"{tenant.uid}/{name}"))]
    values = {kind.name: sum(row[kind.name] for row in rows) for kind in KINDS if kind.live}
    values["connections"] = max((row["connections"] for row in rows), default=0)  # a client has one to each broker
    refused: dict[str, int] = {}
    for row in rows:
        for reason, count in row["refused"].items():
            refused[reason] = refused.get(reason, 0) + count
    return Use(values, refused)


def check_topics(tenant: Tenant) -> None:
    """Raise Refused when the account may have no further topic; until the transaction ends nobody else makes one."""
    _check(tenant, "topics", "BIZ_TOPIC_QUOTA_EXCEEDED")


def check_groups(tenant: Tenant) -> None:
    """The same for groups, which belong to the account that makes them."""
    _check(tenant, "groups", "BIZ_SUBSCRIPTION_QUOTA_EXCEEDED")


def _check(tenant: Tenant, what: str, symbol: str) -> None:
    limit = effective(tenant)[what]
    if not limit:
        return
    Tenant.objects.select_for_update().get(pk=tenant.pk)
    if (_topics if what == "topics" else _groups)(tenant) >= limit:
        raise Refused(symbol, f"{tenant.name} may have {limit} {what}; the platform's administrator sets this limit.")


def _topics(tenant: Tenant) -> int:
    return Topic.objects.filter(instance__tenant=tenant).count()


def _groups(tenant: Tenant) -> int:
    return Group.objects.filter(owner=tenant).count()


def _effective(mine: dict[str, int | None]) -> dict[str, int]:
    defaults: dict[str, Any] = settings.TENANT_LIMITS
    return {name: defaults[name] if value is None else value for name, value in mine.items()}


@lru_cache(maxsize=2)
def _redis(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, db=0, socket_timeout=5, decode_responses=True)
