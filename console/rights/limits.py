"""What each account may take of the brokers, the lake and the console, and what it takes (docs/operate/limits.md).

The limits are the settings GANTRY_TENANT_… unless the platform's administrator gave an account its own. Topics and
groups are counted here, where they are made; `console.catalog.storage` holds what is stored in the lake, and
`console.statements.parsers` the time of reading statements; the brokers hold the rest, by the table that
`access_table.publish` writes.

What brokers take is told as brokercore.policy.table says. Key space (Redis database 0), written by the console:
  gantry:sql:use  hash  the same of the MySQL endpoints, with the count of connections alone
  gantry:sql:parsing:<ID of an account>:<minute>  float  seconds that its statements were read for, kept for two minutes
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from django.conf import settings
from redis.exceptions import RedisError

from brokercore.policy.table import DEFAULTS, RATES_USED, USE, LimitRow, RateUse, UseRow, use_field
from brokercore.smq.storage import keys as smq_keys
from console.accounts.models import Tenant, TenantLimits
from console.rights.resources import resources
from console.web.errors import Refused
from console.web.languages import gettext_lazy
from console.web.provided import Provided
from console.web.redis import connection

SQL_USE, PARSING = "gantry:sql:use", "gantry:sql:parsing"
_FRESH_MS = 15_000
"""A broker tells its use every second: what is older is that of one that is gone."""
_LARGEST_MESSAGE = 64 << 10
"""Bytes of a body in the queue service."""


#: `lake_bytes` and `result_bytes` of an account, as who refuses more counts them; None before they were counted first.
stored = Provided[Callable[[Tenant], Mapping[str, int | None]]](f"{__name__}.stored", "console.catalog")
#: `jobs` and `running_jobs` of an account.
jobs = Provided[Callable[[Tenant], Mapping[str, int]]](f"{__name__}.jobs", "console.pipelines")
#: Change tracking tasks of an account.
tracking_tasks = Provided[Callable[[Tenant], int]](f"{__name__}.tracking_tasks", "console.tracking")


@dataclass(frozen=True, slots=True)
class Kind:
    """One of the limits. `size` ones are bytes; `live` ones only the brokers know the use of."""

    name: str
    label: str
    unit: str = ""
    size: bool = False
    live: bool = True


KINDS = (
    Kind("connections", gettext_lazy("Connections to each broker")),
    Kind("topics", gettext_lazy("Topics"), live=False),
    Kind("groups", gettext_lazy("Groups"), live=False),
    Kind("queues", gettext_lazy("Queues at each broker")),
    Kind("messages_per_second", gettext_lazy("Messages sent"), "/s"),
    Kind("bytes_per_second", gettext_lazy("Bytes sent"), "/s", size=True),
    Kind("stored_bytes", gettext_lazy("Bytes stored"), size=True),
    Kind("sql_connections", gettext_lazy("Connections to each MySQL endpoint"), live=False),
    Kind("lake_bytes", gettext_lazy("Bytes in the lake"), size=True, live=False),
    Kind("result_bytes", gettext_lazy("Bytes of results"), size=True, live=False),
    Kind("parsing_seconds", gettext_lazy("Seconds of reading statements"), "/min", live=False),
    Kind("smq_queues", gettext_lazy("SMQ queues"), live=False),
    Kind("smq_messages", gettext_lazy("Messages in SMQ queues"), live=False),
    Kind("smq_bytes", gettext_lazy("Bytes in SMQ queues"), size=True, live=False),
    Kind("smq_calls_per_second", gettext_lazy("SMQ calls to each process"), "/s", live=False),
    Kind("smq_waiting", gettext_lazy("SMQ receives that wait at each process"), live=False),
    Kind("jobs", gettext_lazy("SQL jobs"), live=False),
    Kind("running_jobs", gettext_lazy("SQL jobs that run"), live=False),
    Kind("tracking_tasks", gettext_lazy("Change tracking tasks"), live=False),
)


@dataclass(frozen=True, slots=True)
class Line:
    """One limit of an account: 0 is none; `used` is None when no broker tells it; `own` when it is not the default."""

    kind: Kind
    limit: int
    own: bool
    used: int | None

    @property
    def share(self) -> float:
        """How much of it is taken, from 0; 0 where there is no limit."""
        return (self.used or 0) / self.limit if self.limit else 0.0

    @property
    def percent(self) -> int:
        """How much of it is taken, from 0 to 100."""
        return min(100, int(100 * self.share))

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


def of_accounts(kind: str) -> Callable[[Tenant], int]:
    """One limit of any account, with one look at all of them."""
    given = TenantLimits.objects.exclude(**{kind: None}).values_list("tenant", kind)
    own_ones, default = dict(given), int(settings.TENANT_LIMITS[kind])
    return lambda tenant: own_ones.get(tenant.pk, default)


def published() -> dict[str, str]:
    """The rows of the brokers' table: `*`, and every account with limits of its own."""
    rows = {DEFAULTS: settings.TENANT_LIMITS}
    for row in TenantLimits.objects.select_related("tenant"):
        rows[row.tenant.uid] = _effective({kind.name: getattr(row, kind.name) for kind in KINDS})
    return {uid: LimitRow(**row).encode() for uid, row in rows.items()}


def lines(tenant: Tenant) -> tuple[list[Line], Use | None]:
    """Every limit with its use, and what the brokers tell; None when none of them tells anything."""
    mine, use = own(tenant), use_of(tenant)
    limits = _effective(mine)
    used: dict[str, int | None] = {kind.name: use.values[kind.name] if use else None for kind in KINDS if kind.live}
    used |= {
        "topics": _count(tenant, "topics"),
        "groups": _count(tenant, "groups"),
        "sql_connections": _sql_connections(tenant),
    }
    used |= stored.get()(tenant)
    used |= jobs.get()(tenant)
    used["tracking_tasks"] = tracking_tasks.get()(tenant)
    used["parsing_seconds"] = _parsing_seconds(tenant)
    used |= _smq(tenant)
    return [Line(kind, limits[kind.name], mine[kind.name] is not None, used[kind.name]) for kind in KINDS], use


def use_of(tenant: Tenant) -> Use | None:
    """The account's use of all embedded brokers that run; None when none does, or Redis cannot be asked."""
    table, brokers = _told(USE)
    if not brokers:
        return None
    return _use([UseRow.decode(told) for name in brokers if (told := table.get(use_field(tenant.uid, name)))])


def uses() -> dict[str, Use] | None:
    """The same of every account by its ID, read at once; None where nothing is told."""
    table, brokers = _told(USE)
    rows: dict[str, list[UseRow]] = {}
    for field, told in table.items():
        uid, _, name = field.partition("/")
        if uid and name in brokers:
            rows.setdefault(uid, []).append(UseRow.decode(told))
    return {uid: _use(of) for uid, of in rows.items()} if brokers else None


def _use(rows: list[UseRow]) -> Use:
    values = {kind.name: sum(getattr(row, kind.name) for row in rows) for kind in KINDS if kind.live}
    for name in ("connections", "queues"):  # a client has one to each broker, a topic its queues at each
        values[name] = max((getattr(row, name) for row in rows), default=0)
    refused: dict[str, int] = {}
    for row in rows:
        for reason, count in row.refused.items():
            refused[reason] = refused.get(reason, 0) + count
    return Use(values, refused)


def rates_of(instance_id: str) -> RateUse | None:
    """What all embedded brokers that run do for the clients of an instance; None when none does, or Redis is away."""
    brokers = _told(USE)[1]
    if not brokers:
        return None
    try:
        found = cast("list[str | None]", connection().hmget(RATES_USED, [use_field(instance_id, b) for b in brokers]))
    except RedisError:
        return None
    rows = [RateUse.decode(row) for row in found if row]
    return RateUse(*(sum(getattr(row, name) for row in rows) for name in ("sent", "received", "held_back")))


def held_back() -> dict[str, int] | None:
    """How often clients of each instance had to wait or were refused since the brokers that run were started.

    None where nothing is told.
    """
    brokers = _told(USE)[1]
    if not brokers:
        return None
    try:
        table = cast("dict[str, str]", connection().hgetall(RATES_USED))
    except RedisError:
        return None
    found: dict[str, int] = {}
    for field, told in table.items():
        instance_id, _, name = field.partition("/")
        if name in brokers:
            found[instance_id] = found.get(instance_id, 0) + RateUse.decode(told).held_back
    return found


def tell_sql_connections(endpoint: str, used: Mapping[str, int]) -> None:
    """Write down what each account has open at a MySQL endpoint. Raises RedisError."""
    redis_ = connection()
    before = [name for name in cast("list[str]", redis_.hkeys(SQL_USE)) if name.endswith(f"/{endpoint}")]
    with redis_.pipeline() as pipeline:
        if before:
            pipeline.hdel(SQL_USE, *before)
        rows: dict[str, int] = {use_field(uid, endpoint): count for uid, count in used.items()}
        pipeline.hset(SQL_USE, mapping=rows | {use_field("", endpoint): int(time.time() * 1000)})  # type: ignore[arg-type]
        pipeline.execute()


def open_sql_connections() -> int:
    """Connections that are signed in at all MySQL endpoints together; 0 when Redis cannot be asked."""
    table, endpoints = _told(SQL_USE)
    return sum(int(count) for name, count in table.items() if name.partition("/")[2] in endpoints and name[0] != "/")


def add_parsing_seconds(uid: str, seconds: float) -> float:
    """Count time for which statements of an account were read; returns that of this minute. Raises RedisError."""
    key = _parsing_key(uid)
    with connection().pipeline() as pipeline:
        pipeline.incrbyfloat(key, seconds)
        pipeline.expire(key, 120)
        return float(pipeline.execute()[0])


def _parsing_seconds(tenant: Tenant) -> int | None:
    """Of this minute; None when Redis cannot be asked."""
    try:
        return int(float(cast("str | None", connection().get(_parsing_key(tenant.uid))) or 0))
    except RedisError:
        return None


def _smq(tenant: Tenant) -> dict[str, int | None]:
    """What the account's queues are and hold; calls and waiting receives are not told. None: Redis cannot be asked."""
    used: dict[str, int | None] = {kind.name: None for kind in KINDS if kind.name.startswith("smq_")}
    try:
        held = cast("list[str | None]", connection().hmget(smq_keys.held(tenant.uid), ["messages", "bytes"]))
        queues = connection().zcard(smq_keys.names(tenant.uid))
    except RedisError:
        return used
    return used | {"smq_queues": queues, "smq_messages": int(held[0] or 0), "smq_bytes": int(held[1] or 0)}


@dataclass(frozen=True, slots=True)
class QueuesHeld:
    """What the messages of all accounts' queues take of Redis, bytes, about, and may take (0: any number)."""

    messages: int
    bytes: int
    most_bytes: int

    @property
    def is_full(self) -> bool:
        """Whether there is hardly room for one message more."""
        return 0 < self.most_bytes <= self.bytes + _LARGEST_MESSAGE


def queues_held() -> QueuesHeld | None:
    """As the queue service counts them; None: Redis cannot be asked."""
    try:
        found = cast("list[str | None]", connection().hmget(smq_keys.ALL_HELD, ["messages", "bytes", "most"]))
    except RedisError:
        return None
    messages, size, most = (int(value or 0) for value in found)
    return QueuesHeld(messages, size + messages * smq_keys.PLACES_BYTES, most)


def _parsing_key(uid: str) -> str:
    return f"{PARSING}:{uid}:{int(time.time() // 60)}"


def held(tenant: Tenant | None, what: str) -> tuple[int, int]:
    """What an account may have of topics or groups (0 is no limit), and has; None stands for a new account."""
    if tenant is None:
        return int(settings.TENANT_LIMITS[what]), 0
    return effective(tenant)[what], _count(tenant, what)


def check_topics(tenant: Tenant) -> None:
    """Raise Refused when the account may have no further topic; until the transaction ends nobody else makes one."""
    _check(tenant, "topics", "BIZ_TOPIC_QUOTA_EXCEEDED")


def check_groups(tenant: Tenant) -> None:
    """The same for groups, which belong to the account that makes them."""
    _check(tenant, "groups", "BIZ_SUBSCRIPTION_QUOTA_EXCEEDED")


def check_jobs(tenant: Tenant) -> None:
    """The same for SQL jobs."""
    _check(tenant, "jobs", "JOB_LIMIT")


def check_running_jobs(tenant: Tenant) -> None:
    """The same for those that run, or wait for a worker."""
    _check(tenant, "running_jobs", "RUNNING_JOB_LIMIT")


def check_tracking_tasks(tenant: Tenant) -> None:
    """The same for change tracking tasks."""
    _check(tenant, "tracking_tasks", "TRACKING_TASK_LIMIT")


#: What is said where a limit is reached.
_REACHED = {
    "topics": gettext_lazy("%(tenant)s may have %(limit)s topics; the platform's administrator sets this limit."),
    "groups": gettext_lazy("%(tenant)s may have %(limit)s groups; the platform's administrator sets this limit."),
    "jobs": gettext_lazy("%(tenant)s may have %(limit)s jobs; the platform's administrator sets this limit."),
    "running_jobs": gettext_lazy(
        "%(tenant)s may have %(limit)s running jobs; the platform's administrator sets this limit."
    ),
    "tracking_tasks": gettext_lazy(
        "%(tenant)s may have %(limit)s tracking tasks; the platform's administrator sets this limit."
    ),
}


def _check(tenant: Tenant, what: str, symbol: str) -> None:
    limit = effective(tenant)[what]
    if not limit:
        return
    Tenant.objects.select_for_update().get(pk=tenant.pk)
    if _count(tenant, what) >= limit:
        raise Refused(symbol, _REACHED[what] % {"tenant": tenant.name, "limit": limit})


def _sql_connections(tenant: Tenant) -> int | None:
    """The most that any endpoint that runs has; None when none does, or Redis cannot be asked."""
    table, endpoints = _told(SQL_USE)
    return max((int(table.get(use_field(tenant.uid, endpoint), 0)) for endpoint in endpoints), default=None)


def _told(key: str) -> tuple[dict[str, str], list[str]]:
    """A table of use, and who of those that write it still does; nobody when Redis cannot be asked."""
    try:
        table = cast("dict[str, str]", connection().hgetall(key))
    except RedisError:
        return {}, []
    oldest = time.time() * 1000 - _FRESH_MS
    return table, [name[1:] for name, told in table.items() if name.startswith("/") and int(told) > oldest]


def _count(tenant: Tenant, what: str) -> int:
    if what.endswith("jobs"):
        return jobs.get()(tenant)[what]
    if what == "tracking_tasks":
        return tracking_tasks.get()(tenant)
    found = resources.get()
    return found.topics_of(tenant) if what == "topics" else found.groups_of(tenant)


def _effective(mine: dict[str, int | None]) -> dict[str, int]:
    defaults: dict[str, Any] = settings.TENANT_LIMITS
    return {name: defaults[name] if value is None else value for name, value in mine.items()}
