"""What the console itself did with dead letters: they stay in their queue, so resends and discards are noted here."""

from __future__ import annotations

from django.db import models

from console.accounts.models import User
from console.topics.models import Group


class Resend(models.Model):
    """One resend of one dead letter, with its result."""

    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="resends")
    offset_message_id = models.CharField(max_length=64, help_text="of the entry in the dead-letter queue")
    message_id = models.CharField(max_length=64, help_text="the client's unique id")
    new_offset_message_id = models.CharField(max_length=64, blank=True)
    error = models.CharField(max_length=512, blank=True)
    actor = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["group", "offset_message_id"])]


class Discard(models.Model):
    """A dead letter that somebody put aside. It lies in its queue until retention removes it, and is not listed."""

    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="discards")
    offset_message_id = models.CharField(max_length=64, help_text="of the entry in the dead-letter queue")
    message_id = models.CharField(max_length=64, help_text="the client's unique id")
    actor = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["group", "offset_message_id"], name="one_discard_of_a_letter")]
