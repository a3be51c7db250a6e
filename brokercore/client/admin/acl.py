"""Users and access control lists of Apache RocketMQ's ACL 2.0. Each broker keeps its own, so each call names one.

Every method raises ClientError. A broker that has no ACL 2.0, as the embedded one, answers RequestNotSupported.
"""

from __future__ import annotations

from collections.abc import Iterable

from brokercore.client.admin.base import Base, read
from brokercore.client.session import Call
from brokercore.protocol.bodies.acl import (
    CUSTOM,
    AccessControlList,
    AclEntry,
    AclUser,
    acls_from_json,
    users_from_json,
)
from brokercore.protocol.codes import RequestCode

__all__ = ["AccessControlList", "Acl", "AclEntry", "AclUser", "user_subject"]


def user_subject(username: str) -> str:
    """The subject of a user's access control list."""
    return f"User:{username}"


class Acl:
    """ACL 2.0 of the broker at `address`. Slaves do not follow their masters in this: see `Brokers.addresses`."""

    def __init__(self, base: Base) -> None:
        self._base = base

    def users(self, address: str) -> dict[str, AclUser]:
        """All users by name, passwords included (AUTH_LIST_USER)."""
        answer = self._base.session.call(Call(address, RequestCode.AUTH_LIST_USER, {}))
        return {user.username: user for user in read(users_from_json, answer.body, address)}

    def lists(self, address: str) -> dict[str, AccessControlList]:
        """All lists by subject (AUTH_LIST_ACL)."""
        answer = self._base.session.call(Call(address, RequestCode.AUTH_LIST_ACL, {}))
        return {acl.subject: acl for acl in read(acls_from_json, answer.body, address)}

    def create_user(self, address: str, user: AclUser) -> None:
        """Create a user. Raises NoPermission when there is one of this name."""
        self._call(address, RequestCode.AUTH_CREATE_USER, {"username": user.username}, user.to_json())

    def update_user(self, address: str, user: AclUser) -> None:
        """Change password, type and status of a user. Raises NoPermission when there is none."""
        self._call(address, RequestCode.AUTH_UPDATE_USER, {"username": user.username}, user.to_json())

    def delete_user(self, address: str, username: str) -> None:
        """Delete a user with its list; one that does not exist is no failure."""
        self._call(address, RequestCode.AUTH_DELETE_USER, {"username": username})

    def set_entries(self, address: str, subject: str, entries: Iterable[AclEntry]) -> None:
        """Create or change the entries for these resources; those for other resources stay (AUTH_UPDATE_ACL)."""
        body = AccessControlList(subject, tuple(entries)).to_json()
        self._call(address, RequestCode.AUTH_UPDATE_ACL, {"subject": subject}, body)

    def delete_lists(self, address: str, subject: str) -> None:
        """Delete all lists of a subject (AUTH_DELETE_ACL)."""
        self._call(address, RequestCode.AUTH_DELETE_ACL, {"subject": subject})

    def delete_entries(self, address: str, subject: str, resources: Iterable[str]) -> None:
        """Delete the entries for these resources, one request each, all in flight at once. Raises the first error."""
        calls = [
            Call(address, RequestCode.AUTH_DELETE_ACL, {"subject": subject, "policyType": CUSTOM, "resource": resource})
            for resource in resources
        ]
        self._base.session.call_each(calls)

    def _call(self, address: str, code: RequestCode, ext: dict[str, str], body: bytes = b"") -> None:
        self._base.session.call(Call(address, code, ext, body))
