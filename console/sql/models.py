"""Schemas, tables over the lake, and the query tasks of async SQL (docs/use/sql.md)."""

from __future__ import annotations

from django.db import models

from console.accounts.models import Role, Tenant, User
from console.outbox.models import Notification


class TaskStatus(models.TextChoices):
    """QUEUED is shown as RUNNING: the vendor's four states know no waiting."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    FAILURE = "FAILURE"
    CANCELLED = "CANCELLED"


#: States that nothing changes any more.
ENDED = (TaskStatus.SUCCESS, TaskStatus.FAILURE, TaskStatus.CANCELLED)


class QueryTask(models.Model):
    """One statement for Spark. Claimed by a conditional update of `status`; a worker's heartbeat keeps it.

    `attempts` counts the claims and is part of every later condition, so a worker that was given up cannot end a row
    that another one has claimed since.
    """

    id = models.CharField(primary_key=True, max_length=40)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="query_tasks")
    creator = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="query_tasks")
    role = models.ForeignKey(Role, null=True, on_delete=models.SET_NULL, related_name="query_tasks")
    submitter = models.CharField(max_length=150, help_text="name of the user or role session")
    table_schema = models.CharField(max_length=64)
    command = models.TextField(help_text="the statement as submitted, with its hint")
    statement = models.TextField(help_text="the statement without its hint")
    parameters = models.JSONField(default=list, blank=True, help_text="values for the ? of a prepared statement")
    synchronous = models.BooleanField(default=False, help_text="a client waits for the rows at the MySQL endpoint")
    task_name = models.CharField(max_length=32)
    status = models.CharField(max_length=9, choices=TaskStatus.choices, default=TaskStatus.QUEUED, db_index=True)
    connection_id = models.BigIntegerField(default=0)
    source_ip = models.CharField(max_length=45, blank=True, help_text="circumstances of the submission, which policy")
    secure_transport = models.BooleanField(default=False, help_text="conditions look at when it runs")
    create_time = models.DateTimeField(auto_now_add=True)
    update_time = models.DateTimeField(auto_now=True)
    mpp_query_id = models.CharField(max_length=64, blank=True)
    message = models.TextField(blank=True)
    error_condition = models.CharField(max_length=128, blank=True, help_text="Spark's, as TABLE_OR_VIEW_NOT_FOUND")
    row_count = models.BigIntegerField(default=0)
    elapse_time = models.BigIntegerField(default=0, help_text="ms")
    scanned_row_count = models.BigIntegerField(default=0)
    scanned_data_bytes = models.BigIntegerField(default=0)
    result_file = models.CharField(max_length=512, blank=True)
    result_columns = models.JSONField(default=list, blank=True, help_text='[{"name": …, "type": Spark\'s name}]')
    notify = models.JSONField(null=True, blank=True, help_text="the mq-… options of the hint")
    notification = models.OneToOneField(
        Notification, null=True, blank=True, on_delete=models.SET_NULL, related_name="query_task"
    )
    attempts = models.PositiveSmallIntegerField(default=0)
    worker = models.CharField(max_length=64, blank=True, help_text="which worker process holds it")
    heartbeat_at = models.DateTimeField(
        null=True, blank=True, help_text="last sign of life: handed to Celery, or the worker's heartbeat"
    )
    cancel_requested = models.BooleanField(default=False)
    started_at = models.DateTimeField(null=True, blank=True, help_text="last claim")
    progress = models.JSONField(null=True, blank=True, help_text="stages and tasks of a running statement, and done")
    engine_losses = models.PositiveSmallIntegerField(default=0, help_text="engines that died while it ran")
    explain = models.CharField(max_length=16, blank=True, help_text="mode of EXPLAIN; the result is the plan")
    target = models.JSONField(null=True, blank=True, help_text="where INSERT and CREATE TABLE … AS write")
    result_bytes = models.BigIntegerField(default=0, help_text="size of result.csv")
    writing_bytes = models.BigIntegerField(default=0, help_text="what a running statement has written by now")

    class Meta:
        ordering = ["-create_time"]
        indexes = [
            models.Index(fields=["tenant", "-create_time"]),
            models.Index(fields=["status", "heartbeat_at"]),
            models.Index(fields=["status", "tenant", "create_time"]),
            models.Index(fields=["tenant", "-started_at"]),
        ]

    def __str__(self) -> str:
        return self.id

    @property
    def ended(self) -> bool:
        """True when nothing changes the row any more, its notification aside."""
        return self.status in ENDED

    @property
    def cancellable(self) -> bool:
        """True while a cancel request can still have an effect."""
        return not self.ended and not self.cancel_requested


class SavedQuery(models.Model):
    """A statement that somebody keeps in the editor, for himself or for all of the tenant."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="saved_queries")
    owner = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="saved_queries")
    owner_name = models.CharField(max_length=150, help_text="name of the user or role session")
    name = models.CharField(max_length=100)
    table_schema = models.CharField(max_length=64)
    text = models.TextField(help_text="the statement with its hint")
    shared = models.BooleanField(default=False, help_text="everybody of the tenant who may use the editor sees it")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["tenant", "owner_name", "name"], name="saved_query_name_of_owner")
        ]
        verbose_name_plural = "saved queries"

    def __str__(self) -> str:
        return self.name
