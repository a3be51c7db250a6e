"""The table that embedded brokers decide by, and what they tell of it: keys in Redis, and how rows are written.

The console compiles the table and publishes it; brokers read it, and write down what was used, taken and refused.
Key space (Redis database 0):
  gantry:acl:version  string  grows with each change; the broker reloads when it does
  gantry:acl:keys     hash    AccessKey ID -> KeyRow
  gantry:acl:holders  hash    physical name of a group -> who may use it (`Grantee.holders`)
  gantry:acl:owners   hash    topic of a default instance (its name tells no account) -> ID of the account
  gantry:acl:limits   hash    ID of an account, or * for all others -> LimitRow
  gantry:acl:rates    hash    ID of an instance, or of an account for its instance without namespace -> RateRow
  gantry:acl:rates_used hash  <ID of an instance>/<broker> -> RateUse
  gantry:acl:wanted   list    Wanted, the newest first: bare names that clients want to make; the console takes them
  gantry:acl:answer:<number>  string  Answer to one of these, for half a minute
  gantry:acl:use      hash    <ID of an account>/<broker> -> UseRow; /<broker> -> epoch ms of that broker's last writing
  gantry:acl:used     hash    AccessKey ID -> Used
  gantry:acl:refused  stream  field r -> Refused
  gantry:acl:changed  stream  field c -> Changed
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import orjson

VERSION = "gantry:acl:version"
KEYS = "gantry:acl:keys"
HOLDERS = "gantry:acl:holders"
OWNERS = "gantry:acl:owners"
LIMITS = "gantry:acl:limits"
RATES = "gantry:acl:rates"
RATES_USED = "gantry:acl:rates_used"
WANTED = "gantry:acl:wanted"
ANSWER = "gantry:acl:answer"
USE = "gantry:acl:use"
USED = "gantry:acl:used"
REFUSED = "gantry:acl:refused"
CHANGED = "gantry:acl:changed"

DEFAULTS = "*"
"""The account under which the limits of those stand that have none of their own."""

REFUSED_FIELD = "r"
CHANGED_FIELD = "c"

_DIVIDED = ("messages_per_second", "bytes_per_second", "stored_bytes")
"""Limits of which each broker of a cluster has its part."""

_OF_OTHERS = dict.fromkeys(
    (
        "sql_connections", "lake_bytes", "result_bytes", "parsing_seconds",
        "smq_queues", "smq_messages", "smq_bytes", "smq_calls_per_second", "smq_waiting", "jobs", "running_jobs",
        "tracking_tasks",
    ),
    0,
)  # fmt: skip
"""Limits that no broker counts, but the console or the queue service."""


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One AccessKey: its secret (encrypted), whom it stands for, and the statements that say what it may do.

    `boundary` are the resources of the account, outside of which only `grants` (to the user) and `delegated` ones (to
    the account) count; topics without a namespace, of which there may be thousands, stand in `gantry:acl:owners`, once
    for all keys. `token` and `expires_ms` (epoch ms) are those of a temporary key.
    """

    secret: str
    tenant: str = ""
    region: str = ""
    principal: str = ""
    is_account: bool = False
    token: str | None = None
    expires_ms: int | None = None
    boundary: Sequence[str] = ()
    statements: Sequence[Mapping[str, Any]] = ()
    grants: Sequence[Mapping[str, Any]] = ()
    delegated: Sequence[Mapping[str, Any]] = ()

    def values(self) -> dict[str, Any]:
        """The fields by their names."""
        return _values(self)

    def encode(self) -> str:
        """The row as it is published: the same fields are always the same text, by which brokers know what changed."""
        return _sorted(self)

    @classmethod
    def decode(cls, data: bytes | str) -> KeyRow:
        """Read a row; its statements are not looked into. Raises ValueError, KeyError, TypeError and AttributeError."""
        row = orjson.loads(data)
        return cls(
            secret=row["secret"],
            tenant=str(row.get("tenant") or ""),
            region=str(row.get("region") or ""),
            principal=str(row.get("principal") or ""),
            is_account=row.get("is_account") is True,
            token=row.get("token") or None,
            expires_ms=row.get("expires_ms"),
            boundary=tuple(row.get("boundary") or ()),
            statements=row.get("statements") or (),
            grants=row.get("grants") or (),
            delegated=row.get("delegated") or (),
        )


@dataclass(frozen=True, slots=True)
class LimitRow:
    """What an account may take; 0 is no limit, sizes are bytes. The console's are those of SQL, jobs, the lake and
    results, those of `smq` the queue service's: queues, messages and bytes that they hold, calls, and waiting receives.
    """

    connections: int = 0
    topics: int = 0
    groups: int = 0
    queues: int = 0
    messages_per_second: int = 0
    bytes_per_second: int = 0
    stored_bytes: int = 0
    sql_connections: int = 0
    lake_bytes: int = 0
    result_bytes: int = 0
    parsing_seconds: int = 0
    smq_queues: int = 0
    smq_messages: int = 0
    smq_bytes: int = 0
    smq_calls_per_second: int = 0
    smq_waiting: int = 0
    jobs: int = 0
    running_jobs: int = 0
    tracking_tasks: int = 0

    def shared(self, brokers: int) -> LimitRow:
        """What is left for one of so many brokers: clients spread what they send over all of them.

        Limits of others are left out: when one of them changes, nothing has changed for a broker.
        """
        parts = {name: -(-getattr(self, name) // brokers) for name in _DIVIDED}
        return replace(self, **parts, **_OF_OTHERS)

    def encode(self) -> str:
        """The row as it is published: the same limits are always the same text."""
        return _sorted(self)

    @classmethod
    def decode(cls, data: bytes | str) -> LimitRow:
        """Read a row; what it lacks is no limit. Raises ValueError, TypeError and AttributeError."""
        row = orjson.loads(data)
        return cls(**{name: max(0, int(row.get(name) or 0)) for name in _names(cls)})


@dataclass(frozen=True, slots=True)
class RateRow:
    """Messages a second that clients may send to topics of an instance, and receive from them; 0 is no limit."""

    instance: str
    sent: int = 0
    received: int = 0

    def shared(self, brokers: int) -> RateRow:
        """What is left for one of so many brokers, as of the limits of an account."""
        return replace(self, sent=-(-self.sent // brokers), received=-(-self.received // brokers))

    def encode(self) -> str:
        """The row as it is published: the same limits are always the same text."""
        return _sorted(self)

    @classmethod
    def decode(cls, data: bytes | str) -> RateRow:
        """Read a row; what it lacks is no limit. Raises ValueError, KeyError, TypeError and AttributeError."""
        row = orjson.loads(data)
        return cls(str(row["instance"]), *(max(0, int(row.get(name) or 0)) for name in ("sent", "received")))


@dataclass(frozen=True, slots=True)
class RateUse:
    """Messages a second that one broker takes from clients of an instance and gives to them.

    `held_back` counts how often one of them had to wait, or was refused, since the broker's start.
    """

    sent: int = 0
    received: int = 0
    held_back: int = 0

    def encode(self) -> bytes:
        """The row as the broker tells it."""
        return orjson.dumps(_values(self))

    @classmethod
    def decode(cls, data: bytes | str) -> RateUse:
        """Read a row; what it lacks is 0. Raises ValueError."""
        row = orjson.loads(data)
        return cls(**{name: row[name] for name in _names(cls) if name in row})


@dataclass(frozen=True, slots=True)
class Wanted:
    """A topic or group (`kind`) without a namespace that a client wants to make, until `deadline_ms` (epoch ms).

    `config` are its settings as the client gave them: TopicConfig or SubscriptionGroupConfig in JSON.
    """

    number: str
    kind: str
    name: str
    key: str
    address: str
    secure: bool
    deadline_ms: int
    config: Mapping[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The entry as the broker writes it."""
        return orjson.dumps(_values(self))

    @classmethod
    def decode(cls, data: bytes | str) -> Wanted:
        """Read an entry. Raises ValueError, KeyError and TypeError."""
        row = orjson.loads(data)
        return cls(**{name: row[name] for name in _names(cls)})


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of it: made (`kind` is empty), or why not: `permission`, `refused` by a rule, `busy`."""

    kind: str = ""
    remark: str = ""

    def encode(self) -> bytes:
        """The answer as the console writes it."""
        return orjson.dumps(_values(self))

    @classmethod
    def decode(cls, data: bytes | str) -> Answer:
        """Read an answer. Raises ValueError and TypeError."""
        row = orjson.loads(data)
        return cls(**{name: row[name] for name in _names(cls) if name in row})


def answer_key(number: str) -> str:
    """Where the answer to a wanted name stands."""
    return f"{ANSWER}:{number}"


@dataclass(frozen=True, slots=True)
class UseRow:
    """What an account takes of one broker; `refused` counts its requests since the broker's start, by reason."""

    connections: int = 0
    messages_per_second: int = 0
    bytes_per_second: int = 0
    stored_bytes: int = 0
    queues: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The row as the broker tells it."""
        return orjson.dumps(_values(self))

    @classmethod
    def decode(cls, data: bytes | str) -> UseRow:
        """Read a row; what it lacks is 0. Raises ValueError."""
        row = orjson.loads(data)
        return cls(**{name: row[name] for name in _names(cls) if name in row})


def use_field(account: str, broker: str) -> str:
    """The field of USE that a broker tells an account's use in; for no account, when it last told anything.

    And of RATES_USED, in which it tells that of an instance.
    """
    return f"{account}/{broker}"


@dataclass(frozen=True, slots=True)
class Used:
    """The last use of an AccessKey (epoch ms); `channel` is broker, queues, api or sql; empty texts are not known."""

    at_ms: int
    channel: str = ""
    address: str = ""

    def encode(self) -> str:
        """The use as one text."""
        return f"{self.at_ms} {self.channel} {self.address}"

    @classmethod
    def decode(cls, text: str) -> Used | None:
        """Read a use; None for anything else."""
        milliseconds, _, rest = text.partition(" ")
        if not milliseconds.isdecimal():
            return None
        channel, _, address = rest.partition(" ")
        return cls(int(milliseconds), channel, address)


@dataclass(frozen=True, slots=True)
class Refused:
    """Requests of one sort that an account was refused: `count` from `first_ms` to `last_ms` (epoch ms)."""

    tenant: str
    name: str
    key: str
    request: str
    kind: str
    action: str
    resource: str
    address: str
    remark: str
    count: int = 0
    first_ms: int = 0
    last_ms: int = 0
    channel: str = "broker"
    """Who refused: broker, or queues."""

    def encode(self) -> bytes:
        """The entry as the broker tells it."""
        return orjson.dumps(_values(self))

    @classmethod
    def decode(cls, data: bytes | str) -> Refused:
        """Read an entry. Raises ValueError and TypeError."""
        row = orjson.loads(data)
        return cls(**{name: row[name] for name in _names(cls) if name in row})


@dataclass(frozen=True, slots=True)
class Changed:
    """What a client has changed at the queue service, at `at_ms` (epoch ms): an action of the audit trail."""

    tenant: str
    name: str
    key: str
    action: str
    resource: str
    address: str
    request_id: str
    at_ms: int
    detail: Mapping[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The entry as the service tells it."""
        return orjson.dumps(_values(self))

    @classmethod
    def decode(cls, data: bytes | str) -> Changed:
        """Read an entry. Raises ValueError and KeyError."""
        row = orjson.loads(data)
        return cls(**{name: row[name] for name in _names(cls)})


def _names(row: type[Any]) -> list[str]:
    return [one.name for one in fields(row)]


def _values(row: Any) -> dict[str, Any]:
    return {one.name: getattr(row, one.name) for one in fields(row)}


def _sorted(row: Any) -> str:
    return orjson.dumps(_values(row), option=orjson.OPT_SORT_KEYS).decode()
