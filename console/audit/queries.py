"""Reads of the audit trail. Whose trail comes first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet

from console.accounts.models import Tenant
from console.audit.models import Entry


@dataclass(frozen=True)
class Filters:
    """What narrows the trail; empty means any.

    `who`, `key`, `action` and `resource` match the whole value, which an index finds, or its beginning when they end in
    `*`. `text` looks inside of who, action and resource.
    """

    text: str = ""
    who: str = ""
    key: str = ""
    action: str = ""
    resource: str = ""
    request_id: str = ""
    result: str = ""
    channel: str = ""
    account: str = ""
    """Uid or name of an account, in the trail of the whole platform."""
    begin: datetime | None = None
    end: datetime | None = None


def entries(tenant: Tenant | None, filters: Filters | None = None) -> QuerySet[Entry]:
    """Entries in the trail of an account, or of the whole platform, latest first."""
    found = Entry.objects.all() if tenant is None else Entry.objects.filter(tenant=tenant)
    if filters is None:
        return found
    for column, wanted in (
        ("actor", filters.who),
        ("access_key_id", filters.key),
        ("action", filters.action),
        ("resource", filters.resource),
    ):
        if wanted:
            found = found.filter(**_whole_or_beginning(column, wanted))
    for column, wanted in (
        ("request_id", filters.request_id),
        ("result", filters.result),
        ("channel", filters.channel),
    ):
        if wanted:
            found = found.filter(**{column: wanted})
    if filters.account:
        found = found.filter(Q(tenant_uid=filters.account) | Q(tenant__name=filters.account))
    if filters.begin:
        found = found.filter(at__gte=filters.begin)
    if filters.end:
        found = found.filter(at__lt=filters.end)
    return found.filter(_holding(filters.text)) if filters.text else found


def entry(tenant: Tenant | None, number: int) -> Entry | None:
    """One entry of that trail."""
    return entries(tenant).filter(pk=number).first()


def _whole_or_beginning(column: str, wanted: str) -> dict[str, str]:
    return {f"{column}__startswith": wanted[:-1]} if wanted.endswith("*") else {column: wanted}


def _holding(text: str) -> Q:
    inside = Q(actor__icontains=text) | Q(action__icontains=text) | Q(resource__icontains=text)
    return inside | Q(access_key_id=text) | Q(request_id=text) | Q(source_ip=text)
