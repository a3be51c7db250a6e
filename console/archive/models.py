"""Archives of topics: messages kept in the lake for longer than brokers keep them (docs/use/messages-in-sql.md)."""

from __future__ import annotations

from django.db import models

from console.accounts.models import Role, Tenant, User
from console.topics.models import Topic
from console.web.languages import gettext_lazy


class ArchiveStatus(models.TextChoices):
    """What an archive does now; FAILED says how the last run ended."""

    IDLE = "IDLE", gettext_lazy("Archived")
    QUEUED = "QUEUED", gettext_lazy("Waiting")
    RUNNING = "RUNNING", gettext_lazy("Archiving")
    FAILED = "FAILED", gettext_lazy("Failed")


#: States in which a worker has, or will have, something to do.
BUSY = (ArchiveStatus.QUEUED, ArchiveStatus.RUNNING)


class TopicArchive(models.Model):
    """One account's archive of one topic.

    `offsets` says up to where it is committed; a reader believes nothing else. `pending` are the ranges of the step
    under way, noted before it writes: a step that was interrupted is done again with the same ranges. `attempts`
    counts claims and is part of every later condition, so a worker that was given up cannot commit any more.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="archives")
    topic = models.ForeignKey(Topic, null=True, on_delete=models.SET_NULL, related_name="archives")
    physical_name = models.CharField(max_length=255, help_text="of the topic, which may be deleted since")
    location = models.CharField(max_length=512, blank=True, help_text="oss://bucket/folder/")
    offsets = models.JSONField(default=dict, help_text='next offset to archive, by "<broker>:<queue>"')
    pending = models.JSONField(null=True, help_text="the step under way: begin, end, missed")
    steps = models.PositiveIntegerField(default=0, help_text="steps that were committed")
    messages = models.BigIntegerField(default=0)
    size = models.BigIntegerField(default=0, help_text="bytes in the lake")
    missed = models.BigIntegerField(default=0, help_text="dropped by the broker before they were archived")
    hourly = models.BooleanField(default=False, help_text="goes on by itself every hour")
    status = models.CharField(max_length=8, choices=ArchiveStatus.choices, default=ArchiveStatus.QUEUED, db_index=True)
    error = models.TextField(blank=True)
    worker = models.CharField(max_length=64, blank=True)
    attempts = models.PositiveIntegerField(default=0)
    heartbeat_at = models.DateTimeField(null=True, help_text="handed to Celery, or the worker's last sign of life")
    requested_at = models.DateTimeField(help_text="start of the last run, by hand or by the hour")
    ended_at = models.DateTimeField(null=True)
    creator = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    role = models.ForeignKey(Role, null=True, on_delete=models.SET_NULL, related_name="+")
    requester = models.CharField(max_length=150, help_text="name of the user or role session of the last request")
    source_ip = models.CharField(max_length=45, blank=True, help_text="circumstances of the request, which policy")
    secure_transport = models.BooleanField(default=False, help_text="conditions look at when it runs")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["physical_name", "pk"]
        constraints = [models.UniqueConstraint(fields=["tenant", "topic"], name="one_archive_of_a_topic")]

    def __str__(self) -> str:
        return self.physical_name

    @property
    def busy(self) -> bool:
        """True while a run is under way or about to be."""
        return self.status in BUSY
