"""The statistics pages, from samples in a real Redis."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from console.metrics import figures
from console.metrics.flow import Flow
from console.metrics.forms import CurveForm
from console.metrics.marks import Mark
from console.metrics.store import Change, Latest, Store
from console.topics.models import Group, OrderType, Topic
from tests.console.live import Live
from tests.console.metrics.flowing import done, flowing
from tests.support.cast import Cast

MINUTE = 60_000


@pytest.fixture(autouse=True)
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANTRY_LAKE", str(tmp_path))


def path(live: Live, name: str, *more: str) -> str:
    return reverse(name, args=[live.instance.instance_id, *more])


def sampled(live: Live, topic: Topic) -> int:
    start = (int(time.time() * 1000) // MINUTE - 5) * MINUTE
    kept = Store(live.instance.cluster.name)
    kept.add(start + 50_000, 50.0, {f"in:{topic.physical_name}": (100, 50.0)})
    kept.add(start + 2 * MINUTE + 50_000, 50.0, {})
    Topic.objects.filter(pk=topic.pk).update(created_at=timezone.now() - timedelta(hours=1))
    return start


def keep(live: Live, change: Change) -> None:
    kept = Store(live.instance.cluster.name)
    with kept.lease() as token:
        assert kept.commit(token, change)


def test_pages_open_for_their_owner_and_for_nobody_else(live: Live, cast: Cast) -> None:
    topic, group = live.topic(), live.group()
    for page in [
        path(live, "metrics.index"),
        path(live, "metrics.topic", topic.name),
        path(live, "metrics.group", group.group_id),
    ]:
        got = {name: cast.client(name).get(page).status_code for name in ("alice", "rita", "nora", "charlie")}
        assert got == {"alice": 200, "rita": 200, "nora": 403, "charlie": 404}, page


def test_without_samples_the_page_says_so(live: Live, cast: Cast) -> None:
    page = cast.client("alice").get(path(live, "metrics.topic", live.topic().name)).content.decode()
    assert "No samples yet" in page
    assert "data-chart" not in page


def test_the_curve_and_the_table_have_the_same_numbers(live: Live, cast: Cast) -> None:
    topic = live.topic()
    sampled(live, topic)
    page = cast.client("alice").get(path(live, "metrics.topic", topic.name) + "?measure=count").content.decode()
    figure = json.loads(page.split('<script id="figure" type="application/json">')[1].split("</script>")[0])
    values = figure["data"][0]["y"]
    assert [v for v in values if v is not None] == [100, 0]
    assert "messages per 1 min" in page
    assert page.count("no sample") == sum(v is None for v in values)


def test_htmx_gets_the_curve_alone_and_unknown_choices_fall_back(live: Live, cast: Cast) -> None:
    topic = live.topic()
    sampled(live, topic)
    query = "?period=3&range=century&measure=furlongs"
    response = cast.client("alice").get(path(live, "metrics.topic", topic.name) + query, headers={"HX-Request": "true"})
    fragment = response.content.decode()
    assert fragment.lstrip().startswith('<div id="curve" ')
    assert "Input, messages/s" in fragment
    assert '<option value="1h" selected>' in fragment


def test_a_curve_of_typed_dates_has_them_whatever_the_range_says(live: Live, cast: Cast) -> None:
    topic, alice = live.topic(), cast.client("alice")
    start = sampled(live, topic)
    begin, end = (
        datetime.fromtimestamp((start + more * MINUTE) / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S") for more in (0, 2)
    )
    page = path(live, "metrics.topic", topic.name)
    content = alice.get(
        page, {"range": "7d", "period": "1", "begin": begin, "end": end, "measure": "count"}
    ).content.decode()
    assert '<option value="custom" selected>' in content
    figure = json.loads(content.split('<script id="figure" type="application/json">')[1].split("</script>")[0])
    assert figure["data"][0]["y"] == [100, None]
    for wrong, sentence in (
        ({"begin": end, "end": begin}, "The end is before the start."),
        ({"begin": "2020-01-01T00:00:00", "end": begin}, "A curve spans at most 7 days."),
        ({"begin": "2200-01-01T00:00:00"}, "This time is still to come."),
        ({"begin": "soon"}, "Enter a valid date/time."),
        ({"range": "7d", "period": "1"}, "1 min is for up to 35 hours. Choose a longer period, or Automatic."),
    ):
        refused = alice.get(page, wrong)
        assert refused.status_code == 422
        assert sentence in refused.content.decode()


def test_the_index_shows_rates_or_a_dash(live: Live, cast: Cast) -> None:
    topic = live.topic()
    page = cast.client("alice").get(path(live, "metrics.index")).content.decode()
    assert "There is no sample of the last minute" in page
    at_ms = int(time.time() * 1000) - 3000
    change = Change(
        Latest(at_ms, 10.0, [], [at_ms]), stored={topic.physical_name: 1}, in_rates={topic.physical_name: 12.5}
    )
    keep(live, change)
    page = cast.client("alice").get(path(live, "metrics.index")).content.decode()
    assert "12.5" in page
    assert "As of <time" in page


@pytest.mark.parametrize("page", ["metrics.index", "metrics.index?tab=groups", "messaging.dead_letter_index"])
def test_a_list_asks_and_answers_as_much_for_thousands_as_for_some(live: Live, cast: Cast, page: str) -> None:
    name, _, query = page.partition("?")
    browser, address = cast.client("alice"), path(live, name) + "?" + query
    seen = []
    for last in (100, 2000):
        have = Group.objects.filter(instance=live.instance).count()
        names = [f"x{number:04}" for number in range(have, last)]
        Topic.objects.bulk_create(
            Topic(instance=live.instance, name=one, physical_name=one, order_type=OrderType.NORMAL) for one in names
        )
        Group.objects.bulk_create(
            Group(instance=live.instance, group_id=one, physical_name=one, owner=live.instance.tenant, shared=True)
            for one in names
        )
        browser.get(address)
        with CaptureQueriesContext(connection) as captured:
            content = browser.get(address).content.decode()
        seen.append((len(captured), content.count("<tr"), len(content) // 1000))
    (queries, rows, kilobytes), (queries_then, rows_then, kilobytes_then) = seen
    assert (queries, rows) == (queries_then, rows_then) == (queries, 21)
    assert kilobytes_then <= kilobytes + 1 < 100
    found = browser.get(address + "&q=x1999").content.decode()
    assert ("x1999" in found, "x1998" in found) == (True, False)


def test_a_part_of_a_range_has_an_address_and_leads_back(live: Live, cast: Cast) -> None:
    topic, alice = live.topic(), cast.client("alice")
    start = sampled(live, topic)
    page = path(live, "metrics.topic", topic.name)
    first = alice.get(page, {"range": "3d", "measure": "count"})
    links = first.context["links"]
    assert links.zoom == f"{page}?measure=count&whole=3d"
    assert links.whole == "" and "Back to" not in first.content.decode()
    begin, end = (utc(start + more * MINUTE) for more in (0, 2))
    part = alice.get(f"{links.zoom}&begin={begin}&end={end}")
    assert part.context["flow"].lines == {"in": [100, None]}
    assert "Back to the last 3 days" in part.content.decode() and "every 30s" not in part.content.decode()
    assert part.context["links"].whole == f"{page}?measure=count&range=3d"
    assert part.context["links"].zoom == links.zoom  # a part of the part leads back there too
    of_dates = alice.get(page, {"begin": begin, "end": end, "measure": "count"}).context["links"]
    assert of_dates.zoom == f"{page}?measure=count&whole={start}-{start + 2 * MINUTE}"
    back = alice.get(f"{of_dates.zoom}&begin={begin}&end={begin}").context["links"]
    assert alice.get(back.whole).context["flow"].lines == {"in": [100, None]}


def test_an_address_means_the_same_in_every_zone(live: Live, cast: Cast) -> None:
    topic, alice = live.topic(), cast.client("alice")
    start = sampled(live, topic)
    query = {"begin": utc(start), "end": utc(start + 2 * MINUTE), "measure": "count"}
    alice.cookies["gantry_zone"] = "Asia/Tokyo"
    shown = alice.get(path(live, "metrics.topic", topic.name), query)
    del alice.cookies["gantry_zone"]
    assert shown.context["flow"].lines == {"in": [100, None]}
    in_tokyo = datetime.fromtimestamp(start / 1000, UTC) + timedelta(hours=9)
    assert f'value="{in_tokyo:%Y-%m-%dT%H:%M:%S}"' in shown.content.decode()


@pytest.mark.parametrize(
    ("asked", "period"), [("1h", 1), ("6h", 1), ("1d", 5), ("3d", 10), ("7d", 10), ("nonsense", 1)]
)
def test_the_usual_period_gives_a_curve_some_hundred_points(asked: str, period: int) -> None:
    form = CurveForm.of_query({"range": asked})
    assert form.asked().period_minutes == period
    assert CurveForm.of_query({"range": asked, "period": "5"}).asked().period_minutes == 5


def test_what_was_done_stands_on_the_axis_for_who_may_read_the_audit(cast: Cast) -> None:
    found = flowing(cast)
    name, topic = found.group.physical_name, found.topic.physical_name
    done(cast, "messaging.offset.reset", name, found.end_ms - MINUTE)
    done(cast, "topics.topic.update", topic, found.end_ms - 2 * MINUTE)
    done(cast, "messaging.offset.reset", f"{name}-other", found.end_ms - MINUTE)
    done(cast, "messaging.offset.reset", name, found.end_ms - MINUTE, name="charlie")
    done(cast, "messaging.offset.reset", name, found.end_ms - 600 * MINUTE)
    page = reverse("metrics.group", args=[cast.instance.instance_id, found.group.group_id])
    shown = cast.client("alice").get(page).context
    assert [mark.text for mark in shown["marks"] if "created" not in mark.text] == [
        f"offset reset by admin@acme: {found.group.group_id}",
        f"topic changed by admin@acme: {found.topic.name}",
    ]
    assert len(shown["figure"]["layout"]["shapes"]) == len(shown["marks"])
    of_topic = reverse("metrics.topic", args=[cast.instance.instance_id, found.topic.name])
    texts = [mark.text for mark in cast.client("alice").get(of_topic).context["marks"]]
    assert f"topic changed by admin@acme: {found.topic.name}" in texts and not any("offset" in text for text in texts)
    unread = cast.client("bob").get(page).context
    assert unread["marks"] == [] and "shapes" not in unread["figure"]["layout"]


def test_a_mark_is_text_and_never_markup() -> None:
    figure = figures.flow(Flow(1, "count", 60_000, [0], {"in": [1.0]}), [Mark(1.0, "reset by <b>: <a href>")])
    assert figure["data"][-1]["text"] == ["reset by &lt;b&gt;: &lt;a href&gt;"]


def utc(epoch_ms: int) -> str:
    return f"{datetime.fromtimestamp(epoch_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
