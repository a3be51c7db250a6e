"""The curve of what a rule watches, with its threshold; and the rules for Prometheus."""

from __future__ import annotations

import html
import json
import re
import time
from datetime import timedelta
from typing import Any

import orjson
import pytest
import yaml
from django.urls import reverse
from django.utils import timezone
from prometheus_client import CollectorRegistry

from analytics.pipelines.reports import InsertReport, Report
from brokercore.names import dead_letter_topic
from console.accounts import policy_documents
from console.accounts import services as accounts
from console.alarms import counters, curves, figures
from console.alarms.curves import Curve
from console.alarms.models import Alarm, Condition, Recipient, Rule
from console.alarms.readings import counter_of_account, counter_of_instance
from console.metrics.store import Change, Latest, Store
from console.pipelines import samples
from console.pipelines.models import Kind, Pipeline, State
from console.platform.figures import Installation
from console.sql.models import QueryTask, TaskStatus
from tests.console.alarms.conftest import MakeRule, Sampled
from tests.support.cast import Cast, make_group, make_topic

pytestmark = [pytest.mark.django_db, pytest.mark.broker]


def curve(cast: Cast, rule: Rule, hours: int = 1) -> Curve:
    return curves.curve(cast.actor("alice"), rule, hours)


def known(found: Curve, line: int = 0) -> list[float]:
    return [value for _, value in found.lines[line].points if value is not None]


def sampled_for_an_hour(cast: Cast) -> None:
    """A sample every 10 s."""
    store, now_ms = Store(cast.cluster.name), int(time.time() * 1000)
    for ago in range(360):
        store.add(now_ms - ago * 10_000, 10.0, {})


def test_rates_of_the_topics_that_are_the_fastest(cast: Cast, make_rule: MakeRule, sampled: Sampled) -> None:
    sampled_for_an_hour(cast)
    topics = [make_topic(cast.alice, cast.instance, f"top{number}") for number in range(7)]
    make_topic(cast.charlie, cast.charlies, "theirs")
    stored = {one.physical_name: 1 for one in topics}
    sampled(rates={one: float(number) for number, one in enumerate(topics, 1)}, stored=stored)
    for minutes in range(3, 40):
        sampled.came(timedelta(minutes=minutes), {topics[6].physical_name: 600})
    rule = make_rule(Condition.ABOVE, threshold=5, instance=None)
    found = curve(cast, rule)
    assert [line.name for line in found.lines] == ["top6", "top5", "top4", "top3", "top2"]
    assert 8 <= max(known(found)) <= 12  # a minute has six samples of the hour's, and the one that tells of messages
    assert max(known(found, 1), default=0) == 0
    slowest = make_rule(Condition.BELOW, threshold=1, names="top6 top1")
    assert [line.name for line in curve(cast, slowest).lines] == ["top1", "top6"]
    assert len(curve(cast, rule, 24).lines[0].points) in {144, 145}


def test_backlog_and_delay_of_the_groups_that_are_the_furthest_behind(
    cast: Cast, make_rule: MakeRule, sampled: Sampled
) -> None:
    sampled_for_an_hour(cast)
    topic, group = make_topic(cast.alice, cast.instance, "orders"), make_group(cast.alice, cast.instance, "GID_pay")
    change = Change(Latest(int(time.time() * 1000), 10.0, ["broker-a"], []))
    change.backlog[group.physical_name] = 900
    change.groups[group.physical_name] = orjson.dumps({topic.physical_name: {}})
    with Store(cast.cluster.name).lease() as token:
        assert Store(cast.cluster.name).commit(token, change)
    for minutes in (5, 20, 40):
        sampled.came(timedelta(minutes=minutes), {topic.physical_name: 300})
    waiting = curve(cast, make_rule(Condition.BACKLOG, threshold=500))
    assert [line.name for line in waiting.lines] == ["GID_pay"]
    assert (waiting.lines[0].now, waiting.lines[0].highest) == (900, 900)
    assert sorted(set(known(waiting))) == [0, 300, 600, 900]
    delay = curve(cast, make_rule(Condition.DELAY, threshold=600))
    assert known(delay)[0] == 0
    assert 39.5 * 60 <= known(delay)[-1] <= 41.5 * 60
    assert known(delay) == sorted(known(delay))
    day = curve(cast, Rule.objects.get(condition=Condition.BACKLOG), 24)
    assert day.lines[0].highest == 900


def test_what_is_counted_within_the_rules_minutes(cast: Cast, make_rule: MakeRule, sampled: Sampled) -> None:
    sampled_for_an_hour(cast)
    group = make_group(cast.alice, cast.instance, "GID_pay")
    letters = dead_letter_topic(group.physical_name)
    sampled(stored={letters: 9})
    sampled.came(timedelta(minutes=30), {letters: 4})
    sampled.came(timedelta(minutes=27), {letters: 5})
    found = curve(cast, make_rule(Condition.DEAD_LETTERS, threshold=5, minutes=5))
    assert [line.name for line in found.lines] == ["GID_pay"]
    assert sorted(set(known(found))) == [0, 4, 5, 9]
    assert found.lines[0].now == 0
    for number, status in enumerate(("FAILURE", "FAILURE", "SUCCESS")):
        QueryTask.objects.create(id=f"q{number}", tenant=cast.acme, status=TaskStatus(status), command="select 1")
    statements = curve(cast, make_rule(Condition.STATEMENTS, threshold=1, minutes=10))
    assert (statements.lines[0].now, statements.lines[0].highest) == (2, 2)
    now_ms, name = int(time.time() * 1000), counter_of_instance(cast.instance)
    refused = counter_of_account(cast.acme, "stored_bytes")
    for minutes, number in ((40, 5), (30, 25), (10, 28)):
        counters.note({name: number, refused: 2 * number}, now_ms - minutes * 60_000)
    held = curve(cast, make_rule(Condition.THROTTLED, threshold=10, minutes=5, instance=None))
    assert (held.lines[0].name, held.lines[0].highest, held.lines[0].now) == ("orders", 20, 0)
    assert curve(cast, make_rule(Condition.REFUSED, threshold=1, minutes=30)).lines[0].highest == 46


def test_the_delay_of_a_pipeline(cast: Cast, make_rule: MakeRule) -> None:
    job = Pipeline.objects.create(
        name="late", kind=Kind.JOB, tenant=cast.acme, state=State.RUNNING, running_at=timezone.now()
    )
    samples.keep(job.pk, Report((InsertReport(sink="x", line=1, batch=1, watermark_delay_ms=90_000),)))
    found = curve(cast, make_rule(Condition.PIPELINE_DELAY, threshold=60), 24)
    assert [(line.name, line.now) for line in found.lines] == [("late", 90.0)]


def test_the_picture_has_the_threshold_and_when_it_fired(cast: Cast, make_rule: MakeRule, sampled: Sampled) -> None:
    group, other = (make_group(cast.alice, cast.instance, name) for name in ("GID_pay", "GID_ship"))
    rule = make_rule(Condition.BACKLOG, threshold=100)
    sampled(backlog={group: 500, other: 500})
    assert sampled.round().fired == 2
    found = curve(cast, rule)
    drawn = figures.figure(rule, found)
    threshold = drawn["data"][-1]
    assert (threshold["name"], threshold["y"]) == ("threshold", [100, 100])
    assert len(drawn["layout"]["shapes"]) == 1
    now = timezone.now()
    for alarm, began, ended in zip(Alarm.objects.order_by("pk"), (50, 35), (30, 20), strict=True):
        alarm.fired_at, alarm.ended_at = now - timedelta(minutes=began), now - timedelta(minutes=ended)
        alarm.save()
    ((begin, end),) = curve(cast, rule).fired  # they overlap
    assert end - begin == 30 * 60_000
    stalled = make_rule(Condition.STALLED, names="GID_pay")
    assert [one["name"] for one in figures.figure(stalled, curve(cast, stalled))["data"]] == ["GID_pay"]


def test_the_page_shows_it_to_who_may_see_what_is_watched(cast: Cast, make_rule: MakeRule, sampled: Sampled) -> None:
    rule = make_rule(Condition.BACKLOG, threshold=100)
    sampled(backlog={make_group(cast.alice, cast.instance, "GID_pay"): 500})
    accounts.attach_policy(
        actor=cast.actor("alice"),
        user=cast.users["nora"],
        policy=policy_documents.system_policy("AliyunCloudMonitorFullAccess"),
    )
    page, part = (reverse(name, args=[rule.pk]) for name in ("alarms.rule", "alarms.rule_curve"))
    for path in (page, f"{page}?hours=24", f"{page}?hours=x", part, f"{part}?hours=24"):
        shown = html.unescape(cast.client("alice").get(path).content.decode())
        assert 'data-chart="figure"' in shown, path
        assert "GID_pay" in re.findall(r"<script id=\"figure\".*?</script>", shown, re.DOTALL)[0]
    assert "GID_pay" not in cast.client("nora").get(page).content.decode()
    assert cast.client("nora").get(part).status_code == 404
    assert cast.client("charlie").get(part).status_code == 404
    offline = make_rule(Condition.OFFLINE)
    assert cast.client("alice").get(reverse("alarms.rule_curve", args=[offline.pk])).status_code == 404
    assert "data-chart" not in cast.client("alice").get(reverse("alarms.rule", args=[offline.pk])).content.decode()


@pytest.mark.parametrize("condition", Condition)
def test_every_condition_has_a_page(cast: Cast, make_rule: MakeRule, condition: Condition) -> None:
    rule = make_rule(condition, threshold=1, minutes=5)
    assert cast.client("alice").get(reverse("alarms.rule", args=[rule.pk])).status_code == 200
    for hours in curves.hours_of(rule):
        assert figures.figure(rule, curve(cast, rule, hours))["layout"]


def test_rules_for_prometheus_tell_what_fires(
    cast: Cast, make_rule: MakeRule, sampled: Sampled, recipient: Recipient, settings: Any
) -> None:
    settings.CONSOLE_URL = "https://gantry.example.com"
    rule = make_rule(Condition.BACKLOG, name="orders: behind", threshold=1000, minutes=0)
    off = make_rule(Condition.OFFLINE, name="off")
    Rule.objects.filter(pk=off.pk).update(enabled=False)
    sampled(backlog={make_group(cast.alice, cast.instance): 5000})
    sampled.round()
    answer = cast.client("alice").get(reverse("alarms.rules_prometheus"))
    assert answer["content-type"].startswith("application/yaml")
    (group,) = yaml.safe_load(answer.content)["groups"]
    assert [one["alert"] for one in group["rules"]] == ["GantryAlarmsStandStill", "orders: behind"]
    told = group["rules"][1]
    assert told["labels"] == {"severity": "warning", "account": "acme"}
    assert told["annotations"] == {
        "summary": "Backlog of a group ≥ 1000 messages (*)",
        "page": f"https://gantry.example.com/alarms/rules/{rule.pk}/",
    }
    name, labels = re.fullmatch(r"(\w+)\{(.*)\} > 0", told["expr"]).groups()  # type: ignore[union-attr]
    registry = CollectorRegistry()
    registry.register(Installation())
    given = {key: json.loads(value) for key, value in (one.split("=") for one in labels.split(","))}
    assert registry.get_sample_value(name, given) == 1
    age = registry.get_sample_value(group["rules"][0]["expr"].split()[0])
    assert age is not None
    assert 0 <= age < 120
    assert cast.client("rita").get(reverse("alarms.rules_prometheus")).status_code == 403
