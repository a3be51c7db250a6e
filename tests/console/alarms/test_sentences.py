"""What alarms say, in the language of whoever reads it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone, translation

from console.alarms import sentences
from console.alarms.models import Alarm, Condition, Severity
from tests.console.alarms.conftest import MakeRule, Sampled
from tests.support.cast import Cast, make_group

#: Facts of each kind; what is in them is a name, or what somebody else's program said.
FACTS: dict[str, dict[str, Any]] = {
    "group.backlog": {"name": "GID_a", "number": 1604, "instance": "orders"},
    "group.delay": {"name": "GID_a", "seconds": 7300.0, "is_least": True, "instance": "orders"},
    "group.stalled": {"name": "GID_a", "number": 1, "instance": "orders"},
    "group.offline": {"name": "GID_a", "number": 0, "instance": "orders"},
    "group.dead_letters": {"name": "GID_a", "number": 3, "minutes": 5, "instance": "orders"},
    "topic.above": {"name": "t", "rate": 1200.5, "instance": "orders"},
    "topic.below": {"name": "t", "rate": 0, "instance": "orders"},
    "broker.storage": {"broker": "b-a", "cluster": "C", "percent": 91},
    "broker.away": {"cluster": "C"},
    "instance.throttled": {"name": "orders", "number": 2, "minutes": 1},
    "account.throttled": {"account": "acme", "number": 9, "minutes": 5, "reasons": ["queues", "messages_per_second"]},
    "account.storage": {"account": "acme", "percent": 80.4},
    "pipeline.failed": {"name": "late", "kind": "job", "reason": "boom"},
    "pipeline.stopped": {"name": "late", "kind": "inflow", "state": "stopped"},
    "pipeline.delay": {"name": "late", "kind": "job", "seconds": 30.2},
    "tracking.failed": {"name": "db", "reason": "boom"},
    "tracking.delay": {"name": "db", "seconds": 180},
    "sql.failed": {"number": 2, "minutes": 1},
    sentences.TEST: {"recipient": "on call", "account": "acme"},
}
ENGLISH = {
    "group.backlog": "GID_a has a backlog of 1,604 messages (instance orders)",
    "group.delay": "GID_a is 2 hours or more behind (instance orders)",
    "group.stalled": "GID_a consumes nothing, and 1 message waits (instance orders)",
    "group.offline": "GID_a is offline (instance orders)",
    "group.dead_letters": "3 dead letters of GID_a within 5 minutes (instance orders)",
    "topic.above": "t receives 1,200 messages/s (instance orders)",
    "topic.below": "t receives no messages (instance orders)",
    "broker.storage": "Broker b-a of C is 91 % full",
    "broker.away": "Cluster C does not answer",
    "instance.throttled": (
        "Clients of the instance orders were held back 2 times within a minute: they send or receive more than it may"
    ),
    "account.throttled": (
        "9 requests of acme were refused for its limits within 5 minutes: queues, messages per second"
    ),
    "account.storage": "acme stores 80 % of the bytes that it may at the brokers",
    "pipeline.failed": "SQL job late has failed: boom",
    "pipeline.stopped": "Inflow task late does not run: it is stopped",
    "pipeline.delay": "SQL job late is 30 s behind",
    "tracking.failed": "Changes of the database of db are not read: boom",
    "tracking.delay": "Changes of the database of db are kept 3 min late",
    "sql.failed": "2 SQL statements failed within a minute",
    sentences.TEST: "This is a test of on call: alarms of acme arrive here",
}
_NAMES = re.compile(r"GID_a|orders|b-a|acme|late|boom|db|on call|Broker|SQL|Topic|\b[tC]\b")


def test_every_condition_has_a_sentence() -> None:
    assert FACTS.keys() == ENGLISH.keys() == {*Condition.values, sentences.TEST}


@pytest.mark.parametrize("kind", FACTS)
def test_it_is_said_in_english_and_in_chinese(kind: str) -> None:
    assert sentences.sentence(kind, FACTS[kind]) == ENGLISH[kind]
    with translation.override("zh-hans"):
        said = sentences.sentence(kind, FACTS[kind])
    assert re.search("[\u4e00-\u9fff]", said)
    assert not re.search("[A-Za-z]", _NAMES.sub("", said)), said
    for name in ("GID_a", "boom"):
        assert (name in said) == (name in ENGLISH[kind])


def test_what_an_older_release_opened_is_said_as_it_was_kept() -> None:
    assert sentences.sentence("group.backlog", {}, "GID_a has a backlog") == "GID_a has a backlog"


@pytest.mark.django_db
@pytest.mark.broker
def test_what_fires_and_the_history_are_in_the_readers_language(
    cast: Cast, make_rule: MakeRule, sampled: Sampled
) -> None:
    make_rule(Condition.BACKLOG, threshold=100)
    group = make_group(cast.alice, cast.instance, "GID_pay")
    sampled(backlog={group: 500})
    with translation.override("zh-hans"):
        sampled.round()
    alarm = Alarm.objects.get()
    assert (alarm.sentence, alarm.severity) == ("GID_pay has a backlog of 500 messages (instance orders)", "warning")
    assert alarm.severity == Severity.WARNING
    alice, chinese = cast.client("alice"), {"accept-language": "zh-CN"}
    pages = [reverse("alarms.list"), reverse("instances.overview_attention")]
    for page in pages:
        assert "GID_pay 堆积 500 条消息（实例 orders）" in alice.get(page, headers=chinese).content.decode()
        assert alarm.sentence in alice.get(page).content.decode()
    Alarm.objects.update(ended_at=timezone.now())
    page = reverse("alarms.list") + "?q=backlog"
    assert "GID_pay 堆积 500 条消息（实例 orders）" in alice.get(page, headers=chinese).content.decode()
