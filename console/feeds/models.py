"""Feeds, the requests that wait for their log, and what tells requests that are sent again."""

from __future__ import annotations

import json
import secrets
import string
from datetime import timedelta
from typing import Any

from django.db import models
from django.db.models import Q
from django.utils import timezone

from console.accounts.models import Tenant
from console.web.languages import gettext_lazy

#: A process that was silent for this long has lost its feeds.
LEASE = timedelta(seconds=15)
_LETTERS = string.ascii_lowercase + string.digits


class Kind(models.TextChoices):
    """Where events come from."""

    WEBHOOK = "webhook", gettext_lazy("Webhook")
    SCHEDULE = "schedule", gettext_lazy("Schedule")


def new_feed_id() -> str:
    """Also the name of its log's folder, beside those of change tracking tasks (`dts…`)."""
    return "feed" + "".join(secrets.choice(_LETTERS) for _ in range(10))


class Feed(models.Model):
    """The events of one inflow task, by whose name it goes.

    `fence` counts claims: each is the number of the log's writer, so that a process which was given up can write
    neither the row nor the log. Of a webhook's address only the SHA-256 of the token is kept, which has 256 bits.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="feeds")
    feed_id = models.CharField(max_length=16, unique=True, default=new_feed_id)
    name = models.CharField(max_length=127, help_text="of the inflow task")
    holder = models.CharField(max_length=64, help_text="key of that task")
    kind = models.CharField(max_length=8, choices=Kind.choices)
    settings = models.TextField(help_text="JSON: what analytics.inflow.webhook or .schedule reads")
    retention_days = models.PositiveIntegerField()
    token_hash = models.CharField(max_length=64, blank=True, help_text="empty: there is no address, or no more")
    token_at = models.DateTimeField(null=True, help_text="the address was made")
    key_encrypted = models.TextField(blank=True, help_text="what requests are signed with")
    key_at = models.DateTimeField(null=True)
    paused = models.BooleanField(default=True, help_text="a schedule sends nothing")
    begins_at = models.DateTimeField(default=timezone.now, help_text="a schedule sends nothing that was due before")
    code = models.CharField(max_length=32, blank=True, help_text="of what is wrong, such as LAKE_FULL")
    sentence = models.TextField(blank=True)
    fence = models.PositiveBigIntegerField(default=0)
    worker = models.CharField(max_length=64, blank=True)
    heartbeat_at = models.DateTimeField(null=True, help_text="the process's last sign of life")
    deleted_at = models.DateTimeField(null=True, help_text="its log is being removed")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "name"], condition=Q(deleted_at__isnull=True), name="one_feed_of_a_task"
            ),
            models.UniqueConstraint(fields=["token_hash"], condition=~Q(token_hash=""), name="one_feed_of_a_token"),
        ]

    def __str__(self) -> str:
        return self.feed_id

    @property
    def told(self) -> dict[str, Any]:
        """The settings."""
        found: dict[str, Any] = json.loads(self.settings)
        return found


class Arrival(models.Model):
    """The event of a request that was answered and is not known to be in the log yet."""

    feed = models.ForeignKey(Feed, on_delete=models.CASCADE, related_name="arrivals")
    event_id = models.CharField(max_length=36)
    at_ms = models.BigIntegerField()
    size = models.PositiveIntegerField()
    event = models.BinaryField()

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return self.event_id


class Receipt(models.Model):
    """That a request with such an idempotency key was answered with such an event."""

    feed = models.ForeignKey(Feed, on_delete=models.CASCADE, related_name="receipts")
    key_hash = models.CharField(max_length=64)
    event_id = models.CharField(max_length=36)
    at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["feed", "key_hash"], name="one_receipt_of_a_key")]

    def __str__(self) -> str:
        return self.event_id


class Waiting(models.Model):
    """What of an account's requests waits for its logs; who stores or takes some changes this row first.

    So the rows of one account are committed in the order of their numbers.
    """

    tenant = models.OneToOneField(Tenant, on_delete=models.CASCADE, related_name="waiting_requests")
    events = models.PositiveBigIntegerField(default=0)
    bytes = models.PositiveBigIntegerField(default=0)

    class Meta:
        verbose_name_plural = "waiting"

    def __str__(self) -> str:
        return f"{self.events} of {self.tenant_id}"
