"""The server's opinion on a statement, read from what it explains."""

from __future__ import annotations

import pytest

from analytics.errors import QueryRefused
from analytics.sql.connect import parsed

REST = """
== Analyzed Logical Plan ==
k: bigint
GlobalLimit 3
+- Relation [k#1L] parquet

== Optimized Logical Plan ==
GlobalLimit 3
+- Relation [k#1L] parquet

== Physical Plan ==
CollectLimit 3
"""
QUERY = """'GlobalLimit 3
+- 'LocalLimit 3
   +- 'Project ['k, text with
lines in it AS x#46]
      :  +- 'Project [unresolvedalias('max('k))]
      :     +- 'UnresolvedRelation [flights], [], false
      +- 'SubqueryAlias f
         +- 'UnresolvedRelation [flights], [], false
"""


def check(plan: str) -> None:
    parsed.check(f"== Parsed Logical Plan ==\n{plan}{REST}", {"flights"}, "SELECT")


def test_a_query_on_the_views_of_the_statement_passes() -> None:
    check(QUERY)


def test_names_of_common_table_expressions_are_known() -> None:
    check("CTE [a, b]\n:  +- 'SubqueryAlias a\n:     +- OneRowRelation\n+- 'UnresolvedRelation [a], [], false\n")


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ("'UnresolvedRelation [salaries], [], false\n", "not one of its own"),
        ("'UnresolvedRelation [demo, flights], [], false\n", "not one of its own"),
        ("'UnresolvedRelation [flights], [path=/etc/passwd], false\n", "not one of its own"),
        ("'UnresolvedRelation [flights], [], true\n", "not one of its own"),
        ("SetCommand (a,Some(b))\n", "SELECT: not allowed here"),
        ("'Project [*]\n+- 'ScriptTransformation touch /tmp/x, [key#1]\n", "TRANSFORM … USING"),
        ("'Project [*]\n:  +- 'InsertIntoDir false, Storage()\n+- OneRowRelation\n", "INSERT OVERWRITE DIRECTORY"),
        ("'Project [unresolvedalias('reflect(java.lang.System, exit))]\n+- OneRowRelation\n", "calls Java"),
        ("'Project [a\n\n== Analyzed Logical Plan ==\n AS x]\n+- SetCommand\n", "looks like a plan"),
    ],
)
def test_everything_else_is_refused(plan: str, message: str) -> None:
    with pytest.raises(QueryRefused, match=message):
        check(plan)


def test_what_is_no_plan_is_refused() -> None:
    with pytest.raises(QueryRefused):
        parsed.check("", {"flights"}, "SELECT")


def test_the_limit_at_the_end_of_a_plan_bounds_its_rows() -> None:
    assert parsed.most_rows(f"== Parsed Logical Plan ==\n{QUERY}{REST}") == 3
    assert parsed.most_rows(REST.replace("GlobalLimit 3", "Project [k#1L]")) is None
