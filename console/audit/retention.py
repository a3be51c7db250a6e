"""Retention: the only way in which entries leave the trail, and itself on record."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Count
from django.utils import timezone

from console.accounts.models import Tenant
from console.audit import record
from console.audit.models import Entry
from console.audit.record import triggers

SHORTEST_DAYS = 30
"""Nobody can remove the traces of what was done just now."""
BATCH = 5_000
"""Entries of one transaction: the trail must stay open for writers."""
ACTION = "audit.entries.prune"


def prune(days: int) -> int:
    """Delete what is older than so many days; returns how many entries that were.

    Each account whose entries went finds one that says so. Raises ValueError for fewer than SHORTEST_DAYS.
    """
    if days < SHORTEST_DAYS:
        raise ValueError(f"The trail is kept for at least {SHORTEST_DAYS} days.")
    before = timezone.now() - timedelta(days=days)
    old = Entry.objects.filter(at__lt=before).order_by()
    accounts: dict[str, int] = dict(old.values_list("tenant_uid").annotate(Count("pk")))
    while batch := list(old.values_list("pk", flat=True)[:BATCH]):
        with triggers.deletes_allowed(days):
            doomed = Entry.objects.filter(pk__in=batch)
            doomed._raw_delete(doomed.db)
    removed = sum(accounts.values())
    detail = {"days": days, "before": before.isoformat(timespec="seconds")}
    record.record_command(ACTION, detail=detail | {"entries": removed})
    for tenant in Tenant.objects.filter(uid__in=[uid for uid in accounts if uid]):
        record.record_command(ACTION, detail=detail | {"entries": accounts[tenant.uid]}, tenant=tenant)
    return removed
