"""Reports, points and logs of pipelines in a real Redis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from analytics.pipelines.reports import InsertReport, Report
from analytics.pipelines.waits import Waiting
from console.pipelines import journal, samples
from console.pipelines.journal import Kept
from console.pipelines.samples import Point
from console.web.redis import connection
from tests.support.cast import Cast

KEY = 987_001
ACCOUNT = "987"
SIZES = f"gantry:pipelines:logs:{ACCOUNT}"
BUSY = Report(
    (
        InsertReport(
            "o", 3, batch=5, committed_ms=1_000, duration_ms=40, rows_in=9, rows_out=8, rows_in_per_second=2.5,
            rows_out_per_second=2.0, watermark_ms=500, watermark_delay_ms=700, state_rows=4, state_bytes=2048,
        ),
        InsertReport("p", 9, batch=2, committed_ms=2_000, duration_ms=60, rows_in_per_second=0.5, state_bytes=10),
    ),
    {"source:s": 9},
    {"s": {"duplicateMessages": 1}},
    waiting=(Waiting("o", "No broker answers.", 2, 11, 1_000, 9_000),),
)  # fmt: skip


class Clock:
    """Epoch seconds, which stand until the test turns them."""

    def __init__(self, now: float) -> None:
        self.now = now

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, cast: Cast) -> Iterator[Clock]:
    clock = Clock(2_000_000_000.0)
    monkeypatch.setattr(samples, "time", clock)
    samples.forget(KEY)
    journal.forget(ACCOUNT, KEY)
    yield clock
    samples.forget(KEY)
    journal.forget(ACCOUNT, KEY)


def take(clock: Clock, after: float) -> None:
    """A report, so many seconds later; the step before it has ended."""
    clock.now += after
    connection(2).delete(f"gantry:pipelines:{KEY}:step")
    samples.keep(KEY, BUSY)


def test_the_latest_report_is_told_as_it_was_kept(clock: Clock) -> None:
    samples.keep(KEY, BUSY)
    (now,) = samples.latest([KEY, KEY + 1]).values()
    assert now.report == BUSY
    assert now.checkpoint_ms == 2_000
    assert now.is_fresh
    clock.now += samples.FRESH_MS / 1000 + 1
    assert not samples.latest([KEY])[KEY].is_fresh


def test_a_point_adds_up_rates_and_state_and_has_the_worst_of_the_rest(clock: Clock) -> None:
    samples.keep(KEY, BUSY)
    assert samples.curve(KEY, 60) == [Point(2_000_000_000, 3.0, 2.0, 60, 700, 2058, 4)]


def test_before_the_first_batch_nothing_is_known_but_that_no_rows_came(clock: Clock) -> None:
    samples.keep(KEY, Report((InsertReport("o", 3),)))
    assert samples.curve(KEY, 60) == [Point(2_000_000_000, 0.0, 0.0)]
    assert samples.latest([KEY])[KEY].checkpoint_ms is None


def test_of_reports_that_come_each_second_one_becomes_a_point(clock: Clock) -> None:
    for _ in range(3):
        samples.keep(KEY, BUSY)
        clock.now += 1
    assert len(samples.curve(KEY, 60)) == 1


def test_a_time_without_reports_is_a_gap(clock: Clock) -> None:
    for after in (0, 10, samples.GAP_SECONDS + 1, 10):
        take(clock, after)
    known = [point.rows_in is not None for point in samples.curve(KEY, 600)]
    assert known == [True, True, False, True, True]


def test_a_curve_has_only_its_range(clock: Clock) -> None:
    for _ in range(10):
        take(clock, 10)
    assert len(samples.curve(KEY, 35)) == 4


def test_what_is_forgotten_is_gone(clock: Clock) -> None:
    take(clock, 0)
    journal.write(ACCOUNT, KEY, "info", "It runs.")
    samples.forget(KEY)
    journal.forget(ACCOUNT, KEY)
    assert (samples.latest([KEY]), samples.curve(KEY, 60), journal.lines(KEY)) == ({}, [], [])


def test_a_log_is_told_in_its_order_and_from_a_cursor_on(clock: Clock) -> None:
    for number in range(3):
        journal.write(ACCOUNT, KEY, "print", f"+I({number})")
    found = journal.lines(KEY)
    assert [(line.level, line.text) for line in found] == [("print", f"+I({number})") for number in range(3)]
    assert [line.text for line in journal.lines(KEY, found[0].cursor)] == ["+I(1)", "+I(2)"]
    assert journal.lines(KEY, found[-1].cursor) == []
    assert len(journal.lines(KEY, "no cursor")) == 3


def test_a_log_keeps_and_shows_a_bounded_number_of_lines(clock: Clock) -> None:
    for number in range(journal.MOST_KEPT + 500):
        journal.write(ACCOUNT, KEY, "info", f"{number}")
    assert journal.kept(KEY) == Kept(journal.MOST_KEPT, 500)
    found = journal.lines(KEY)
    assert len(found) == journal.MOST_SHOWN
    assert found[-1].text == str(journal.MOST_KEPT + 499)
    assert journal.lines(KEY, "0-0")[0].text == "500"
    journal.write(ACCOUNT, KEY, "error", "x" * 10_000)
    assert len(journal.lines(KEY)[-1].text) == 8_192
    journal.write(ACCOUNT, KEY, "error", "aé€😀" * 3_000)
    assert len(journal.lines(KEY)[-1].text.encode()) <= 8_192


def test_a_log_keeps_a_bounded_number_of_bytes_and_tells_what_is_gone(clock: Clock) -> None:
    for number in range(40):
        journal.write_all(ACCOUNT, KEY, "print", [f"{number}:{line}:" + "€" * 2_000 for line in range(10)])
    assert _taken(KEY) <= journal.MOST_BYTES
    kept = journal.kept(KEY)
    assert (kept.lines + kept.gone, kept.lines) == (400, journal.MOST_BYTES // (6_000 + 100 + 6))
    assert journal.lines(KEY)[-1].text.startswith("39:9:")
    noted: Any = connection(2).hget(SIZES, str(KEY))
    assert int(noted) == _taken(KEY) + 100 * kept.lines
    journal.forget(ACCOUNT, KEY)
    assert journal.kept(KEY) == Kept(0, 0)


def test_the_logs_of_an_account_are_bounded_together_and_the_longest_give_way(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "MOST_BYTES_OF_ACCOUNT", 60_000)
    keys = range(KEY, KEY + 5)
    try:
        journal.write(ACCOUNT, keys[4], "info", "short")
        for key in keys[:4]:
            journal.write_all(ACCOUNT, key, "print", ["x" * 900] * 30)
        journal.write("other", KEY + 9, "print", "of another account")
        taken = [_taken(key) for key in keys]
        assert sum(taken) <= 60_000 and taken[4] == 5
        assert min(taken[:4]) >= 60_000 // 5 - 2_000
        connection(2).delete(f"gantry:pipelines:{keys[0]}:log")  # as it goes after a week
        journal.write_all(ACCOUNT, keys[1], "print", ["y" * 900] * 30)
        assert connection(2).hexists(SIZES, str(keys[0])) == 0
        assert len(journal.lines(KEY + 9)) == 1
    finally:
        for key in keys:
            journal.forget(ACCOUNT, key)
        journal.forget("other", KEY + 9)


def test_a_log_whose_size_nobody_knows_is_measured(clock: Clock) -> None:
    journal.write_all(ACCOUNT, KEY, "print", ["x" * 50] * 7)
    connection(2).delete(SIZES)
    journal.write(ACCOUNT, KEY, "print", "x" * 50)
    assert connection(2).hget(SIZES, str(KEY)) == str(8 * 150)


def _taken(key: int) -> int:
    """Bytes of the texts of a log."""
    entries: Any = connection(2).xrange(f"gantry:pipelines:{key}:log")
    return sum(len(entry["text"].encode()) for _, entry in entries)
