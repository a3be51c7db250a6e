"""Options of tables and of functions: each value is one that is known, or it is refused before Spark sees it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from analytics import engine, lake, option_values
from analytics.errors import QueryFailed, QueryRefused
from analytics.specs import READER_OPTIONS, Column, TableSpec, Target
from analytics.sql import tables
from console.catalog import ddl
from console.catalog.definitions import literal
from console.web.errors import Refused
from tests.analytics.conftest import result_text, specification
from tests.support.sql_cast import Cast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLASS = "org.apache.hadoop.fs.RawLocalFileSystem"
#: What is no value of any option.
HOSTILE = ["x" * 100_000, "[" * 5000]
#: What is no value of an option, by its name; the longest is searched for in every line, for minutes.
NO_VALUES = {
    "mode": ["", "x", "FAILFAST\n", CLASS],
    "columnNameOfCorruptRecord": ["", "a\nb"],
    "dateFormat": ["yyyy" * 100],
    "timestampFormat": ["[" * 201],
    "timestampNTZFormat": ["'" * 201],
    "locale": ["", "../../etc", "en\n", "x" * 36],
    "encoding": ["", "UTF-7", "ISO-2022-CN", "../../x", "sun.nio.cs.UTF_8", "utf-8\n"],
    "lineSep": ["", "abc"],
    "compression": ["", "x", CLASS, "gzip\n"],
    "delimiter": ["", "\\", "abc" * 6],
    "quote": ["ab", "\\u0001"],
    "escape": ["ab"],
    "comment": ["##"],
    "nullValue": ["x" * 1001],
    "emptyValue": ["x" * 1001],
    "nanValue": ["x" * 1001],
    "pathGlobFilter": ["", "{a,b}", "../*", "[a-z]", "a\n", "*" * 201],
}
SWITCHES = {
    *("recursiveFileLookup", "mergeSchema", "multiLine", "primitivesAsString", "allowComments", "allowSingleQuotes"),
    *("allowUnquotedFieldNames", "dropFieldIfAllNull", "prefersDecimal", "header", "ignoreLeadingWhiteSpace"),
    *("ignoreTrailingWhiteSpace", "enforceSchema"),
}
EVERY = sorted({(name, option) for name, options in READER_OPTIONS.items() for option in options if option != "sep"})


def no_values(option: str) -> list[str]:
    return HOSTILE + (["", "x", "1", "true\n"] if option in SWITCHES else NO_VALUES[option])


@pytest.mark.parametrize(("format_name", "option"), EVERY)
def test_every_option_has_values_that_are_decided(format_name: str, option: str) -> None:
    for value in no_values(option):
        assert option_values.problem(option, value), value[:30]
        table = TableSpec("t", "oss://a-lake/t/", format_name, (), (), ((option, value),))
        with pytest.raises(QueryFailed, match=f"has the {option}"):
            tables.require_options(table)


@pytest.mark.django_db
@pytest.mark.parametrize(("format_name", "option"), EVERY)
def test_no_definition_takes_another_value(sql_cast: Cast, format_name: str, option: str) -> None:
    for value in no_values(option):
        text = f"create external table demo.bad (a string) using {format_name} options ('{option}' = {literal(value)})"
        with pytest.raises(Refused, match="is not supported"):
            ddl.run(sql_cast.alice, f"{text} location 'oss://demo-lake/t/'", "demo")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("mode", "DropMalformed"), ("dateFormat", "dd.MM.yyyy"), ("timestampFormat", "yyyy-MM-dd HH:mm:ss[.SSS]"),
        ("locale", "de-DE"), ("encoding", "ISO-8859-1"), ("lineSep", "\r\n"), ("compression", "GZIP"), ("quote", ""),
        ("delimiter", ";"), ("delimiter", "\t"), ("delimiter", "\x01"), ("delimiter", "||"), ("quote", "\\u0000"),
        ("escape", "\\"), ("nullValue", "\\N"), ("header", "TRUE"), ("pathGlobFilter", "part-*.csv"),
        ("columnNameOfCorruptRecord", "_corrupt record"),
    ],
)  # fmt: skip
def test_what_people_write_is_taken(option: str, value: str) -> None:
    assert option_values.problem(option, value) == ""


# --- Functions ------------------------------------------------------------------------------------------------------
FUNCTIONS = {
    "a class": f"to_csv(struct(1), map('compression', '{CLASS}'))",
    "a class of JSON": f"to_json(struct(1), map('Compression', '{CLASS}'))",
    "a class by its other name": f"schema_of_csv('1', map('codec', '{CLASS}'))",
    "a class that is computed": "to_csv(struct(1), map('codec', concat('org.', 'x')))",
    "a name that is computed": "to_csv(struct(1), map(concat('co', 'dec'), 'x'))",
    "a class behind others": f"from_csv('1', 'a int', map('sep', ';', 'codec', '{CLASS}'))",
    "a class of a schema": f"schema_of_json('1', map('compression', '{CLASS}'))",
    "a map of arrays": f"from_json('1', 'a int', map_from_arrays(array('codec'), array('{CLASS}')))",
    "a map of a table": "from_json('1', 'a int', t.m)",
    "a named argument": f"to_json(expr => struct(1), options => map('codec', '{CLASS}'))",
    "within another": f"upper(to_csv(struct(1), map('codec', '{CLASS}')))",
    "in quotes": f"`to_csv`(struct(1), `map`('codec', '{CLASS}'))",
    "a delimiter that is searched for for minutes": "from_csv('1', 'a int', map('delimiter', repeat('abc', 300000)))",
    "room for two billion columns": "from_csv('1', 'a int', map('maxColumns', '2147483647'))",
    "a buffer of two gigabytes": "from_csv('1', 'a int', map('inputBufferSize', '2000000000'))",
}


@pytest.mark.parametrize("call", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_function_takes_no_option_that_nobody_has_judged(spark: SparkSession, call: str) -> None:
    sql = f"select {call} from (select map('codec', '{CLASS}') m) t"
    with pytest.raises(QueryRefused, match="option"):
        engine.run_query(specification(sql, {}))


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("from_csv('1;2', 'a int, b int', map('sep', ';', 'mode', 'PERMISSIVE')).b", "2"),
        ("to_json(named_struct('a', null), map('ignoreNullFields', 'false'))", "null"),
        ("to_csv(named_struct('d', date'2026-01-15'), map('dateFormat', 'dd.MM.yyyy'))", "15.01.2026"),
        ("schema_of_json('{\"a\": 01}', map('allowNumericLeadingZeros', 'true'))", "BIGINT"),
        ("to_json(struct(1))", "col1"),
    ],
)
def test_what_people_tell_functions_is_taken(spark: SparkSession, call: str, expected: str) -> None:
    spec = specification(f"select {call} as x", {})
    engine.run_query(spec)
    assert expected in result_text(spec)


# --- What errors tell -----------------------------------------------------------------------------------------------
def test_no_error_tells_of_tasks_machines_and_classes(spark: SparkSession) -> None:
    folder = Path(lake.lake_path("oss://alice-lake/broken"))
    folder.mkdir(parents=True)
    (folder / "a.parquet").write_bytes(b"PAR1 no Parquet PAR1")
    broken = TableSpec("broken", "oss://alice-lake/broken/", "parquet", (Column("a", "int"),))
    spoiled = (("dateFormat", "'"),)
    target = TableSpec("w", "oss://alice-lake/spoiled/", "csv", (Column("d", "date"),), (), spoiled)
    told = []
    for sql, into in (
        ("select * from broken", None),
        ("select schema_of_json('x')", None),
        ("select date'2026-01-15' d", Target("demo", target)),
    ):
        with pytest.raises(QueryFailed) as failure:
            engine.run_query(specification(sql, {"demo": [broken]}, target=into))
        told.append(failure.value.user_message)
    for message in told:
        for inner in ("Exception", "java.", "org.apache", "TID", "stage", "localhost", "file:", str(folder.parent)):
            assert inner not in message
    assert "file oss://alice-lake/broken/a.parquet" in told[0]
    assert "incomplete string literal" in told[2]
