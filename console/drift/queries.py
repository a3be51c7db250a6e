"""Reads of drift. The actor comes first: an account sees its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from django.utils import timezone

from brokercore.policy import mq_resource
from console.accounts.actor import Actor
from console.drift import sweep
from console.drift.comparison import Difference, Kind, State
from console.drift.sweep import Kept, Snapshot, difference_of, is_adopted, kind_and_state, name_of
from console.instances.models import Cluster, Instance
from console.topics.models import Group
from console.topics.names import may_be_adopted

_ACTIONS = {
    "look": {Kind.TOPIC: "mq:QueryTopic", Kind.GROUP: "mq:QueryGroup"},
    "mend": {Kind.TOPIC: "mq:UpdateTopic", Kind.GROUP: "mq:UpdateGroup"},
    "adopt": {Kind.TOPIC: "mq:CreateTopic", Kind.GROUP: "mq:CreateGroup"},
    "delete": {Kind.TOPIC: "mq:DeleteTopic", Kind.GROUP: "mq:DeleteGroup"},
}


@dataclass(frozen=True)
class Row:
    """One line of the page: a difference and what the visitor may do about it."""

    cluster: Cluster
    difference: Difference
    may_mend: bool
    may_adopt: bool
    may_delete: bool
    may_accept: bool = False
    """Whether the console may show it as the brokers have it now: offered first of what was adopted."""

    @property
    def key(self) -> str:
        """Names the row in a form: cluster, kind and name on the wire."""
        return f"{self.cluster.pk}:{self.difference.kind}:{self.difference.physical_name}"

    @property
    def physical_name(self) -> str:
        """The name on the wire."""
        return self.difference.physical_name

    @property
    def state(self) -> str:
        """How it drifted."""
        return self.difference.state

    @property
    def kind(self) -> str:
        """Topic or group."""
        return self.difference.kind


@dataclass(frozen=True)
class Part:
    """One cluster's last snapshot, what of it the visitor may see, and how many of that one click mends.

    Those are none that were adopted: to a cluster that was there before the console nothing is written unasked.
    """

    actor: Actor
    cluster: Cluster
    snapshot: Snapshot
    seen: list[Kept]
    mendable: int
    holders: Mapping[str, str]

    def row(self, kept: Kept) -> Row:
        """What was kept as a line: what the visitor may do is decided now."""
        difference = difference_of(kept, self.actor.tenant)

        def may(what: str, name: str = difference.physical_name) -> bool:
            action, holder = _ACTIONS[what][difference.kind], self.holders.get(difference.physical_name, "")
            return self.actor.decide(action, mq_resource(name), owner=self.actor.tenant, holder=holder).allowed

        extra, writable = difference.state is State.EXTRA, not self.cluster.read_only
        adoptable = extra and may_be_adopted(difference.name, group=difference.kind is Kind.GROUP)
        return Row(
            self.cluster,
            difference,
            may_mend=writable and not extra and may("mend"),
            may_adopt=adoptable and may("adopt", difference.instance_id),
            may_delete=writable and extra and may("delete"),
            may_accept=difference.adopted and difference.state is State.DIFFERENT and may("mend"),
        )

    def rows(self) -> Iterator[Row]:
        """All of them, one by one."""
        return map(self.row, self.seen)


def clusters(actor: Actor) -> list[Cluster]:
    """The clusters that hold something of the actor's account; all of them for the platform's administrator."""
    if actor.is_platform_admin:
        return list(Cluster.objects.order_by("name"))
    own = Instance.objects.filter(tenant=actor.tenant).values("cluster")
    joined = Group.objects.filter(owner=actor.tenant).values("instance__cluster")
    return list(Cluster.objects.filter(pk__in=own).union(Cluster.objects.filter(pk__in=joined)).order_by("name"))


def parts(actor: Actor) -> list[Part]:
    """The last snapshot of each cluster; one that was never compared is compared now."""
    tenant = None if actor.is_platform_admin else actor.tenant  # accounts see their own
    found = []
    for cluster in clusters(actor):
        if (snapshot := sweep.last(cluster, tenant)) is None:
            sweep.sweep(cluster)
            snapshot = sweep.last(cluster, tenant) or Snapshot(timezone.now())
        found.append(_part(actor, cluster, snapshot))
    return found


def find(actor: Actor, cluster_id: int, kind: str, physical_name: str) -> Row | None:
    """One row of the last snapshots, if the actor may see it."""
    for part in parts(actor):
        for kept in part.seen if part.cluster.pk == cluster_id else ():
            if name_of(kept) == physical_name and kind_and_state(kept)[0] == kind:
                return part.row(kept)
    return None


def _part(actor: Actor, cluster: Cluster, snapshot: Snapshot) -> Part:
    seen, holders = snapshot.differences, dict[str, str]()
    if seen and not actor.is_account:
        holders = _holders(cluster, seen)
        seen = _allowed(actor, "look", seen, holders)
    mendable = [kept for kept in seen if kind_and_state(kept)[1] != State.EXTRA and not is_adopted(kept)]
    if mendable and not actor.is_account:
        mendable = _allowed(actor, "mend", mendable, holders)
    return Part(actor, cluster, snapshot, seen, 0 if cluster.read_only else len(mendable), holders)


def _allowed(actor: Actor, what: str, differences: list[Kept], holders: Mapping[str, str]) -> list[Kept]:
    """Those about which the actor may do this."""
    found: set[Kept] = set()
    for kind, action in _ACTIONS[what].items():
        resources = {mq_resource(name_of(kept)): kept for kept in differences if kind_and_state(kept)[0] == kind}
        held = {resource: holders.get(name_of(kept), "") for resource, kept in resources.items()}
        found |= {resources[resource] for resource in actor.allowed(action, held, owner=actor.tenant)}
    return [kept for kept in differences if kept in found]


def _holders(cluster: Cluster, differences: list[Kept]) -> dict[str, str]:
    names = [name_of(kept) for kept in differences if kind_and_state(kept)[0] == Kind.GROUP]
    groups = Group.objects.select_related("owner", "creator").filter(cluster=cluster, physical_name__in=names)
    return {group.physical_name: group.holder for group in groups}
