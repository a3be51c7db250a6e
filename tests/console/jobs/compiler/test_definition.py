"""What CREATE TABLE says: columns of all kinds, types, watermark and key."""

from __future__ import annotations

import pytest

from analytics.pipelines.plan import Column, Watermark
from tests.console.jobs.compiler.texts import DATAGEN, MQ_SOURCE, plan, process, read_job, refusal, table, write_job

pytestmark = process

TYPES = [
    ("CHAR(3)", "string"),
    ("VARCHAR", "string"),
    ("varchar(20)", "string"),
    ("STRING", "string"),
    ("BOOLEAN", "boolean"),
    ("BINARY(3)", "binary"),
    ("VARBINARY", "binary"),
    ("BYTES", "binary"),
    ("DECIMAL", "decimal(10,0)"),
    ("DECIMAL(5)", "decimal(5,0)"),
    ("DEC(12, 2)", "decimal(12,2)"),
    ("NUMERIC(38, 18)", "decimal(38,18)"),
    ("TINYINT", "tinyint"),
    ("SMALLINT", "smallint"),
    ("INT", "int"),
    ("INTEGER", "int"),
    ("BIGINT", "bigint"),
    ("FLOAT", "float"),
    ("DOUBLE", "double"),
    ("DOUBLE PRECISION", "double"),
    ("DATE", "date"),
    ("TIMESTAMP", "timestamp"),
    ("TIMESTAMP(3)", "timestamp"),
    ("TIMESTAMP(6) WITHOUT TIME ZONE", "timestamp"),
    ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "timestamp"),
    ("TIMESTAMP_LTZ(3)", "timestamp"),
    ("INT NOT NULL", "int"),
    ("INT NULL", "int"),
    ("ARRAY<VARCHAR(3)>", "array<string>"),
    ("INT ARRAY", "array<int>"),
    ("MAP<STRING, ARRAY<BYTES>>", "map<string,array<binary>>"),
    ("ROW<a INT, `b c` STRING 'a comment'>", "struct<a:int,`b c`:string>"),
    ("ROW(a INT NOT NULL, r ROW<x DOUBLE>)", "struct<a:int,r:struct<x:double>>"),
]


@pytest.mark.parametrize(("written", "spark"), TYPES)
def test_each_type_is_one_of_sparks(written: str, spark: str) -> None:
    (source,) = plan(read_job(f"c {written}", DATAGEN)).sources
    assert source.columns == (Column("c", spark),)


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("TIME", "column c cannot be TIME: Spark's sources have no time of day; declare it as STRING."),
        ("MULTISET<INT>", "column c cannot be MULTISET: Spark has no multisets; declare it as MAP<…, INT>."),
        ("INT MULTISET", "column c cannot be MULTISET: Spark has no multisets; declare it as MAP<…, INT>."),
        ("INTERVAL DAY", "column c cannot be INTERVAL: a column cannot be an interval; declare it as BIGINT"),
        ("RAW('x', 'y')", "column c cannot be RAW: it holds objects of Java; declare it as BYTES."),
        (
            "DECIMAL(39, 1)",
            "column c is DECIMAL(39, 1); allowed are 1 to 38 digits, and up to as many of them behind the point.",
        ),
        ("TIMESTAMP(9)", "column c is TIMESTAMP(9); allowed are 0 to 6 digits."),
        (
            "TIMESTAMP(3) WITH TIME ZONE",
            "column c cannot keep a zone of its own; allowed is TIMESTAMP WITH LOCAL TIME ZONE.",
        ),
        ("VARCHAR(0)", "column c has the length 0; allowed are 1 and more."),
        ("TEXT", "column c has the unknown type `TEXT`; allowed are BOOLEAN, TINYINT"),
        ("ARRAY<TEXT>", "column c has the unknown type `TEXT`; allowed are BOOLEAN, TINYINT"),
        ("ARRAY<" * 18 + "INT" + ">" * 18, "column c is nested deeper than 16 levels."),
    ],
)
def test_it_refuses_a_type_that_spark_has_not(written: str, sentence: str) -> None:
    message = refusal(read_job(f"c {written}", DATAGEN))
    assert message.startswith("Line 1, column ")
    assert sentence in message


def test_columns_of_all_kinds_keep_their_order() -> None:
    columns = """
      id INT COMMENT 'a number',
      `topic` VARCHAR METADATA VIRTUAL,
      when_stored TIMESTAMP(3) METADATA FROM 'store-timestamp' VIRTUAL,
      double_id AS id * 2 COMMENT 'twice',
      now AS PROCTIME(),
      `from` STRING,
      CONSTRAINT pk PRIMARY KEY (id, `from`) NOT ENFORCED,
      WATERMARK FOR when_stored AS when_stored - INTERVAL '1' MINUTE"""
    (source,) = plan(read_job(columns, MQ_SOURCE)).sources
    assert source.columns == (
        Column("id", "int"),
        Column("topic", "string", metadata="topic", virtual=True),
        Column("when_stored", "timestamp", metadata="store-timestamp", virtual=True),
        Column("double_id", "", computed="`id` * 2"),
        Column("now", "", computed="CURRENT_TIMESTAMP()"),
        Column("from", "string"),
    )
    assert source.watermark == Watermark("when_stored", 60_000)


@pytest.mark.parametrize(
    ("expression", "delay_ms"),
    [
        ("ts", 0),
        ("`ts`", 0),
        ("ts - INTERVAL '5' SECOND", 5_000),
        ("ts - INTERVAL '0.001' SECONDS", 1),
        ("ts - INTERVAL '2' HOUR", 7_200_000),
        ("ts - INTERVAL '1' DAY", 86_400_000),
    ],
)
def test_a_watermark_is_a_column_less_an_interval(expression: str, delay_ms: int) -> None:
    (source,) = plan(read_job(f"ts TIMESTAMP(3), WATERMARK FOR ts AS {expression}", DATAGEN)).sources
    assert source.watermark == Watermark("ts", delay_ms)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ("a INT, WATERMARK FOR a AS a", "column 51: a watermark is on a column of TIMESTAMP; a is int."),
        ("a INT, WATERMARK FOR b AS b", "column 51: table read has no column b; it has a."),
        (
            "a TIMESTAMP(3), b TIMESTAMP(3), WATERMARK FOR a AS b",
            "column 81: the watermark for a is a, or that less an interval.",
        ),
        ("a TIMESTAMP(3), WATERMARK FOR a AS a + INTERVAL '1' DAY", "column 67: `+` is not expected here"),
        ("a TIMESTAMP(3), WATERMARK FOR a AS a - INTERVAL '1' MONTH", "column 82: `MONTH` is no unit of a watermark"),
        ("a TIMESTAMP(3), WATERMARK FOR a AS a, WATERMARK FOR a AS a", "two watermarks; allowed is one."),
        ("a INT, A STRING", "the column A is declared twice."),
        ("a INT PRIMARY KEY NOT ENFORCED", "expected is PRIMARY KEY (…) NOT ENFORCED behind the columns."),
        ("a INT, PRIMARY KEY (a)", "`)` is not expected here; expected is `NOT ENFORCED`."),
        ("a INT, PRIMARY KEY (b) NOT ENFORCED", "table read has no column b; it has a."),
        ("a INT, UNIQUE (a)", "expected is PRIMARY KEY (…) NOT ENFORCED, since UNIQUE is not possible."),
        ("a INT, b AS c + 1", "column 42: there is no column c here; there are a."),
        ("a INT, b AS (SELECT 1)", "a computed column has no queries and windows in it."),
        ("a INT, b AS SUM(a)", "a computed column has no aggregates in it."),
        ("a INT, b AS", "expected is an expression."),
        ("a INT, b AS a +", "the query cannot be read"),
        ("a INT, , b INT", "`,` is not expected here; expected is the name of a column."),
        ("", "`)` is not expected here; expected is the name of a column."),
        ("WATERMARK FOR a AS a", "table read has no column a; it has ."),
    ],
)
def test_it_refuses_columns_at_their_place(columns: str, sentence: str) -> None:
    message = refusal(read_job(columns, DATAGEN))
    assert message.startswith("Line 1, column ")
    assert sentence in message


@pytest.mark.parametrize(
    ("definition", "sentence"),
    [
        ("CREATE TABLE t (a INT)", "column 23: the end of the statement is not expected here; expected is `WITH`."),
        ("CREATE TABLE t (a INT) WITH ()", "column 30: `)` is not expected here; expected is the name of an option"),
        ("CREATE TABLE t (a INT) WITH (connector = 'print')", "expected is the name of an option in single quotes."),
        ("CREATE TABLE t (a INT) WITH ('connector' = print)", "expected is the value of connector in single quotes."),
        (
            "CREATE TABLE t (a INT) WITH (\"connector\" = 'print')",
            "expected is the name of an option in single quotes.",
        ),
        (
            "CREATE TABLE t (a INT) WITH ('connector' = 'print', 'connector' = 'print')",
            "the option connector is set twice.",
        ),
        ("CREATE TABLE t LIKE u", "CREATE TABLE … AS and LIKE are not possible"),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'print') LIKE u", "CREATE TABLE … LIKE and AS are not possible"),
        ("CREATE TABLE a.t (a INT) WITH ('connector' = 'print')", "a name without a catalog and a schema"),
        (
            "CREATE TABLE t (a INT) WITH ('topic' = 'x')",
            "table t has no 'connector'; there are mns, mq, datagen, print",
        ),
        (
            "CREATE TABLE t (a INT) WITH ('connector' = 'mnss')",
            "there is no connector mnss; there are mns, mq, datagen, print, blackhole, filesystem. Did you mean mns?",
        ),
        (
            "CREATE TABLE t (a INT) PARTITIONED BY (b) WITH ('connector' = 'print')",
            "table t has no column b; it has a.",
        ),
    ],
)
def test_it_refuses_a_definition_at_its_place(definition: str, sentence: str) -> None:
    message = refusal(f"{definition};\nSELECT 1")
    assert message.startswith("Line 1, column ")
    assert sentence in message


def test_two_tables_of_one_name_are_refused() -> None:
    text = table("t", "a INT", DATAGEN) + "CREATE TEMPORARY VIEW T AS SELECT 1;\nSELECT 1"
    assert refusal(text) == "Line 2, column 23: there are two tables or views called T."


def test_computed_and_virtual_columns_are_not_written() -> None:
    columns = "a INT, b AS a + 1, c STRING METADATA FROM 'keys' VIRTUAL, d STRING"
    options = {"connector": "mq", "endpoint": "h:1", "accessId": "x", "accessKey": "${secret_values.k}", "topic": "t"}
    text = table("t", columns, {**options, "producerGroup": "g"}) + "INSERT INTO t SELECT 1, 'x';"
    (sink,) = plan(text).sinks
    assert sink.columns == (Column("a", "int"), Column("d", "string"))


def test_a_table_is_read_and_written_by_one_job() -> None:
    options = {**MQ_SOURCE, "producerGroup": "g"}
    text = table("t", "a INT", options) + "INSERT INTO t SELECT a + 1 FROM t"
    found = plan(text)
    assert [one.name for one in found.sources] == [one.name for one in found.sinks] == ["t"]
    assert "producerGroup" not in found.sources[0].options
    assert "consumerGroup" not in found.sinks[0].options


def test_folders_of_a_sink_are_its_partitions() -> None:
    text = write_job("a INT, day STRING", {"connector": "filesystem", "path": "oss://bucket/x/", "format": "parquet"})
    text = text.replace(") WITH ('connector' = 'filesystem'", ") PARTITIONED BY (day) WITH ('connector' = 'filesystem'")
    (sink,) = plan(text).sinks
    assert sink.partitions == ("day",)
