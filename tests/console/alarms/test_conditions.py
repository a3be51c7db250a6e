"""What each condition finds, and what it does not."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from brokercore.names import dead_letter_topic
from console.alarms import conditions
from console.alarms.models import Condition, Rule
from console.alarms.readings import Readings, Unknown
from console.cluster.brokers import Absence, BrokerFigures, Health
from console.metrics.store import Change, Latest, Store
from console.pipelines.models import Kind, Pipeline, State
from console.sql.models import QueryTask, TaskStatus
from console.tracking.models import TrackingTask
from tests.console.alarms.conftest import MakeRule, Sampled
from tests.console.live import Live
from tests.support.cast import Cast, make_group, make_topic

pytestmark = [pytest.mark.django_db, pytest.mark.broker]


def sentences(rule: Rule, sampled: Sampled) -> list[str]:
    found = conditions.findings(rule, Readings(sampled.began_ms))
    return [one.sentence.removesuffix(" (instance orders)") for one in found]


def test_a_backlog_of_at_least_so_many(cast: Cast, make_rule: MakeRule, sampled: Sampled) -> None:
    low, high = (make_group(cast.alice, cast.instance, f"GID_{name}") for name in ("low", "high"))
    charlies = make_group(cast.charlie, cast.charlies, "GID_charlie")
    sampled(backlog={low: 99, high: 100, charlies: 5000})
    assert sentences(make_rule(Condition.BACKLOG, threshold=100), sampled) == ["GID_high has a backlog of 100 messages"]
    everywhere = make_rule(Condition.BACKLOG, name="all", threshold=1, instance=None)
    assert sentences(everywhere, sampled) == [
        "GID_high has a backlog of 100 messages", "GID_low has a backlog of 99 messages",
    ]  # fmt: skip


def test_a_delay_by_what_came_since(cast: Cast, make_rule: MakeRule, sampled: Sampled) -> None:
    group, topic = make_group(cast.alice, cast.instance, "GID_slow"), make_topic(cast.alice, cast.instance)
    sampled(backlog={group: 150})
    change = Change(Latest(sampled.began_ms, 10.0, ["broker-a"], []))
    change.groups[group.physical_name] = b'{"%s":{}}' % topic.physical_name.encode()
    with Store(cast.cluster.name).lease() as token:
        assert Store(cast.cluster.name).commit(token, change)
    for minutes, number in ((1, 100), (3, 100), (30, 1000)):
        sampled.came(timedelta(minutes=minutes), {topic.physical_name: number})
    assert sentences(make_rule(Condition.DELAY, threshold=120), sampled) == ["GID_slow is 3 min behind"]
    assert sentences(make_rule(Condition.DELAY, name="more", threshold=300), sampled) == []


def test_who_consumes_nothing_though_something_waits(cast: Cast, make_rule: MakeRule, sampled: Sampled) -> None:
    stalled, busy, done = (make_group(cast.alice, cast.instance, f"GID_{name}") for name in ("stalled", "busy", "done"))
    sampled(backlog={stalled: 7, busy: 9, done: 0}, out={busy: 3.5})
    found = sentences(make_rule(Condition.STALLED), sampled)
    assert found == ["GID_stalled consumes nothing, and 7 messages wait"]


def test_a_group_that_is_offline_and_one_that_is_not(
    live: Live, cast: Cast, make_rule: MakeRule, sampled: Sampled
) -> None:
    topic, online = live.topic(), live.group()
    live.consume(online, topic)
    offline = make_group(cast.alice, cast.instance, "GID_left")
    sampled(backlog={online: 5, offline: 1})
    rule = make_rule(Condition.OFFLINE, names=f"{online.group_id} GID_left", instance=live.instance)
    found = conditions.findings(rule, Readings(sampled.began_ms))
    assert [one.sentence for one in found] == ["GID_left is offline, and 1 message waits (instance orders)"]
    assert cast.client("alice").get(found[0].path).status_code == 200


def test_letters_within_the_minutes_and_older_ones_not(cast: Cast, make_rule: MakeRule, sampled: Sampled) -> None:
    fresh, old = (make_group(cast.alice, cast.instance, f"GID_{name}") for name in ("fresh", "old"))
    letters = {group: dead_letter_topic(group.physical_name) for group in (fresh, old)}
    sampled(stored=dict.fromkeys(letters.values(), 40))
    sampled.came(timedelta(minutes=4), {letters[fresh]: 3})
    sampled.came(timedelta(minutes=6), {letters[old]: 40})
    rule = make_rule(Condition.DEAD_LETTERS, threshold=1, minutes=5)
    assert sentences(rule, sampled) == ["3 dead letters of GID_fresh within 5 minutes"]


def test_rates_above_and_below(cast: Cast, make_rule: MakeRule, sampled: Sampled) -> None:
    fast, slow, silent = (make_topic(cast.alice, cast.instance, name) for name in ("fast", "slow", "silent"))
    sampled(rates={fast: 120.5, slow: 0.5}, stored={one.physical_name: 1 for one in (fast, slow, silent)})
    assert sentences(make_rule(Condition.ABOVE, threshold=100), sampled) == ["fast receives 120.5 messages/s"]
    below = make_rule(Condition.BELOW, threshold=1, names="slow silent")
    assert sentences(below, sampled) == ["slow receives 0.5 messages/s", "silent receives no messages"]


def test_a_full_broker_and_one_that_is_away(
    cast: Cast, make_rule: MakeRule, sampled: Sampled, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = BrokerFigures("broker-a", "V5", 0.91, None, None, None)
    away = BrokerFigures("broker-b", "", 0.0, None, None, None, absence=Absence.SILENT)
    health = Health(cast.cluster, [full, away])
    monkeypatch.setattr("console.cluster.brokers.health_of", lambda _: health)
    assert sentences(make_rule(Condition.STORAGE, threshold=90), sampled) == [
        "Broker broker-a of DefaultCluster is 91 % full"
    ]
    missing = make_rule(Condition.AWAY)
    assert sentences(missing, sampled) == ["Broker broker-b of DefaultCluster does not answer"]
    health = Health(cast.cluster, [], "No connection")
    assert sentences(missing, sampled) == ["Cluster DefaultCluster does not answer"]
    with pytest.raises(Unknown):
        sentences(Rule.objects.get(condition=Condition.STORAGE), sampled)


def test_what_has_failed(cast: Cast, make_rule: MakeRule, sampled: Sampled) -> None:
    fields = {"tenant": cast.acme, "state": State.FAILED, "reason": "The table is gone."}
    Pipeline.objects.create(name="late", kind=Kind.JOB, **fields)
    Pipeline.objects.create(name="orders-in", kind=Kind.INFLOW, **fields)
    Pipeline.objects.create(name="theirs", kind=Kind.JOB, **fields | {"tenant": cast.charlies.tenant})
    TrackingTask.objects.create(tenant=cast.acme, name="shop", port=3306, state="failed", sentence="The log is gone.")
    pipelines = make_rule(Condition.PIPELINE, names="late orders-*")
    assert sentences(pipelines, sampled) == [
        "SQL job late has failed: The table is gone.", "Inflow task orders-in has failed: The table is gone.",
    ]  # fmt: skip
    tracking = make_rule(Condition.TRACKING)
    assert sentences(tracking, sampled) == ["Changes of the database of shop are not read: The log is gone."]


def test_statements_that_failed(cast: Cast, make_rule: MakeRule, sampled: Sampled) -> None:
    for minutes, status in ((1, "FAILURE"), (2, "FAILURE"), (3, "SUCCESS"), (20, "FAILURE")):
        task = QueryTask.objects.create(
            id=f"q{minutes}", tenant=cast.acme, status=TaskStatus(status), command="select 1"
        )
        QueryTask.objects.filter(pk=task.pk).update(update_time=timezone.now() - timedelta(minutes=minutes))
    rule = make_rule(Condition.STATEMENTS, threshold=2, minutes=10)
    assert sentences(rule, sampled) == ["2 SQL statements failed within 10 minutes"]


def test_of_very_many_the_worst_have_an_alarm(cast: Cast, make_rule: MakeRule, sampled: Sampled) -> None:
    groups = [make_group(cast.alice, cast.instance, f"GID_{number}") for number in range(conditions.MOST + 3)]
    sampled(backlog={group: 10 + number for number, group in enumerate(groups)})
    found = conditions.findings(make_rule(Condition.BACKLOG, threshold=1), Readings(sampled.began_ms))
    assert len(found) == conditions.MOST
    assert found[0].value == 10 + conditions.MOST + 2
