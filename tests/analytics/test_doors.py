from __future__ import annotations

import subprocess
import sys

import pytest

from analytics import engine, errors

#: What the console may import of analytics (pyproject.toml: "the console knows no socket and no Spark").
DOORS = [
    *("archives", "confined", "demo", "engine", "errors", "infer", "lake", "option_values"),
    *("retention", "samples.files", "samples.rollup", "samples.series", "settings", "specs"),
]


@pytest.mark.parametrize("door", DOORS)
def test_importing_a_door_brings_in_neither_spark_nor_arrow_nor_django(door: str) -> None:
    script = (
        f"import sys, analytics.{door};"
        "print(sorted({n.split('.')[0] for n in sys.modules} & {'pyspark', 'py4j', 'pyarrow', 'pandas', 'django'}))"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("select 1", "SELECT"),
        ("  -- a note\n/* and */ WITH a AS (SELECT 1) SELECT * FROM a", "SELECT"),
        ("(select 1) union (select 2)", "SELECT"),
        ("values (1)", "SELECT"),
        ("from flights |> limit 1", "SELECT"),
        ("table flights", "SELECT"),
        ("insert into t select 1", "INSERT"),
        ("DROP TABLE t", "DROP"),
    ],
)
def test_it_names_the_kind_of_a_statement(sql: str, kind: str) -> None:
    assert engine.statement_kind(sql) == kind


def test_every_error_has_a_message_for_the_user() -> None:
    found = [item for item in vars(errors).values() if isinstance(item, type) and issubclass(item, Exception)]
    assert errors.QueryRefused in found
    assert all(issubclass(item, errors.AnalyticsError) and item("Why.").user_message == "Why." for item in found)
