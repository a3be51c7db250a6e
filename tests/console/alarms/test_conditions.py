"""What each condition finds, and what it does not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import orjson
import pytest
from django.utils import timezone

from analytics.pipelines.reports import InsertReport, Reached, Report
from brokercore.names import dead_letter_topic
from brokercore.policy.table import RATES_USED, USE, RateUse, UseRow, use_field
from console.accounts.models import Tenant, TenantLimits
from console.alarms import conditions
from console.alarms.models import Alarm, Condition, Rule
from console.alarms.readings import Readings, Unknown
from console.cluster.brokers import Absence, BrokerFigures, Health
from console.metrics.store import Change, Latest, Store
from console.metrics.store import connection as store_connection
from console.pipelines import samples
from console.pipelines.models import Kind, Pipeline, State
from console.sql.models import QueryTask, TaskStatus
from console.tracking.models import TrackingTask
from console.web.redis import connection
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
    sampled.for_an_hour()
    sampled(backlog={group: 150})
    change = Change(Latest(sampled.began_ms, 10.0, ["broker-a"], []))
    change.groups[group.physical_name] = b'{"%s":{}}' % topic.physical_name.encode()
    with Store(cast.cluster.name).lease() as token:
        assert Store(cast.cluster.name).commit(token, change)
    for minutes, number in ((1, 100), (3, 100), (30, 1000)):
        sampled.came(timedelta(minutes=minutes), {topic.physical_name: number})
    assert sentences(make_rule(Condition.DELAY, threshold=120), sampled) == ["GID_slow is 3 min behind"]
    more = make_rule(Condition.DELAY, name="more", threshold=300)
    assert sentences(more, sampled) == []
    sampled(backlog={group: 5000})
    assert sentences(more, sampled) == ["GID_slow is 70 min or more behind"]


def test_a_delay_beyond_what_was_counted_is_told_as_the_least(
    cast: Cast, make_rule: MakeRule, sampled: Sampled
) -> None:
    group, topic = make_group(cast.alice, cast.instance, "GID_slow"), make_topic(cast.alice, cast.instance)
    change = Change(Latest(sampled.began_ms, 10.0, ["broker-a"], []))
    change.backlog[group.physical_name] = 150
    change.groups[group.physical_name] = b'{"%s":{}}' % topic.physical_name.encode()
    store = Store(cast.cluster.name)
    with store.lease() as token:
        assert store.commit(token, change)
    for minutes in range(4):
        store.add(sampled.began_ms - minutes * 60_000, 60.0, {})
    sampled.came(timedelta(minutes=10), {topic.physical_name: 500})  # before the sampler stood still
    assert sentences(make_rule(Condition.DELAY, threshold=120), sampled) == ["GID_slow is 4 min or more behind"]
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


def brokers_tell(held_back: dict[str, int], refused: dict[str, int], stored: int = 0) -> None:
    """As embedded brokers do: one that runs, what it held back by instance, and what it refused of acme."""
    client = connection()
    client.hset(USE, use_field("", "broker-a"), int(time.time() * 1000))
    client.hset(USE, use_field("acme", "broker-a"), UseRow(stored_bytes=stored, refused=refused).encode())
    for instance, number in held_back.items():
        client.hset(RATES_USED, use_field(instance, "broker-a"), RateUse(held_back=number).encode())


@pytest.fixture
def told_by_brokers(cast: Cast) -> Iterator[Callable[..., None]]:
    """Brokers that tell; acme is the account that they tell of."""
    Tenant.objects.filter(pk=cast.acme.pk).update(uid="acme")
    cast.acme.refresh_from_db()
    client = connection()
    client.delete(USE, RATES_USED)
    for key in store_connection().scan_iter("gantry:alarms:counter:*"):
        store_connection().delete(key)
    yield brokers_tell
    client.delete(USE, RATES_USED)


def test_clients_that_an_instance_holds_back(
    cast: Cast, make_rule: MakeRule, sampled: Sampled, told_by_brokers: Callable[..., None]
) -> None:
    rule = make_rule(Condition.THROTTLED, threshold=10, minutes=5)
    name = cast.instance.instance_id
    with pytest.raises(Unknown):  # no broker tells anything
        sentences(rule, sampled)
    told_by_brokers({name: 500, cast.charlies.instance_id: 500}, {})
    assert sampled.round().fired == 0  # what was before nobody knows when
    told_by_brokers({name: 509}, {})
    assert sampled.round(timedelta(seconds=15)).fired == 0
    told_by_brokers({name: 512}, {})
    assert sampled.round(timedelta(seconds=15)).fired == 1
    says = (
        "Clients of the instance orders were held back 12 times within 5 minutes: they send or receive more than it may"
    )
    alarm = Alarm.objects.get()
    assert (alarm.sentence, alarm.value) == (says, 12)
    assert cast.client("alice").get(alarm.path).status_code == 200
    told_by_brokers({name: 3}, {})  # the broker has started anew: it counts from 0
    assert sampled.round(timedelta(minutes=2)).ended == 0
    assert sampled.round(timedelta(minutes=4)).ended == 1


def test_requests_that_are_refused_for_limits_and_not_for_rights(
    cast: Cast, make_rule: MakeRule, sampled: Sampled, told_by_brokers: Callable[..., None]
) -> None:
    make_rule(Condition.REFUSED, threshold=3, minutes=1, instance=None)
    told_by_brokers({}, {"permission": 1, "stored_bytes": 4})
    assert sampled.round().fired == 0
    told_by_brokers({}, {"permission": 900, "stored_bytes": 4, "messages_per_second": 2, "instance_send_tps": 90})
    assert sampled.round(timedelta(seconds=15)).fired == 0
    told_by_brokers({}, {"permission": 901, "stored_bytes": 5, "messages_per_second": 4})
    assert sampled.round(timedelta(seconds=15)).fired == 1
    says = "5 requests of acme were refused for its limits within a minute: messages per second, stored bytes"
    assert Alarm.objects.get().sentence == says
    assert sampled.round(timedelta(minutes=1)).ended == 1


def test_what_an_account_stores_of_what_it_may(
    cast: Cast, make_rule: MakeRule, sampled: Sampled, told_by_brokers: Callable[..., None]
) -> None:
    rule = make_rule(Condition.ROOM, threshold=90, instance=None)
    TenantLimits.objects.create(tenant=cast.acme, stored_bytes=1000)
    told_by_brokers({}, {}, stored=899)
    assert sentences(rule, sampled) == []
    told_by_brokers({}, {}, stored=955)
    assert sentences(rule, sampled) == ["acme stores 96 % of the bytes that it may at the brokers"]
    TenantLimits.objects.update(stored_bytes=0)
    assert sentences(rule, sampled) == []


def test_pipelines_that_are_behind_or_do_not_run(cast: Cast, make_rule: MakeRule, sampled: Sampled) -> None:
    now_ms, hour = sampled.began_ms, 3600_000
    reached = {"events": Reached(sequence=1, last=6, since_ms=now_ms - 2 * hour)}
    late, silent, fresh, task, idle, draft = (
        Pipeline.objects.create(
            name=name, kind=kind, tenant=cast.acme, state=state, running_at=timezone.now() - timedelta(hours=9)
        )
        for name, kind, state in (
            ("late", Kind.JOB, State.RUNNING), ("silent", Kind.JOB, State.RUNNING), ("fresh", Kind.JOB, State.RUNNING),
            ("late", Kind.INFLOW, State.RUNNING), ("idle", Kind.JOB, State.STOPPED), ("new", Kind.JOB, State.DRAFT),
        )
    )  # fmt: skip
    for pipeline, delay in ((late, hour), (fresh, 5000), (silent, 1000), (idle, hour), (draft, hour)):
        insert = InsertReport(sink="x", line=1, batch=1, watermark_delay_ms=delay)
        samples.keep(pipeline.pk, Report((insert,)))
    samples.keep(task.pk, Report((), reached=reached))
    client, key = store_connection(), f"gantry:pipelines:{silent.pk}:now"
    told = orjson.loads(client.get(key) or b"")
    client.set(key, orjson.dumps(told | {"at_ms": now_ms - 10 * 60_000}))
    rule = make_rule(Condition.PIPELINE_DELAY, threshold=60)
    assert sentences(rule, sampled) == [
        "Inflow task late is 2 hours behind", "SQL job late is 60 min behind", "SQL job silent is 10 min behind",
    ]  # fmt: skip
    assert sampled.round().fired == 3  # the job and the task of the same name have an alarm each
    stopped = make_rule(Condition.STOPPED, names="late idle new")
    assert sentences(stopped, sampled) == ["SQL job idle does not run: it is stopped"]


def test_changes_that_are_kept_late(cast: Cast, make_rule: MakeRule, sampled: Sampled) -> None:
    now = timezone.now()
    for name, lag_ms, state, silent_s in (
        ("late", 90_000, "normal", 0), ("fine", 5_000, "normal", 0), ("paused", 90_000, "paused", 0),
        ("silent", 5_000, "normal", 600),
    ):  # fmt: skip
        TrackingTask.objects.create(
            tenant=cast.acme, name=name, port=3306, state=state, lag_ms=lag_ms, worker="w",
            heartbeat_at=now - timedelta(seconds=silent_s),
        )  # fmt: skip
    rule = make_rule(Condition.TRACKING_DELAY, threshold=60)
    assert sentences(rule, sampled) == [
        "Changes of the database of silent are kept 10 min late", "Changes of the database of late are kept 1 min late",
    ]  # fmt: skip


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
