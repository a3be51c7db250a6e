"""Clusters and the instances that tenants own on them (docs/use/tenancy.md)."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from console.accounts.models import ResourceSet, Tenant


class Cluster(models.Model):
    """A RocketMQ cluster (embedded or Apache's) reached through its name server."""

    name = models.CharField(max_length=64, unique=True)
    region = models.CharField(max_length=64)
    namesrv = models.CharField(max_length=255, help_text="host:port of the name server")
    created_at = models.DateTimeField(default=timezone.now)
    modified_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.name


class Instance(models.Model):
    """A tenant's share of a cluster: a namespace for topics and groups, with limits.

    Without `independent_naming` it is the tenant's one default instance on its cluster: its names have no prefix on the
    wire and are unique across all tenants.
    """

    instance_id = models.CharField(max_length=40, unique=True)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="instances")
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="instances")
    resource_set = models.ForeignKey(
        ResourceSet, null=True, blank=True, on_delete=models.PROTECT, related_name="instances"
    )
    region = models.CharField(max_length=64)
    name = models.CharField(max_length=64)
    independent_naming = models.BooleanField(default=True)
    remark = models.CharField(max_length=256, blank=True)
    max_send_tps = models.PositiveIntegerField(default=1000, help_text="messages per second")
    max_receive_tps = models.PositiveIntegerField(default=1000, help_text="messages per second")
    topic_capacity = models.PositiveIntegerField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["tenant", "region", "name"], name="instance_name_in_region"),
            models.UniqueConstraint(
                fields=["tenant", "cluster"],
                condition=models.Q(independent_naming=False),
                name="one_default_instance",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def physical_name(self, name: str) -> str:
        """The name on the wire of a topic or group of this instance."""
        return f"{self.instance_id}%{name}" if self.independent_naming else name
