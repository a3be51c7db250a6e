"""Writes of rules, of who is told, and of acknowledgements, on behalf of a user, each written down."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import time
from zoneinfo import ZoneInfo

from django.conf import settings
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from analytics.inflow.http_line import checked as checked_url
from brokercore.policy import mq_resource
from console.accounts.access import require
from console.accounts.actor import Actor, dla_resource, tenant_resource
from console.accounts.crypto import encrypt
from console.adoption import patterns
from console.alarms import mail_domains, notices
from console.alarms.models import Alarm, Condition, Recipient, RecipientKind, Rule, Severity
from console.audit import record as audit
from console.inflow import access as inflow
from console.instances.models import Instance
from console.jobs import access as jobs
from console.outbox import queues
from console.topics.models import OrderType, Topic
from console.tracking import access as tracking
from console.web.errors import Refused

MOST_RULES, MOST_RECIPIENTS, MOST_OF_A_RULE, MOST_ADDRESSES = 1000, 100, 20, 20
MOST_MINUTES = 1440
LEAST_REPEAT_MINUTES = 5
_NAME = re.compile(r"[\w][\w .:/-]{0,63}")
_QUEUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,254}")
_FIELD = "BIZ_FIELD_CHECK_INVALID"
_MOST_SECRET = 256
#: Nobody's mailbox is filled by a button.
_TEST_PAUSE_S = 30


@dataclass(frozen=True, kw_only=True)
class RuleValues:
    """What a rule says. `minutes` is for how long the condition holds, of a count within how long.

    After `repeat_minutes` what nobody has acknowledged is told again; with 0 it is told once.
    """

    name: str
    condition: Condition
    instance: Instance | None = None
    names: str = "*"
    threshold: float = 0
    minutes: int = 0
    severity: Severity = Severity.WARNING
    repeat_minutes: int = 0
    quiet_from: time | None = None
    quiet_until: time | None = None
    zone: str = "UTC"
    enabled: bool = True
    recipients: Sequence[Recipient] = ()


@dataclass(frozen=True, kw_only=True)
class RecipientValues:
    """Who is told: `address` is a URL, or addresses of mail; `secret` signs requests to a webhook or a robot.

    People are told in `language`, one of settings.LANGUAGES; empty: as until now, of a new one English.
    """

    name: str
    kind: RecipientKind
    address: str = field(default="", repr=False)
    secret: str = field(default="", repr=False)
    instance: Instance | None = None
    topic: str = ""
    queue: str = ""
    language: str = ""


def create_rule(*, actor: Actor, values: RuleValues) -> Rule:
    """A rule, evaluated from the next round on. Raises Refused for what cannot be one, PermissionDenied for what the
    actor may not watch."""
    rule = Rule(tenant=actor.tenant, creator=actor.name[:150])
    if Rule.objects.filter(tenant=actor.tenant).count() >= MOST_RULES:
        raise Refused(
            "ALARM_RULE_LIMIT",
            _("An account has at most %(most_rules)s alarm rules.") % {"most_rules": f"{MOST_RULES:,}"},
        )
    return _save_rule(actor, rule, values, "create")


def change_rule(*, actor: Actor, rule: Rule, values: RuleValues) -> Rule:
    """Change a rule; with another condition its alarms end. Raises as `create_rule`."""
    return _save_rule(actor, rule, values, "update")


@transaction.atomic
def delete_rule(*, actor: Actor, rule: Rule) -> None:
    """Delete a rule. What it told stays in the history; what fires by it ends without another word."""
    name, number = rule.name, rule.pk
    Alarm.objects.filter(rule=rule, ended_at=None, fired_at__isnull=False).update(ended_at=timezone.now())
    Alarm.objects.filter(rule=rule, ended_at=None).delete()
    rule.delete()
    audit.record(actor, "alarms.rule.delete", name, detail={"rule": number})


@transaction.atomic
def enable_rule(*, actor: Actor, rule: Rule, enabled: bool) -> None:
    """Turn a rule on or off. Raises Refused when it is so already."""
    if not Rule.objects.filter(pk=rule.pk, enabled=not enabled).update(enabled=enabled):
        text = _("%(rule)s is on already.") if enabled else _("%(rule)s is off already.")
        raise Refused("ALARM_RULE_STATE", text % {"rule": rule.name})
    audit.record(actor, f"alarms.rule.{'enable' if enabled else 'disable'}", rule.name)


@transaction.atomic
def acknowledge(*, actor: Actor, alarm: Alarm) -> None:
    """Say that somebody sees to it. Raises Refused where somebody does, or it has ended."""
    found = Alarm.objects.filter(pk=alarm.pk, ended_at=None, fired_at__isnull=False, acknowledged_at=None)
    if not found.update(acknowledged_at=timezone.now(), acknowledged_by=actor.name[:150]):
        raise Refused("ALARM_STATE", _("It has ended, or somebody has acknowledged it already."))
    audit.record(actor, "alarms.alarm.acknowledge", alarm.rule_name, detail={"alarm": alarm.pk})


def create_recipient(*, actor: Actor, values: RecipientValues) -> Recipient:
    """Somebody who can be told. Raises Refused for what cannot be one, PermissionDenied for where the actor may not
    send."""
    if Recipient.objects.filter(tenant=actor.tenant).count() >= MOST_RECIPIENTS:
        raise Refused(
            "ALARM_RECIPIENT_LIMIT",
            _("An account has at most %(most_recipients)s recipients of alarms.")
            % {"most_recipients": MOST_RECIPIENTS},
        )
    recipient = Recipient(tenant=actor.tenant)
    return _save_recipient(actor, recipient, values, "create")


def change_recipient(*, actor: Actor, recipient: Recipient, values: RecipientValues) -> Recipient:
    """Change who is told. An empty address or secret of the same kind stays, the secret only with its address."""
    return _save_recipient(actor, recipient, values, "update")


@transaction.atomic
def delete_recipient(*, actor: Actor, recipient: Recipient) -> None:
    """Delete who is told, from the rules too. Raises Refused where a rule would tell nobody any more."""
    only = [rule.name for rule in recipient.rules.all() if rule.recipients.count() == 1]
    if only:
        raise Refused(
            "RECIPIENT_USED",
            _("The rule %(only)s tells nobody else: give it another recipient first.") % {"only": only[0]},
        )
    name = recipient.name
    recipient.delete()
    audit.record(actor, "alarms.recipient.delete", name)


@transaction.atomic
def test_recipient(*, actor: Actor, recipient: Recipient) -> None:
    """Send a test, at most one in half a minute; `queries.last_notice` tells what became of it. Raises Refused."""
    if not cache.add(f"alarms:test:{recipient.pk}", 1, timeout=_TEST_PAUSE_S):
        raise Refused(
            "ALARM_TEST",
            _("%(recipient)s was sent a test less than %(test_pause_s)s seconds ago.")
            % {"recipient": recipient.name, "test_pause_s": _TEST_PAUSE_S},
        )
    notices.enqueue_test(recipient, actor.tenant.name)
    audit.record(actor, "alarms.recipient.test", recipient.name)


def _save_rule(actor: Actor, rule: Rule, values: RuleValues, act: str) -> Rule:
    watched = values.condition
    _require_name(values.name)
    names = patterns.checked(values.names or "*", "names") if watched.has_names else "*"
    if watched.unit and not 0 <= values.threshold <= 1e15:
        raise Refused(_FIELD, _("The threshold is a number from 0."), "threshold")
    if watched == Condition.STORAGE and values.threshold > 100:
        raise Refused(_FIELD, _("A store is full to 100 % at most."), "threshold")
    if values.repeat_minutes and not LEAST_REPEAT_MINUTES <= values.repeat_minutes <= MOST_MINUTES:
        refusal = _("An alarm is told again after %(least)s to %(most)s minutes; 0: it is not.")
        bounds = {"least": LEAST_REPEAT_MINUTES, "most": f"{MOST_MINUTES:,}"}
        raise Refused(_FIELD, refusal % bounds, "repeat_minutes")
    if not 0 <= values.minutes <= MOST_MINUTES:
        raise Refused(
            _FIELD, _("Minutes are 0 to %(most_minutes)s.") % {"most_minutes": f"{MOST_MINUTES:,}"}, "minutes"
        )
    if watched.is_counted and not 1 <= values.minutes <= 60:
        raise Refused(_FIELD, _("What is counted is counted within 1 to 60 minutes."), "minutes")
    if not 1 <= len(values.recipients) <= MOST_OF_A_RULE:
        raise Refused(
            _FIELD,
            _("A rule tells 1 to %(most_of_a_rule)s recipients.") % {"most_of_a_rule": MOST_OF_A_RULE},
            "recipients",
        )
    if (values.quiet_from is None) != (values.quiet_until is None):
        raise Refused(_FIELD, _("Quiet hours have a begin and an end."), "quiet_until")
    _require_zone(values.zone)
    instance = values.instance if watched.is_of_an_instance else None
    require_sight(actor, values.condition, instance)
    is_other = rule.pk is not None and (rule.condition, rule.instance_id, rule.names) != (
        values.condition, instance.pk if instance else None, names,
    )  # fmt: skip
    rule.name, rule.condition, rule.instance, rule.names = values.name, values.condition, instance, names
    rule.threshold, rule.minutes = values.threshold if watched.unit else 0, values.minutes
    rule.severity, rule.enabled, rule.repeat_minutes = values.severity, values.enabled, values.repeat_minutes
    rule.quiet_from, rule.quiet_until, rule.zone = values.quiet_from, values.quiet_until, values.zone
    try:
        with transaction.atomic():
            rule.save()
            rule.recipients.set(values.recipients)
            if is_other:
                Alarm.objects.filter(rule=rule, ended_at=None, fired_at=None).delete()
                Alarm.objects.filter(rule=rule, ended_at=None).update(ended_at=timezone.now())
            audit.record(actor, f"alarms.rule.{act}", rule.name, detail=_told(rule, values))
    except IntegrityError as error:
        raise Refused(
            "NAME_TAKEN", _("There is an alarm rule %(values)s already.") % {"values": values.name}, "name"
        ) from error
    return rule


def _require_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise Refused(
            _FIELD, _("A name has 1 to 64 letters, digits, spaces and - _ . : /, and begins with one."), "name"
        )


def require_sight(actor: Actor, condition: Condition, instance: Instance | None) -> None:
    """Raise PermissionDenied for what the actor may not see by itself: an alarm, or its curve, would tell it."""
    owner = actor.tenant
    if condition.is_of_groups or condition.is_of_topics:
        resource = tenant_resource(owner) if instance is None else mq_resource(instance.instance_id)
        require(actor, "mq:QueryTrend", resource, owner=owner)
    elif condition.value.startswith(("broker.", "instance.", "account.")):
        resource = tenant_resource(owner) if instance is None else mq_resource(instance.instance_id)
        require(actor, "mq:QueryInstance", resource, owner=owner)
    elif condition.value.startswith("pipeline."):
        jobs.require_right(actor, jobs.QUERY, "*")
        inflow.require_right(actor, inflow.QUERY, "*")
    elif condition.value.startswith("tracking."):
        tracking.require_right(actor, tracking.QUERY, "*")
    else:
        require(actor, "dla:QueryTask", dla_resource(owner, "*"), owner=owner)


def _require_zone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise Refused(
            _FIELD, _("%(name)r is no time zone, such as Asia/Shanghai.") % {"name": name[:64]}, "zone"
        ) from None


def _told(rule: Rule, values: RuleValues) -> dict[str, object]:
    return {
        "condition": rule.condition,
        "instance": rule.instance.instance_id if rule.instance else "",
        "names": rule.names,
        "threshold": rule.threshold,
        "minutes": rule.minutes,
        "severity": rule.severity,
        "repeat_minutes": rule.repeat_minutes,
        "enabled": rule.enabled,
        "recipients": [one.name for one in values.recipients],
    }


def _save_recipient(actor: Actor, recipient: Recipient, values: RecipientValues, act: str) -> Recipient:
    _require_name(values.name)
    if len(values.secret) > _MOST_SECRET:
        raise Refused(
            _FIELD, _("A secret has at most %(most_secret)s characters.") % {"most_secret": _MOST_SECRET}, "secret"
        )
    if values.language and values.language not in dict(settings.LANGUAGES):
        known = ", ".join(code for code, _name in settings.LANGUAGES)
        refusal = _("%(language)r is no language of notices; there are %(known)s.")
        raise Refused(_FIELD, refusal % {"language": values.language[:16], "known": known}, "language")
    recipient.language = values.language or recipient.language
    if not values.kind.is_of_people:
        recipient.language = settings.LANGUAGE_CODE
    same_kind = recipient.pk is not None and recipient.kind == values.kind
    keeps = same_kind and not values.address and bool(recipient.address_encrypted)
    recipient.name, recipient.kind = values.name, values.kind
    if not keeps:
        recipient.address_encrypted, recipient.instance, recipient.topic, recipient.queue = "", None, "", ""
    if values.kind == RecipientKind.TOPIC:
        _point_to_topic(actor, recipient, values)
    elif values.kind == RecipientKind.QUEUE:
        _point_to_queue(actor, recipient, values)
    elif not keeps:
        _point_to_address(recipient, values)
    if values.kind not in (RecipientKind.WEBHOOK, RecipientKind.DINGTALK, RecipientKind.FEISHU):
        recipient.secret_encrypted = ""
    elif values.secret or not keeps:  # a secret goes to no other address than the one that it was typed in for
        recipient.secret_encrypted = encrypt(values.secret) if values.secret else ""
    try:
        with transaction.atomic():
            recipient.save()
            detail = {"kind": recipient.kind, "address": recipient.shown, "language": recipient.language}
            audit.record(actor, f"alarms.recipient.{act}", recipient.name, detail=detail)
    except IntegrityError as error:
        raise Refused(
            "NAME_TAKEN", _("There is a recipient %(values)s already.") % {"values": values.name}, "name"
        ) from error
    return recipient


def _point_to_topic(actor: Actor, recipient: Recipient, values: RecipientValues) -> None:
    topic = Topic.objects.filter(instance=values.instance, name=values.topic).first() if values.instance else None
    if topic is None:
        raise Refused(_FIELD, _("There is no topic %(topic)r in the instance.") % {"topic": values.topic[:64]}, "topic")
    if topic.order_type in (OrderType.TRANSACTIONAL, OrderType.DELAYED):
        raise Refused(_FIELD, _("Alarms go to a topic of usual or ordered messages."), "topic")
    require(actor, "mq:PUB", mq_resource(topic.physical_name), owner=actor.tenant)
    recipient.instance, recipient.topic = values.instance, topic.name
    recipient.shown = f"{topic.name} of {topic.instance.name}"


def _point_to_queue(actor: Actor, recipient: Recipient, values: RecipientValues) -> None:
    if not _QUEUE.fullmatch(values.queue):
        raise Refused(_FIELD, _("A queue's name has 1 to 255 letters, digits and hyphens."), "queue")
    require(actor, queues.SEND, queues.resource_of(actor.tenant, values.queue), owner=actor.tenant)
    recipient.queue = values.queue
    recipient.shown = f"queue {values.queue}"


def _point_to_address(recipient: Recipient, values: RecipientValues) -> None:
    if values.kind == RecipientKind.MAIL:
        addresses = values.address.replace(",", " ").split()
        if not 1 <= len(addresses) <= MOST_ADDRESSES:
            raise Refused(
                _FIELD,
                _("Mail goes to 1 to %(most_addresses)s addresses.") % {"most_addresses": MOST_ADDRESSES},
                "address",
            )
        for one in addresses:
            try:
                validate_email(one)
            except ValidationError:
                raise Refused(_FIELD, _("%(one)r is no address of mail.") % {"one": one[:64]}, "address") from None
        if refusal := mail_domains.refusal(addresses):
            raise Refused(_FIELD, refusal, "address")
        recipient.address_encrypted, recipient.shown = encrypt(" ".join(addresses)), ", ".join(addresses)[:512]
        return
    try:
        parts = checked_url(values.address.strip(), "an endpoint")
    except ValueError as error:
        raise Refused(_FIELD, str(error), "address") from None
    recipient.address_encrypted = encrypt(values.address.strip())
    # What follows the host is the secret of most chats.
    recipient.shown = f"{parts.scheme}://{parts.netloc}/…"[:512]
