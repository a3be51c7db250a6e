"""What each account may take of the brokers, the lake and the console, and what it takes (docs/limits.md).

The limits are the settings GANTRY_TENANT_… unless the platform's administrator gave an account its own. Topics and
groups are counted here, where they are made; `console.sql.storage` holds what is stored in the lake, and
`console.sql.parsers` the time of reading statements; the brokers hold the rest, by the table that `acl.publish` writes.

Key space (Redis database 0), written by the brokers:
  gantry:acl:use  hash  <ID of an account>/<broker> -> JSON: connections, queues, messages_per_second,
                        bytes_per_second, stored_bytes, refused; /<broker> -> epoch ms of that broker's last writing
  gantry:sql:use  hash  the same of the MySQL doors, with the count of connections alone
  gantry:sql:parsing:<ID of an account>:<minute>  float  seconds that its statements were read for, kept for two minutes
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import orjson
import redis
from django.conf import settings
from redis.exceptions import RedisError

from console.accounts.models import Tenant, TenantLimits, TenantUse
from console.topics.models import Group, Topic
from console.web.errors import Refused

USE, SQL_USE, PARSING = "gantry:acl:use", "gantry:sql:use", "gantry:sql:parsing"
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
    Kind("queues", "Queues at each broker"),
    Kind("messages_per_second", "Messages sent", "/s"),
    Kind("bytes_per_second", "Bytes sent", "/s", size=True),
    Kind("stored_bytes", "Bytes stored", size=True),
    Kind("sql_connections", "Connections to each MySQL door", live=False),
    Kind("lake_bytes", "Bytes in the lake", size=True, live=False),
    Kind("result_bytes", "Bytes of results", size=True, live=False),
    Kind("parsing_seconds", "Seconds of reading statements", "/min", live=False),
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


def of_account(uid: str, kind: str) -> int:
    """One limit of the account with that ID."""
    own_ones = TenantLimits.objects.filter(tenant__uid=uid).values_list(kind, flat=True).first()
    return int(settings.TENANT_LIMITS[kind]) if own_ones is None else own_ones


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
    used |= {"topics": _topics(tenant), "groups": _groups(tenant), "sql_connections": _sql_connections(tenant)}
    stored = TenantUse.objects.filter(tenant=tenant).first()
    used |= {name: max(0, getattr(stored, name)) if stored else None for name in ("lake_bytes", "result_bytes")}
    used["parsing_seconds"] = _parsing_seconds(tenant)
    return [Line(kind, limits[kind.name], mine[kind.name] is not None, used[kind.name]) for kind in KINDS], use


def use_of(tenant: Tenant) -> Use | None:
    """The account's use of all embedded brokers that run; None when none does, or Redis cannot be asked."""
    table, brokers = _told(USE)
    if not brokers:
        return None
    rows = [orjson.loads(row) for name in brokers if (row := table.get(f"{tenant.uid}/{name}"))]
    values = {kind.name: sum(row.get(kind.name, 0) for row in rows) for kind in KINDS if kind.live}
    for name in ("connections", "queues"):  # a client has one to each broker, a topic its queues at each
        values[name] = max((row.get(name, 0) for row in rows), default=0)
    refused: dict[str, int] = {}
    for row in rows:
        for reason, count in row["refused"].items():
            refused[reason] = refused.get(reason, 0) + count
    return Use(values, refused)


def tell_sql_connections(door: str, used: Mapping[str, int]) -> None:
    """Write down what each account has open at a MySQL door. Raises RedisError."""
    redis_ = _redis(settings.REDIS_URL)
    before = [name for name in cast("list[str]", redis_.hkeys(SQL_USE)) if name.endswith(f"/{door}")]
    with redis_.pipeline() as pipeline:
        if before:
            pipeline.hdel(SQL_USE, *before)
        rows: dict[str, int] = {f"{uid}/{door}": count for uid, count in used.items()}
        pipeline.hset(SQL_USE, mapping=rows | {f"/{door}": int(time.time() * 1000)})  # type: ignore[arg-type]
        pipeline.execute()


def add_parsing_seconds(uid: str, seconds: float) -> float:
    """Count time for which statements of an account were read; returns that of this minute. Raises RedisError."""
    key = _parsing_key(uid)
    with _redis(settings.REDIS_URL).pipeline() as pipeline:
        pipeline.incrbyfloat(key, seconds)
        pipeline.expire(key, 120)
        return float(pipeline.execute()[0])


def _parsing_seconds(tenant: Tenant) -> int | None:
    """Of this minute; None when Redis cannot be asked."""
    try:
        return int(float(cast("str | None", _redis(settings.REDIS_URL).get(_parsing_key(tenant.uid))) or 0))
    except RedisError:
        return None


def _parsing_key(uid: str) -> str:
    return f"{PARSING}:{uid}:{int(time.time() // 60)}"


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


def _sql_connections(tenant: Tenant) -> int | None:
    """The most that any door that runs has; None when none does, or Redis cannot be asked."""
    table, doors = _told(SQL_USE)
    return max((int(table.get(f"{tenant.uid}/{door}", 0)) for door in doors), default=None)


def _told(key: str) -> tuple[dict[str, str], list[str]]:
    """A table of use, and who of those that write it still does; nobody when Redis cannot be asked."""
    try:
        table = cast("dict[str, str]", _redis(settings.REDIS_URL).hgetall(key))
    except RedisError:
        return {}, []
    oldest = time.time() * 1000 - _FRESH_MS
    return table, [name[1:] for name, told in table.items() if name.startswith("/") and int(told) > oldest]


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
