"""What a cluster has and no account: asked of the brokers by one bulk call each for topics and groups.

What RocketMQ keeps for itself is left out, and so are topics for retries and dead letters: they go with their group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from brokercore.client import GroupConfig, TopicConfig
from brokercore.names import REPLY_SUFFIX, TOOLS_PREFIXES, group_of, is_system_group, is_system_topic
from console.adoption.models import Forgotten, Kind
from console.instances import broker
from console.instances.broker import CONSOLE_GROUP
from console.instances.models import Cluster, Instance
from console.topics.models import Group, Topic
from console.topics.names import unholdable

_KEPT = frozenset({CONSOLE_GROUP, "CHECKPOINT_TOPIC", "DefaultHeartBeatSyncerTopic"})
_CONSTANT_PARTS = ("SyncBrokerMemberGroup", "RMQ_SYS_")


@dataclass(frozen=True, slots=True)
class Unowned:
    """One topic or group that no account has. `refusal` says why no account can; empty when one can."""

    kind: Kind
    name: str
    refusal: str = ""
    forgotten: bool = False

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


def on_cluster(cluster: Cluster) -> OnCluster:
    """Everything that the cluster has. Raises ClientError for an outage."""
    admin = broker.admin(cluster)
    told = admin.brokers.cluster()
    topics = admin.topics.configs_by_broker()
    return OnCluster(
        _merged(topics),
        _merged(admin.groups.configs_by_broker()),
        frozenset(told.brokers.keys() | told.clusters.keys()),
    )


def unowned(cluster: Cluster, there: OnCluster | None = None) -> list[Unowned]:
    """Topics, then groups, each by name. Raises ClientError for an outage."""
    there = there or on_cluster(cluster)
    forgotten = set(Forgotten.objects.filter(cluster=cluster).values_list("kind", "name"))
    namespaces = _namespaces()
    found = []
    for kind, names in ((Kind.TOPIC, there.topics), (Kind.GROUP, there.groups)):
        owned = _owned(kind)
        for name in sorted(names):
            if owned.get(name) == cluster.pk or is_kept(name, there.kept) or name.partition("%")[0] in namespaces:
                continue
            refusal = unholdable(name, group=kind is Kind.GROUP)
            if name in owned:
                refusal = "An account has this name on another cluster."
            found.append(Unowned(kind, name, refusal, (kind, name) in forgotten))
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


def _owned(kind: Kind) -> dict[str, int]:
    """The cluster of each bare name that an account has."""
    model = Topic if kind is Kind.TOPIC else Group
    return dict(model.objects.order_by().values_list("physical_name", "instance__cluster_id"))


def _namespaces() -> set[str]:
    """What lies in an instance's namespace is its account's: Broker drift shows it there."""
    return set(Instance.objects.filter(independent_naming=True).values_list("instance_id", flat=True))


def _merged(by_broker: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in sorted(by_broker):
        found = dict(by_broker[name]) | found
    return found
