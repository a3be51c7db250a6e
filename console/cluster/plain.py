"""Brokers with ACL 1.0: what their accounts can say of a list, and how an account becomes what it should be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from brokercore.client import Admin
from brokercore.client.admin.acl import AclEntry
from brokercore.client.admin.plain_acl import PlainAccount
from console.cluster.translation import SAID_BY_ACL1, digest_of

_READ = {word: action for action, word in SAID_BY_ACL1.items()}


@dataclass(frozen=True)
class PlainBroker:
    """A broker as it was when it was read: accounts by access key."""

    name: str
    address: str
    accounts: Mapping[str, PlainAccount]

    @classmethod
    def read(cls, admin: Admin, name: str, address: str) -> PlainBroker:
        """Ask a broker for all. Raises ClientError."""
        return cls(name, address, admin.plain_acl.accounts(address))

    def checks(self, admin: Admin) -> bool:
        """True: without `aclEnable` it would not have told its accounts."""
        return True

    def is_foreign(self, name: str, password: str) -> bool:
        """True for an account that cannot be ours: an administrator, or one with another secret than the key's."""
        account = self.accounts.get(name)
        return account is not None and (account.is_admin or account.secret != password)

    def entries(self, name: str) -> tuple[AclEntry, ...]:
        """What an account may do, as entries of a list."""
        account = self.accounts[name]
        return tuple(
            AclEntry(f"{kind}:{resource}", tuple(sorted(_READ.get(word, word) for word in words)))
            for kind, rights in (("Topic", account.topics), ("Group", account.groups))
            for resource, words in rights.items()
        )

    def has(self, name: str, password: str, digest: str) -> bool:
        """True when there is nothing to do for an account with this list."""
        account = self.accounts.get(name)
        told = account is not None and (account.secret, account.is_admin, account.checked) == (password, False, True)
        return told and digest_of(self.entries(name)) == digest

    def apply_user(self, admin: Admin, name: str, password: str, entries: Iterable[AclEntry]) -> None:
        """Make the account what it should be. Raises ClientError."""
        wanted = _account(name, password, entries)
        if self.accounts.get(name) != wanted:
            admin.plain_acl.set_account(self.address, wanted)

    def delete_user(self, admin: Admin, name: str) -> bool:
        """Delete an account of ours; returns whether it was there. Raises ClientError."""
        account = self.accounts.get(name)
        if account is None or account.is_admin:
            return False
        admin.plain_acl.delete_account(self.address, name)
        return True


def _account(name: str, password: str, entries: Iterable[AclEntry]) -> PlainAccount:
    rights: dict[str, dict[str, frozenset[str]]] = {"Topic": {}, "Group": {}}
    for entry in entries:
        kind, _, resource = entry.resource.partition(":")
        rights[kind][resource] = frozenset(SAID_BY_ACL1[action] for action in entry.actions)
    return PlainAccount(name, password, rights["Topic"], rights["Group"])
