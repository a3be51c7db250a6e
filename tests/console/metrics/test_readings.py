"""What happened between two readings of a cluster's counters."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from console.metrics.readings import backlog, consumed, ends_before, received, stored
from console.metrics.sampler import BUSY_MS, Reading, changed
from console.metrics.store import Change, Known, Latest

NOTHING = Known(None, {}, {}, {})


def reading(
    at_s: int,
    ends: dict[str, int],
    committed: dict[str, int] | None = None,
    begin: int = 0,
    topics: set[str] | None = None,
    **more: Any,
) -> Reading:
    """Topics with one queue on the broker b; `committed` by `topic@group`; `topics` that were not asked."""
    groups: dict[str, Any] = {}
    for series, offset in (committed or {}).items():
        topic, _, group = series.partition("@")
        groups.setdefault(group, {})[topic] = {"b": {"0": offset}}
    positions = {topic: {"b": [begin, end]} for topic, end in ends.items()}
    return Reading(at_s * 1000, frozenset(positions) | (topics or set()), positions, groups, ["b"], **more)


def after(known: Known, change: Change) -> Known:
    """What is known once a change is kept, as Redis has it."""
    in_rates = {name: b"" if rate is None else repr(rate).encode() for name, rate in change.in_rates.items()}
    topics, groups = known.topics | change.topics, known.groups | change.groups
    for name in change.gone_topics:
        del topics[name]
    for name in change.gone_groups:
        del groups[name]
    return Known(change.latest, topics, groups, in_rates)


def between(first: Reading, second: Reading) -> Change:
    return changed(after(NOTHING, changed(NOTHING, first)), second)


def counts(change: Change) -> dict[str, int]:
    return {series: count for series, (count, _) in change.counts.items()}


def test_it_counts_what_came_and_what_was_consumed() -> None:
    found = between(reading(0, {"t": 10}, {"t@g": 4}), reading(10, {"t": 35}, {"t@g": 24}))
    assert found.counts == {"in:t": (25, 10.0), "out:t@g": (20, 10.0)}
    assert (found.in_rates, found.out_rates) == ({"t": 2.5}, {"g": 2.0})
    assert (found.stored, found.backlog, found.latest.seconds) == ({"t": 35}, {"g": 11}, 10.0)


def test_what_did_not_move_is_not_written() -> None:
    ends = {f"t{number}": number for number in range(50)}
    committed = {f"t{number}@g{number}": number for number in range(50)}
    found = between(reading(0, ends, committed), reading(10, ends | {"t7": 9}, committed))
    assert list(found.topics) == list(found.stored) == ["t7"]
    assert (found.groups, found.backlog) == ({}, {"g7": 2})
    assert (found.in_rates, found.out_rates, counts(found)) == ({"t7": 0.2}, {}, {"in:t7": 2})


def test_readings_far_apart_tell_nothing() -> None:
    for found in (
        changed(NOTHING, reading(10, {"t": 10})),
        between(reading(0, {"t": 10}), reading(61, {"t": 20})),
        between(reading(10, {"t": 10}), reading(10, {"t": 20})),
    ):
        assert (found.latest.seconds, found.counts, found.in_rates) == (None, {}, {})
        assert found.topics.keys() == {"t"}


def test_a_counter_that_went_back_tells_nothing() -> None:
    found = between(reading(0, {"t": 10, "u": 1}, {"t@g": 9}), reading(10, {"t": 3, "u": 2}, {"t@g": 0}))
    assert counts(found) == {"in:u": 1}
    assert (found.in_rates, found.out_rates) == ({"t": None, "u": 0.1}, {"g": None})


def test_a_topic_created_since_counts_from_its_first_message() -> None:
    assert counts(between(reading(0, {}), reading(10, {"t": 7}))) == {"in:t": 7}


def test_an_old_topic_seen_for_the_first_time_is_a_baseline() -> None:
    found = between(reading(0, {}), reading(10, {"t": 7}, {"t@g": 5}, begin=3))
    assert (counts(found), found.in_rates, found.out_rates) == ({}, {"t": None}, {"g": None})


def test_a_queue_that_joins_is_a_baseline() -> None:
    now = {"a": [0, 8], "b": [0, 1000]}
    assert received(ends_before({"a": [0, 5]}, now, ["a"]), now) == 3


def test_a_queue_that_a_known_broker_has_made_since_counts_from_its_first_message() -> None:
    now = {"a": [0, 8, 0, 4]}
    assert received(ends_before({"a": [0, 5]}, now, ["a"]), now) == 7


def test_a_topic_with_fewer_queues_than_before_counts_those_it_has() -> None:
    now = {"a": [0, 8]}
    assert received(ends_before({"a": [0, 5, 0, 9]}, now, ["a"]), now) == 3


def test_topics_of_a_broker_that_was_away_are_a_baseline() -> None:
    now = {"b": [0, 900]}
    assert received(ends_before(None, now, ["a"]), now) == 0


def test_a_group_that_is_new_has_consumed_what_came_since() -> None:
    found = between(reading(0, {"t": 10}), reading(10, {"t": 50, "new": 40}, {"t@g": 50, "new@g": 40, "t@late": 30}))
    assert counts(found) == {"in:t": 40, "in:new": 40, "out:t@g": 40, "out:new@g": 40, "out:t@late": 20}


def test_a_group_that_begins_with_what_is_old_tells_nothing_yet() -> None:
    first, second = reading(0, {"t": 100}), reading(10, {"t": 100}, {"t@g": 30})
    known = after(NOTHING, changed(NOTHING, first))
    began = changed(known, second)
    assert (counts(began), began.out_rates) == ({}, {})
    following = changed(after(known, began), reading(20, {"t": 100}, {"t@g": 70}))
    assert counts(following) == {"out:t@g": 40}


def test_the_backlog_is_never_below_zero() -> None:
    assert backlog({"b": [0, 10]}, {"b": {"0": 4}}) == 6
    assert backlog({"b": [0, 5]}, {"b": {"0": 9}}) == 0
    assert backlog({"b": [0, 5]}, {"b": {"7": 1}, "gone": {"0": 1}, "c": {"x": 1}}) == 0
    assert stored({"a": [2, 7, 0, 1], "b": [3, 3]}) == 6


def test_a_reset_of_one_queue_tells_nothing_of_the_topic() -> None:
    ends = {"b": [9, 9]}
    assert consumed({"b": {"0": 1, "1": 5}}, {"b": {"0": 3, "1": 4}}, ends) is None
    assert consumed({"b": {"0": 1, "1": 5}}, {"b": {"0": 3, "1": 5}}, ends) == 2
    assert consumed({}, {"b": {"0": 3}}, None) is None


def test_what_is_gone_is_forgotten() -> None:
    known = after(NOTHING, changed(NOTHING, reading(0, {"t": 1, "u": 1}, {"t@g": 1, "u@h": 1})))
    found = changed(known, reading(10, {"u": 1}, {"u@h": 1}))
    assert (found.gone_topics, found.gone_groups) == (["t"], ["g"])
    assert after(known, found).topics.keys() == {"u"}


def test_a_topic_without_a_turn_keeps_its_rate_and_one_in_use_does_not() -> None:
    known = after(NOTHING, changed(NOTHING, reading(0, {"t": 1, "u": 1}, turns=2)))
    moved = changed(known, reading(10, {"t": 11, "u": 21}, turn=0, turns=2))
    assert moved.in_rates == {"t": 1.0, "u": 2.0}
    then = changed(after(known, moved), reading(20, {"t": 11}, topics={"u"}, turn=1, turns=2))
    assert then.in_rates == {"u": 2.0}


@pytest.mark.parametrize("quiet_s", [10, 50])
def test_what_came_to_a_topic_is_spread_over_the_time_since_it_was_asked(quiet_s: int) -> None:
    """The topic had its turn at 0; at `quiet_s` it has the next one."""
    known = after(NOTHING, changed(NOTHING, reading(0, {"t": 1}, turns=1)))
    for at_s in range(10, quiet_s, 10):
        known = after(known, changed(known, reading(at_s, {}, topics={"t"}, turn=0, turns=1)))
    kept = known.latest
    assert kept is not None
    known = Known(Latest(kept.at_ms, kept.seconds, kept.brokers, [0], {}), known.topics, known.groups, {})
    found = changed(known, reading(quiet_s, {"t": 101}, turns=1))
    assert found.counts == {"in:t": (100, float(quiet_s))}
    assert found.in_rates == {"t": round(100 / quiet_s, 3)}


def test_a_topic_stays_in_use_for_a_while() -> None:
    known = after(NOTHING, changed(NOTHING, reading(0, {"t": 1}, turns=2)))
    known = after(known, changed(known, reading(10, {"t": 2}, turn=0, turns=2)))
    assert known.latest is not None and known.latest.busy == {"t": (10_000, 10_000)}
    last_s = 10 + BUSY_MS // 1000
    for at_s in range(20, last_s + 1, 10):
        known = after(known, changed(known, reading(at_s, {"t": 2}, turn=1, turns=2)))
        assert known.latest is not None and known.latest.busy == {"t": (at_s * 1000, 10_000)}
    quiet = changed(known, reading(last_s + 10, {"t": 2}, turn=1, turns=2))
    assert quiet.latest.busy == {}


def test_the_order_of_brokers_and_queues_is_no_change() -> None:
    first = Reading(
        0, frozenset({"t"}), {"t": {"a": [0, 1], "b": [0, 2]}}, {"g": {"t": {"a": {"0": 1, "1": 2}}}}, ["a"]
    )
    again = Reading(
        10_000, frozenset({"t"}), {"t": {"b": [0, 2], "a": [0, 1]}}, {"g": {"t": {"a": {"1": 2, "0": 1}}}}, ["a"]
    )
    assert between(first, again).topics == between(first, again).groups == {}
    assert orjson.loads(changed(NOTHING, first).topics["t"]) == {"a": [0, 1], "b": [0, 2]}
