"""The one permission decision: page, management API, SQL and broker all ask `decide`.

A statement is a RAM policy statement (Effect, Action, Resource, Condition). An explicit deny wins over every
allow, and what nothing allows is denied. Pure: no I/O, no clock of its own, so both the console and the broker
call the same function on the same statements (docs/permissions.md).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

RESOURCE_PREFIX = "acs:mq:*:*:"
_CONDITION_OPERATORS = ("IpAddress", "NotIpAddress", "DateGreaterThan", "DateLessThan", "Bool")
_CONDITION_KEYS = ("acs:SourceIp", "acs:CurrentTime", "acs:SecureTransport")


class PolicyError(ValueError):
    """A policy document breaks the grammar; the text names the statement and the field."""


@dataclass(frozen=True, slots=True)
class Context:
    """Circumstances of one request that conditions may look at."""

    source_ip: str = ""
    now: datetime | None = None
    secure_transport: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: `allow` or deny of `actions` on `resources`, both with `*` and `?` wildcards."""

    allow: bool
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    source: str = ""

    def matches(self, action: str, resource: str, context: Context) -> bool:
        """True when action, resource and every condition match."""
        return (
            any(_pattern(p.lower()).fullmatch(action.lower()) for p in self.actions)
            and any(_pattern(p).fullmatch(resource) for p in self.resources)
            and all(
                _condition_holds(operator, key, values, context, unjudged=not self.allow)
                for operator, key, values in self.conditions
            )
        )


@dataclass(frozen=True, slots=True)
class Grantee:
    """What one caller may do.

    `boundary` are the resource patterns of its own tenant account; `statements` have effect only inside it, so that
    `Resource: *` of one account never reaches another. `delegated` are the grants of other accounts to this account:
    inside them, and only for their actions, the statements have effect too. `grants` were given to the caller itself.

    `holders` names, by resource, who may use a group: `<account>` (the tenant account only), `<account>/<RAM user>`
    (that user as well) or `<account>/*` (every user of the account, as the statements say). A resource with a holder
    is judged by it and not by the boundary. `account` is the uid of the caller's tenant account, `is_account` is True
    for what acts as the account itself and not as one of its RAM users.
    """

    name: str
    boundary: tuple[str, ...] = ()
    statements: tuple[Statement, ...] = ()
    grants: tuple[Statement, ...] = ()
    delegated: tuple[Statement, ...] = ()
    holders: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    account: str = ""
    is_account: bool = False
    _exact: frozenset[str] = field(init=False, repr=False, compare=False, default=frozenset())

    def __post_init__(self) -> None:
        object.__setattr__(self, "_exact", frozenset(p for p in self.boundary if not _has_wildcard(p)))

    def owns(self, resource: str) -> bool:
        """True when the resource lies inside what the caller's statements can reach."""
        holder = self.holders.get(resource)
        if holder is not None:
            account, _, who = holder.partition("/")
            return account == self.account and (self.is_account or who in ("*", self.name))
        return resource in self._exact or any(
            _has_wildcard(p) and _pattern(p).fullmatch(resource) for p in self.boundary
        )

    def reaches(self, action: str, resource: str, context: Context) -> bool:
        """True when the caller's statements count for this action on this resource."""
        return self.owns(resource) or any(s.matches(action, resource, context) for s in self.delegated)


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer, the sentence that explains it, and the statement that decided (None: nothing allowed it)."""

    allowed: bool
    reason: str
    statement: Statement | None = None


def mq_resource(physical_name: str) -> str:
    """Resource name of a topic, group or instance: `acs:mq:*:*:<physical name>`."""
    return RESOURCE_PREFIX + physical_name


def decide(grantee: Grantee, action: str, resource: str, context: Context = Context()) -> Decision:
    """Decide whether `grantee` may do `action` on `resource`: explicit deny > allow > deny.

    A pattern for the resource itself (an instance with `%*`) is the caller's business: resources are compared
    as text with wildcards, as RAM does.
    """
    matching: list[Statement] = []
    if grantee.reaches(action, resource, context):
        matching = [s for s in grantee.statements if s.matches(action, resource, context)]
    matching += [s for s in grantee.grants if s.matches(action, resource, context)]
    for statement in matching:
        if not statement.allow:
            return Decision(False, f"denied: {_origin(statement)} denies {action} on {resource}", statement)
    if matching:
        return Decision(True, f"allowed by {_origin(matching[0])}", matching[0])
    if resource in grantee.holders and not grantee.owns(resource):
        return Decision(False, f"denied: {resource} belongs to another user")
    return Decision(False, f"denied: no statement allows {action} on {resource}")


def parse_policy(document: Mapping[str, Any], source: str = "") -> tuple[Statement, ...]:
    """Statements of a RAM policy document.

    Raises PolicyError when the document is not of the grammar: Version "1", Statement a list, each with Effect
    Allow or Deny, Action and Resource as text or list of texts, and an optional Condition.
    """
    if str(document.get("Version", "")) != "1":
        raise PolicyError('Version must be "1".')
    rows = document.get("Statement")
    if not isinstance(rows, list) or not rows:
        raise PolicyError("Statement must be a list with at least one statement.")
    return tuple(_parse_statement(number, row, source) for number, row in enumerate(rows, start=1))


def _parse_statement(number: int, row: Any, source: str) -> Statement:
    if not isinstance(row, Mapping):
        raise PolicyError(f"Statement {number} must be an object.")
    unknown = set(row) - {"Effect", "Action", "Resource", "Condition"}
    if unknown:
        raise PolicyError(f"Statement {number} has the unknown field {sorted(unknown)[0]}.")
    if row.get("Effect") not in ("Allow", "Deny"):
        raise PolicyError(f"Statement {number}: Effect must be Allow or Deny.")
    return Statement(
        allow=row["Effect"] == "Allow",
        actions=_texts(number, "Action", row.get("Action")),
        resources=_texts(number, "Resource", row.get("Resource")),
        conditions=tuple(_parse_conditions(number, row.get("Condition") or {})),
        source=source,
    )


def _texts(number: int, name: str, value: Any) -> tuple[str, ...]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not values or not all(isinstance(v, str) and v for v in values):
        raise PolicyError(f"Statement {number}: {name} must be a text or a list of texts.")
    return tuple(values)


def _parse_conditions(number: int, value: Any) -> Iterable[tuple[str, str, tuple[str, ...]]]:
    if not isinstance(value, Mapping):
        raise PolicyError(f"Statement {number}: Condition must be an object.")
    for operator, keys in value.items():
        if operator not in _CONDITION_OPERATORS or not isinstance(keys, Mapping):
            raise PolicyError(f"Statement {number}: condition operators are {', '.join(_CONDITION_OPERATORS)}.")
        for key, raw in keys.items():
            if key not in _CONDITION_KEYS:
                raise PolicyError(f"Statement {number}: condition keys are {', '.join(_CONDITION_KEYS)}.")
            values = _texts(number, key, raw)
            _check_condition_values(number, operator, values)
            yield operator, key, values


def _check_condition_values(number: int, operator: str, values: tuple[str, ...]) -> None:
    try:
        for value in values:
            if operator.endswith("IpAddress"):
                ipaddress.ip_network(value, strict=False)
            elif operator.startswith("Date"):
                _moment(value)
            elif value not in ("true", "false"):
                raise ValueError(f"{value} is neither true nor false")
    except ValueError as error:
        raise PolicyError(f"Statement {number}: {operator}: {error}.") from error


def _condition_holds(operator: str, key: str, values: tuple[str, ...], context: Context, *, unjudged: bool) -> bool:
    """What cannot be judged (no address, a key of another operator) never widens rights: it holds for Deny only."""
    if operator in ("IpAddress", "NotIpAddress"):
        if key != "acs:SourceIp" or not context.source_ip:
            return unjudged
        return _in_networks(context.source_ip, values) == (operator == "IpAddress")
    if operator in ("DateGreaterThan", "DateLessThan"):
        if key != "acs:CurrentTime":
            return unjudged
        now = context.now or datetime.now(UTC)
        later = operator == "DateGreaterThan"
        return any((now > _moment(v)) if later else (now < _moment(v)) for v in values)
    if key != "acs:SecureTransport":
        return unjudged
    return any((v == "true") == context.secure_transport for v in values)


def _in_networks(address: str, networks: tuple[str, ...]) -> bool:
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(ip in ipaddress.ip_network(n, strict=False) for n in networks)


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _origin(statement: Statement) -> str:
    return f"policy {statement.source}" if statement.source else "a statement"


def _has_wildcard(pattern: str) -> bool:
    return "*" in pattern.removeprefix(RESOURCE_PREFIX) or "?" in pattern


@lru_cache(maxsize=4096)
def _pattern(pattern: str) -> re.Pattern[str]:
    """`*` matches any run of characters, `?` one; everything else is literal."""
    return re.compile("".join(".*" if c == "*" else "." if c == "?" else re.escape(c) for c in pattern), re.DOTALL)
