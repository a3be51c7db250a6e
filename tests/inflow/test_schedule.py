"""Schedules: which expressions there are, when they are due over changes of the clock, and what is sent late."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.inflow.schedule import CATCH_UP, Schedule, ScheduleError, event_of, position_of, read_event, time_of


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def following(cron: str, zone: str, moment: str, count: int = 4) -> list[str]:
    return [f"{one:%m-%d %H:%M}" for one in Schedule.read(cron, zone).following(at(moment), count)]


@pytest.mark.parametrize(
    ("cron", "part", "told"),
    [
        ("* * * * * *", "cron", "five fields"),
        ("* * * *", "cron", "five fields"),
        ("", "cron", "five fields"),
        ("61 * * * *", "cron", "bad minute"),
        ("*/0 * * * *", "cron", "bad minute"),
        ("0 0 30 2 *", "cron", "bad day-of-month"),
        ("0 0 1 1 " + "1," * 200 + "1", "cron", "five fields"),
        ("@daily", "cron", "five fields"),
    ],
)
def test_what_is_no_expression_of_five_fields_is_refused(cron: str, part: str, told: str) -> None:
    with pytest.raises(ScheduleError, match=told) as refused:
        Schedule.read(cron)
    assert refused.value.part == part


@pytest.mark.parametrize("zone", ["", "localtime", "Mars/Olympus", "../../etc/passwd", "UTC+8"])
def test_a_zone_that_there_is_not_is_refused(zone: str) -> None:
    with pytest.raises(ScheduleError) as refused:
        Schedule.read("* * * * *", zone)
    assert refused.value.part == "timeZone"


def test_times_are_those_of_the_zone() -> None:
    assert following("0 8 * * MON-FRI", "Asia/Shanghai", "2026-01-16T00:00", 2) == ["01-19 00:00", "01-20 00:00"]


def test_a_time_in_the_hour_that_is_left_out_comes_at_the_first_moment_behind_it() -> None:
    assert following("30 2 * * *", "Europe/Berlin", "2026-03-28T02:00", 3) == [
        "03-29 01:00",
        "03-30 00:30",
        "03-31 00:30",
    ]


def test_a_time_in_the_hour_that_comes_twice_comes_once() -> None:
    assert following("30 2 * * *", "Europe/Berlin", "2026-10-24T01:00", 3) == [
        "10-25 00:30",
        "10-26 01:30",
        "10-27 01:30",
    ]
    # Made in the second of the two hours: the first one is over.
    assert following("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10", 1) == ["10-26 01:30"]


def test_every_hour_is_every_hour_that_passes() -> None:
    assert following("0 * * * *", "Europe/Berlin", "2026-10-24T23:30") == [
        "10-25 00:00", "10-25 01:00", "10-25 02:00", "10-25 03:00",
    ]  # fmt: skip
    assert following("0 * * * *", "Europe/Berlin", "2026-03-29T00:30", 2) == ["03-29 01:00", "03-29 02:00"]


def test_what_was_missed_for_less_than_an_hour_is_sent_once_each() -> None:
    times = Schedule.read("*/10 * * * *")
    assert [one.minute for one in times.due(at("2026-01-15T10:00"), at("2026-01-15T10:35"))] == [10, 20, 30]
    assert times.due(at("2026-01-15T10:30"), at("2026-01-15T10:35")) == []


def test_of_what_was_missed_for_longer_the_last_hour_is_sent() -> None:
    found = Schedule.read("*/10 * * * *").due(at("2026-01-10T10:00"), at("2026-01-15T10:35"))
    assert found[0] == at("2026-01-15T09:40")
    assert len(found) == 6


def test_what_is_due_seldom_and_was_missed_is_sent_once() -> None:
    times = Schedule.read("0 2 * * *")
    assert times.due(at("2026-01-10T02:00"), at("2026-01-15T10:35")) == [at("2026-01-15T02:00")]
    assert times.due(at("2026-01-15T02:00"), at("2026-01-15T10:35")) == []


FIELDS = st.tuples(
    st.sampled_from(["*", "*/7", "5", "10-20", "0,30"]),
    st.sampled_from(["*", "*/5", "2", "1-3", "2,3"]),
    st.sampled_from(["*", "1", "*/9"]),
    st.sampled_from(["*", "3", "10,3"]),
    st.sampled_from(["*", "SUN", "1-5"]),
)


@given(
    fields=FIELDS,
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
    begin=st.integers(0, 395_000).map(lambda minutes: at("2026-03-01T00:00") + timedelta(minutes=minutes)),
    cuts=st.lists(st.integers(1, 55), min_size=1, max_size=8),
)
def test_looking_often_or_seldom_sends_the_same_times_in_their_order(
    fields: tuple[str, ...], zone: str, begin: datetime, cuts: list[int]
) -> None:
    times, last = Schedule.read(" ".join(fields), zone), begin
    now, sent = last, list[datetime]()
    for minutes in cuts:
        now += timedelta(minutes=minutes)
        found = times.due(last, now)
        assert all(last < one <= now for one in found)
        last = found[-1] if found else last
        sent += found
    assert sent == sorted(set(sent))
    since = now - CATCH_UP
    assert [one for one in sent if one > since] == times.due(max(since, begin), now)


def test_the_event_of_a_due_time_is_the_same_whoever_makes_it() -> None:
    due = at("2026-01-15T08:30")
    event = event_of(due, {"job": "rollup"}, feed="feedx", task="nightly")
    assert event == event_of(due, {"job": "rollup"}, feed="feedx", task="nightly")
    assert (event["id"], event["time"], event["data"]) == (
        "feedx:1768465800",
        "2026-01-15T08:30:00Z",
        {"job": "rollup"},
    )
    assert time_of(position_of(due)) == due


@pytest.mark.parametrize("event", [None, [], "x", {"n": float("nan")}, {"text": "x" * 70_000}])
def test_an_event_is_a_json_object_of_some_size(event: object) -> None:
    with pytest.raises(ScheduleError) as refused:
        read_event(event)
    assert refused.value.part == "event"
