"""Topics, groups and the grants that owners give on topics."""

from __future__ import annotations

from django.db import models

from console.accounts.models import Tenant, User
from console.instances.models import Instance


class OrderType(models.IntegerChoices):
    """`orderType` of the vendor's topic/create; 3 is not used."""

    NORMAL = 0, "Normal"
    PARTITIONALLY_ORDERED = 1, "Partitionally ordered"
    GLOBALLY_ORDERED = 2, "Globally ordered"
    TRANSACTIONAL = 4, "Transactional"
    DELAYED = 5, "Scheduled or delayed"


class Permission(models.IntegerChoices):
    """`perm` of a topic: bit 4 read, bit 2 write."""

    READ_WRITE = 6, "Read and write"
    READ_ONLY = 4, "Read only"
    WRITE_ONLY = 2, "Write only"


class Relation(models.IntegerChoices):
    """`relation` of a grant (empower): bit 2 publish, bit 4 subscribe."""

    PUBLISH = 2, "Publish"
    SUBSCRIBE = 4, "Subscribe"
    PUBLISH_SUBSCRIBE = 6, "Publish and subscribe"


class Topic(models.Model):
    """A topic of an instance. The owner is always the tenant account."""

    instance = models.ForeignKey(Instance, on_delete=models.PROTECT, related_name="topics")
    name = models.CharField(max_length=127)
    physical_name = models.CharField(max_length=255, unique=True)
    order_type = models.PositiveSmallIntegerField(choices=OrderType.choices)
    perm = models.PositiveSmallIntegerField(choices=Permission.choices, default=Permission.READ_WRITE)
    queues = models.PositiveSmallIntegerField(default=8)
    remark = models.CharField(max_length=256, blank=True)
    creator = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["instance", "name"], name="topic_name_in_instance")]

    def __str__(self) -> str:
        return self.name


class Group(models.Model):
    """A group ID: producers or consumers with the same logic."""

    instance = models.ForeignKey(Instance, on_delete=models.PROTECT, related_name="groups")
    group_id = models.CharField(max_length=64)
    physical_name = models.CharField(max_length=255, unique=True)
    remark = models.CharField(max_length=256, blank=True)
    read_enabled = models.BooleanField(default=True)
    retry_max_times = models.PositiveSmallIntegerField(default=16)
    creator = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["group_id"]
        constraints = [models.UniqueConstraint(fields=["instance", "group_id"], name="group_id_in_instance")]

    def __str__(self) -> str:
        return self.group_id


class Grant(models.Model):
    """A right on one topic that its owner gives to a tenant account or a RAM user (empower)."""

    topic = models.ForeignKey(Topic, on_delete=models.CASCADE, related_name="grants")
    tenant = models.ForeignKey(Tenant, null=True, blank=True, on_delete=models.CASCADE, related_name="received_grants")
    user = models.ForeignKey(User, null=True, blank=True, on_delete=models.CASCADE, related_name="received_grants")
    relation = models.PositiveSmallIntegerField(choices=Relation.choices)
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
