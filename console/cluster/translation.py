"""From the rights of an AccessKey to a list of ACL 2.0: what a cluster's own brokers let that key do.

See docs/operate/cluster.md.

The list never allows what `brokercore.policy.decide` would refuse. It holds allows only: nothing but an allow opens
anything there, and of a denial beside it releases think differently (of two beginnings that fit, 5.3.3 obeys the
shorter, later ones the longer). A denial, and whatever ACL 2.0 cannot say, therefore makes the list narrower:

* An allow under a condition on anything but the address is left out; a denial under a condition denies always.
* A pattern becomes the topics and groups of now that it fits. It stays a pattern only where it covers the whole
  namespace of an instance of the account, no denial may touch that, and the key may make topics there as well, since a
  cluster that makes topics by itself would.
* A list has one entry for a resource: actions allowed from different addresses are allowed from those in common.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from brokercore.client.admin.acl import AclEntry
from brokercore.names import dead_letter_topic
from brokercore.policy import Grantee, Statement, decide, mq_resource, parse_policy
from brokercore.policy.table import KeyRow
from console.accounts.crypto import decrypt
from console.accounts.models import Tenant
from console.instances.models import Cluster, Instance, Origin
from console.rights import access_table
from console.topics import holdings
from console.topics.models import Grant, Group, Topic

VERSION = 1
"""Part of every digest: to be raised when the same rights become another list."""

Alternatives = tuple[tuple[str, ...], ...]
"""Sets of actions of policies: to have all of one set is enough."""

TOPIC: Mapping[str, Alternatives] = {
    "Pub": (("mq:PUB",),),
    "Sub": (("mq:SUB",),),
    # Offsets and messages by id and key; a consumer needs the former to begin.
    "Get": (("mq:SUB",), ("mq:QueryTopic", "mq:QueryMessage")),
}
GROUP: Mapping[str, Alternatives] = {"Sub": (("mq:SUB",),), "Get": (("mq:QueryGroup",),)}
DEAD_LETTERS: Mapping[str, Alternatives] = {"Sub": (("mq:SUB",),), "Get": (("mq:SUB",), ("mq:QueryMessage",))}
"""The dead letters of a group are a topic there; retries belong to the group itself, as here."""

SAID_BY_ACL1 = {"Pub": "PUB", "Sub": "SUB"}
"""What ACL 1.0 holds a request against, and its words for it."""

_UNROUTED = ipaddress.IPv4Network("0.0.0.0/8")
Networks = frozenset[str]
_ANYWHERE: Networks = frozenset()


def digest_of(entries: Iterable[AclEntry]) -> str:
    """The same for lists that say the same."""
    return hashlib.sha256(repr(sorted(map(ordered, entries))).encode()).hexdigest()


def ordered(entry: AclEntry) -> AclEntry:
    """As it can be compared: brokers keep the order in which they were told."""
    return AclEntry(
        entry.resource, tuple(sorted(entry.actions)), tuple(sorted(entry.source_ips)), entry.decision.capitalize()
    )


@dataclass(frozen=True)
class Wanted:
    """One key. `source` is a digest of all that its user and list are made from, cheaper than to make them."""

    access_key_id: str
    account: str
    source: str
    _row: KeyRow
    _names: Names
    _holders: Mapping[str, str]
    plain: bool = False
    """Whether the list is for brokers with ACL 1.0."""

    @property
    def secret(self) -> str:
        """The password of the user."""
        return decrypt(self._row.secret)

    def translation(self) -> Translation:
        """The list; ACL 1.0 knows no patterns, so that every topic stands there by its name."""
        grantee = grantee_of(self._row, self._holders)
        if self.plain:
            return _without_what_acl1_lacks(translate(grantee, replace(self._names, namespaces=())))
        return translate(grantee, self._names)


def wanted(cluster: Cluster) -> dict[str, Wanted]:
    """All by AccessKey ID. Temporary keys need a token, which ACL 2.0 does not know: they are left out."""
    names, accounts = _names(cluster), dict(Tenant.objects.values_list("uid", "name"))
    holders = {mq_resource(name): holder for name, holder in holdings.holders(cluster.pk).items()}
    digests = {uid: _digest(own, sorted(_concerning(holders, uid, own))) for uid, own in names.items()}
    empty = _digest(Names(), [])
    found = {}
    for key_id, row in access_table.compiled(cluster.pk).items():
        if row.token is not None or row.expires_ms is not None:
            continue
        uid = row.tenant
        if cluster.origin == Origin.ADDED and uid not in names:
            continue  # the account has nothing there
        source = orjson.dumps([VERSION, digests.get(uid, empty), row.values()], option=orjson.OPT_SORT_KEYS)
        digest = hashlib.sha256(source).hexdigest()
        found[key_id] = Wanted(key_id, accounts.get(uid, uid), digest, row, names.get(uid, Names()), holders)
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


@dataclass(frozen=True)
class Names:
    """What the lists of an account's keys may name: its topics and those shared with it, its groups, its namespaces."""

    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    """Beginnings of names, `MQ_INST_…%`: whatever begins so is the account's own."""


@dataclass(frozen=True)
class Translation:
    """The entries of a list, and in sentences where they allow less than the policies."""

    entries: tuple[AclEntry, ...]
    narrower: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Rights:
    """Rights from everywhere, and those that each limited allow adds from its networks."""

    anywhere: Grantee
    limited: tuple[tuple[Networks, Grantee], ...]

    def where(self, alternatives: Alternatives, resource: str) -> Networks | None:
        """The networks from which one alternative is allowed; empty: from everywhere; None: from nowhere."""
        if _allows(self.anywhere, alternatives, resource):
            return _ANYWHERE
        found = [networks for networks, grantee in self.limited if _allows(grantee, alternatives, resource)]
        return frozenset().union(*found) if found else None


def grantee_of(row: KeyRow, holders: Mapping[str, str]) -> Grantee:
    """A row of the table that the embedded broker decides by (`console.rights.access_table.compiled`), to be asked.

    `holders` is by resource. Raises PolicyError.
    """
    return Grantee(
        row.principal,
        tuple(row.boundary),
        _statements(row.statements),
        _statements(row.grants),
        _statements(row.delegated),
        holders,
        row.tenant,
        row.is_account,
        row.region,
    )


def translate(grantee: Grantee, names: Names) -> Translation:
    """The list of one key."""
    rights, narrower = _expressible(grantee)
    wild = [(prefix, actions) for prefix in names.namespaces if (actions := _whole(rights.anywhere, prefix))]
    entries = [AclEntry(f"Topic:{prefix}*", actions) for prefix, actions in wild]
    for kind, name, resource, table in _resources(names):
        covered = {
            action for prefix, actions in wild for action in actions if kind == "Topic" and name.startswith(prefix)
        }
        found = {
            action: networks
            for action, alternatives in table.items()
            if action not in covered and (networks := rights.where(alternatives, resource)) is not None
        }
        entry, less = _entry(f"{kind}:{name}", found)
        if entry is not None:
            entries.append(entry)
        if less:
            narrower.append(
                f"{kind} {name}: one entry holds all actions, so only the addresses that all of them "
                "allow count, or none."
            )
    return Translation(tuple(entries), tuple(dict.fromkeys(narrower)))


def _without_what_acl1_lacks(translation: Translation) -> Translation:
    """The list as ACL 1.0 can say it: names, sending and receiving.

    Where an account may come from cannot be said: from addresses that it lists there, nobody is asked for a signature.
    """
    entries, narrower = [], list(translation.narrower)
    for entry in translation.entries:
        kind, _, name = entry.resource.partition(":")
        actions = tuple(action for action in entry.actions if action in SAID_BY_ACL1)
        if entry.source_ips:
            narrower.append(f"{kind} {name}: ACL 1.0 cannot limit where a key is used from; it is left out.")
        elif not actions:
            narrower.append(f"{kind} {name}: ACL 1.0 cannot allow to look without receiving; it is left out.")
        else:
            entries.append(AclEntry(entry.resource, actions))
    return Translation(tuple(entries), tuple(dict.fromkeys(narrower)))


def _resources(names: Names) -> Iterable[tuple[str, str, str, Mapping[str, Alternatives]]]:
    for topic in names.topics:
        # A name that would end a pattern, or begin as the broker's own topics, is nobody's to give.
        if "*" not in topic and not topic.startswith("%"):
            yield "Topic", topic, mq_resource(topic), TOPIC
    for group in names.groups:
        if "*" not in group and not group.startswith("%"):
            yield "Group", group, mq_resource(group), GROUP
            yield "Topic", dead_letter_topic(group), mq_resource(group), DEAD_LETTERS


def _expressible(grantee: Grantee) -> tuple[_Rights, list[str]]:
    """The rights without what ACL 2.0 cannot say, and what that was."""
    base: list[Statement] = []
    limited: list[tuple[Networks, Statement]] = []
    narrower: list[str] = []
    for statement in grantee.statements:
        if not statement.conditions:
            base.append(statement)
            continue
        plain = replace(statement, conditions=())
        keys = ", ".join(dict.fromkeys(key for _, key, _ in statement.conditions))
        origin = f"Policy {statement.source}" if statement.source else "A statement"
        if not statement.allow:
            base.append(plain)
            narrower.append(f"{origin} denies under a condition ({keys}); on the brokers it always denies.")
        elif networks := _networks(statement):
            limited.append((networks, plain))
        else:
            narrower.append(
                f"{origin} allows under a condition ({keys}) that the brokers cannot express; it is left out."
            )
    anywhere = replace(grantee, statements=tuple(base))
    variants = tuple((networks, replace(grantee, statements=(*base, statement))) for networks, statement in limited)
    return _Rights(anywhere, variants), narrower


def _networks(statement: Statement) -> Networks:
    """The networks of a statement whose only condition is IpAddress; empty when they cannot be said there.

    Brokers compare addresses of both families as whole numbers: what lies below 2^32 would fit one of either. So
    networks of IPv6 that begin there are left out, and of IPv4 the part that ::1 would fit, which is never a source.
    """
    if len(statement.conditions) != 1 or statement.conditions[0][0] != "IpAddress":
        return frozenset()
    found: set[str] = set()
    for value in statement.conditions[0][2]:
        network = ipaddress.ip_network(value, strict=False)
        if isinstance(network, ipaddress.IPv6Network):
            if int(network.network_address) >= 2**32:
                found.add(str(network))
        elif _UNROUTED.subnet_of(network):
            found.update(map(str, network.address_exclude(_UNROUTED)))
        elif not network.subnet_of(_UNROUTED):
            found.add(str(network))
    return frozenset(found)


def _entry(resource: str, found: Mapping[str, Networks]) -> tuple[AclEntry | None, bool]:
    """One entry for a resource, and whether it says less than `found`."""
    if not found:
        return None, False
    kept, common = [action for action, networks in found.items() if not networks], _ANYWHERE
    if not kept:
        first, common = next(iter(found)), frozenset.intersection(*found.values())
        kept, common = (list(found), common) if common else ([first], found[first])
    less = any(action not in kept or networks != common for action, networks in found.items())
    return AclEntry(resource, tuple(kept), tuple(sorted(common))), less


def _whole(grantee: Grantee, prefix: str) -> tuple[str, ...]:
    """The actions on topics that the key has for every name with this beginning, also one that is made later."""
    start = mq_resource(prefix)
    if any(resource.startswith(start) and not grantee.owns(resource) for resource in grantee.holders):
        return ()

    def always(action: str) -> bool:
        concerned = [statement for statement in grantee.statements if statement.matches_action_name(action)]
        return any(s.allow and any(_covers(p, prefix) for p in s.resources) for s in concerned) and not any(
            not s.allow and any(_may_touch(p, prefix) for p in s.resources) for s in concerned
        )

    if not any(_covers(pattern, prefix) for pattern in grantee.boundary) or not always("mq:CreateTopic"):
        return ()
    return tuple(
        action
        for action, alternatives in TOPIC.items()
        if any(all(always(needed) for needed in alternative) for alternative in alternatives)
    )


def _covers(pattern: str, prefix: str) -> bool:
    """Whether a pattern fits every resource of messages whose name begins so."""
    if pattern == "*":
        return True
    service, place, name = _parts(pattern)
    head = name[:-1]
    return service in ("mq", "*") and not place and name.endswith("*") and not _wild(head) and prefix.startswith(head)


def _may_touch(pattern: str, prefix: str) -> bool:
    """Whether a pattern could fit a resource of messages whose name begins so; in doubt it does."""
    service, _, name = _parts(pattern)
    if not _wild(service) and service not in ("", "mq"):
        return False
    head = name.partition("*")[0].partition("?")[0]
    return not service or prefix.startswith(head) or head.startswith(prefix)


def _parts(pattern: str) -> tuple[str, str, str]:
    """Service, region and account as far as they say something, and name; no service for what is no name of RAM."""
    parts = pattern.split(":", 4)
    if len(parts) != 5 or parts[0] != "acs":
        return "", "", pattern
    return parts[1], "".join(part for part in parts[2:4] if part != "*"), parts[4]


def _wild(text: str) -> bool:
    return "*" in text or "?" in text


def _allows(grantee: Grantee, alternatives: Alternatives, resource: str) -> bool:
    return any(all(decide(grantee, action, resource).allowed for action in needed) for needed in alternatives)


def _statements(rows: Iterable[Mapping[str, Any]]) -> tuple[Statement, ...]:
    """Statements of a row; each may carry the name of its policy as `Source`."""
    found: list[Statement] = []
    for row in rows:
        fields = dict(row)
        source = str(fields.pop("Source", ""))
        found += parse_policy({"Version": "1", "Statement": [fields]}, source)
    return tuple(found)
