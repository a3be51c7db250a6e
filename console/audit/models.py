"""Who did what, from where, with what result. Rows are only ever added (docs/use/audit.md)."""

from __future__ import annotations

from typing import Any, NoReturn

from django.db import models
from django.utils import timezone


class AppendOnlyError(TypeError):
    """An entry was to be changed or deleted. Retention has a command of its own: `manage.py prune_audit`."""


class EntryQuerySet(models.QuerySet["Entry"]):
    """Reads and inserts."""

    def update(self, **_: Any) -> NoReturn:
        raise AppendOnlyError("entries of the audit trail are never changed")

    def bulk_update(self, *_: Any, **__: Any) -> NoReturn:
        raise AppendOnlyError("entries of the audit trail are never changed")

    def delete(self) -> NoReturn:
        raise AppendOnlyError("entries of the audit trail are deleted by manage.py prune_audit alone")


class Entry(models.Model):
    """One change, or one attempt that was refused or failed.

    Triggers of the database refuse UPDATE and DELETE as well. `tenant` names the account in whose trail the entry
    stands; it is no foreign key of the database, since the entry outlives the account, whose uid it keeps.
    """

    at = models.DateTimeField(default=timezone.now, editable=False)
    tenant = models.ForeignKey(
        "accounts.Tenant", null=True, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    tenant_uid = models.CharField(max_length=16, blank=True)
    actor = models.CharField(max_length=150)
    access_key_id = models.CharField(max_length=64, blank=True)
    channel = models.CharField(max_length=16, help_text="page, api, sql or command")
    source_ip = models.CharField(max_length=45, blank=True)
    action = models.CharField(max_length=64, help_text="app.object.verb, as in topics.topic.create")
    resource = models.CharField(max_length=512, blank=True)
    result = models.CharField(max_length=16, help_text="success, refused or failed")
    detail = models.JSONField(default=dict)
    request_id = models.CharField(max_length=36, blank=True)

    objects = EntryQuerySet.as_manager()

    class Meta:
        ordering = ["-at", "-id"]
        verbose_name_plural = "entries"
        # Each one narrows and sorts at once: SQLite, which knows no statistics, would else sort first and then look
        # through all of an account's entries.
        indexes = [
            models.Index(fields=["-at", "-id"], name="audit_at"),
            models.Index(fields=["tenant", "-at", "-id"], name="audit_tenant_at"),
            models.Index(fields=["tenant", "actor", "-at", "-id"], name="audit_actor"),
            models.Index(fields=["tenant", "action", "-at", "-id"], name="audit_action"),
            models.Index(fields=["tenant", "result", "-at", "-id"], name="audit_result"),
            models.Index(fields=["tenant", "resource", "-at", "-id"], name="audit_resource"),
            models.Index(fields=["tenant", "access_key_id", "-at", "-id"], name="audit_key"),
            models.Index(fields=["tenant", "request_id", "-at", "-id"], name="audit_request_of_tenant"),
            models.Index(fields=["request_id"], name="audit_request"),
        ]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%dT%H:%M:%SZ} {self.actor} {self.action} {self.resource} {self.result}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise AppendOnlyError("entries of the audit trail are never changed")
        super().save(*args, **kwargs)

    def delete(self, *_: Any, **__: Any) -> NoReturn:
        raise AppendOnlyError("entries of the audit trail are deleted by manage.py prune_audit alone")
