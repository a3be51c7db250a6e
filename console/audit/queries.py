"""Reads of the audit trail. Whose trail comes first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import and_, or_

from django.db.models import Q, QuerySet

from console.accounts.models import Tenant
from console.audit.models import Entry

SEARCHED = 100_000


@dataclass(frozen=True)
class Filters:
    """What narrows the trail; empty means any.

    `who`, `key`, `action` and `resource` match the whole value, which an index finds, or its beginning when they end in
    `*`. `text` looks inside of who, action and resource, in the latest SEARCHED entries that the others leave: for
    itself, and for all of its words, each as people say it (`deleted topic orders`).
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
    whole = _inside(text) | Q(access_key_id=text) | Q(request_id=text) | Q(source_ip=text)
    words = [word for word in text.casefold().split()[:_MOST_WORDS] if word not in _IDLE]
    if len(words) == 0:
        return found.filter(whole)
    each = reduce(and_, (reduce(or_, map(_inside, _meant(word))) for word in words))
    return found.filter(whole | each)


def _inside(text: str) -> Q:
    return Q(actor__icontains=text) | Q(action__icontains=text) | Q(resource__icontains=text)


_MOST_WORDS = 8
_IDLE = frozenset({"a", "an", "and", "by", "from", "in", "of", "on", "the", "to", "who", "was", "were"})
_MEANT = {
    "add": ("create", "add", "attach"), "make": ("create",), "made": ("create",), "new": ("create",),
    "remove": ("delete", "remove", "drop", "detach"), "drop": ("delete", "drop"), "gone": ("delete", "drop"),
    "delete": ("delete", "drop"), "change": ("update", "set", "limit", "move", "rename", "alter"),
    "edit": ("update", "alter"), "set": ("update", "set"), "rename": ("rename", "update"), "resent": ("resend",),
    "send": ("send", "publish"), "sent": ("send", "publish", "resend"), "letter": ("dead_letter",),
    "login": ("sign_in",), "logon": ("sign_in",), "logout": ("sign_out",), "share": ("share", "grant"),
    "permission": ("policy", "grant"), "right": ("policy", "grant"), "password": ("password",),
    "key": ("access_key", "key"), "query": ("query",), "policies": ("policy",), "queries": ("query",),
}  # fmt: skip
"""What people call what actions call otherwise; verbs as they are without an ending."""
_ENDINGS = ("ing", "ed", "d", "s", "es")


def _meant(word: str) -> set[str]:
    """The word, what is left of it without an ending, and what actions call it: `deleted` also means `delete`."""
    stems = {word} | {word[: -len(end)] for end in _ENDINGS if word.endswith(end) and len(word) - len(end) > 2}
    stems |= {f"{stem}e" for stem in stems if word.endswith("ing")}
    return {word} | {said for stem in stems for said in _MEANT.get(stem, (stem,))}
