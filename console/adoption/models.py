"""Names of a cluster that accounts take over as they are, rules that do so by themselves, and what was forgotten."""

from __future__ import annotations

from django.db import models

from console.instances.models import Cluster, Instance
from console.topics.models import Group, Topic
from console.web.languages import gettext_lazy


class Kind(models.TextChoices):
    """What a name is of."""

    TOPIC = "topic", gettext_lazy("Topic")
    GROUP = "group", gettext_lazy("Group")


def model_of(kind: str) -> type[Topic] | type[Group]:
    """Where names of a kind are kept that an account has."""
    return Topic if kind == Kind.TOPIC else Group


class Purpose(models.TextChoices):
    """What a run does with its names: take them over, or forget them without touching the cluster."""

    ADOPT = "adopt", gettext_lazy("Adopt")
    FORGET = "forget", gettext_lazy("Forget")


class State(models.TextChoices):
    """How far a name of a run is."""

    WAITING = "waiting", gettext_lazy("Waiting")
    DONE = "done", gettext_lazy("Done")
    REFUSED = "refused", gettext_lazy("Not possible")


class Rule(models.Model):
    """Names that fit belong to an instance, those that come later too (docs/operate/adoption.md)."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="adoption_rules")
    instance = models.ForeignKey(Instance, on_delete=models.CASCADE, related_name="adoption_rules")
    include = models.CharField(max_length=512, help_text="patterns with * and ?, separated by spaces")
    exclude = models.CharField(max_length=512, blank=True)
    kind = models.CharField(max_length=8, choices=Kind.choices, blank=True, help_text="empty: topics and groups")
    creator = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "instance", "include", "exclude", "kind"], name="adoption_rule_once"
            )
        ]

    def __str__(self) -> str:
        return self.include


class Run(models.Model):
    """Many names in one go, done by a worker in steps.

    A worker claims it with a lease (`worker`, `leased_until`) and renews that with every step in the step's own
    transaction, so that one that was given up can change nothing any more, and another one goes on where it ended.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="adoption_runs")
    instance = models.ForeignKey(Instance, on_delete=models.CASCADE, related_name="adoption_runs")
    rule = models.ForeignKey(Rule, null=True, on_delete=models.SET_NULL, related_name="runs")
    purpose = models.CharField(max_length=8, choices=Purpose.choices)
    requester = models.CharField(max_length=150)
    source_ip = models.CharField(max_length=45, blank=True)
    worker = models.CharField(max_length=32, blank=True)
    leased_until = models.DateTimeField(null=True)
    error = models.CharField(max_length=512, blank=True, help_text="why it waits: the cluster does not answer")
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, db_index=True)

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"{self.purpose} {self.pk}"


class RunName(models.Model):
    """One name of a run and what became of it."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="names")
    kind = models.CharField(max_length=8, choices=Kind.choices)
    name = models.CharField(max_length=255)
    state = models.CharField(max_length=8, choices=State.choices, default=State.WAITING)
    reason = models.CharField(max_length=256, blank=True)

    class Meta:
        ordering = ["pk"]
        constraints = [models.UniqueConstraint(fields=["run", "kind", "name"], name="adoption_name_once_a_run")]
        indexes = [models.Index(fields=["run", "state"])]

    def __str__(self) -> str:
        return self.name


class Forgotten(models.Model):
    """A name that was forgotten: no rule takes it again, until somebody adopts it by hand."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=8, choices=Kind.choices)
    name = models.CharField(max_length=255)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "kind", "name"], name="forgotten_once")]

    def __str__(self) -> str:
        return self.name
