"""The statistics pages, from samples in a real Redis."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from django.urls import reverse

from console.metrics.store import Store
from console.topics.models import Topic
from tests.console.live import Live
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
    kept.add(start + 50_000, 50.0, {f"in:{topic.physical_name}": 100})
    kept.add(start + 2 * MINUTE + 50_000, 50.0, {f"in:{topic.physical_name}": 0})
    return start


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
    assert fragment.lstrip().startswith('<div id="curve">')
    assert "Input, messages/s" in fragment
    assert '<option value="1h" selected>' in fragment


def test_the_index_shows_rates_or_a_dash(live: Live, cast: Cast) -> None:
    topic = live.topic()
    page = cast.client("alice").get(path(live, "metrics.index")).content.decode()
    assert "There is no sample of the last minute" in page
    Store(live.instance.cluster.name).put(
        "snapshot",
        {
            "sampled_at": int(time.time() * 1000) - 3000,
            "topics": {topic.physical_name: {"in_tps": 12.5, "stored": 1}},
            "groups": {},
        },
    )
    page = cast.client("alice").get(path(live, "metrics.index")).content.decode()
    assert "12.5" in page
    assert "As of 3 s ago." in page
