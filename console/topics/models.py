"""Topics, groups and the grants that owners give on topics."""

from __future__ import annotations

from typing import Any

from django.db import models

from brokercore.names import GROUP_MAX, TOPIC_MAX
from brokercore.policy import Statement, mq_resource
from console.accounts.models import Tenant, User
from console.instances.models import Cluster, Instance
from console.web.languages import gettext_lazy


class OrderType(models.IntegerChoices):
    """`orderType` of the vendor's topic/create; 3 is not used."""

    NORMAL = 0, gettext_lazy("Normal")
    PARTITIONALLY_ORDERED = 1, gettext_lazy("Partitionally ordered")
    GLOBALLY_ORDERED = 2, gettext_lazy("Globally ordered")
    TRANSACTIONAL = 4, gettext_lazy("Transactional")
    DELAYED = 5, gettext_lazy("Scheduled or delayed")


ORDERED = (OrderType.PARTITIONALLY_ORDERED, OrderType.GLOBALLY_ORDERED)


class Permission(models.IntegerChoices):
    """`perm` of a topic: bit 4 read, bit 2 write."""

    READ_WRITE = 6, gettext_lazy("Read and write")
    READ_ONLY = 4, gettext_lazy("Read only")
    WRITE_ONLY = 2, gettext_lazy("Write only")


class DeliveryOrder(models.TextChoices):
    """`deliveryOrderType` of a group: whether its clients that pop, gRPC ones too, get a queue's messages in order."""

    AUTOMATIC = "Auto", gettext_lazy("Automatic")
    ORDERLY = "Orderly", gettext_lazy("In order")
    CONCURRENTLY = "Concurrently", gettext_lazy("Without order")


class Relation(models.IntegerChoices):
    """`relation` of a grant (empower): bit 2 publish, bit 4 subscribe."""

    PUBLISH = 2, gettext_lazy("Publish")
    SUBSCRIBE = 4, gettext_lazy("Subscribe")
    PUBLISH_SUBSCRIBE = 6, gettext_lazy("Publish and subscribe")


class ClusterOfInstance(models.ForeignKey):  # type: ignore[type-arg]
    """The cluster of the row's instance: the database can tell names on a cluster apart by it."""

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        """The instance's, whichever way the row is written."""
        number: int = model_instance.instance.cluster_id  # type: ignore[attr-defined]
        setattr(model_instance, self.attname, number)
        return number

    def deconstruct(self) -> Any:
        """A foreign key, as far as the database is concerned."""
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.ForeignKey", args, kwargs


class Topic(models.Model):
    """A topic of an instance. The owner is always the tenant account.

    `cluster` is the instance's, kept here since names on the wire are unique on each cluster.
    """

    instance = models.ForeignKey(Instance, on_delete=models.PROTECT, related_name="topics")
    cluster = ClusterOfInstance(Cluster, on_delete=models.PROTECT, related_name="+", db_index=False)
    name = models.CharField(max_length=TOPIC_MAX)
    physical_name = models.CharField(max_length=255)
    order_type = models.PositiveSmallIntegerField(choices=OrderType.choices)
    perm = models.PositiveSmallIntegerField(choices=Permission.choices, default=Permission.READ_WRITE)
    queues = models.PositiveSmallIntegerField(default=8)
    remark = models.CharField(max_length=256, blank=True)
    creator = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    adopted = models.BooleanField(default=False, help_text="taken over as the cluster had it, and kept so")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["instance", "name"], name="topic_name_in_instance"),
            models.UniqueConstraint(fields=["physical_name", "cluster"], name="topic_name_on_cluster"),
        ]

    def __str__(self) -> str:
        return self.name


class Group(models.Model):
    """A group ID: producers or consumers with the same logic.

    `owner` is the tenant account that made it: an account with a grant on a topic makes its group in the instance of
    that topic. A RAM user may use the groups it created; the others only once their account has `shared` them, and
    then as its policies say. `cluster` is the instance's, as a topic has it.
    """

    instance = models.ForeignKey(Instance, on_delete=models.PROTECT, related_name="groups")
    cluster = ClusterOfInstance(Cluster, on_delete=models.PROTECT, related_name="+", db_index=False)
    group_id = models.CharField(max_length=GROUP_MAX)
    physical_name = models.CharField(max_length=255)
    remark = models.CharField(max_length=256, blank=True)
    read_enabled = models.BooleanField(default=True)
    retry_max_times = models.PositiveSmallIntegerField(default=16)
    delivery_order = models.CharField(
        max_length=12, choices=DeliveryOrder.choices, default=DeliveryOrder.AUTOMATIC,
        help_text="automatic: in order once it subscribes to ordered topics only",
    )  # fmt: skip
    owner = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="groups")
    creator = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    shared = models.BooleanField(default=False, help_text="RAM users of the owner may use it as their policies say")
    adopted = models.BooleanField(default=False, help_text="taken over as the cluster had it, and kept so")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["group_id"]
        constraints = [
            models.UniqueConstraint(fields=["instance", "group_id"], name="group_id_in_instance"),
            models.UniqueConstraint(fields=["physical_name", "cluster"], name="group_name_on_cluster"),
        ]

    def __str__(self) -> str:
        return self.group_id

    @property
    def holder(self) -> str:
        """Who may use the group, as the permission decision wants it (`brokercore.policy.Grantee.holders`)."""
        return self.holder_of(self.owner)

    def holder_of(self, owner: Tenant) -> str:
        """The same by its owner, where that is known already."""
        name = self.creator.username if self.creator and not self.creator.is_tenant_admin else ""
        return group_holder(owner.uid, name, shared=self.shared)


def group_holder(owner_uid: str, creator: str, *, shared: bool) -> str:
    """Holder of a group: `<account>/`, then `*` when it is shared, then the RAM user that made it, as far as any."""
    who = ("*" if shared else "") + creator
    return f"{owner_uid}/{who}" if who else owner_uid


class Grant(models.Model):
    """A right on one topic that its owner gives to a tenant account or a RAM user (empower)."""

    topic = models.ForeignKey(Topic, on_delete=models.CASCADE, related_name="grants")
    tenant = models.ForeignKey(Tenant, null=True, blank=True, on_delete=models.CASCADE, related_name="received_grants")
    user = models.ForeignKey(User, null=True, blank=True, on_delete=models.CASCADE, related_name="received_grants")
    relation = models.PositiveSmallIntegerField(choices=Relation.choices)
    creator = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(tenant__isnull=False, user__isnull=True)
                | models.Q(tenant__isnull=True, user__isnull=False),
                name="grant_to_tenant_or_user",
            ),
            models.UniqueConstraint(fields=["topic", "tenant"], name="one_grant_per_tenant"),
            models.UniqueConstraint(fields=["topic", "user"], name="one_grant_per_user"),
        ]

    @property
    def statement(self) -> Statement:
        """What the grant allows, in the terms of the permission decision."""
        return Statement(
            allow=True,
            actions=GRANTED[Relation(self.relation)],
            resources=(mq_resource(self.topic.physical_name),),
            source=f"grant on {self.topic.name}",
        )

    @property
    def of_instance(self) -> Statement | None:
        """What a grant to a RAM user of the owner allows on the topic's instance: to see it, and to make its own group.

        None for a grant to another account, whose groups are judged as its own (`access.require_new_group`).
        """
        if self.user_id is None:
            return None
        may = ("mq:QueryInstance", "mq:CreateGroup") if self.relation & Relation.SUBSCRIBE else ("mq:QueryInstance",)
        instance = mq_resource(self.topic.instance.instance_id)
        return Statement(allow=True, actions=may, resources=(instance,), source=f"grant on {self.topic.name}")


_EITHER = ("mq:QueryTopic", "mq:QueryTrend")
_PUBLISH, _SUBSCRIBE = ("mq:PUB",), ("mq:SUB", "mq:QueryMessage")
#: The actions that each relation allows on the topic (docs/use/permissions.md, "Grants").
GRANTED: dict[Relation, tuple[str, ...]] = {
    Relation.PUBLISH: _PUBLISH + _EITHER,
    Relation.SUBSCRIBE: _SUBSCRIBE + _EITHER,
    Relation.PUBLISH_SUBSCRIBE: _PUBLISH + _SUBSCRIBE + _EITHER,
}
