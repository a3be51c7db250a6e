"""Attack: a type told to a function as a text, in the form that Spark takes besides the one of CREATE TABLE.

As JSON it can name a class of Java, which Spark makes; a module of Python, which PySpark imports in the process that
holds the secrets, telling in its error what it found there; and expressions, which nobody has judged.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import pytest

from analytics import engine
from analytics import session as spark_session
from analytics.errors import AnalyticsError, QueryFailed, QueryRefused
from analytics.sql import guard
from tests.analytics.conftest import result_text, specification

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TREASURE = "the-master-key"


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    """The session of now: attacks of other files cost the JVM that was there before."""
    return spark_session.get()


def struct(kind: object, **metadata: str) -> str:
    field = {"name": "a", "type": kind, "nullable": True, "metadata": metadata}
    return json.dumps({"type": "struct", "fields": [field]})


def python(name: str) -> str:
    return struct({"type": "udt", "pyClass": name, "sqlType": "string", "serializedClass": "x"})


ENVIRONMENT = python("os.environ")
JAVA = struct(
    {"type": "udt", "class": "org.apache.spark.mllib.linalg.VectorUDT", "pyClass": "x.y", "sqlType": "string"}
)
DEFAULT = struct("string", CURRENT_DEFAULT="current_user()", EXISTS_DEFAULT="current_user()")


def literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def forms(text: str) -> list[str]:
    """Ways to hand the text over."""
    half = len(text) // 2
    as_bytes = text.encode().hex()
    return [
        literal(text),
        literal("\n\t " + text),
        f"{literal(text[:half])} {literal(text[half:])}",
        f"concat({literal(text[:half])}, {literal(text[half:])})",
        f"{literal(text[:half])} || {literal(text[half:])}",
        f"cast({literal(text)} as string)",
        f"trim({literal(text)})",
        f"decode(unhex('{as_bytes}'), 'utf-8')",
        f"decode(X'{as_bytes}', 'utf-8')",
        f"reverse({literal(text[::-1])})",
        f"(select {literal(text)})",
        f"coalesce({literal(text)}, 'a int')",
        f"{literal(text)} collate utf8_binary",
    ]


STATEMENTS = [
    *(f"select from_json('{{}}', {form}) as x" for form in forms(ENVIRONMENT)),
    *(f"select from_json('{{}}', {form}) as x" for form in forms(JAVA)),
    *(f"select From_CSV('1', {form}) as x" for form in forms(DEFAULT)),
    f"select `from_json`(a, {literal(ENVIRONMENT)}, map('mode', 'PERMISSIVE')) from values ('1') t(a)",
    f"select a from values ('1') t(a) where from_json(a, {literal(JAVA)}) is null",
    f"with c as (select from_json('1', {literal(JAVA)}) as x) select * from c",
    f"values ('1') |> select from_json(col1, {literal(JAVA)})",
    f"select from_json(jsonStr => '1', schema => {literal(JAVA)})",
    f"select transform(array('1'), s -> from_json(s, {literal(JAVA)}))",
    f"select variant_get(parse_json('1'), '$', {literal(ENVIRONMENT)})",
    f"select try_variant_get(parse_json('1'), '$', {literal(JAVA)})",
    f"select sum(from_json('1', {literal(JAVA)}).a) over ()",
    f"select from_json('1', s) from values ({literal(JAVA)}) t(s)",
]


@pytest.mark.parametrize("sql", STATEMENTS)
def test_no_type_is_told_as_json(spark: SparkSession, sql: str) -> None:
    with pytest.raises(QueryRefused, match="The type given to"):
        guard.check(spark, sql, schema="demo", tables={})


def test_a_parameter_is_no_way_around(spark: SparkSession) -> None:
    with pytest.raises(AnalyticsError, match="The type given to"):
        engine.run_query(specification("select from_json('{}', ?)", {"demo": []}, parameters=(ENVIRONMENT,)))


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select from_json('{\"a\":1}', 'a int').a", "1"),
        ("select from_json('[1]', ' array<int>')[0]", "1"),
        ("select from_json('{\"ä\":1}', '`ä` int').`ä`", "1"),
        ("select from_json('{\"a\":1}', 'struct<a: int>').a", "1"),
        ("select from_json('{\"a\":1}', schema_of_json('{\"a\":2}')).a", "1"),
        ("select from_csv('1', 'a int', map('delimiter', ';')).a", "1"),
        ("select variant_get(parse_json('{\"a\":1}'), '$.a', 'int')", "1"),
        ("select from_json('{\"a\":1}', ?).a", "1"),
    ],
)
def test_types_as_in_create_table_are_taken(spark: SparkSession, sql: str, expected: str) -> None:
    spec = specification(sql, {"demo": []}, parameters=("a int",) if "?" in sql else ())
    engine.run_query(spec)
    assert result_text(spec).splitlines()[-1] == expected


def test_behind_the_guard_nothing_of_python_is_imported_or_shown(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "GANTRY_MASTER_KEY", TREASURE)
    monkeypatch.setattr(guard, "TYPE_ARGUMENT", "nobody looks")
    monkeypatch.setattr(guard.Judge, "see", lambda *_: None)
    sys.modules.pop("this", None)
    for name in ("os.environ", "this.s", "os.getcwd"):
        spec = specification(f"select from_json('{{}}', {literal(python(name))}) as x", {"demo": []})
        with pytest.raises(QueryFailed) as failed:
            engine.run_query(spec)
        assert TREASURE not in failed.value.user_message
        assert "not known here" in failed.value.user_message
    assert "this" not in sys.modules
