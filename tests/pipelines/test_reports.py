"""What a running pipeline tells, from what Spark tells of its batches."""

from __future__ import annotations

import json

from analytics.pipelines.reports import InsertWatch, operators_of


def batch(number: int, **rows: int) -> str:
    """A batch as Spark tells of it, with the rows that its operators counted."""
    return json.dumps(
        {
            "batchId": number, "durationMs": {"addBatch": 5}, "numInputRows": 8, "stateOperators": [],
            "timestamp": "2026-03-01T10:00:00.000Z",
            "observedMetrics": {name.replace("_", ":"): {"rows": count} for name, count in rows.items()},
        }
    )  # fmt: skip


def test_a_table_that_two_inserts_read_counts_its_rows_once() -> None:
    ahead, behind = InsertWatch("shown", 7, 0), InsertWatch("counted", 8, 1)
    ahead.take(batch(0, source_orders=8, view_even=4, insert_0=4))
    ahead.take(batch(1, source_orders=8, view_even=4, insert_0=4))
    behind.take(batch(0, source_orders=8, insert_1=1))
    assert operators_of([ahead, behind]) == {"source:orders": 16, "view:even": 8, "insert:0": 8, "insert:1": 1}


def test_a_batch_that_is_told_again_counts_once() -> None:
    watch = InsertWatch("shown", 7, 0)
    watch.take(batch(0, source_orders=8))
    watch.take(batch(0, source_orders=8))
    assert operators_of([watch]) == {"source:orders": 8}
