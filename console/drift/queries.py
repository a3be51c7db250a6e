"""Reads of drift. The actor comes first: an account sees its own."""

from __future__ import annotations

from dataclasses import dataclass

from brokercore.policy import mq_resource
from console.accounts.actor import Actor
from console.drift import sweep
from console.drift.comparison import Difference, Kind, State
from console.drift.sweep import Snapshot
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

    @property
    def key(self) -> str:
        """Names the row in a form: cluster, kind and name on the wire."""
        return f"{self.cluster.pk}:{self.difference.kind}:{self.difference.physical_name}"

    @property
    def physical_name(self) -> str:
        """What the table sorts by."""
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
    """One cluster's last snapshot with the rows that the visitor may see."""

    cluster: Cluster
    snapshot: Snapshot
    rows: list[Row]


def clusters(actor: Actor) -> list[Cluster]:
    """The clusters that hold something of the actor's account; all of them for the platform's administrator."""
    if actor.is_platform_admin:
        return list(Cluster.objects.order_by("name"))
    own = Instance.objects.filter(tenant=actor.tenant).values("cluster")
    joined = Group.objects.filter(owner=actor.tenant).values("instance__cluster")
    return list(Cluster.objects.filter(pk__in=own).union(Cluster.objects.filter(pk__in=joined)).order_by("name"))


def parts(actor: Actor) -> list[Part]:
    """The last snapshot of each cluster; one that was never compared is compared now."""
    found = []
    for cluster in clusters(actor):
        snapshot = sweep.last(cluster) or sweep.sweep(cluster)
        found.append(Part(cluster, snapshot, _rows(actor, cluster, snapshot)))
    return found


def find(actor: Actor, cluster_id: int, kind: str, physical_name: str) -> Row | None:
    """One row of the last snapshots, if the actor may see it."""
    for part in parts(actor):
        for row in part.rows:
            if (row.cluster.pk, row.kind, row.physical_name) == (cluster_id, kind, physical_name):
                return row
    return None


def _rows(actor: Actor, cluster: Cluster, snapshot: Snapshot) -> list[Row]:
    if actor.is_platform_admin:
        return []  # accounts see their own; what is nobody's is no drift (console.adoption)
    own = [difference for difference in snapshot.differences if difference.tenant_id == actor.tenant.pk]
    holders = {} if actor.is_account else _holders(own)
    return [row for difference in own if (row := _row(actor, cluster, difference, holders)) is not None]


def _row(actor: Actor, cluster: Cluster, difference: Difference, holders: dict[str, str]) -> Row | None:
    holder = holders.get(difference.physical_name, "")

    def may(what: str, name: str = difference.physical_name) -> bool:
        action = _ACTIONS[what][difference.kind]
        return actor.decide(action, mq_resource(name), owner=actor.tenant, holder=holder).allowed

    if not may("look"):
        return None
    extra = difference.state is State.EXTRA
    adoptable = extra and may_be_adopted(difference.name, group=difference.kind is Kind.GROUP)
    return Row(
        cluster,
        difference,
        may_mend=not extra and may("mend"),
        may_adopt=adoptable and may("adopt", difference.instance_id),
        may_delete=extra and may("delete"),
    )


def _holders(differences: list[Difference]) -> dict[str, str]:
    names = [difference.physical_name for difference in differences if difference.kind is Kind.GROUP]
    groups = Group.objects.select_related("owner", "creator").filter(physical_name__in=names)
    return {group.physical_name: group.holder for group in groups}
