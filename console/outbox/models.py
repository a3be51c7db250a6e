"""Messages that must leave once a transaction has committed (docs/develop/outbox.md)."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import models

from console.accounts.models import Tenant

#: For so long a notification is tried: an outage that nobody saw over night is over by then.
GIVE_UP_AFTER = timedelta(hours=24)


#: `notify_by` of what happened to a file of a bucket: to a queue of the account, in the account's own name.
BUCKET_EVENT = "oss"
#: `notify_by` of a notice of an alarm; `queue` has the number of its recipient.
ALARM = "alarm"


class NotificationStatus(models.TextChoices):
    PENDING = "PENDING"
    SENDING = "SENDING"
    SUCCESS = "SUCCESS"
    FAILURE = "FAILURE"


class Notification(models.Model):
    """A message to send at least once. Claimed by a conditional update of `status`; duplicates carry the same key."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="notifications")
    notify_by = models.CharField(max_length=8, help_text="ons (topic), mns (queue), oss (a bucket's event) or alarm")
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
    asked_again_at = models.DateTimeField(null=True, blank=True, help_text="when somebody wanted it sent again")
    swept_at = models.DateTimeField(null=True, blank=True, help_text="when the sweep last asked a worker for it")
    claimed_at = models.DateTimeField(null=True, blank=True)
    error = models.CharField(max_length=512, blank=True)
    message_id = models.CharField(max_length=64, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    total_time_ms = models.PositiveIntegerField(null=True, blank=True, help_text="commit to acknowledged send, ms")

    class Meta:
        indexes = [models.Index(fields=["notify_by", "key", "status"])]

    @property
    def tried_until(self) -> datetime:
        """When the last attempt is made, UTC; "send again" gives it the whole time anew."""
        return (self.asked_again_at or self.created_at) + GIVE_UP_AFTER

    def __str__(self) -> str:
        return f"{self.key} to {self.topic or self.queue}"
