"""Pipelines, their versions, savepoints and events; and the secrets and variables that their texts name."""

from __future__ import annotations

from django.db import models

from console.accounts.models import Role, Tenant, User
from console.web.languages import gettext_lazy


class Kind(models.TextChoices):
    """How a pipeline is written."""

    JOB = "job", gettext_lazy("SQL job")
    INFLOW = "inflow", gettext_lazy("Inflow task")


class State(models.TextChoices):
    """Where a pipeline is in its life (console/pipelines/lifecycle.py draws the ways between them)."""

    DRAFT = "draft", gettext_lazy("Draft")
    STARTING = "starting", gettext_lazy("Starting")
    RUNNING = "running", gettext_lazy("Running")
    STOPPING = "stopping", gettext_lazy("Stopping")
    STOPPED = "stopped", gettext_lazy("Stopped")
    FAILED = "failed", gettext_lazy("Failed")
    FINISHED = "finished", gettext_lazy("Finished")


#: States in which a worker has, or will have, something to do.
BUSY = (State.STARTING, State.RUNNING, State.STOPPING)


class StartFrom(models.TextChoices):
    """What a start goes on from."""

    CHECKPOINT = "checkpoint", gettext_lazy("The last checkpoint")
    SAVEPOINT = "savepoint", gettext_lazy("A savepoint")
    NOTHING = "nothing", gettext_lazy("Nothing")


class Pipeline(models.Model):
    """One pipeline of an account.

    `fence` counts claims: each worker writes its number into the checkpoint's folder and is part of every later
    condition, so one that was given up can change neither the row nor the checkpoint. `worker` is empty while nobody
    holds the pipeline. What runs is `started_version`, after a failure too: whoever deploys another one has not the
    rights of who started it.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="pipelines")
    name = models.CharField(max_length=127)
    kind = models.CharField(max_length=8, choices=Kind.choices, default=Kind.JOB)
    draft = models.TextField(blank=True, help_text="what is being written; no secret in it")
    version = models.ForeignKey("Version", null=True, on_delete=models.SET_NULL, related_name="+", help_text="deployed")
    started_version = models.ForeignKey(
        "Version", null=True, on_delete=models.SET_NULL, related_name="+", help_text="what the last start was asked for"
    )
    state = models.CharField(max_length=8, choices=State.choices, default=State.DRAFT, db_index=True)
    reason = models.TextField(blank=True, help_text="why it failed, or stopped otherwise than asked")
    line = models.PositiveIntegerField(null=True, help_text="of the text, where the failure has one")
    halted = models.BooleanField(default=False, help_text="it failed by what it is told to stop for")
    start_from = models.CharField(max_length=10, choices=StartFrom.choices, default=StartFrom.NOTHING)
    savepoint = models.ForeignKey("Savepoint", null=True, on_delete=models.SET_NULL, related_name="+")
    stop_with_savepoint = models.BooleanField(default=False)
    start_again = models.BooleanField(default=False, help_text="with the deployed version, once it has stopped")
    fence = models.PositiveBigIntegerField(default=0)
    worker = models.CharField(max_length=64, blank=True)
    heartbeat_at = models.DateTimeField(null=True, help_text="the worker's last sign of life")
    due_at = models.DateTimeField(null=True, help_text="not claimed before; after a failure its pause ends then")
    failures = models.PositiveIntegerField(default=0, help_text="in a row, since it last ran for long")
    losses = models.PositiveIntegerField(default=0, help_text="of its engine in a row, each soon after it ran")
    deaths = models.PositiveIntegerField(
        default=0, help_text="those of them that may be its doing (console/pipelines/suspects.py)"
    )
    restarts = models.PositiveIntegerField(default=0, help_text="after failures and lost workers, since it was started")
    started_at = models.DateTimeField(null=True, help_text="asked to start")
    running_at = models.DateTimeField(null=True, help_text="its queries run since")
    ended_at = models.DateTimeField(null=True)
    creator = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    role = models.ForeignKey(Role, null=True, on_delete=models.SET_NULL, related_name="+")
    requester = models.CharField(max_length=150, help_text="name of the user or role session that last started it")
    source_ip = models.CharField(max_length=45, blank=True, help_text="circumstances of that request, which policy")
    secure_transport = models.BooleanField(default=False, help_text="conditions look at while it runs")
    created_at = models.DateTimeField(auto_now_add=True)
    deleted_at = models.DateTimeField(null=True, help_text="while it ran: it is removed once it has stopped")

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "kind", "name"], condition=models.Q(deleted_at=None), name="one_pipeline_of_a_name"
            )
        ]

    def __str__(self) -> str:
        return self.name


class Version(models.Model):
    """A text that was deployed, with the plan that was made of it; never changed."""

    pipeline = models.ForeignKey(Pipeline, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    text = models.TextField(help_text="no secret in it")
    plan = models.TextField(help_text="analytics.pipelines.plan as JSON; no secret in it")
    author = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-number"]
        constraints = [models.UniqueConstraint(fields=["pipeline", "number"], name="one_version_of_a_number")]

    def __str__(self) -> str:
        return f"{self.pipeline_id}:{self.number}"


class Savepoint(models.Model):
    """A checkpoint that is kept: its folder is never written again."""

    pipeline = models.ForeignKey(Pipeline, on_delete=models.CASCADE, related_name="savepoints")
    version = models.ForeignKey(Version, null=True, on_delete=models.SET_NULL, related_name="+")
    folder = models.CharField(max_length=512)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return self.folder

    @property
    def name(self) -> str:
        """What analytics calls it, unique among those of its pipeline."""
        return self.folder.rstrip("/").rpartition("/")[2].removeprefix("savepoint-")


class Event(models.Model):
    """Something that happened to a pipeline, for its page."""

    pipeline = models.ForeignKey(Pipeline, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField(auto_now_add=True)
    kind = models.CharField(
        max_length=32, help_text="a state, or claimed, lost, cleared, restarting, deployed, savepoint"
    )
    sentence = models.TextField(blank=True)
    fence = models.PositiveBigIntegerField(default=0)
    version = models.PositiveIntegerField(null=True)

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return self.kind


class Secret(models.Model):
    """What `${secret_values.name}` stands for; its value is put in when a pipeline starts, and never shown again."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="pipeline_secrets")
    name = models.CharField(max_length=128)
    value_encrypted = models.TextField()
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["tenant", "name"], name="one_secret_of_a_name")]

    def __str__(self) -> str:
        return self.name


class Variable(models.Model):
    """What `${name}` stands for in the texts of an account."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="pipeline_variables")
    name = models.CharField(max_length=64)
    value = models.TextField()

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["tenant", "name"], name="one_variable_of_a_name")]

    def __str__(self) -> str:
        return self.name
