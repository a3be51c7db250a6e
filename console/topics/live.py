"""What is known of topics and groups at this moment: queues and clients by the broker, rates by the latest sample."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from brokercore.client.errors import ConsumerNotOnline
from brokercore.policy import mq_resource
from console.accounts.actor import Actor
from console.instances import broker
from console.instances.models import Cluster
from console.topics.models import ORDERED, DeliveryOrder, Group, Topic
from console.web.provided import Provided

MAX_SUBSCRIBERS = 30
"""Groups asked for their clients, one call each."""


@dataclass(frozen=True)
class Rates:
    """Figures by physical name of one snapshot: messages a second, messages stored, messages of backlog."""

    sampled_at: int | None
    in_tps: dict[str, float | None]
    stored: dict[str, int]
    out_tps: dict[str, float | None]
    backlog: dict[str, int]

    @property
    def age_seconds(self) -> int | None:
        """How long ago the sample was taken."""
        return None if self.sampled_at is None else max(0, int(time.time() - self.sampled_at / 1000))


class Sampled(Protocol):
    """The figures of a cluster's latest sample."""

    def __call__(
        self, cluster: Cluster, *, topics: Sequence[str] | None = None, groups: Sequence[str] | None = None
    ) -> Rates: ...


Figure = Literal["in_tps", "stored", "out_tps", "backlog"]
"""What a sample tells of each topic, and of each group."""

Line = list[float | None]
"""Messages a second over the last hour in steps of two minutes, oldest first; None where nothing was sampled."""


@dataclass(frozen=True)
class GroupHour:
    """The last hour of a group in those steps: how many messages waited at the end of each, and what it consumed."""

    backlog: list[int | None]
    out_tps: Line


#: Given by those who take samples: the figures of some; one figure of all on a cluster, where it is known; and the last
#: hour of topics, and of groups with their backlogs now.
sampled = Provided[Sampled](f"{__name__}.sampled", "console.metrics")
figure = Provided[Callable[[Cluster, Figure], dict[str, float]]](f"{__name__}.figure", "console.metrics")
topic_hours = Provided[Callable[[Cluster, Sequence[str]], dict[str, Line]]](
    f"{__name__}.topic_hours", "console.metrics"
)
group_hours = Provided[Callable[[Cluster, Mapping[str, int]], dict[str, GroupHour]]](
    f"{__name__}.group_hours", "console.metrics"
)


def rates(cluster: Cluster, *, topics: Sequence[str] = (), groups: Sequence[str] = ()) -> Rates:
    """The latest figures of these topics and groups by their physical names; empty when there is no recent sample."""
    return sampled.get()(cluster, topics=topics, groups=groups)


@dataclass(frozen=True)
class Subscriber:
    """A group that consumes a topic; `clients` is 0 and the rest empty while it is offline."""

    group_id: str
    clients: int
    expression: str = ""
    message_model: str = ""


@dataclass(frozen=True)
class Subscribers:
    """The groups that the visitor may see, and how many groups of other accounts consume the topic too."""

    groups: list[Subscriber]
    others: int


@dataclass(frozen=True)
class QueueRow:
    """One queue: its offsets and the time of the last message, epoch ms or 0."""

    broker_name: str
    queue_id: int
    min_offset: int
    max_offset: int
    last_update_ms: int

    @property
    def stored(self) -> int:
        """How many messages it holds."""
        return self.max_offset - self.min_offset


def queue_rows(topic: Topic) -> list[QueueRow]:
    """The topic's queues in order. Raises ClientError for an outage."""
    stats = broker.admin(topic.instance.cluster).topics.stats(topic.physical_name)
    return [
        QueueRow(queue.broker_name, queue.queue_id, row.min_offset, row.max_offset, row.last_update_ms)
        for queue, row in sorted(stats.items())
    ]


def subscribers(actor: Actor, topic: Topic) -> Subscribers:
    """The account's groups that subscribe to the topic or have offsets in it, as far as the actor may see them."""
    admin = broker.admin(topic.instance.cluster)
    names = admin.topics.groups(topic.physical_name)
    known = Group.objects.filter(cluster=topic.instance.cluster, physical_name__in=names)
    own = known.filter(owner=actor.tenant).select_related("owner", "creator").order_by("group_id")
    found = []
    for group in own[:MAX_SUBSCRIBERS]:
        resource = mq_resource(group.physical_name)
        if not actor.decide("mq:QueryGroup", resource, owner=group.owner, holder=group.holder).allowed:
            continue
        try:
            connection = admin.clients.consumers(group.physical_name)
        except ConsumerNotOnline:
            found.append(Subscriber(group.group_id, 0))
            continue
        subscription = connection.subscriptions.get(topic.physical_name)
        found.append(
            Subscriber(
                group.group_id,
                len(connection.connections),
                subscription.expression if subscription else "",
                str(connection.message_model or ""),
            )
        )
    return Subscribers(found, known.exclude(owner=actor.tenant).count())


@dataclass(frozen=True)
class Delivery:
    """Whether a group's clients that pop get messages in order now, and what it subscribes to, ordered or not."""

    in_order: bool
    ordered: list[str]
    others: list[str]
    automatic: bool
    """Whether the brokers find out by themselves: those of Apache RocketMQ do not."""

    @property
    def out_of_order(self) -> bool:
        """Whether messages of an ordered topic come without order."""
        return bool(self.ordered) and not self.in_order


def delivery(group: Group) -> Delivery:
    """By what the group's online clients subscribe to, or else by the topics that it has offsets in.

    Raises ClientError for an outage.
    """
    admin = broker.admin(group.instance.cluster)
    try:
        names = set(admin.clients.consumers(group.physical_name).subscriptions)
    except ConsumerNotOnline:
        names = set(admin.groups.topics(group.physical_name))
    of_cluster = Topic.objects.filter(cluster=group.instance.cluster, physical_name__in=names)
    rows = of_cluster.order_by("name").values_list("name", "order_type")
    ordered = [name for name, order_type in rows if order_type in ORDERED]
    others = [name for name, order_type in rows if order_type not in ORDERED]
    automatic = group.instance.cluster.embedded and group.delivery_order == DeliveryOrder.AUTOMATIC
    in_order = group.delivery_order == DeliveryOrder.ORDERLY or (automatic and bool(ordered) and not others)
    return Delivery(in_order, ordered, others, automatic)
