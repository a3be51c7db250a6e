"""Reads of the audit trail. Whose trail comes first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet

from console.accounts.models import Tenant
from console.audit.models import Entry

SEARCHED = 100_000


@dataclass(frozen=True)
class Filters:
    """What narrows the trail; empty means any.

    `who`, `key`, `action` and `resource` match the whole value, which an index finds, or its beginning when they end in
    `*`. `text` looks inside of who, action and resource, in the latest SEARCHED entries that the others leave.
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
        found = found.filter(**_of_account(filters.account))
    if filters.begin:
        found = found.filter(at__gte=filters.begin)
    if filters.end:
        found = found.filter(at__lt=filters.end)
    return _searched(found, filters.text) if filters.text else found


def entry(tenant: Tenant | None, number: int) -> Entry | None:
    """One entry of that trail."""
    return entries(tenant).filter(pk=number).first()


def _whole_or_beginning(column: str, wanted: str) -> dict[str, str]:
    return {f"{column}__startswith": wanted[:-1]} if wanted.endswith("*") else {column: wanted}


def _of_account(name_or_uid: str) -> dict[str, object]:
    """By the account where it exists, which is indexed; of a deleted one the uid is left."""
    account = Tenant.objects.filter(Q(uid=name_or_uid) | Q(name=name_or_uid)).first()
    return {"tenant": account} if account is not None else {"tenant_uid": name_or_uid}


def _searched(found: QuerySet[Entry], text: str) -> QuerySet[Entry]:
    """No index helps here, so a text that occurs nowhere must not have every entry read."""
    beyond = list(found.values_list("at", flat=True)[SEARCHED : SEARCHED + 1])
    if beyond:
        found = found.filter(at__gt=beyond[0])
    inside = Q(actor__icontains=text) | Q(action__icontains=text) | Q(resource__icontains=text)
    return found.filter(inside | Q(access_key_id=text) | Q(request_id=text) | Q(source_ip=text))
