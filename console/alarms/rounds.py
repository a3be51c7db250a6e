"""Rounds of evaluation: what each rule finds now, beside the alarms that are open (docs/use/alarms.md).

    nothing → pending → firing → ended          pending → nothing, when it is over before its minutes are
                        firing → told again, after the rule's minutes, until somebody acknowledges it

A round may be done twice and by two workers: an alarm is opened once (a constraint), fires and ends by a conditional
update, and what is to be told is in the same transaction.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from django.db import IntegrityError, transaction
from django.utils import timezone

from console.alarms import conditions, notices, queries
from console.alarms.conditions import Finding
from console.alarms.models import Alarm, Rule
from console.alarms.readings import Readings, Unknown
from console.web import languages

log = logging.getLogger(__name__)

_KEPT = timedelta(days=90)


@dataclass
class Outcome:
    """What a round did."""

    rules: int = 0
    unknown: int = 0
    fired: int = 0
    ended: int = 0


@languages.kept()
def run(readings: Readings | None = None) -> Outcome:
    """Evaluate every rule that is on once. A rule whose readings are not there changes nothing."""
    readings = readings or Readings()
    now = datetime.fromtimestamp(readings.now_ms / 1000, UTC)
    outcome = Outcome()
    rules = Rule.objects.filter(enabled=True, tenant__enabled=True).select_related("tenant", "instance__cluster")
    opened: dict[int | None, dict[str, Alarm]] = defaultdict(dict)
    for alarm in Alarm.objects.filter(ended_at=None).select_related("tenant"):
        opened[alarm.rule_id][alarm.subject] = alarm
    for rule in rules:
        outcome.rules += 1
        open_ = opened.pop(rule.pk, {})
        try:
            found = conditions.findings(rule, readings)
        except Unknown:
            outcome.unknown += 1
            continue
        except Exception:
            # One rule that cannot be judged keeps no other one from it.
            log.exception("rule %s of account %s could not be evaluated", rule.pk, rule.tenant_id)
            outcome.unknown += 1
            continue
        _settle(rule, open_, found, now, outcome)
    for orphans in opened.values():  # their rules were turned off or deleted
        for alarm in orphans.values():
            outcome.ended += _end(alarm, None, now)
    queries.note_round(readings.now_ms)
    return outcome


def _settle(rule: Rule, open_: dict[str, Alarm], found: list[Finding], now: datetime, outcome: Outcome) -> None:
    """Bring the rule's alarms to what was found."""
    held = {one.subject: one for one in found}
    changed: list[Alarm] = []
    is_quiet = quiet(rule, now)
    for subject, finding in held.items():
        alarm = open_.get(subject) or _open(rule, finding, now)
        if alarm is None:
            continue
        if alarm.facts != finding.facts or alarm.value != finding.value:
            alarm.sentence, alarm.facts = finding.sentence[:512], dict(finding.facts)
            alarm.value, alarm.path = finding.value, finding.path[:512]
            changed.append(alarm)
        if alarm.fired_at is None and now - alarm.began_at >= timedelta(minutes=rule.needs_minutes):
            outcome.fired += _fire(alarm, now)
        if alarm.fired_at is not None and alarm.told_at is None and not is_quiet:
            _tell(rule, alarm, now)
        elif _is_due_again(rule, alarm, now) and not is_quiet:
            _tell_again(rule, alarm, now)
    Alarm.objects.bulk_update(changed, ["sentence", "facts", "value", "path"], batch_size=500)
    for subject, alarm in open_.items():
        if subject not in held:
            outcome.ended += _end(alarm, rule, now)


def _open(rule: Rule, finding: Finding, now: datetime) -> Alarm | None:
    """A new alarm that waits; None where another worker has just opened it, or the rule is gone."""
    try:
        with transaction.atomic():
            return Alarm.objects.create(
                tenant=rule.tenant,
                rule=rule,
                rule_name=rule.name,
                condition=rule.condition,
                severity=rule.severity,
                subject=finding.subject[:320],
                sentence=finding.sentence[:512],
                facts=dict(finding.facts),
                value=finding.value,
                path=finding.path[:512],
                began_at=now,
            )
    except IntegrityError:
        return None


def _fire(alarm: Alarm, now: datetime) -> bool:
    alarm.fired_at = now
    return bool(Alarm.objects.filter(pk=alarm.pk, fired_at=None, ended_at=None).update(fired_at=now))


@transaction.atomic
def _tell(rule: Rule, alarm: Alarm, now: datetime) -> None:
    alarm.told_at = now
    if Alarm.objects.filter(pk=alarm.pk, told_at=None, ended_at=None).update(told_at=now):
        notices.enqueue(rule, alarm, notices.FIRED)


def _is_due_again(rule: Rule, alarm: Alarm, now: datetime) -> bool:
    """Whether an alarm that nobody has acknowledged was told last as long ago as the rule says."""
    last = alarm.repeated_at or alarm.told_at
    if not rule.repeat_minutes or last is None or alarm.acknowledged_at is not None:
        return False
    return now - last >= timedelta(minutes=rule.repeat_minutes)


@transaction.atomic
def _tell_again(rule: Rule, alarm: Alarm, now: datetime) -> None:
    """Tell it once more, unless another worker has, or somebody acknowledged it or it ended meanwhile."""
    unchanged = Alarm.objects.filter(pk=alarm.pk, repeats=alarm.repeats, acknowledged_at=None, ended_at=None)
    alarm.repeats += 1
    alarm.repeated_at = now
    if unchanged.update(repeats=alarm.repeats, repeated_at=now):
        notices.enqueue(rule, alarm, notices.REPEATED)


@transaction.atomic
def _end(alarm: Alarm, rule: Rule | None, now: datetime) -> bool:
    """End an alarm; True for one that had fired. Who was told that it fires is told that it has ended."""
    if alarm.fired_at is None:
        Alarm.objects.filter(pk=alarm.pk, fired_at=None).delete()
        return False
    ended = bool(Alarm.objects.filter(pk=alarm.pk, ended_at=None).update(ended_at=now))
    if ended and rule is not None and alarm.told_at is not None:
        alarm.ended_at = now
        notices.enqueue(rule, alarm, notices.ENDED)
    return ended


def quiet(rule: Rule, now: datetime) -> bool:
    """Whether these are the rule's quiet hours, which may go past midnight."""
    begin, end = rule.quiet_from, rule.quiet_until
    if begin is None or end is None or begin == end:
        return False
    at = now.astimezone(ZoneInfo(rule.zone)).time()
    return begin <= at < end if begin < end else at >= begin or at < end


def expire() -> int:
    """Forget what ended long ago; returns how many alarms."""
    deleted, _ = Alarm.objects.filter(ended_at__lt=timezone.now() - _KEPT).delete()
    return int(deleted)
