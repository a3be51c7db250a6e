"""Who did what, from where, with what result. Rows are only ever added."""

from __future__ import annotations

from django.db import models

from console.accounts.models import Tenant


class Entry(models.Model):
    """One change or one refused attempt."""

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    tenant = models.ForeignKey(Tenant, null=True, on_delete=models.CASCADE, related_name="audit_entries")
    actor = models.CharField(max_length=150)
    access_key_id = models.CharField(max_length=64, blank=True)
    channel = models.CharField(max_length=16, help_text="page, api, sql or command")
    source_ip = models.CharField(max_length=45, blank=True)
    action = models.CharField(max_length=64, help_text="app.object.verb, as in topics.topic.create")
    resource = models.CharField(max_length=512, blank=True)
    result = models.CharField(max_length=16, help_text="success, refused or failed")
    detail = models.JSONField(default=dict)
    request_id = models.CharField(max_length=36, blank=True)

    class Meta:
        ordering = ["-at", "-id"]
        verbose_name_plural = "entries"
        indexes = [models.Index(fields=["tenant", "-at"])]
