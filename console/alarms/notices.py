"""What is told of an alarm, and to whom: added to the outbox with what it tells of, in each recipient's own form."""

from __future__ import annotations

import json
from typing import Any

from django.conf import settings

from console.alarms import sentences
from console.alarms.models import Alarm, Recipient, RecipientKind, Rule
from console.outbox import services as outbox
from console.outbox.models import ALARM
from console.web import languages

FIRED, REPEATED, ENDED, TEST = "fired", "repeated", "ended", "test"


def enqueue(rule: Rule, alarm: Alarm, event: str) -> None:
    """Add a notice for each recipient of the rule to the current transaction."""
    content = told(rule, alarm, event)
    number = f"-{alarm.repeats}" if event == REPEATED else ""
    for recipient in rule.recipients.all():
        _add(recipient, f"alarm-{alarm.pk}-{event}{number}", content, {"facts": alarm.facts, "zone": rule.zone})


def enqueue_test(recipient: Recipient, account: str) -> None:
    """Add a notice that says that it is a test to the current transaction."""
    facts = {"recipient": recipient.name, "account": account}
    with languages.kept():
        said = sentences.sentence(TEST, facts)
    content = {
        "event": TEST,
        "account": account,
        "sentence": said,
        "severity": "note",
        "page": _url("/alarms/recipients/"),
    }
    _add(recipient, f"alarm-test-{recipient.pk}", content, {"facts": facts})


def told(rule: Rule, alarm: Alarm, event: str) -> dict[str, Any]:
    """The content of a notice, as webhooks, topics and queues get it; times are epoch ms."""
    return {
        "event": event,
        "account": rule.tenant.name,
        "rule": rule.name,
        "condition": rule.condition,
        "severity": rule.severity,
        "subject": alarm.subject,
        "sentence": alarm.sentence,
        "value": alarm.value,
        "threshold": rule.threshold if rule.watched.unit else None,
        "unit": str(rule.watched.unit),
        "since": int(alarm.began_at.timestamp() * 1000),
        "repeats": alarm.repeats,
        "ended": int(alarm.ended_at.timestamp() * 1000) if alarm.ended_at else None,
        "alarm": alarm.pk,
        "page": _url(alarm.path),
    }


def _add(recipient: Recipient, key: str, content: dict[str, Any], for_people: dict[str, Any]) -> None:
    """`for_people` is what `sending` needs to say it in the recipient's language; programs do not get it."""
    if RecipientKind(recipient.kind).is_of_people:
        content = content | for_people
    outbox.enqueue(
        tenant=recipient.tenant,
        notify_by=ALARM,
        # The row is read when it is sent: who was deleted meanwhile is told nothing.
        queue=str(recipient.pk),
        key=key[:64],
        tag="alarm",
        body=json.dumps(content, ensure_ascii=False),
    )


def _url(path: str) -> str:
    """The page's address, where the administrator has said how people reach the console; else its path."""
    return settings.CONSOLE_URL.rstrip("/") + path if path else ""
