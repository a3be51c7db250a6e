"""Clusters and the instances that tenants own on them (docs/use/tenancy.md)."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone

from console.accounts.models import ResourceSet, Tenant
from console.web.languages import gettext_lazy

DEFAULT_TPS = 100_000
"""Messages a second, sent and received, of an instance that was given no limit: more than a small cluster can do."""


class Origin(models.TextChoices):
    """Whose brokers a cluster has, and who says where they are."""

    EMBEDDED = "embedded", gettext_lazy("Embedded")
    SETTINGS = "settings", gettext_lazy("From the settings")
    ADDED = "added", gettext_lazy("Added here")


class AccessControl(models.TextChoices):
    """How the brokers of a cluster of people's own decide who may do what."""

    AUTOMATIC = "auto", gettext_lazy("Found out from the brokers")
    ACL2 = "acl2", gettext_lazy("Users and lists of the brokers (ACL 2.0)")
    ACL1 = "acl1", gettext_lazy("Accounts in a file of the brokers (ACL 1.0)")
    NONE = "none", gettext_lazy("None")


class Cluster(models.Model):
    """A RocketMQ cluster (embedded or Apache's) reached through its name server (docs/operate/cluster.md).

    Address and account of the embedded one, and of that which GANTRY_NAMESRV names, are in the settings; those of all
    others are here.
    """

    name = models.CharField(max_length=64, unique=True)
    origin = models.CharField(max_length=8, choices=Origin.choices, default=Origin.ADDED)
    region = models.CharField(max_length=64)
    namesrv = models.CharField(max_length=255, help_text="host:port of the name server, several separated by ;")
    access_key_id = models.CharField(max_length=128, blank=True, help_text="of the console's account there")
    secret_encrypted = models.TextField(blank=True)
    tls = models.BooleanField(default=False, help_text="brokers and name servers are spoken to over TLS")
    authority = models.TextField(blank=True, help_text="PEM: who signed their certificates; empty: the system's list")
    certificate = models.TextField(blank=True, help_text="PEM: shown to brokers that ask for one")
    key_encrypted = models.TextField(blank=True)
    proxy = models.CharField(max_length=255, blank=True, help_text="host:port of the gRPC proxy, told to clients")
    access_control = models.CharField(max_length=4, choices=AccessControl.choices, default=AccessControl.AUTOMATIC)
    read_only = models.BooleanField(default=False, help_text="the console changes nothing there")
    created_at = models.DateTimeField(default=timezone.now)
    modified_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            # One row of each: they stand for what the settings say.
            models.UniqueConstraint(
                fields=["origin"], condition=~models.Q(origin=Origin.ADDED), name="one_cluster_of_settings"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def embedded(self) -> bool:
        """Whether its brokers are this installation's own: they decide by the console's table, and count for it."""
        return self.origin == Origin.EMBEDDED

    @property
    def has_region(self) -> bool:
        """Whether the settings have its region: else nothing new is made on it, and of several no call finds it."""
        return self.region in settings.REGIONS

    @property
    def from_settings(self) -> bool:
        """Whether the settings say where it is and with which account it is reached."""
        return self.origin != Origin.ADDED


class Instance(models.Model):
    """A tenant's share of a cluster: a namespace for topics and groups, with limits.

    Without `independent_naming` it is the tenant's one default instance on its cluster: its names have no prefix on the
    wire and are unique on the cluster, across all tenants.
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
    max_send_tps = models.PositiveIntegerField(default=DEFAULT_TPS, help_text="messages per second")
    max_receive_tps = models.PositiveIntegerField(default=DEFAULT_TPS, help_text="messages per second")
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
