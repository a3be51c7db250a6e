"""What was carried over to the ACL 2.0 of clusters: the users there that are ours, and how far each of them is."""

from __future__ import annotations

from django.db import models

from console.instances.models import Cluster
from console.web.languages import gettext_lazy


class State(models.TextChoices):
    """How far a user is. What is pending or being deleted is tried again every few seconds."""

    PENDING = "pending", gettext_lazy("Pending")
    SYNCED = "synced", gettext_lazy("In sync")
    REFUSED = "refused", gettext_lazy("Not managed by Gantry")
    ENDING = "ending", gettext_lazy("Being deleted")
    ENDED = "ended", gettext_lazy("Deleted")


class ClusterUser(models.Model):
    """The user of a cluster that stands for an AccessKey; nothing without such a row is ever touched there.

    Rows of ended keys stay: a broker that was away when its user was deleted comes back with it.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="users")
    access_key_id = models.CharField(max_length=64)
    account = models.CharField(max_length=64, blank=True, help_text="name of the account whose key it is")
    state = models.CharField(max_length=8, choices=State.choices, default=State.PENDING)
    made = models.BooleanField(default=False, help_text="a broker has, or had, this user from us")
    source = models.CharField(max_length=64, blank=True, help_text="digest of what the list was made from")
    digest = models.CharField(max_length=64, blank=True, help_text="of the list")
    entries = models.PositiveIntegerField(default=0)
    narrower = models.JSONField(default=list, help_text="sentences: where the list allows less than the policies")
    error = models.CharField(max_length=512, blank=True)
    synced_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "access_key_id"], name="one_user_per_key_and_cluster")
        ]

    def __str__(self) -> str:
        return self.access_key_id


class Synchronisation(models.Model):
    """The last look at a cluster."""

    cluster = models.OneToOneField(Cluster, on_delete=models.CASCADE, related_name="synchronisation")
    tried_at = models.DateTimeField(null=True)
    compared_at = models.DateTimeField(null=True, help_text="when every list was last compared with the brokers'")
    brokers = models.JSONField(default=dict, help_text="address by name, as they were when everything was compared")
    error = models.CharField(max_length=512, blank=True, help_text="why nothing can be carried over")
    unchecked = models.JSONField(default=list, help_text="names of brokers that look at no list and let everybody in")

    def __str__(self) -> str:
        return f"synchronisation of {self.cluster}"
