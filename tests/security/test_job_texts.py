"""Texts of jobs that are short to write and would cost the console, or the engine of all, its time or its memory."""

from __future__ import annotations

import pytest

from console.jobs.compiler.words import LONGEST_SENTENCE
from tests.console.jobs.compiler.texts import DATAGEN, MNS, checked, refusal, table

pytestmark = pytest.mark.process
M = table("m", "a STRING", MNS)
TOO_MUCH = "the query reads more than 200 tables"
DOUBLED = [
    "SELECT * FROM v{0} UNION ALL SELECT * FROM v{0}",
    "SELECT x.a FROM v{0} x JOIN v{0} y ON x.a = y.a",
    "SELECT a FROM v{0} WHERE a IN (SELECT a FROM v{0})",
    "SELECT * FROM (SELECT a FROM v{0}) x CROSS JOIN (SELECT a AS b FROM v{0}) y",
]


@pytest.mark.parametrize("query", DOUBLED)
def test_views_that_name_each_other_twice_are_refused_before_they_double_forty_times(query: str) -> None:
    views = "".join(f"CREATE TEMPORARY VIEW v{n + 1} AS {query.format(n)};\n" for n in range(40))
    assert TOO_MUCH in refusal(table("v0", "a STRING", MNS) + views + "SELECT * FROM v40;")


def test_the_same_within_one_query() -> None:
    parts = ", ".join(f"c{n + 1} AS (SELECT a FROM c{n} UNION ALL SELECT a FROM c{n})" for n in range(24))
    assert TOO_MUCH in refusal(f"{M}WITH c0 AS (SELECT a FROM m), {parts} SELECT * FROM c24;")


def test_views_may_stand_on_each_other() -> None:
    views = "".join(f"CREATE TEMPORARY VIEW v{n + 1} AS SELECT * FROM v{n};\n" for n in range(100))
    assert checked(table("v0", "a STRING", MNS) + views + "SELECT * FROM v100;").refusals == ()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT '" + "x" * 1_000_000 + "';",
        "/*" * 100_000,
        "`" * 100_001,
        "'" * 99_999,
        "SET 'parallelism.default' = '" + "9" * 100_000 + "';",
        M + "SELECT " + "(" * 5_000 + "a" + ")" * 5_000 + " FROM m;",
        M + "SELECT " + "+".join("a" * 60_000) + " FROM m;",
        M + "SELECT " + "CASE WHEN a = 'x' THEN " * 2_000 + "1" + " END" * 2_000 + " FROM m;",
        table("t", "a " + "ARRAY<" * 5_000 + "INT" + ">" * 5_000, MNS),
        table("t", "a INT, b AS " + "f(" * 5_000 + "a" + ")" * 5_000, MNS),
        "".join(table(f"t{n}", "a INT", DATAGEN) for n in range(2_000)),
        "SELECT 1;" * 10_000,
        ";" * 250_000,
    ],
    ids=range(13),
)
def test_a_text_without_measure_is_refused_in_a_sentence(text: str) -> None:
    told = refusal(text)
    assert len(told) <= LONGEST_SENTENCE + 100


@pytest.mark.parametrize(
    "text",
    [
        "SET 'restart-strategy.exponential-delay.initial-backoff' = '999999999999999d';",
        "SET 'restart-strategy.fixed-delay.delay' = '36501d';",
        "SET 'execution.checkpointing.interval' = '999999999999999h';",
        "SET 'table.exec.state.ttl' = '999999999999999d';",
    ],
)
def test_a_duration_that_no_clock_can_reckon_with_is_refused(text: str) -> None:
    assert "to 36500d" in refusal(text + M + "SELECT * FROM m;")


def test_a_watermark_that_no_clock_can_reckon_with_is_refused() -> None:
    columns = f"t TIMESTAMP(3), WATERMARK FOR t AS t - INTERVAL '{'9' * 400}' DAY"
    assert "is too long" in refusal(table("m", columns, DATAGEN) + "SELECT * FROM m;")
