"""In, out, backlog and dead letters over each other, from what the sampler keeps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from analytics.samples import files
from analytics.specs import Sample
from console.metrics.flow import Asked, Flow, group_flow, topic_flow
from console.metrics.marks import OFFSET_RESET
from console.metrics.sampler import coverage_of
from tests.console.metrics.flowing import MINUTE, Flowing, done, flowing
from tests.support.cast import Cast


@pytest.fixture(autouse=True)
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANTRY_LAKE", str(tmp_path))


def shown(cast: Cast, found: Flowing, *, last: int = 3, until: int = 0, name: str = "alice", topic: str = "") -> Flow:
    """The minutes up to `until` minutes before the end."""
    end_ms = found.end_ms - until * MINUTE
    asked = Asked(1, "count", end_ms - last * MINUTE, end_ms)
    return group_flow(cast.actor(name), found.group, topic or None, asked)


def test_the_backlog_follows_from_what_waits_now_and_what_came_and_went_since(cast: Cast) -> None:
    found = flowing(cast)
    flow = shown(cast, found)
    assert flow.lines == {"in": [180] * 3, "out": [120] * 3, "died": [0] * 3, "backlog": [880, 940, 1000]}
    of_topic = shown(cast, found, topic=found.topic.physical_name).lines
    assert of_topic == {"in": [180] * 3, "out": [120] * 3, "backlog": [880, 940, 1000]}


def test_it_does_so_for_hours_that_are_over_too(cast: Cast) -> None:
    """Through the lake and the hot window, in the minutes of the range and then in tens."""
    found = flowing(cast, 150, waiting=9000)
    assert shown(cast, found, until=95).lines["backlog"] == [9000 - 60 * ago for ago in (97, 96, 95)]
    assert shown(cast, found, until=5).lines["backlog"] == [9000 - 60 * ago for ago in (7, 6, 5)]


def test_before_a_gap_the_backlog_is_not_known(cast: Cast) -> None:
    found = flowing(cast, without=(7, 5))
    flow = shown(cast, found, last=9)
    assert flow.lines["in"] == [180, 180, None, None, 180, 180, 180, 180, 180]
    assert flow.lines["backlog"] == [None] * 3 + [700, 760, 820, 880, 940, 1000]


def test_nor_before_a_reset_of_the_offsets(cast: Cast) -> None:
    found = flowing(cast)
    done(cast, OFFSET_RESET, found.group.physical_name, found.end_ms - MINUTE)
    assert shown(cast, found).lines["backlog"] == [None, None, 1000]


def test_letters_that_died_count_whatever_the_measure(cast: Cast) -> None:
    found = flowing(cast)
    found.store.add(found.end_ms - MINUTE, 10.0, {found.series[2]: (4, 10.0)})
    asked = Asked(1, "tps", found.end_ms - 3 * MINUTE, found.end_ms)
    flow = group_flow(cast.actor("alice"), found.group, None, asked)
    assert (flow.lines["died"], flow.lines["out"]) == ([0, 4, 0], [2.0, 2.0, 2.0])


def test_what_came_is_told_of_topics_that_the_visitor_may_see(cast: Cast) -> None:
    """The rights on a group are not those on its topics."""
    found = flowing(cast)
    assert shown(cast, found).left_out == 0
    cast.instance.topics.filter(pk=found.topic.pk).delete()
    flow = shown(cast, found)
    assert (flow.left_out, set(flow.lines)) == (1, {"out", "died", "backlog"})


def test_a_range_is_compared_with_the_day_or_the_week_before_it(cast: Cast) -> None:
    found = flowing(cast)
    asked = Asked(1, "count", found.end_ms - 2 * MINUTE, found.end_ms, "day")
    assert group_flow(cast.actor("alice"), found.group, None, asked).earlier == {"in": [None] * 2, "out": [None] * 2}
    for days, came in ((1, 7), (7, 9)):
        at_ms = found.end_ms - days * 24 * 60 * MINUTE
        sampled, count = coverage_of(found.topic.instance.cluster), found.topic.physical_name
        files.append([Sample(at_ms, "in", sampled, "", 0, 60.0), Sample(at_ms, "in", count, "", came, 60.0)])
    for compared, came in (("day", 7), ("week", 9)):
        flow = group_flow(cast.actor("alice"), found.group, None, replace(asked, compared=compared))
        assert flow.earlier == {"in": [None, came], "out": [None, 0]}
        assert flow.compared == f"the {compared} before" and flow.lines["in"] == [180, 180]
        assert topic_flow(found.topic, replace(asked, compared=compared)).earlier == {"in": [None, came]}


def test_a_topic_has_its_input_alone(cast: Cast) -> None:
    found = flowing(cast)
    flow = topic_flow(found.topic, Asked(1, "count", found.end_ms - 2 * MINUTE, found.end_ms))
    assert flow.lines == {"in": [180, 180]}
