"""Tasks whose events come over HTTP or by the clock: their feeds, their pages, and what is shown once."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.urls import reverse

from analytics.inflow.event_log import EventLog
from analytics.inflow.segments import NewEntry
from analytics.inflow.webhook import signed
from console.audit.models import Entry
from console.feeds import queries as feeds
from console.feeds.models import Arrival, Feed
from console.inflow import journey, services
from console.inflow.providers import PROVIDERS
from console.pipelines import lifecycle, starts
from console.pipelines.models import Pipeline, StartFrom, State
from console.web.errors import Refused
from tests.console.inflow.conftest import document, reloaded
from tests.console.inflow.test_views import FORM, page
from tests.support.browser import browser
from tests.support.cast import Cast

pytestmark = pytest.mark.process
HOOK: dict[str, Any] = {"kind": "webhook", "messages": 10, "interval": 0}
CLOCK: dict[str, Any] = {"kind": "schedule", "cron": "*/5 * * * *", "timeZone": "Asia/Shanghai", "event": {"job": "x"}}
NAME = "orders-to-topic"


@pytest.fixture(autouse=True)
def _topics(topics: None) -> None:
    """Of every test here."""


def made(cast: Cast, source: dict[str, Any], *, start: bool = True) -> Pipeline:
    services.create(actor=cast.actor("alice"), document=document(cast, source=source, pattern={}), start=start)
    return reloaded(cast)


def changed(cast: Cast, source: dict[str, Any]) -> Pipeline:
    services.change(
        actor=cast.actor("alice"), pipeline=reloaded(cast), document=document(cast, source=source, pattern={})
    )
    return reloaded(cast)


def feed_of(cast: Cast) -> Feed:
    found = feeds.feed(cast.acme, NAME)
    assert found is not None
    return found


def send(path: str, body: bytes = b'{"id": 7}', **headers: str) -> int:
    return browser().post(path, body, content_type="application/json", headers=headers).status_code


def test_a_feed_lives_as_long_as_its_task(cast: Cast) -> None:
    task = made(cast, HOOK)
    feed = feed_of(cast)
    assert (feed.kind, feed.retention_days, feed.told["methods"]) == ("webhook", 7, ["POST"])
    path = services.renew_webhook(actor=cast.actor("alice"), pipeline=task)
    assert send(path) == 200
    changed(cast, HOOK | {"methods": ["PUT"], "retentionDays": 3})
    assert send(path) == 405
    assert (feed_of(cast).pk, feed_of(cast).retention_days) == (feed.pk, 3)
    services.pause(actor=cast.actor("alice"), pipeline=reloaded(cast))
    services.delete(actor=cast.actor("alice"), pipeline=reloaded(cast))
    assert feeds.feed(cast.acme, NAME) is None
    assert send(path) == 404


def test_a_webhook_stores_while_its_task_is_paused(cast: Cast) -> None:
    task = made(cast, HOOK)
    path = services.renew_webhook(actor=cast.actor("alice"), pipeline=task)
    services.pause(actor=cast.actor("alice"), pipeline=task)
    assert send(path) == 200
    assert Arrival.objects.count() == 1


def test_a_schedule_goes_while_its_task_is_started(cast: Cast) -> None:
    task = made(cast, CLOCK, start=False)
    assert feed_of(cast).paused
    services.begin(actor=cast.actor("alice"), pipeline=task)
    assert not feed_of(cast).paused
    begun = feed_of(cast).begins_at
    changed(cast, CLOCK | {"event": {"job": "y"}})
    assert (feed_of(cast).paused, feed_of(cast).begins_at) == (False, begun)
    changed(cast, CLOCK | {"cron": "0 * * * *"})
    assert feed_of(cast).begins_at > begun
    services.pause(actor=cast.actor("alice"), pipeline=reloaded(cast))
    assert feed_of(cast).paused
    # A fault that stops the task does not stop the clock: what was due is delivered once it is mended.
    services.begin(actor=cast.actor("alice"), pipeline=reloaded(cast))
    Pipeline.objects.update(state=State.FAILED)
    assert not feed_of(cast).paused


def test_a_task_that_runs_and_reads_another_kind_now_begins_there_anew(cast: Cast) -> None:
    made(cast, HOOK)
    lease = lifecycle.claim(reloaded(cast).pk, "one")
    assert lease is not None
    lifecycle.run(lease)
    before = feed_of(cast)
    task = changed(cast, CLOCK)
    assert feed_of(cast).pk != before.pk
    assert not feed_of(cast).paused
    assert (task.state, task.start_from) == (State.STOPPING, StartFrom.NOTHING)


def test_a_task_whose_feed_was_made_anew_since_it_ran_begins_anew(cast: Cast) -> None:
    task = made(cast, HOOK)
    services.pause(actor=cast.actor("alice"), pipeline=task)
    services.begin(actor=cast.actor("alice"), pipeline=reloaded(cast))
    assert reloaded(cast).start_from == StartFrom.CHECKPOINT
    services.pause(actor=cast.actor("alice"), pipeline=reloaded(cast))
    changed(cast, CLOCK)
    changed(cast, HOOK)
    services.begin(actor=cast.actor("alice"), pipeline=reloaded(cast))
    assert reloaded(cast).start_from == StartFrom.NOTHING


def test_the_worker_is_given_the_log_of_the_task(cast: Cast) -> None:
    task = made(cast, HOOK)
    plan = starts.plan_of(task, task.version)
    (source,) = plan.sources
    assert (source.options["feed"], source.options["skips"]) == (NAME, True)
    given = starts.given(cast.actor("alice"), plan)
    assert given["events"] == {"log": feeds.log_of(feed_of(cast))}
    assert feeds.folder_of(feed_of(cast)).is_dir()


def test_another_account_reads_no_feed_of_the_same_name(cast: Cast) -> None:
    task = made(cast, HOOK)
    assert feeds.feed(cast.charlies.tenant, NAME) is None
    plan = starts.plan_of(task, task.version)
    assert starts._log(cast.actor("charlie"), plan.sources[0].options) == ""


def test_a_feed_that_is_gone_is_told_at_the_start(cast: Cast) -> None:
    task = made(cast, HOOK, start=False)
    Feed.objects.all().delete()
    with pytest.raises(Refused, match="save the task again"):
        services.begin(actor=cast.actor("alice"), pipeline=task)
    changed(cast, HOOK)
    services.begin(actor=cast.actor("alice"), pipeline=reloaded(cast))


@pytest.mark.parametrize(
    ("source", "place"),
    [
        (HOOK | {"methods": ["TRACE"]}, "source.methods"),
        (HOOK | {"networks": ["x"]}, "source.networks"),
        (HOOK | {"signature": "a b"}, "source.signature"),
        (HOOK | {"retentionDays": 0}, "source.retentionDays"),
        (HOOK | {"cron": "* * * * *"}, "source.cron"),
        (CLOCK | {"cron": "x"}, "source.cron"),
        (CLOCK | {"cron": ""}, "source.cron"),
        (CLOCK | {"timeZone": "Mars"}, "source.timeZone"),
        (CLOCK | {"event": []}, "source.event"),
        (CLOCK | {"startTimeMs": 1}, "source.startTimeMs"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(cast: Cast, source: dict[str, Any], place: str) -> None:
    with pytest.raises(Refused) as refused:
        made(cast, source)
    assert refused.value.field == place
    assert Feed.objects.count() == 0


# Pages


def sent(cast: Cast, url_name: str, *arguments: str, **changes: Any) -> Any:
    data = {name: value for name, value in FORM.items() if name not in ("source", "group", "pattern")}
    data = data | {"instance": cast.instance.instance_id, "retention": "7"} | changes
    return cast.client("alice").post(reverse(url_name, args=arguments), data)


def test_the_wizard_makes_a_webhook_and_shows_its_address_once(cast: Cast) -> None:
    response = sent(
        cast, "inflow.create", provider="webhook", methods=["POST", "PUT"], networks="127.0.0.0/8\n203.0.113.7",
        signature="X-Hub-Signature-256",
    )  # fmt: skip
    assert response.status_code == 200, response.context["form"].errors
    shown = response.content.decode()
    (path,) = set(re.findall(r"http://testserver(/hooks/[\w-]{43})", shown))
    key = response.context["key"]
    assert key in shown
    assert "no-store" in response["Cache-Control"]
    body = b'{"id": 7}'
    assert send(path, body, **{"x-hub-signature-256": signed(body, key)}) == 200
    assert send(path, body) == 401
    assert services.document_of(reloaded(cast))["source"] == {
        "kind": "webhook", "methods": ["POST", "PUT"], "networks": ["127.0.0.0/8", "203.0.113.7"],
        "signature": "X-Hub-Signature-256", "retentionDays": 7, "messages": 200, "interval": 0,
    }  # fmt: skip
    for url_name in ("inflow.detail", "inflow.update"):
        again = page(cast, url_name, NAME)
        assert path.rpartition("/")[2] not in again
        assert key not in again
    secret = {path.rpartition("/")[2], key}
    assert not any(one in json.dumps(list(Entry.objects.values()), default=str) for one in secret)


def test_the_wizard_makes_a_schedule_and_shows_when_it_is_due(cast: Cast) -> None:
    told = {"provider": "schedule", "cron": "0 8 * * *", "time_zone": "Asia/Shanghai", "event": '{"job": "x"}'}
    tried = sent(cast, "inflow.create", mode="try", **told).content.decode()
    listed = tried.partition("Next due times")[2].partition("</ol>")[0]
    assert listed.count("<li>") == 5
    assert "schedule:Due" in tried
    response = sent(cast, "inflow.create", **told)
    assert response.status_code == 302, response.context["form"].errors
    assert services.document_of(reloaded(cast))["source"] == {
        "kind": "schedule", "cron": "0 8 * * *", "timeZone": "Asia/Shanghai", "event": {"job": "x"},
        "retentionDays": 7, "messages": 200, "interval": 0,
    }  # fmt: skip
    shown = page(cast, "inflow.detail", NAME)
    assert "0 8 * * *" in shown
    assert "never: the task is paused" not in shown
    services.pause(actor=cast.actor("alice"), pipeline=reloaded(cast))
    assert "never: the task is paused" in page(cast, "inflow.detail", NAME)


@pytest.mark.parametrize(
    ("told", "field"),
    [
        ({"provider": "schedule", "cron": ""}, "cron"),
        ({"provider": "schedule", "cron": "x"}, "cron"),
        ({"provider": "schedule", "cron": "* * * * *", "event": "["}, "event"),
        ({"provider": "schedule", "cron": "* * * * *", "time_zone": "Mars"}, "time_zone"),
        ({"provider": "webhook", "networks": "x"}, "networks"),
        ({"provider": "webhook", "signature": "cookie"}, "signature"),
        ({"provider": "webhook", "retention": "0"}, "retention"),
    ],
)
def test_what_is_wrong_stands_at_its_field(cast: Cast, told: dict[str, str], field: str) -> None:
    response = sent(cast, "inflow.create", **told)
    assert response.status_code == 422
    assert set(response.context["form"].errors) == {field}


def test_a_form_of_a_task_makes_its_document_again(cast: Cast) -> None:
    for source in (HOOK | {"methods": ["PUT"], "networks": ["10.0.0.0/8"], "retentionDays": 3}, CLOCK):
        services.create(
            actor=cast.actor("alice"), document=document(cast, name=source["kind"], source=source), start=False
        )
        form = cast.client("alice").get(reverse("inflow.update", args=[source["kind"]])).context["form"]
        data = {name: "" if value is None else value for name, value in form.initial.items()}
        response = cast.client("alice").post(reverse("inflow.update", args=[source["kind"]]), data)
        assert response.status_code == 302, response.context["form"].errors
        kept = services.document_of(reloaded(cast, source["kind"]))["source"]
        assert {name: kept[name] for name in source} == source


def test_a_page_makes_another_address_and_another_key(cast: Cast) -> None:
    task = made(cast, HOOK | {"signature": "x-gantry-signature"})
    first, key = services.new_webhook(actor=cast.actor("alice"), pipeline=task)
    answer = cast.client("alice").post(reverse("inflow.webhook", args=[NAME]), {"part": "key"})
    assert answer.context["address"] == ""
    body, other = b"{}", answer.context["key"]
    assert send(first, body, **{"x-gantry-signature": signed(body, key)}) == 401
    assert send(first, body, **{"x-gantry-signature": signed(body, other)}) == 200
    answer = cast.client("alice").post(reverse("inflow.webhook", args=[NAME]), {"part": "address"})
    assert answer.context["key"] == ""
    assert "openssl dgst -sha256 -hmac" in answer.context["command"]
    assert send(first, body, **{"x-gantry-signature": signed(body, other)}) == 404
    path = answer.context["address"].removeprefix("http://testserver")
    assert send(path, body, **{"x-gantry-signature": signed(body, other)}) == 200
    found = Entry.objects.filter(action="pipelines.inflow.renew_webhook").values_list("detail", flat=True)
    assert [one["part"] for one in found.order_by("pk")] == ["key", "address", "key", "address"]


def test_a_task_with_another_source_has_no_address(cast: Cast) -> None:
    made(cast, CLOCK)
    answer = cast.client("alice").post(reverse("inflow.webhook", args=[NAME]), follow=True)
    assert "is no webhook" in answer.content.decode()


def test_last_events_are_shown_to_who_may_change_the_task(cast: Cast) -> None:
    made(cast, HOOK)
    event = PROVIDERS["webhook"].example({}) | {"id": "the-last-one"}
    with EventLog(feeds.folder_of(feed_of(cast))) as log:
        log.append([NewEntry("the-last-one", 1_768_465_800_120, json.dumps(event).encode())])
    assert "the-last-one" in page(cast, "inflow.detail", NAME)
    told = document(cast, source=HOOK, pattern={"data": {"method": ["PUT"]}})
    found = journey.travel(actor=cast.actor("alice"), document=told)
    assert (found.origin, found.passes, len(found.recent)) == ("recent", False, 1)
    assert "the-last-one" in found.sample
    assert journey.travel(actor=cast.actor("nora"), document=told).origin == "example"
    assert journey.travel(actor=cast.actor("charlie"), document=told).origin == "example"
