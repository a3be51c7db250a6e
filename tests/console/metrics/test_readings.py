"""What happened between two readings of a cluster's counters."""

from __future__ import annotations

from console.metrics.sampler import Reading, backlog, step


def reading(at_s: int, ends: dict[str, int], committed: dict[str, int] | None = None, begin: int = 0) -> Reading:
    return Reading(
        at_ms=at_s * 1000,
        ends={topic: {"b:0": value} for topic, value in ends.items()},
        begins={topic: {"b:0": begin} for topic in ends},
        committed={series: {"b:0": value} for series, value in (committed or {}).items()},
    )


def test_it_counts_what_came_and_what_was_consumed() -> None:
    found = step(reading(0, {"t": 10}, {"t@g": 4}), reading(10, {"t": 35}, {"t@g": 24}))
    assert found is not None
    assert (found.received, found.consumed, found.seconds) == ({"t": 25}, {"t@g": 20}, 10.0)


def test_nothing_happening_is_zero_not_a_gap() -> None:
    found = step(reading(0, {"t": 10}), reading(10, {"t": 10}))
    assert found is not None
    assert found.received == {"t": 0}


def test_readings_far_apart_tell_nothing() -> None:
    assert step(None, reading(10, {"t": 10})) is None
    assert step(reading(0, {"t": 10}), reading(61, {"t": 20})) is None
    assert step(reading(10, {"t": 10}), reading(10, {"t": 10})) is None


def test_a_counter_that_went_back_is_a_gap() -> None:
    found = step(reading(0, {"t": 10, "u": 1}, {"t@g": 9}), reading(10, {"t": 3, "u": 2}, {"t@g": 0}))
    assert found is not None
    assert (found.received, found.consumed) == ({"u": 1}, {})


def test_a_topic_created_since_counts_from_its_first_message() -> None:
    found = step(reading(0, {}), reading(10, {"t": 7}))
    assert found is not None
    assert found.received == {"t": 7}


def test_an_old_topic_seen_for_the_first_time_is_a_baseline() -> None:
    found = step(reading(0, {}), reading(10, {"t": 7}, {"t@g": 5}, begin=3))
    assert found is not None
    assert (found.received, found.consumed) == ({}, {})


def test_a_queue_that_joins_is_a_baseline() -> None:
    before = Reading(0, {"t": {"a:0": 5}}, {}, {})
    after = Reading(10_000, {"t": {"a:0": 8, "b:0": 1000}}, {}, {})
    found = step(before, after)
    assert found is not None
    assert found.received == {"t": 3}


def test_a_queue_that_a_known_broker_has_made_since_counts_from_its_first_message() -> None:
    before = Reading(0, {"t": {"a:0": 5}, "u": {"a:0": 0}}, {}, {})
    after = Reading(10_000, {"t": {"a:0": 8, "a:1": 4}, "u": {"a:0": 0}}, {"t": {"a:0": 0, "a:1": 0}}, {})
    found = step(before, after)
    assert found is not None and found.received == {"t": 7, "u": 0}


def test_topics_of_a_broker_that_was_away_are_a_baseline() -> None:
    found = step(Reading(0, {"t": {"a:0": 5}}, {}, {}), Reading(10_000, {"t": {"a:0": 5}, "u": {"b:0": 900}}, {}, {}))
    assert found is not None and found.received == {"t": 0, "u": 0}


def test_a_group_that_is_new_has_consumed_what_came_since() -> None:
    found = step(reading(0, {"t": 10}), reading(10, {"t": 50, "new": 40}, {"t@g": 50, "new@g": 40, "t@late": 30}))
    assert found is not None and found.consumed == {"t@g": 40, "new@g": 40, "t@late": 20}


def test_a_group_that_begins_with_what_is_old_tells_nothing_yet() -> None:
    found = step(reading(0, {"t": 100}), reading(10, {"t": 100}, {"t@g": 30}))
    assert found is not None and found.consumed == {"t@g": 0}
    following = step(reading(10, {"t": 100}, {"t@g": 30}), reading(20, {"t": 100}, {"t@g": 70}))
    assert following is not None and following.consumed == {"t@g": 40}


def test_the_backlog_is_never_below_zero() -> None:
    now = reading(0, {"t": 10, "u": 5}, {"t@g": 4, "u@g": 9, "gone@g": 3})
    assert [backlog(now, s) for s in ("t@g", "u@g", "gone@g")] == [6, 0, 0]


def test_a_reading_survives_its_json() -> None:
    now = reading(0, {"t": 10}, {"t@g": 4})
    assert Reading.from_json(now.to_json()) == now
