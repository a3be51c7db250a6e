"""One broker's users and lists, and making those of ours what they should be."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from brokercore.client import Admin
from brokercore.client.admin.acl import AclEntry, AclUser, user_subject

_NORMAL, _ENABLED = "Normal", "enable"
_MOST_DELETIONS = 100
"""Entries that are deleted one by one. Of more, the list is made anew, which for a moment refuses too much."""


@dataclass(frozen=True)
class Broker:
    """A broker as it was when it was read: users by name, entries by subject and resource."""

    name: str
    address: str
    users: dict[str, AclUser]
    entries: dict[str, dict[str, AclEntry]]

    @classmethod
    def read(cls, admin: Admin, name: str, address: str) -> Broker:
        """Ask a broker for all. Raises ClientError."""
        entries = {
            subject: {entry.resource: _ordered(entry) for entry in acl.entries}
            for subject, acl in admin.acls(address).items()
        }
        return cls(name, address, admin.users(address), entries)

    def checks(self, admin: Admin) -> bool:
        """False for a master that keeps users and lists and asks nobody for them. Raises ClientError."""
        if "/" in self.name:
            return True
        config = admin.broker_config(self.name)
        return all(config.get(name) == "true" for name in ("authenticationEnabled", "authorizationEnabled"))

    def is_foreign(self, name: str, password: str) -> bool:
        """True for a user that cannot be ours: a super user, or one with another secret than the key's."""
        user = self.users.get(name)
        return user is not None and (user.user_type != _NORMAL or user.password != password)

    def has(self, name: str, password: str, digest: str) -> bool:
        """True when there is nothing to do for a user with this list."""
        there = self.entries.get(user_subject(name), {})
        return (
            self.users.get(name) == AclUser(name, password, _NORMAL, _ENABLED) and digest_of(there.values()) == digest
        )

    def give(self, admin: Admin, name: str, password: str, entries: Iterable[AclEntry]) -> None:
        """Make user and list what they should be. Raises ClientError."""
        user, wanted = self.users.get(name), AclUser(name, password, _NORMAL, _ENABLED)
        if user is None:
            admin.create_user(self.address, wanted)
        elif user != wanted:
            admin.update_user(self.address, wanted)
        self._set_entries(admin, name, entries)

    def take(self, admin: Admin, name: str) -> bool:
        """Delete a user of ours with its list; returns whether it was there. Raises ClientError."""
        user = self.users.get(name)
        if user is None or user.user_type != _NORMAL:
            return False
        admin.delete_user(self.address, name)
        return True

    def _set_entries(self, admin: Admin, name: str, entries: Iterable[AclEntry]) -> None:
        """What must go goes first."""
        subject = user_subject(name)
        there = self.entries.get(subject, {}) if name in self.users else {}
        wanted = {entry.resource: _ordered(entry) for entry in entries}
        stale = there.keys() - wanted.keys()
        if there and (not wanted or len(stale) > _MOST_DELETIONS):
            admin.delete_acl(self.address, subject)
            there = {}
        elif stale:
            admin.delete_acl_entries(self.address, subject, sorted(stale))
        changed = [entry for resource, entry in wanted.items() if there.get(resource) != entry]
        if changed:
            admin.set_acl(self.address, subject, changed)


def digest_of(entries: Iterable[AclEntry]) -> str:
    """The same for lists that say the same."""
    return hashlib.sha256(repr(sorted(map(_ordered, entries))).encode()).hexdigest()


def _ordered(entry: AclEntry) -> AclEntry:
    """As it can be compared: brokers keep the order in which they were told."""
    return AclEntry(
        entry.resource, tuple(sorted(entry.actions)), tuple(sorted(entry.source_ips)), entry.decision.capitalize()
    )
