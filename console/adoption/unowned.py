"""What a cluster has and no account: asked of the brokers by one bulk call each for topics and groups.

What RocketMQ keeps for itself is left out, and so are topics for retries and dead letters: they go with their group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from brokercore.client import GroupConfig, TopicConfig
from brokercore.names import REPLY_SUFFIX, TOOLS_PREFIXES, group_of, is_system_group, is_system_topic
from console.adoption.models import Forgotten, Kind, model_of
from console.instances import broker
from console.instances.broker import CONSOLE_GROUP
from console.instances.models import Cluster, Instance
from console.topics.as_is import group_settings, topic_settings
from console.topics.names import unholdable

_KEPT = frozenset({CONSOLE_GROUP, "CHECKPOINT_TOPIC", "DefaultHeartBeatSyncerTopic"})
_CONSTANT_PARTS = ("SyncBrokerMemberGroup", "RMQ_SYS_")
_Config = TypeVar("_Config", TopicConfig, GroupConfig)


@dataclass(frozen=True, slots=True)
class Unowned:
    """One topic or group that no account has. `refusal` says why no account can; empty when one can.

    `differing` says in which settings its brokers differ; empty when they do not.
    """

    kind: Kind
    name: str
    refusal: str = ""
    forgotten: bool = False
    differing: str = ""

    @property
    def key(self) -> str:
        """Names it in a form."""
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True)
class OnCluster:
    """What the brokers have, by name; of brokers that differ, the first that has it."""

    topics: Mapping[str, TopicConfig]
    groups: Mapping[str, GroupConfig]
    kept: frozenset[str]
    """Names of brokers and clusters, after which RocketMQ calls topics."""
    differing: Mapping[Kind, Mapping[str, str]]
    """In which settings brokers differ, of those names of which they do."""

    def names(self, kind: str) -> Mapping[str, Any]:
        """The topics or the groups."""
        return self.topics if kind == Kind.TOPIC else self.groups


def on_cluster(cluster: Cluster) -> OnCluster:
    """Everything that the cluster has. Raises ClientError for an outage."""
    admin = broker.admin(cluster)
    told = admin.brokers.cluster()
    topics, groups = admin.topics.configs_by_broker(), admin.groups.configs_by_broker()
    return OnCluster(
        _merged(topics),
        _merged(groups),
        frozenset(told.brokers.keys() | told.clusters.keys()),
        {Kind.TOPIC: differing(topics, topic_settings), Kind.GROUP: differing(groups, group_settings)},
    )


def unowned(cluster: Cluster, there: OnCluster | None = None) -> list[Unowned]:
    """Topics, then groups, each by name. Raises ClientError for an outage."""
    there = there or on_cluster(cluster)
    forgotten = set(Forgotten.objects.filter(cluster=cluster).values_list("kind", "name"))
    namespaces = _namespaces()
    found = []
    for kind in Kind:
        owned = _owned(cluster, kind)
        for name in sorted(there.names(kind)):
            if name in owned or is_kept(name, there.kept) or name.partition("%")[0] in namespaces:
                continue
            refusal = unholdable(name, group=kind is Kind.GROUP)
            found.append(Unowned(kind, name, refusal, (kind, name) in forgotten, there.differing[kind].get(name, "")))
    return found


def is_kept(name: str, kept: frozenset[str]) -> bool:
    """True for what RocketMQ and its tools keep for themselves, and what goes with a group."""
    return (
        is_system_topic(name)
        or is_system_group(name)
        or bool(group_of(name))
        or name in kept
        or name in _KEPT
        or name.startswith((*TOOLS_PREFIXES, *_CONSTANT_PARTS))
        or (name.endswith(REPLY_SUFFIX) and name.removesuffix(REPLY_SUFFIX) in kept)
    )


def _owned(cluster: Cluster, kind: Kind) -> set[str]:
    """The names on the wire that an account has on the cluster."""
    held = model_of(kind).objects.filter(cluster=cluster)
    return set(held.order_by().values_list("physical_name", flat=True))


def _namespaces() -> set[str]:
    """What lies in an instance's namespace is its account's: Broker drift shows it there."""
    return set(Instance.objects.filter(independent_naming=True).values_list("instance_id", flat=True))


def _merged(by_broker: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in sorted(by_broker):
        found = dict(by_broker[name]) | found
    return found


def differing(
    by_broker: Mapping[str, Mapping[str, _Config]], settings_of: Callable[[_Config], Mapping[str, object]]
) -> dict[str, str]:
    """In which settings the brokers that have a name differ, such as `queues: 8 on broker-a, 4 on broker-b`."""
    brokers = sorted(by_broker)
    names: set[str] = set().union(*by_broker.values()) if len(brokers) > 1 else set()
    found = {}
    for name in names:
        told = {one: settings_of(by_broker[one][name]) for one in brokers if name in by_broker[one]}
        first, *others = told.values()
        parts = [
            f"{setting}: {', '.join(f'{values[setting]} on {one}' for one, values in told.items())}"
            for setting in first
            if any(other[setting] != first[setting] for other in others)
        ]
        if parts:
            found[name] = "; ".join(parts)
    return found
