"""Pages of alarms."""

from __future__ import annotations

import html
from typing import Any

import pytest
from django.urls import reverse

from console.accounts import policy_documents
from console.accounts import services as accounts
from console.alarms import services
from console.alarms.models import Alarm, Condition, Recipient, RecipientKind, Rule
from console.alarms.services import RecipientValues
from console.audit.models import Entry
from tests.console.alarms.conftest import MakeRule, Sampled
from tests.support.cast import Cast, make_group, make_topic

pytestmark = [pytest.mark.django_db, pytest.mark.broker]
FORM: dict[str, Any] = {
    "name": "orders behind", "condition": "group.backlog", "threshold": "100", "minutes": "5", "names": "GID_*",
    "severity": "critical", "zone": "UTC",
}  # fmt: skip


def page(cast: Cast, url_name: str, *arguments: Any, who: str = "alice", **query: str) -> str:
    response = cast.client(who).get(reverse(url_name, args=arguments), query)
    assert response.status_code == 200
    return html.unescape(response.content.decode())


def act(cast: Cast, url_name: str, *arguments: Any, who: str = "alice", **data: Any) -> Any:
    return cast.client(who).post(reverse(url_name, args=arguments), data)


def test_from_nothing_to_a_rule_that_tells_somebody(cast: Cast) -> None:
    assert "No alarm rule yet" in page(cast, "alarms.list")
    assert "nobody can be told yet" in page(cast, "alarms.rule_create")
    made = act(
        cast, "alarms.recipient_create", name="on call", kind="slack", address="https://hooks.example.com/s3cret"
    )
    assert made["Location"] == reverse("alarms.recipients")
    listed = page(cast, "alarms.recipients")
    assert "https://hooks.example.com/…" in listed
    assert "s3cret" not in listed
    recipient = Recipient.objects.get()
    assert "s3cret" not in page(cast, "alarms.recipient_update", recipient.pk)
    made = act(cast, "alarms.rule_create", **FORM, recipients=[recipient.pk])
    rule = Rule.objects.get()
    assert made["Location"] == reverse("alarms.rule", args=[rule.pk])
    assert (rule.condition, rule.threshold, rule.minutes, rule.severity) == ("group.backlog", 100, 5, "critical")
    shown = page(cast, "alarms.rule", rule.pk)
    assert "The condition holds of nothing now." in shown
    assert "on call" in shown
    assert "s3cret" not in str(list(Entry.objects.values_list("detail", flat=True)))
    assert set(Entry.objects.filter(action__startswith="alarms.").values_list("action", flat=True)) == {
        "alarms.recipient.create", "alarms.rule.create",
    }  # fmt: skip


def test_several_that_fire_are_acknowledged_together_each_by_itself(
    cast: Cast, make_rule: MakeRule, sampled: Sampled
) -> None:
    make_rule(Condition.BACKLOG, threshold=100)
    groups = [make_group(cast.alice, cast.instance, f"GID_{name}") for name in ("a", "b", "c")]
    sampled(backlog=dict.fromkeys(groups, 500))
    sampled.round()
    first, second, third = Alarm.objects.order_by("pk")
    act(cast, "alarms.acknowledge", first.pk)
    listed = page(cast, "alarms.list")
    assert 'name="pick"' in listed and f'value="{first.pk}" form="bulk"' not in listed
    asked = act(cast, "alarms.acknowledge_many", pick=[first.pk, second.pk, third.pk]).content.decode()
    assert "Acknowledge 2 alarms" in asked
    assert "admin@acme sees to it." in asked
    keys = f"{first.pk}\n{second.pk}\n{third.pk}\nnonsense"
    done = act(cast, "alarms.acknowledge_many", keys=keys, confirmed="1").content.decode()
    assert "2 done, 2 failed" in done
    assert not Alarm.objects.filter(acknowledged_at=None).exists()
    assert Entry.objects.filter(action="alarms.alarm.acknowledge").count() == 3
    assert 'name="pick"' not in page(cast, "alarms.list")


def test_what_fires_is_shown_and_acknowledged(cast: Cast, make_rule: MakeRule, sampled: Sampled) -> None:
    make_rule(Condition.BACKLOG, threshold=100)
    group = make_group(cast.alice, cast.instance, "GID_pay")
    sampled(backlog={group: 500})
    sampled.round()
    assert "GID_pay has a backlog of 500 messages" in page(cast, "alarms.list")
    alarm = Alarm.objects.get()
    assert cast.client("alice").get(alarm.path).status_code == 200
    assert "1 alarm fires" in page(cast, "instances.overview_attention")
    assert act(cast, "alarms.acknowledge", alarm.pk).status_code == 302
    assert "1 alarm fires" not in page(cast, "instances.overview_attention")
    assert "admin@acme sees to it" in page(cast, "alarms.list")
    act(cast, "alarms.acknowledge", alarm.pk)
    assert "somebody has acknowledged it already" in page(cast, "alarms.list")
    sampled(backlog={group: 0})
    sampled.round()
    found = page(cast, "alarms.list", q="GID_pay")
    assert "admin@acme saw to it" in found
    assert "No alarm matches the search" in page(cast, "alarms.list", q="unheard of")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": ""}, "This field is required."),
        ({"name": "<script>"}, "A name has 1 to 64 letters"),
        ({"condition": "group.unheard"}, "not one of the available choices"),
        ({"threshold": "-1"}, "greater than or equal to 0"),
        ({"threshold": "nan"}, "Enter a number"),
        ({"condition": "broker.storage", "threshold": "101"}, "100 % at most"),
        ({"condition": "group.dead_letters", "minutes": "0"}, "counted within 1 to 60 minutes"),
        ({"minutes": "1441"}, "less than or equal to 1440"),
        ({"names": "a;b"}, "is no pattern"),
        ({"quiet_from": "22:00"}, "Quiet hours have a begin and an end."),
        ({"zone": "Mars/Olympus"}, "is no time zone"),
        ({"zone": "../../etc/passwd"}, "is no time zone"),
        ({"recipients": []}, "This field is required."),
    ],
)
def test_what_can_be_no_rule_is_told_at_its_field(
    cast: Cast, recipient: Recipient, change: dict[str, Any], says: str
) -> None:
    response = act(cast, "alarms.rule_create", **FORM | {"recipients": [recipient.pk]} | change)
    assert response.status_code == 422
    assert says in html.unescape(response.content.decode())
    assert not Rule.objects.exists()


def test_a_rule_is_changed_and_a_name_is_taken_once(cast: Cast, make_rule: MakeRule, recipient: Recipient) -> None:
    make_rule(Condition.BACKLOG, name="taken")
    rule = make_rule(Condition.OFFLINE, name="free")
    form = page(cast, "alarms.rule_update", rule.pk)
    assert 'value="free"' in form
    refused = act(cast, "alarms.rule_update", rule.pk, **FORM | {"name": "taken", "recipients": [recipient.pk]})
    assert "There is an alarm rule taken already." in refused.content.decode()
    act(cast, "alarms.rule_update", rule.pk, **FORM | {"recipients": [recipient.pk]})
    rule.refresh_from_db()
    assert (rule.name, rule.condition) == ("orders behind", "group.backlog")


def test_a_link_says_what_is_to_be_watched(cast: Cast) -> None:
    asked = {"condition": "group.delay", "names": "GID_pay", "instance": cast.instance.instance_id, "threshold": "60"}
    form = page(cast, "alarms.rule_create", **asked)
    assert '<option value="group.delay" selected>' in form
    assert 'value="GID_pay"' in form
    other = page(cast, "alarms.rule_create", instance=cast.charlies.instance_id)
    assert "charlies" not in other


def test_pages_of_groups_and_topics_lead_to_a_rule_about_them(cast: Cast) -> None:
    topic, group = make_topic(cast.alice, cast.instance, "fast"), make_group(cast.alice, cast.instance, "GID_pay")
    place = cast.instance.instance_id
    for url_name, name, condition in (
        ("messaging.status", group.group_id, "group.backlog"),
        ("metrics.group", group.group_id, "group.backlog"),
        ("metrics.topic", topic.name, "topic.above"),
    ):
        link = f'"/alarms/rules/create/?condition={condition}&instance={place}&names={name}"'
        assert link in page(cast, url_name, place, name)
        assert "Alarm on this" not in page(cast, url_name, place, name, who="rita")


def test_things_of_another_account_do_not_exist(cast: Cast, make_rule: MakeRule, recipient: Recipient) -> None:
    rule = make_rule(Condition.BACKLOG)
    theirs = services.create_recipient(
        actor=cast.actor("charlie"),
        values=RecipientValues(name="theirs", kind=RecipientKind.WEBHOOK, address="http://127.0.0.1:9/"),
    )
    refused = act(cast, "alarms.rule_create", **FORM | {"recipients": [theirs.pk]})
    assert "not one of the available choices" in refused.content.decode()
    refused = act(cast, "alarms.rule_create", **FORM | {"recipients": [recipient.pk], "instance": cast.charlies.pk})
    assert "not one of the available choices" in refused.content.decode()
    assert cast.client("charlie").get(reverse("alarms.rule", args=[rule.pk])).status_code == 404
    assert act(cast, "alarms.recipient_test", recipient.pk, who="charlie").status_code == 404


def test_the_last_recipient_of_a_rule_stays(cast: Cast, make_rule: MakeRule, recipient: Recipient) -> None:
    make_rule(Condition.BACKLOG, name="the rule")
    act(cast, "alarms.recipient_delete", recipient.pk, name="on call")
    assert Recipient.objects.exists()


def test_who_may_not_see_something_gets_no_alarm_of_it(cast: Cast) -> None:
    accounts.attach_policy(
        actor=cast.actor("alice"),
        user=cast.users["nora"],
        policy=policy_documents.system_policy("AliyunCloudMonitorFullAccess"),
    )
    recipient = services.create_recipient(
        actor=cast.actor("nora"),
        values=RecipientValues(name="nora", kind=RecipientKind.WEBHOOK, address="http://127.0.0.1:9/"),
    )
    for condition in Condition.values:
        told = FORM | {"condition": condition, "threshold": "1", "recipients": [recipient.pk]}
        assert act(cast, "alarms.rule_create", who="nora", **told).status_code == 422, condition
    assert not Rule.objects.exists()
