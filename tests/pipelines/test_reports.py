"""What a running pipeline tells, from what Spark tells of its batches."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator

import pytest

from analytics.pipelines.reports import InsertReport, InsertWatch, operators_of, rate_of

BEGAN_MS = 1_772_359_200_000


def batch(number: int, **rows: int) -> str:
    """A batch as Spark tells of it, with the rows that its operators counted."""
    return json.dumps(
        {
            "batchId": number, "durationMs": {"addBatch": 5}, "numInputRows": 8, "stateOperators": [],
            "timestamp": "2026-03-01T10:00:00.000Z", "batchDuration": 7,
            "observedMetrics": {name.replace("_", ":"): {"rows": count} for name, count in rows.items()},
        }
    )  # fmt: skip


def test_a_table_that_two_inserts_read_counts_its_rows_once() -> None:
    ahead, behind = InsertWatch("shown", 7, 0), InsertWatch("counted", 8, 1)
    ahead.take(batch(0, source_orders=8, view_even=4, insert_0=4))
    ahead.take(batch(1, source_orders=8, view_even=4, insert_0=4))
    behind.take(batch(0, source_orders=8, view_none=0, insert_1=1))
    assert operators_of([ahead, behind]) == {
        "source:orders": 16,
        "view:even": 8,
        "view:none": 0,
        "insert:0": 8,
        "insert:1": 1,
    }


def test_a_batch_that_is_told_again_counts_once() -> None:
    watch = InsertWatch("shown", 7, 0)
    watch.take(batch(0, source_orders=8))
    watch.take(batch(0, source_orders=8))
    assert operators_of([watch]) == {"source:orders": 8}


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty")
def test_who_asks_while_batches_are_told_hears_of_each_once() -> None:
    watch, batches, failures = InsertWatch("shown", 7, 0), [batch(n, insert_0=1) for n in range(3000)], []
    are_taken = threading.Event()

    def ask() -> None:
        try:
            while not are_taken.is_set():
                assert watch.report(0).rows_out <= len(batches)
                assert operators_of([watch]).keys() <= {"insert:0"}
        except Exception as error:  # noqa: BLE001  told below
            failures.append(error)

    def take() -> None:
        for text in batches:
            watch.take(text)

    asking, taking = threading.Thread(target=ask), [threading.Thread(target=take) for _ in range(2)]
    for thread in (asking, *taking):
        thread.start()
    for thread in taking:
        thread.join()
    are_taken.set()
    asking.join()
    assert failures == []
    report = watch.report(0)
    assert (report.rows_in, report.rows_out, watch.operators) == (24_000, 3000, {"insert:0": 3000})


def test_rows_a_second_of_a_source_that_two_inserts_read_count_once() -> None:
    ahead, behind = InsertWatch("shown", 7, 0), InsertWatch("counted", 8, 1)
    ahead.take(batch(0, source_orders=8, insert_0=4))
    behind.take(batch(0, source_orders=8, source_rates=2, insert_1=1))
    assert rate_of([ahead, behind], {"orders": False, "rates": False}, BEGAN_MS + 4_000) == 2.5
    assert rate_of([ahead, behind], {}, BEGAN_MS + 4_000) == 0
    assert behind.report(BEGAN_MS + 4_000).rows_out_per_second == 0.25


def test_a_table_that_a_stream_reads_anew_with_each_batch_has_no_rate_and_one_that_is_read_once_has() -> None:
    stream, once = InsertWatch("shown", 7, 0), InsertWatch("copied", 8, 1)
    stream.take(batch(0, source_orders=8, source_rates=500, insert_0=8))
    assert rate_of([stream], {"orders": False, "rates": True}, BEGAN_MS + 4_000) == 2
    once.take_whole({"source:rates": 40, "insert:1": 40}, BEGAN_MS, 2_000)
    assert rate_of([stream, once], {"orders": False, "rates": True}, BEGAN_MS + 4_000) == 12


def test_an_insert_that_is_written_whole_is_one_batch() -> None:
    watch = InsertWatch("shown", 7, 0)
    watch.take_whole({"source:orders": 5, "source:rates": 3, "view:v": 4, "insert:0": 3}, BEGAN_MS, 2_000)
    assert watch.report(BEGAN_MS + 4_000) == InsertReport(
        "shown", 7, batch=0, committed_ms=BEGAN_MS + 2_000, duration_ms=2_000, rows_in=8, rows_out=3,
        rows_in_per_second=2.0, rows_out_per_second=0.75,
    )  # fmt: skip
    unread = InsertWatch("shown", 7, 0)
    unread.take_whole({"insert:0": 3}, BEGAN_MS, 2_000)
    assert unread.report(BEGAN_MS).rows_in is None


def test_a_batch_without_rows_tells_that_none_came_since_until_one_is_under_way() -> None:
    watch = InsertWatch("shown", 7, 0)
    watch.take(batch(0, source_orders=8))
    assert not watch.report(BEGAN_MS + 100).is_idle
    nothing = json.dumps({"batchId": 1, "durationMs": {"latestOffset": 1}, "timestamp": "2026-03-01T10:00:10.000Z"})
    watch.take(nothing)
    report = watch.report(BEGAN_MS + 12_000)
    assert (report.is_idle, report.batch, report.committed_ms) == (True, 0, BEGAN_MS + 7)
    assert not watch.report(BEGAN_MS + 60_000).is_idle
    watch.take(batch(1, source_orders=8))
    watch.take(nothing)  # Spark tells the last ones again
    assert not watch.report(BEGAN_MS + 12_000).is_idle
