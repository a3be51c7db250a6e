"""Users and access control lists of ACL 2.0 (requests 3001 to 3010)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from brokercore.protocol.errors import LenientJsonError
from brokercore.protocol.fastjson import loads, objects, read_object, text

CUSTOM = "Custom"
"""The policy that is looked at before `Default`; what mqadmin creates."""


@dataclass(frozen=True, slots=True)
class AclUser:
    """A user of a broker. `user_type`: Normal, or Super, whom no list restrains; `status`: enable or disable."""

    username: str
    password: str = field(default="", repr=False)
    user_type: str = "Normal"
    status: str = "enable"

    def to_json(self) -> bytes:
        """Body of AUTH_CREATE_USER and AUTH_UPDATE_USER; an empty password leaves the one that there is."""
        members = {"username": self.username, "userType": self.user_type, "userStatus": self.status}
        return orjson.dumps(members | ({"password": self.password} if self.password else {}))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> AclUser:
        return cls(text(data, "username"), text(data, "password"), text(data, "userType"), text(data, "userStatus"))


@dataclass(frozen=True, slots=True, order=True)
class AclEntry:
    """What a list says about one resource: `Topic:<name>`, `Group:<name>` or `Cluster:<name>`; `*` ends a beginning.

    `source_ips` are addresses or networks, none for everywhere; `decision` is Allow or Deny. Of the entries that fit a
    request a literal one decides; of two beginnings the shorter one up to 5.3.3, the longer one later.
    """

    resource: str
    actions: tuple[str, ...]
    source_ips: tuple[str, ...] = ()
    decision: str = "Allow"

    def to_dict(self) -> dict[str, Any]:
        members: dict[str, Any] = {
            "resource": self.resource,
            "actions": list(self.actions),
            "decision": self.decision,
        }
        return members | ({"sourceIps": list(self.source_ips)} if self.source_ips else {})

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> AclEntry:
        return cls(
            text(data, "resource"), _names(data, "actions"), _names(data, "sourceIps"), text(data, "decision", "Allow")
        )


@dataclass(frozen=True, slots=True)
class AccessControlList:
    """The lists of one subject (`User:<name>`); other policies than Custom are left out."""

    subject: str
    entries: tuple[AclEntry, ...] = ()

    def to_json(self) -> bytes:
        """Body of AUTH_CREATE_ACL and AUTH_UPDATE_ACL."""
        policy = {"policyType": CUSTOM, "entries": [entry.to_dict() for entry in self.entries]}
        return orjson.dumps({"subject": self.subject, "policies": [policy]})

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> AccessControlList:
        entries = tuple(
            AclEntry.from_dict(entry)
            for policy in objects(data, "policies")
            if text(policy, "policyType", CUSTOM) == CUSTOM
            for entry in objects(policy, "entries")
        )
        return cls(text(data, "subject"), entries)


def users_from_json(data: bytes) -> list[AclUser]:
    """Answer of AUTH_LIST_USER; no body means none. Raises LenientJsonError."""
    return [AclUser.from_dict(item) for item in _list(data)]


def user_from_json(data: bytes) -> AclUser | None:
    """Answer of AUTH_GET_USER; no body means that there is no such user. Raises LenientJsonError."""
    return AclUser.from_dict(read_object(data)) if data else None


def acls_from_json(data: bytes) -> list[AccessControlList]:
    """Answer of AUTH_LIST_ACL; no body means none. Raises LenientJsonError."""
    return [AccessControlList.from_dict(item) for item in _list(data)]


def acl_from_json(data: bytes) -> AccessControlList | None:
    """Answer of AUTH_GET_ACL; no body means that the subject has no list. Raises LenientJsonError."""
    return AccessControlList.from_dict(read_object(data)) if data else None


def _list(data: bytes) -> Iterable[dict[str, Any]]:
    if not data:
        return []
    value = loads(data)
    if not isinstance(value, list):
        raise LenientJsonError("the body is not a JSON list")
    return [item for item in value if isinstance(item, dict)]


def _names(data: Mapping[str, Any], member: str) -> tuple[str, ...]:
    value = data.get(member)
    return tuple(str(item) for item in value) if isinstance(value, list) else ()
