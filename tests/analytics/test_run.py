from __future__ import annotations

import subprocess
import sys

import pytest

from analytics import run


def test_importing_the_door_brings_in_neither_spark_nor_arrow_nor_django() -> None:
    script = (
        "import sys, analytics.run;"
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
    assert run.statement_kind(sql) == kind


def test_every_error_has_a_message_for_the_user() -> None:
    errors = [item for name in run.__all__ if isinstance(item := getattr(run, name), type)]
    errors = [item for item in errors if issubclass(item, Exception)]
    assert len(errors) == 8
    assert all(issubclass(item, run.AnalyticsError) and item("Why.").user_message == "Why." for item in errors)
