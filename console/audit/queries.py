"""Reads of the audit trail. The tenant comes first."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta

from django.db.models import Q, QuerySet
from django.utils import timezone

from console.accounts.models import Tenant
from console.audit.models import Entry


def entries(
    tenant: Tenant, *, text: str = "", result: str = "", channel: str = "", begin: date | None, end: date | None
) -> QuerySet[Entry]:
    """Entries of the tenant, latest first, narrowed by every filter that is given.

    Days are those of the viewer's zone; `end` counts as a whole day.
    """
    zone = timezone.get_current_timezone()
    found = Entry.objects.filter(tenant=tenant)
    if text:
        found = found.filter(
            Q(actor__icontains=text)
            | Q(action__icontains=text)
            | Q(resource__icontains=text)
            | Q(access_key_id=text)
            | Q(request_id=text)
            | Q(source_ip=text)
        )
    if result:
        found = found.filter(result=result)
    if channel:
        found = found.filter(channel=channel)
    if begin:
        found = found.filter(at__gte=datetime.combine(begin, time.min, zone))
    if end:
        found = found.filter(at__lt=datetime.combine(end + timedelta(days=1), time.min, zone))
    return found
