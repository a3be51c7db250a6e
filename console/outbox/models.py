"""Messages that must leave once a transaction has committed (docs/outbox.md)."""

from __future__ import annotations

from django.db import models

from console.accounts.models import Tenant


class NotificationStatus(models.TextChoices):
    PENDING = "PENDING"
    SENDING = "SENDING"
    SUCCESS = "SUCCESS"
    FAILURE = "FAILURE"


class Notification(models.Model):
    """A message to send at least once. Claimed by a conditional update of `status`; duplicates carry the same key."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="notifications")
    notify_by = models.CharField(max_length=8, help_text="ons (topic) or mns (queue)")
    topic = models.CharField(max_length=255, blank=True)
    queue = models.CharField(max_length=255, blank=True)
    producer_id = models.CharField(max_length=255, blank=True)
    endpoint = models.CharField(max_length=512, blank=True)
    key = models.CharField(max_length=64)
    tag = models.CharField(max_length=64, blank=True)
    body = models.TextField()
    status = models.CharField(
        max_length=8, choices=NotificationStatus.choices, default=NotificationStatus.PENDING, db_index=True
    )
    attempts = models.PositiveSmallIntegerField(default=0)
    due_at = models.DateTimeField(db_index=True)
    claimed_at = models.DateTimeField(null=True, blank=True)
    error = models.CharField(max_length=512, blank=True)
    message_id = models.CharField(max_length=64, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    total_time_ms = models.PositiveIntegerField(null=True, blank=True, help_text="commit to acknowledged send, ms")

    def __str__(self) -> str:
        return f"{self.key} to {self.topic or self.queue}"
