"""Rounds of evaluation: an alarm waits, fires, is told once, and ends."""

from __future__ import annotations

import json
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from django.utils.translation import override

from console.alarms import notices, rounds, services
from console.alarms.models import Alarm, Condition, Recipient, Rule
from console.metrics.store import Store
from console.outbox.models import ALARM, Notification
from console.web.errors import Refused
from tests.console.alarms.conftest import MakeRule, Sampled
from tests.support.cast import Cast, make_group

pytestmark = [pytest.mark.django_db, pytest.mark.broker]
MINUTE = timedelta(minutes=1)


def told() -> list[tuple[str, str]]:
    """Event and sentence of each notice, in order."""
    notices = [json.loads(one.body) for one in Notification.objects.filter(notify_by=ALARM).order_by("pk")]
    return [(one["event"], one["sentence"]) for one in notices]


def test_it_fires_when_it_has_held_for_so_long_is_told_once_and_its_end_too(
    cast: Cast, make_rule: MakeRule, sampled: Sampled
) -> None:
    make_rule(Condition.BACKLOG, threshold=100, minutes=5)
    group = make_group(cast.alice, cast.instance)
    sampled(backlog={group: 1604})
    assert sampled.round().fired == 0
    (alarm,) = Alarm.objects.all()
    assert (alarm.word, alarm.value) == ("Pending", 1604)
    assert sampled.round(4 * MINUTE).fired == 0
    sampled(backlog={group: 2000})
    assert sampled.round(MINUTE).fired == 1
    assert sampled.round(MINUTE).fired == 0
    sentence = f"{group.group_id} has a backlog of 2,000 messages (instance orders)"
    assert told() == [("fired", sentence)]
    alarm.refresh_from_db()
    assert (alarm.word, alarm.sentence) == ("Firing", sentence)
    sampled(backlog={group: 3})
    assert sampled.round(MINUTE).ended == 1
    assert told()[1:] == [("ended", sentence)]
    alarm.refresh_from_db()
    assert alarm.word == "Ended"
    assert sampled.round(MINUTE) == rounds.Outcome(rules=1)


def test_what_is_over_before_is_nothing(cast: Cast, make_rule: MakeRule, sampled: Sampled) -> None:
    make_rule(Condition.BACKLOG, threshold=100, minutes=5)
    group = make_group(cast.alice, cast.instance)
    sampled(backlog={group: 1604})
    sampled.round()
    sampled(backlog={group: 0})
    sampled.round(4 * MINUTE)
    assert not Alarm.objects.exists()
    assert told() == []


def test_each_thing_has_an_alarm_of_its_own(cast: Cast, make_rule: MakeRule, sampled: Sampled) -> None:
    make_rule(Condition.BACKLOG, threshold=100, names="GID_pay-*")
    groups = [make_group(cast.alice, cast.instance, f"GID_{name}") for name in ("pay-a", "pay-b", "other")]
    sampled(backlog=dict.fromkeys(groups, 500))
    assert sampled.round().fired == 2
    sampled(backlog={groups[0]: 0})
    assert sampled.round().ended == 1
    assert [one.subject.rpartition(":")[2] for one in Alarm.objects.filter(ended_at=None)] == ["GID_pay-b"]


def test_without_a_recent_reading_nothing_begins_and_nothing_ends(
    cast: Cast, make_rule: MakeRule, sampled: Sampled
) -> None:
    make_rule(Condition.BACKLOG, threshold=100)
    group = make_group(cast.alice, cast.instance)
    assert sampled.round().unknown == 1
    sampled(backlog={group: 500})
    assert sampled.round().fired == 1
    Store(cast.cluster.name).forget()
    assert sampled.round() == rounds.Outcome(rules=1, unknown=1)
    assert Alarm.objects.get().word == "Firing"


def test_in_quiet_hours_nobody_is_told_until_they_end(cast: Cast, make_rule: MakeRule, sampled: Sampled) -> None:
    group = make_group(cast.alice, cast.instance)
    rule = make_rule(Condition.BACKLOG, threshold=100, quiet_from=time(0), quiet_until=time(23, 59, 59))
    sampled(backlog={group: 500})
    assert sampled.round().fired == 1
    assert told() == []
    Rule.objects.filter(pk=rule.pk).update(quiet_from=None, quiet_until=None)
    sampled.round(MINUTE)
    assert [event for event, _ in told()] == ["fired"]


def test_what_nobody_was_told_of_ends_in_silence(cast: Cast, make_rule: MakeRule, sampled: Sampled) -> None:
    group = make_group(cast.alice, cast.instance)
    make_rule(Condition.BACKLOG, threshold=100, quiet_from=time(0), quiet_until=time(23, 59, 59))
    sampled(backlog={group: 500})
    sampled.round()
    sampled(backlog={group: 0})
    assert sampled.round(MINUTE).ended == 1
    assert told() == []


@pytest.mark.parametrize(
    ("begin", "end", "zone", "is_quiet"),
    [
        (time(22), time(6), "UTC", True),
        (time(6), time(22), "UTC", False),
        (time(4), time(5), "UTC", False),
        (time(3), time(4), "UTC", True),
        (time(11), time(12), "Asia/Shanghai", True),
        (time(3), time(4), "Asia/Shanghai", False),
        (None, None, "UTC", False),
    ],
)
def test_quiet_hours_may_pass_midnight_and_are_those_of_a_zone(
    begin: time | None, end: time | None, zone: str, is_quiet: bool
) -> None:
    rule = Rule(quiet_from=begin, quiet_until=end, zone=zone)
    assert rounds.quiet(rule, datetime(2026, 11, 27, 3, 30, tzinfo=UTC)) is is_quiet


def test_what_fires_is_told_again_until_somebody_acknowledges_it(
    cast: Cast, make_rule: MakeRule, sampled: Sampled
) -> None:
    make_rule(Condition.BACKLOG, threshold=100, repeat_minutes=30)
    group = make_group(cast.alice, cast.instance)
    sampled(backlog={group: 500})
    sampled.round()
    sampled.round(29 * MINUTE)
    assert [event for event, _ in told()] == ["fired"]
    sampled.round(MINUTE)
    sampled.round(MINUTE)
    sampled.round(29 * MINUTE)
    assert [event for event, _ in told()] == ["fired", "repeated", "repeated"]
    alarm = Alarm.objects.get()
    keys = list(Notification.objects.filter(notify_by=ALARM).order_by("pk").values_list("key", flat=True))
    assert keys == [f"alarm-{alarm.pk}-{what}" for what in ("fired", "repeated-1", "repeated-2")]
    services.acknowledge(actor=cast.actor("alice"), alarm=alarm)
    sampled.round(90 * MINUTE)
    assert len(told()) == 3
    sampled(backlog={group: 0})
    sampled.round(MINUTE)
    assert [event for event, _ in told()][3:] == ["ended"]


def test_nothing_is_told_again_in_quiet_hours_or_by_two_workers(
    cast: Cast, make_rule: MakeRule, sampled: Sampled, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = make_rule(Condition.BACKLOG, threshold=100, repeat_minutes=5)
    sampled(backlog={make_group(cast.alice, cast.instance): 500})
    sampled.round()
    Rule.objects.filter(pk=rule.pk).update(quiet_from=time(0), quiet_until=time(23, 59, 59))
    sampled.round(10 * MINUTE)
    assert len(told()) == 1
    Rule.objects.filter(pk=rule.pk).update(quiet_from=None, quiet_until=None)
    settle, others = rounds._settle, iter([True])

    def settled(rule: Rule, _: Any, *rest: Any) -> None:
        # Both have read the alarm as it was.
        both = [{one.subject: one for one in Alarm.objects.all()} for _ in range(2)]
        for of in both[: 2 if next(others, False) else 1]:
            settle(rule, of, *rest)

    monkeypatch.setattr(rounds, "_settle", settled)
    sampled.round(MINUTE)
    assert [event for event, _ in told()] == ["fired", "repeated"]


@pytest.mark.parametrize("minutes", [-1, 1, 4, 1441])
def test_nobody_is_told_again_all_the_time(make_rule: MakeRule, minutes: int) -> None:
    with pytest.raises(Refused, match="told again after 5 to 1,440 minutes"):
        make_rule(Condition.BACKLOG, threshold=100, repeat_minutes=minutes)


@pytest.mark.parametrize("condition", Condition)
def test_what_is_told_is_of_every_condition_the_same_in_every_language(
    cast: Cast, make_rule: MakeRule, condition: Condition
) -> None:
    rule = make_rule(condition, threshold=1, minutes=5)
    with override("zh-hans"):
        told_in_chinese = json.dumps(notices.told(rule, Alarm(began_at=timezone.now()), notices.FIRED))
    assert json.loads(told_in_chinese)["unit"].isascii()


def test_two_workers_tell_one_thing_once(
    cast: Cast, make_rule: MakeRule, sampled: Sampled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker opens, fires and tells the same alarm in the middle of this one's round."""
    make_rule(Condition.BACKLOG, threshold=100)
    group = make_group(cast.alice, cast.instance)
    sampled(backlog={group: 500})
    settle, others = rounds._settle, iter([True, False])

    def settled(*arguments: Any) -> None:
        if next(others, False):
            monkeypatch.setattr(rounds, "_settle", settle)
            sampled.round()
        settle(*arguments)

    monkeypatch.setattr(rounds, "_settle", settled)
    sampled.round()
    assert Alarm.objects.count() == 1
    assert len(told()) == 1


def test_a_notice_is_lost_with_what_it_tells_of_only(
    cast: Cast, make_rule: MakeRule, sampled: Sampled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker dies between the two writes: the next round tells it."""
    make_rule(Condition.BACKLOG, threshold=100)
    group = make_group(cast.alice, cast.instance)
    sampled(backlog={group: 500})

    def dies(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("console.alarms.notices.enqueue", dies)
        with pytest.raises(KeyboardInterrupt), transaction.atomic():
            sampled.round()
    assert told() == []
    sampled.round()
    assert [event for event, _ in told()] == ["fired"]


def test_a_rule_that_is_turned_off_changed_or_deleted_ends_what_fires(
    cast: Cast, make_rule: MakeRule, sampled: Sampled, recipient: Recipient
) -> None:
    actor, group = cast.actor("alice"), make_group(cast.alice, cast.instance)
    off, changed, deleted = (make_rule(Condition.BACKLOG, name=name, threshold=100) for name in ("a", "b", "c"))
    sampled(backlog={group: 500})
    assert sampled.round().fired == 3
    services.enable_rule(actor=actor, rule=off, enabled=False)
    values = services.RuleValues(name="b", condition=Condition.BACKLOG, names="other", recipients=[recipient])
    services.change_rule(actor=actor, rule=changed, values=values)
    services.delete_rule(actor=actor, rule=deleted)
    sampled.round()
    assert [one.word for one in Alarm.objects.all()] == ["Ended"] * 3
    assert set(Alarm.objects.values_list("rule_name", flat=True)) == {"a", "b", "c"}


def test_one_rule_that_cannot_be_judged_keeps_no_other_from_it(
    cast: Cast, make_rule: MakeRule, sampled: Sampled
) -> None:
    broken = make_rule(Condition.BACKLOG, name="broken", threshold=100)
    make_rule(Condition.BACKLOG, name="fine", threshold=100)
    Rule.objects.filter(pk=broken.pk).update(condition="group.unheard")
    sampled(backlog={make_group(cast.alice, cast.instance): 500})
    outcome = sampled.round()
    assert (outcome.fired, outcome.unknown) == (1, 1)


def test_what_ended_long_ago_is_forgotten(cast: Cast, make_rule: MakeRule, sampled: Sampled) -> None:
    make_rule(Condition.BACKLOG, threshold=100)
    group = make_group(cast.alice, cast.instance)
    sampled(backlog={group: 500})
    sampled.round()
    sampled(backlog={group: 0})
    sampled.round()
    assert rounds.expire() == 0
    alarm = Alarm.objects.get()
    assert alarm.ended_at is not None
    Alarm.objects.update(ended_at=alarm.ended_at - timedelta(days=91))
    assert rounds.expire() == 1
