"""Reads of rules, of who is told, and of what happened."""

from __future__ import annotations

from django.core.cache import cache
from django.db.models import Count, Max, Q, QuerySet

from console.accounts.models import Tenant
from console.alarms.models import Alarm, Recipient, Rule
from console.outbox.models import ALARM, Notification

_ROUND = "alarms:last-round"
_ROUND_KEPT_S = 3600


def rules(tenant: Tenant, text: str = "") -> QuerySet[Rule]:
    """The account's rules by name, each with the number of its alarms that fire (`firing`)."""
    found = Rule.objects.filter(tenant=tenant).select_related("instance").prefetch_related("recipients")
    if text:
        found = found.filter(Q(name__icontains=text) | Q(names__icontains=text))
    fires = Q(alarms__ended_at=None, alarms__fired_at__isnull=False)
    return found.annotate(firing=Count("alarms", filter=fires)).order_by("name")


def rule(tenant: Tenant, number: int) -> Rule | None:
    """A rule of the account."""
    return Rule.objects.filter(tenant=tenant, pk=number).select_related("instance__cluster", "tenant").first()


def open_of(rule: Rule) -> list[Alarm]:
    """The rule's alarms that fire or wait."""
    return list(Alarm.objects.filter(rule=rule, ended_at=None))


def recipients_of(rule: Rule) -> list[Recipient]:
    """Who the rule tells."""
    return list(rule.recipients.all())


def rule_named(tenant: Tenant, name: str) -> Rule | None:
    """The account's rule of a name."""
    return Rule.objects.filter(tenant=tenant, name=name).first()


def recipient_named(tenant: Tenant, name: str) -> Recipient | None:
    """The account's recipient of a name."""
    return Recipient.objects.filter(tenant=tenant, name=name).first()


def recipients(tenant: Tenant) -> QuerySet[Recipient]:
    """Who is told, by name, each with the number of its rules (`used`)."""
    return Recipient.objects.filter(tenant=tenant).annotate(used=Count("rules")).select_related("instance")


def recipient(tenant: Tenant, number: int) -> Recipient | None:
    """One who is told, of the account."""
    return Recipient.objects.filter(tenant=tenant, pk=number).select_related("instance__cluster", "tenant").first()


def firing(tenant: Tenant, text: str = "") -> QuerySet[Alarm]:
    """The account's alarms that fire, those first that fired last."""
    found = Alarm.objects.filter(tenant=tenant, ended_at=None, fired_at__isnull=False)
    return _searched(found, text).order_by("-fired_at", "-pk")


def history(tenant: Tenant, *, rule: Rule | None = None, text: str = "") -> QuerySet[Alarm]:
    """What fired and has ended, of the account or of a rule, the latest first; what only waited is not told."""
    found = Alarm.objects.filter(tenant=tenant, fired_at__isnull=False, ended_at__isnull=False)
    found = found.order_by("-fired_at", "-pk")
    if rule is not None:
        found = found.filter(rule=rule)
    return _searched(found, text)


def _searched(found: QuerySet[Alarm], text: str) -> QuerySet[Alarm]:
    return found.filter(Q(rule_name__icontains=text) | Q(sentence__icontains=text)) if text else found


def alarm(tenant: Tenant, number: int) -> Alarm | None:
    """An alarm of the account."""
    return Alarm.objects.filter(tenant=tenant, pk=number).first()


def with_last_notices(tenant: Tenant) -> list[Recipient]:
    """Who is told, each with the newest notice that the outbox still has (`last`, else None)."""
    found = list(recipients(tenant))
    notices = Notification.objects.filter(tenant=tenant, notify_by=ALARM)
    newest = notices.values("queue").annotate(newest=Max("pk")).values_list("newest", flat=True)
    last = {notice.queue: notice for notice in notices.filter(pk__in=list(newest))}
    for one in found:
        one.last = last.get(str(one.pk))  # type: ignore[attr-defined]
    return found


def firing_by_rule() -> dict[tuple[str, int], int]:
    """How many alarms fire of each rule of every account, by the account's ID and the rule's number."""
    found = Alarm.objects.filter(ended_at=None, fired_at__isnull=False, rule__enabled=True).order_by()
    counted = found.values_list("tenant__uid", "rule").annotate(Count("pk"))
    return {(uid, number): count for uid, number, count in counted}


def last_round_ms() -> int | None:
    """When the rules were evaluated last, epoch ms; None when they were not within an hour."""
    found = cache.get(_ROUND)
    return None if found is None else int(found)


def note_round(at_ms: int) -> None:
    """Keep when the rules were evaluated, epoch ms."""
    cache.set(_ROUND, at_ms, _ROUND_KEPT_S)
