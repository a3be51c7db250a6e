"""What is told of an alarm, and to whom: added to the outbox with what it tells of, in each recipient's own form."""

from __future__ import annotations

import json
from typing import Any

from django.conf import settings

from console.alarms.models import Alarm, Recipient, Rule
from console.outbox import services as outbox
from console.outbox.models import ALARM

FIRED, REPEATED, ENDED, TEST = "fired", "repeated", "ended", "test"


def enqueue(rule: Rule, alarm: Alarm, event: str) -> None:
    """Add a notice for each recipient of the rule to the current transaction."""
    body = json.dumps(told(rule, alarm, event), ensure_ascii=False)
    number = f"-{alarm.repeats}" if event == REPEATED else ""
    for recipient in rule.recipients.all():
        _add(recipient, f"alarm-{alarm.pk}-{event}{number}", body)


def enqueue_test(recipient: Recipient, account: str) -> None:
    """Add a notice that says that it is a test to the current transaction."""
    content = {
        "event": TEST,
        "account": account,
        "sentence": f"This is a test of {recipient.name}: alarms of {account} arrive here",
        "severity": "note",
        "page": _url("/alarms/recipients/"),
    }
    _add(recipient, f"alarm-test-{recipient.pk}", json.dumps(content, ensure_ascii=False))


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


def _add(recipient: Recipient, key: str, body: str) -> None:
    outbox.enqueue(
        tenant=recipient.tenant,
        notify_by=ALARM,
        # The row is read when it is sent: who was deleted meanwhile is told nothing.
        queue=str(recipient.pk),
        key=key[:64],
        tag="alarm",
        body=body,
    )


def _url(path: str) -> str:
    """The page's address, where the administrator has said how people reach the console; else its path."""
    return settings.CONSOLE_URL.rstrip("/") + path if path else ""
