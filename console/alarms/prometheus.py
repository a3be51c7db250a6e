"""An account's rules for Prometheus: each an alert on `gantry_alarms_firing`, which tells what fires.

Gantry evaluates the rule, with its minutes and on readings that no exporter has; Prometheus hands on what it tells.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from django.conf import settings
from django.urls import reverse

from console.accounts.models import Tenant
from console.alarms import queries
from console.alarms.models import Condition, Rule
from console.web import languages

FIRING, AGE = "gantry_alarms_firing", "gantry_alarm_round_age_seconds"
#: A round is every 15 s; one that is so late, seconds, is none.
_LATE_S = 120


def rules_file(tenant: Tenant) -> str:
    """The account's rules that are on as a file of Prometheus rules, YAML, and one that tells when no round is made.

    In English, as all that machines are told.
    """
    with languages.kept():
        return "\n".join(_lines(tenant)) + "\n"


def _lines(tenant: Tenant) -> list[str]:
    lines = [
        f"# Alarm rules of {tenant.name} for Prometheus; it reads GANTRY_CONSOLE_METRICS_PORT of Gantry.",
        "groups:",
        f"  - name: {_text(f'gantry-{tenant.name}')}",
        "    rules:",
        *_alert("GantryAlarmsStandStill", f"{AGE} > {_LATE_S}", {"severity": "critical"}, _stands_still()),
    ]
    for rule in queries.rules(tenant):
        if rule.enabled:
            labels = {"severity": rule.severity, "account": tenant.name}
            expression = f'{FIRING}{{tenant="{tenant.uid}",rule="{rule.pk}"}} > 0'
            lines += _alert(rule.name, expression, labels, _annotations(rule))
    return lines


def _alert(name: str, expression: str, labels: dict[str, str], annotations: dict[str, str]) -> Iterator[str]:
    yield f"      - alert: {_text(name)}"
    yield f"        expr: {_text(expression)}"
    for title, values in (("labels", labels), ("annotations", annotations)):
        yield f"        {title}:"
        yield from (f"          {key}: {_text(value)}" for key, value in values.items())


def _annotations(rule: Rule) -> dict[str, str]:
    return {
        "summary": " ".join(_words(rule)),
        "page": settings.CONSOLE_URL.rstrip("/") + reverse("alarms.rule", args=[rule.pk]),
    }


def _words(rule: Rule) -> Iterable[str]:
    watched = rule.watched
    yield str(watched.label)
    if watched.unit:
        yield f"{'≤' if watched == Condition.BELOW else '≥'} {rule.threshold:g} {watched.unit}"
    if rule.minutes:
        yield f"{'within' if watched.is_counted else 'for'} {rule.minutes} min"
    if watched.has_names:
        yield f"({rule.names})"


def _stands_still() -> dict[str, str]:
    return {"summary": "The alarm rules are not evaluated: look whether a worker and the beat run."}


def _text(value: str) -> str:
    """As YAML reads a text in quotes, which is as JSON does."""
    return json.dumps(value, ensure_ascii=False)
