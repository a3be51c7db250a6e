"""What a cluster should have: a user and a list for each usable AccessKey without a security token."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from brokercore.policy import mq_resource
from console.accounts import acl
from console.accounts.crypto import decrypt
from console.accounts.models import Tenant
from console.cluster.translation import Names, Translation, grantee_of, translate
from console.instances.models import Cluster, Instance
from console.topics.models import Grant, Group, Topic

VERSION = 1
"""Part of every digest: to be raised when the same rights become another list."""


@dataclass(frozen=True)
class Wanted:
    """One key. `source` is a digest of all that its user and list are made from, cheaper than to make them."""

    access_key_id: str
    account: str
    source: str
    _row: Mapping[str, Any]
    _names: Names
    _holders: Mapping[str, str]

    @property
    def secret(self) -> str:
        """The password of the user."""
        return decrypt(self._row["secret"])

    def translation(self) -> Translation:
        """The list."""
        return translate(grantee_of(self._row, self._holders), self._names)


def wanted(cluster: Cluster) -> dict[str, Wanted]:
    """All by AccessKey ID. Temporary keys need a token, which ACL 2.0 does not know: they are left out."""
    names, accounts = _names(cluster), dict(Tenant.objects.values_list("uid", "name"))
    holders = {mq_resource(name): holder for name, holder in acl.holders().items()}
    digests = {uid: _digest(own, sorted(_concerning(holders, uid, own))) for uid, own in names.items()}
    empty = _digest(Names(), [])
    found = {}
    for key_id, row in acl.compiled().items():
        if row["token"] is not None or row["expires_ms"] is not None:
            continue
        uid = row["tenant"]
        source = hashlib.sha256(orjson.dumps([VERSION, digests.get(uid, empty), row], option=orjson.OPT_SORT_KEYS))
        found[key_id] = Wanted(
            key_id, accounts.get(uid, uid), source.hexdigest(), row, names.get(uid, Names()), holders
        )
    return found


def _names(cluster: Cluster) -> dict[str, Names]:
    """By account: its topics and those shared with it or its users, its groups, the namespaces of its instances."""
    topics: defaultdict[str, set[str]] = defaultdict(set)
    groups: defaultdict[str, set[str]] = defaultdict(set)
    spaces: defaultdict[str, set[str]] = defaultdict(set)
    for uid, name in Topic.objects.filter(instance__cluster=cluster).values_list(
        "instance__tenant__uid", "physical_name"
    ):
        topics[uid].add(name)
    for uid, by_user, name in Grant.objects.filter(topic__instance__cluster=cluster).values_list(
        "tenant__uid", "user__tenant__uid", "topic__physical_name"
    ):
        topics[uid or by_user].add(name)
    for uid, name in Group.objects.filter(instance__cluster=cluster).values_list("owner__uid", "physical_name"):
        groups[uid].add(name)
    for uid, name in Instance.objects.filter(cluster=cluster, independent_naming=True).values_list(
        "tenant__uid", "instance_id"
    ):
        spaces[uid].add(f"{name}%")
    return {
        uid: Names(tuple(sorted(topics[uid])), tuple(sorted(groups[uid])), tuple(sorted(spaces[uid])))
        for uid in topics.keys() | groups.keys() | spaces.keys()
    }


def _concerning(holders: Mapping[str, str], uid: str, names: Names) -> list[tuple[str, str]]:
    """Holders of the account's groups, and of others' groups in its namespaces."""
    starts = tuple(mq_resource(space) for space in names.namespaces)
    return [
        (resource, holder)
        for resource, holder in holders.items()
        if holder.partition("/")[0] == uid or (starts and resource.startswith(starts))
    ]


def _digest(names: Names, holders: list[tuple[str, str]]) -> str:
    content = [names.topics, names.groups, names.namespaces, holders]
    return hashlib.sha256(orjson.dumps(content)).hexdigest()
