"""How a broker of Apache RocketMQ 5.3.3 decides by a list, written down so that translations can be judged by it.

test_synchronisation.py asks a real broker the same questions.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from functools import cmp_to_key

from brokercore.client.admin.acl import AclEntry


def allows(entries: Iterable[AclEntry], kind: str, name: str, action: str, source_ip: str = "10.1.1.1") -> bool:
    """Whether a user with these entries may do `action` on the topic or group; nothing fitting is a refusal."""
    fitting = [
        entry
        for entry in entries
        if _fits(entry.resource, kind, name) and action in entry.actions and _comes_from(entry, source_ip)
    ]
    return bool(fitting) and min(fitting, key=cmp_to_key(_order)).decision == "Allow"


def _fits(resource: str, kind: str, name: str) -> bool:
    entry_kind, _, pattern = resource.partition(":")
    if entry_kind != kind:
        return False
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _comes_from(entry: AclEntry, source_ip: str) -> bool:
    """Both as whole numbers, of whatever family; an address without a mask as text."""
    if not entry.source_ips:
        return True
    number = int(ipaddress.ip_address(source_ip))
    for text in entry.source_ips:
        network = ipaddress.ip_network(text, strict=False)
        if "/" not in text:
            if text == source_ip:
                return True
        elif int(network.network_address) <= number <= int(network.broadcast_address):
            return True
    return False


def _order(one: AclEntry, other: AclEntry) -> int:
    """A literal name first, then the shorter beginning (the longer one in later releases), then allows."""
    one_is_prefix, other_is_prefix = one.resource.endswith("*"), other.resource.endswith("*")
    if one_is_prefix != other_is_prefix:
        return 1 if one_is_prefix else -1
    if one_is_prefix and len(one.resource) != len(other.resource):
        return len(one.resource) - len(other.resource)
    return 1 if one.decision == "Deny" else -1 if other.decision == "Deny" else 0
