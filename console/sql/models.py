"""Schemas, tables over the lake, and the query tasks of async SQL (docs/sql.md)."""

from __future__ import annotations

from django.db import models

from console.accounts.models import Role, Tenant, User
from console.outbox.models import Notification


class Schema(models.Model):
    """A tenant's schema. Names are unique in the tenant."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="schemas")
    name = models.SlugField(max_length=64)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["tenant", "name"], name="schema_name_in_tenant")]

    def __str__(self) -> str:
        return self.name


class ExternalTable(models.Model):
    """A table of a schema over files in the lake."""

    schema = models.ForeignKey(Schema, on_delete=models.CASCADE, related_name="tables")
    name = models.SlugField(max_length=64)
    location = models.CharField(max_length=512, help_text="oss://bucket/folder/")
    format = models.CharField(max_length=16, default="parquet")
    columns = models.JSONField(default=list, help_text='[{"name": …, "type": …}]')

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["schema", "name"], name="table_name_in_schema")]

    def __str__(self) -> str:
        return self.name


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
    synchronous = models.BooleanField(default=False, help_text="a client waits for the rows at the MySQL door")
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

    class Meta:
        ordering = ["-create_time"]
        indexes = [models.Index(fields=["tenant", "-create_time"]), models.Index(fields=["status", "heartbeat_at"])]

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
