"""Spark's text of a plan as a tree."""

from __future__ import annotations

from console.sql import plans

PLAN = """\
== Physical Plan ==
AdaptiveSparkPlan (7)
+- Sort (6)
   +- * BroadcastHashJoin Inner BuildRight (5)
      :- Filter (2)
      :  +- Scan parquet demo.flights (1)
      +- BroadcastExchange (4)
         +- Scan parquet demo.airlines (3)


(1) Scan parquet demo.flights
Output [2]: [carrier#1, hour#2]
Location: InMemoryFileIndex [oss://demo/flights]

(2) Filter
Input [2]: [carrier#1, hour#2]
Condition : isnotnull(carrier#1)

===== Subqueries =====
"""


def test_operators_have_depth_facts_and_the_one_fact_that_tells_most() -> None:
    operators = plans.parse(PLAN.splitlines())
    assert [(o.depth, o.name) for o in operators] == [
        (0, "AdaptiveSparkPlan"),
        (1, "Sort"),
        (2, "BroadcastHashJoin Inner BuildRight"),
        (3, "Filter"),
        (4, "Scan parquet demo.flights"),
        (3, "BroadcastExchange"),
        (4, "Scan parquet demo.airlines"),
    ]
    assert [o.name for o in operators if o.fused] == ["BroadcastHashJoin Inner BuildRight"]
    assert operators[3].summary == "isnotnull(carrier#1)"
    assert operators[4].summary == "InMemoryFileIndex [oss://demo/flights]"
    assert ("Input [2]", "[carrier#1, hour#2]") in operators[3].facts


def test_lines_may_come_in_one_cell() -> None:
    assert plans.parse([PLAN]) == plans.parse(PLAN.splitlines())


def test_another_text_has_no_operators() -> None:
    assert plans.parse(["Found 3 WholeStageCodegen subtrees."]) == []
    assert plans.parse([]) == []
