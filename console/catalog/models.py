"""Buckets, schemas and tables over the lake (docs/use/sql.md). Their rows and migrations are those of app `sql`."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from console.accounts.models import Tenant


class Bucket(models.Model):
    """A bucket of the lake that belongs to a tenant. Only its owner's tables may lie in it."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="buckets")
    name = models.CharField(max_length=63, unique=True, help_text="as OSS allows: a-z, 0-9 and -, 3 to 63")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        app_label = "sql"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class BucketRule(models.Model):
    """Which changes of a bucket's files are told to a queue of the account."""

    bucket = models.ForeignKey(Bucket, on_delete=models.CASCADE, related_name="rules")
    name = models.CharField(max_length=64, help_text="the event's ruleId")
    events = models.JSONField(help_text='["ObjectCreated:*", …]')
    prefix = models.CharField(max_length=1023, blank=True, help_text="what the key begins with")
    suffix = models.CharField(max_length=1023, blank=True, help_text="what the key ends with")
    queue = models.CharField(max_length=120)
    creator_name = models.CharField(max_length=150, help_text="name of the user or role session")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        app_label = "sql"
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["bucket", "name"], name="rule_name_in_bucket")]

    def __str__(self) -> str:
        return self.name


class BucketChange(models.Model):
    """A change of a file that rules want to hear of, written down before it is made: a crash must not lose it.

    `before_…` is the file as it was, an empty version for none. Files of a statement are noted when they are in place:
    then `version` and `size` tell of the file as it is.
    """

    bucket = models.ForeignKey(Bucket, on_delete=models.CASCADE, related_name="changes")
    key = models.CharField(max_length=1023)
    event = models.CharField(max_length=64)
    before_version = models.CharField(max_length=255, blank=True)
    before_size = models.BigIntegerField(default=0)
    version = models.CharField(max_length=255, blank=True)
    size = models.BigIntegerField(null=True, blank=True)
    digest = models.CharField(max_length=32, blank=True, help_text="MD5 of the content, where that is known")
    principal = models.CharField(max_length=255)
    source_ip = models.CharField(max_length=45, blank=True)
    request_id = models.CharField(max_length=64, blank=True)
    task_id = models.CharField(max_length=40, blank=True, db_index=True)
    began_at = models.DateTimeField(default=timezone.now, db_index=True)

    class Meta:
        app_label = "sql"

    def __str__(self) -> str:
        return f"{self.event} {self.key}"


class Schema(models.Model):
    """A tenant's schema. Names are unique in the tenant."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="schemas")
    name = models.SlugField(max_length=64)
    location = models.CharField(
        max_length=512, blank=True, help_text="oss://bucket/folder/ of tables without their own"
    )
    comment = models.CharField(max_length=255, blank=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        app_label = "sql"
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
    columns = models.JSONField(default=list, help_text='[{"name": …, "type": …, "comment": …}]')
    partitions = models.JSONField(default=list, blank=True, help_text="names of the last columns that folders give")
    options = models.JSONField(default=dict, blank=True, help_text='options of the reader, as {"delimiter": ";"}')
    comment = models.CharField(max_length=255, blank=True)
    managed = models.BooleanField(default=False, help_text="made without a location: its files go with it")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        app_label = "sql"
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["schema", "name"], name="table_name_in_schema")]

    def __str__(self) -> str:
        return self.name
