"""Conditions of statements: where from, when, and how a request came.

A condition answers True, False, or None when it cannot be judged (no address is known). None never widens rights: the
statement then counts if it denies and does not if it allows.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

SOURCE_IP, CURRENT_TIME = "acs:SourceIp", "acs:CurrentTime"
SECURE_TRANSPORT, MFA_PRESENT = "acs:SecureTransport", "acs:MFAPresent"
CONDITION_KEYS = (SOURCE_IP, CURRENT_TIME, SECURE_TRANSPORT, MFA_PRESENT)

Condition = tuple[str, str, tuple[str, ...]]
"""Operator, key, and the values of which one must fit."""


@dataclass(frozen=True, slots=True)
class Context:
    """Circumstances of one request that conditions and resource patterns may look at.

    `region` is that of the resource, `owner` the uid of the account that owns the resource; empty: unknown.
    """

    source_ip: str = ""
    now: datetime | None = None
    secure_transport: bool = False
    mfa_present: bool = False
    region: str = ""
    owner: str = ""


Check = Callable[[Context], bool | None]
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_TIME_ORDERS: Mapping[str, Callable[[datetime, datetime], bool]] = {
    "DateEquals": lambda now, then: now == then,
    "DateGreaterThan": lambda now, then: now > then,
    "DateGreaterThanEquals": lambda now, then: now >= then,
    "DateLessThan": lambda now, then: now < then,
    "DateLessThanEquals": lambda now, then: now <= then,
}
KEYS_OF: Mapping[str, tuple[str, ...]] = {
    "IpAddress": (SOURCE_IP,),
    "NotIpAddress": (SOURCE_IP,),
    **dict.fromkeys((*_TIME_ORDERS, "DateNotEquals"), (CURRENT_TIME,)),
    "Bool": (SECURE_TRANSPORT, MFA_PRESENT),
}
"""The operators, each with the keys that it can compare."""


def check_value(operator: str, value: str) -> None:
    """Raise ValueError, with a text that names the value, unless the operator can compare with it."""
    if operator == "Bool":
        if value not in ("true", "false"):
            raise ValueError(f'"{value}" is neither true nor false')
    elif operator in ("IpAddress", "NotIpAddress"):
        try:
            _network(value)
        except ValueError:
            raise ValueError(f'"{value}" is not an address or network, such as 203.0.113.7 or 10.0.0.0/8') from None
    else:
        try:
            moment(value)
        except ValueError:
            raise ValueError(f'"{value}" is not a time, such as 2027-01-31T18:00:00Z or 2027-01-31') from None


def compile_condition(condition: Condition) -> Check:
    """The question of one condition. What the grammar refuses (a key of another operator) cannot be judged."""
    operator, key, values = condition
    if key not in KEYS_OF.get(operator, ()):
        return lambda _: None
    if key == SOURCE_IP:
        return _address_check(operator == "IpAddress", tuple(_network(v) for v in values))
    if key == CURRENT_TIME:
        return _time_check(operator, tuple(moment(v) for v in values))
    wanted = frozenset(v == "true" for v in values)
    if key == SECURE_TRANSPORT:
        return lambda context: context.secure_transport in wanted
    return lambda context: context.mfa_present in wanted


def circumstance(key: str, context: Context) -> str:
    """What a condition on `key` sees of the request, for explanations."""
    if key == SOURCE_IP:
        return context.source_ip or "unknown"
    if key == CURRENT_TIME:
        return (context.now or datetime.now(UTC)).isoformat(timespec="seconds")
    return str(context.secure_transport if key == SECURE_TRANSPORT else context.mfa_present).lower()


def moment(text: str) -> datetime:
    """A time of ISO 8601; without a zone it is UTC. Raises ValueError."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _address_check(inside: bool, networks: tuple[_Network, ...]) -> Check:
    """Networks of one size are looked up together: a statement may name hundreds."""
    sizes: dict[tuple[int, int], set[int]] = {}
    for network in networks:
        host_bits = network.max_prefixlen - network.prefixlen
        sizes.setdefault((network.version, host_bits), set()).add(int(network.network_address) >> host_bits)

    def check(context: Context) -> bool | None:
        address = _address(context.source_ip)
        if address is None:
            return None
        version, number = address.version, int(address)
        return inside == any(version == of and number >> host_bits in known for (of, host_bits), known in sizes.items())

    return check


def _time_check(operator: str, moments: tuple[datetime, ...]) -> Check:
    if operator == "DateNotEquals":
        return lambda context: (context.now or datetime.now(UTC)) not in moments
    order = _TIME_ORDERS[operator]

    def check(context: Context) -> bool:
        now = context.now or datetime.now(UTC)
        return any(order(now, then) for then in moments)

    return check


def _network(text: str) -> _Network:
    return ipaddress.ip_network(text, strict=False)


@lru_cache(maxsize=1024)
def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address, an IPv4 one also when it comes in the clothes of IPv6; None for none."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
