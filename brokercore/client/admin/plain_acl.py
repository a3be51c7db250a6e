"""Accounts of ACL 1.0, which brokers before 5.3 keep in `plain_acl.yml`. Each broker keeps its own file.

Every method raises ClientError. A broker whose `aclEnable` is off does not answer at all: see `Capabilities`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from brokercore.client.admin.base import Base, read
from brokercore.client.errors import BrokerError
from brokercore.client.session import Call
from brokercore.protocol.codes import PlainAclCode
from brokercore.protocol.errors import LenientJsonError
from brokercore.protocol.fastjson import boolean, objects, read_object, text

_DENY = "DENY"
_NOTHING = f"GANTRY_NOTHING={_DENY}"
"""Stands for an empty list: a broker refuses one that is empty, and keeps the old one where none is sent."""

_DELETION_FAILED = 210
"""What is answered, among others, for an account that is not there."""


@dataclass(frozen=True, slots=True)
class PlainAccount:
    """An account: what it may do with each topic and group by name, `PUB`, `SUB` or both; anything else is denied.

    `checked` is False for one that a broker has under rules which are not of this form: a default that allows
    something, or addresses from which it is not asked for a signature.
    """

    access_key: str
    secret: str = field(repr=False)
    topics: Mapping[str, frozenset[str]] = field(default_factory=dict)
    groups: Mapping[str, frozenset[str]] = field(default_factory=dict)
    is_admin: bool = False
    checked: bool = True


class PlainAcl:
    """ACL 1.0 of the broker at `address`. Slaves do not follow their masters in this: see `Brokers.addresses`."""

    def __init__(self, base: Base) -> None:
        self._base = base

    def accounts(self, address: str) -> dict[str, PlainAccount]:
        """All accounts by access key, secrets included (GET_BROKER_CLUSTER_ACL_CONFIG)."""
        answer = self._base.session.call(Call(address, PlainAclCode.GET_BROKER_CLUSTER_ACL_CONFIG, {}))
        return read(_accounts, answer.body, address)

    def set_account(self, address: str, account: PlainAccount) -> None:
        """Create or change an account; its lists become what `account` says (UPDATE_AND_CREATE_ACL_CONFIG)."""
        ext = {
            "accessKey": account.access_key,
            "secretKey": account.secret,
            "whiteRemoteAddress": "",
            "admin": "true" if account.is_admin else "false",
            "defaultTopicPerm": _DENY,
            "defaultGroupPerm": _DENY,
            "topicPerms": _written(account.topics),
            "groupPerms": _written(account.groups),
        }
        self._base.session.call(Call(address, PlainAclCode.UPDATE_AND_CREATE_ACL_CONFIG, ext))

    def delete_account(self, address: str, access_key: str) -> None:
        """Delete an account; one that does not exist is no failure (DELETE_ACL_CONFIG)."""
        try:
            self._base.session.call(Call(address, PlainAclCode.DELETE_ACL_CONFIG, {"accessKey": access_key}))
        except BrokerError as error:
            if error.code != _DELETION_FAILED or access_key in self.accounts(address):
                raise


def _written(rights: Mapping[str, frozenset[str]]) -> str:
    found = [f"{name}={'|'.join(sorted(actions))}" for name, actions in sorted(rights.items()) if actions]
    return ",".join(found or [_NOTHING])


def _accounts(body: bytes) -> dict[str, PlainAccount]:
    found = {}
    for row in objects(read_object(body), "plainAccessConfigs"):
        address = text(row, "whiteRemoteAddress")
        defaults = {text(row, name, _DENY) for name in ("defaultTopicPerm", "defaultGroupPerm")}
        found[text(row, "accessKey")] = PlainAccount(
            text(row, "accessKey"),
            text(row, "secretKey"),
            _rights(row.get("topicPerms")),
            _rights(row.get("groupPerms")),
            boolean(row, "admin"),
            not address and defaults <= {_DENY, ""},
        )
    return found


def _rights(rows: object) -> dict[str, frozenset[str]]:
    if rows is None:
        return {}
    if not isinstance(rows, list):
        raise LenientJsonError("the rights of an account are no list")
    found = {}
    for row in rows:
        name, _, actions = str(row).partition("=")
        if allowed := frozenset(action.strip() for action in actions.split("|")) - {_DENY, ""}:
            found[name.strip()] = allowed
    return found
