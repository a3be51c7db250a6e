"""Counts the rows that go by the operators of a plan, while they go by."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation

#: Spark tells the counts of one query one after the other, s: so long after the last one none is missing that comes.
_PATIENCE_S = 0.2


class Counts:
    """The counts of a pipeline. Of rows that stream Spark tells them with each batch; of others they are asked here."""

    def __init__(self) -> None:
        self._seen: dict[str, Observation] = {}

    def counted(self, rows: DataFrame, operator: str, number: Column | None = None) -> DataFrame:
        """The rows, counted under the operator's name; `number` sums up what they stand for, if that is more."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as F  # noqa: N812

        count = (F.count(F.lit(1)) if number is None else number).alias("rows")
        if rows.isStreaming:
            return rows.observe(operator, count)
        self._seen[operator] = Observation(operator)
        return rows.observe(self._seen[operator], count)

    def of(self, rows: DataFrame) -> dict[str, int]:
        """The counts of operators that these rows come from, once they are written: as of the first time each was read.

        One that the optimizer has taken out of the query that read it first is not known, and missing.
        """
        told: dict[str, Any] = {name: seen._jo for name, seen in self._seen.items() if reads(rows, name)}
        deadline = time.monotonic() + _PATIENCE_S
        while not all(one.future().isCompleted() for one in told.values()) and time.monotonic() < deadline:
            time.sleep(_PATIENCE_S / 20)
        found = {name: one.getRow() for name, one in told.items() if one.future().isCompleted()}
        return {name: int(row.getLong(0)) for name, row in found.items() if row.length()}


def reads(rows: DataFrame, operator: str) -> bool:
    """Whether an operator that is counted is among those that the rows come from."""
    return f"CollectMetrics {operator}, [count(" in str(rows._jdf.queryExecution().analyzed().treeString())
