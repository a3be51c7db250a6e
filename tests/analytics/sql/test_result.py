"""result.csv: exact, and the same bytes whichever way it was written."""

from __future__ import annotations

import csv
import io
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from analytics.errors import QueryFailed
from analytics.specs import QueryResult
from analytics.sql import result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VALUES = {
    "cast('12345678901234567890.123456789012345678' as decimal(38, 18))": "12345678901234567890.123456789012345678",
    "cast(0 as decimal(20, 10))": "0.0000000000",
    "cast('-0.0000001' as decimal(10, 7))": "-0.0000001",
    "9223372036854775807": "9223372036854775807",
    "cast(-128 as tinyint)": "-128",
    "cast(0.1 as double)": "0.1",
    "cast('NaN' as double)": "NaN",
    "true": "true",
    "date '2026-01-15'": "2026-01-15",
    "timestamp '2026-01-15 10:30:00'": "2026-01-15 10:30:00",
    "timestamp '2026-01-15 10:30:00.123'": "2026-01-15 10:30:00.123",
    "timestamp '2026-01-15 18:30:00.000001+08:00'": "2026-01-15 10:30:00.000001",
    "timestamp_ntz '2026-01-15 10:30:00'": "2026-01-15 10:30:00",
    "cast(null as string)": "",
    "cast(null as int)": "",
    "null": "",
    "''": '""',
    "' padded '": " padded ",
    "'plain'": "plain",
    "'a,b'": '"a,b"',
    "'say \"hi\"'": '"say ""hi"""',
    "'\"'": '""""',
    "'two\\nlines'": '"two\nlines"',
    "'carriage\\rreturn'": '"carriage\rreturn"',
    "'back\\\\slash'": "back\\slash",
    "'#no comment'": "#no comment",
    "'漢字 🚀 é'": "漢字 🚀 é",
    "x'00ff41'": "AP9B",
    "array(1, null, 3)": '"[1,null,3]"',
    "cast(x'ff' as string)": "\udcff",
    "cast('-Infinity' as double)": "-Infinity",
    "cast('-0.0' as double)": "-0.0",
    "1e300": "1.0E300",
    "cast(0.1 as float)": "0.1",
    "timestamp '1899-12-31 23:59:59.999999'": "1899-12-31 23:59:59.999999",
    "timestamp '9999-12-31 23:59:59.999999'": "9999-12-31 23:59:59.999999",
    "date '0001-01-01'": "0001-01-01",
    "cast('12345-06-07' as date)": "+12345-06-07",
    "time '10:30:00.5'": "10:30:00.5",
    "'a' collate utf8_lcase": "a",
    "'  ' collate utf8_binary_rtrim": "  ",
    "concat('nul', char(0), 'byte')": "nul\0byte",
    "interval '1 02:03:04.5' day to second": "INTERVAL '1 02:03:04.5' DAY TO SECOND",
    "named_struct('t', timestamp '2026-01-15 10:30:00.123456')": '"{""t"":""2026-01-15T10:30:00.123456Z""}"',
    "named_struct('n', cast(null as int), 'd', cast('NaN' as double))": '"{""n"":null,""d"":""NaN""}"',
    "map(date '2026-01-15', 1)": '"{""2026-01-15"":1}"',
    "array(named_struct('s', 'a\nb'), null)": '"[{""s"":""a\\nb""},null]"',
    "named_struct('a', 1, 'b', 'x,\"y\"')": '"{""a"":1,""b"":""x,\\""y\\""""}"',
    "map('k', cast(1.50 as decimal(5, 2)))": '"{""k"":1.50}"',
    "parse_json('{\"a\": [1, 2]}')": '"{""a"":[1,2]}"',
    "interval '1-2' year to month": "INTERVAL '1-2' YEAR TO MONTH",
}


@pytest.fixture(params=["small", "large"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of writing: gathered in the driver, or in parts by Spark's tasks."""
    if request.param == "large":
        monkeypatch.setattr(result, "SMALL_ROWS", 0)
    return str(request.param)


@pytest.mark.usefixtures("way")
def test_every_value_is_written_exactly(csv_of: Callable[..., str]) -> None:
    columns = ", ".join(f"{value} as c{number}" for number, value in enumerate(VALUES))
    header = ",".join(f"c{number}" for number in range(len(VALUES)))
    text = csv_of(f"select {columns} from range(1)")
    assert text == header + "\n" + ",".join(VALUES.values()) + "\n"
    assert len(next(csv.reader(io.StringIO(text.split("\n", 1)[1], newline="")))) == len(VALUES)


@pytest.mark.usefixtures("way")
def test_null_and_empty_text_alone_on_a_line_stay_apart(csv_of: Callable[..., str]) -> None:
    text = csv_of("select a from values ('x'), (null), (''), ('y') as t(a)")
    assert text == 'a\nx\n\n""\ny\n'


@pytest.mark.usefixtures("way")
def test_column_names_are_quoted_and_may_be_the_same_twice(csv_of: Callable[..., str]) -> None:
    text = csv_of("select id as `a,b`, id as `say \"hi\"`, id, id as ID, '' as `` from range(1)".replace("``", "`e`"))
    assert text == '"a,b","say ""hi""",id,ID,e\n0,0,0,0,""\n'


@pytest.mark.usefixtures("way")
def test_an_empty_result_has_its_header(csv_of: Callable[..., str]) -> None:
    assert csv_of("select carrier, month from flights where month = 13") == "carrier,month\n"


@pytest.mark.usefixtures("way")
def test_the_order_of_the_statement_is_the_order_of_the_file(csv_of: Callable[..., str]) -> None:
    lines = csv_of("select id from range(0, 5000, 1, 8) order by id desc").split()
    assert lines == ["id", *map(str, range(4999, -1, -1))]


def test_a_result_too_wide_to_gather_is_written_in_parts(ask: Callable[..., QueryResult]) -> None:
    answer = ask("select id, repeat('x', 100000) as wide from range(0, 3000, 1, 30)", time_limit_s=240)
    assert answer.row_count == 3000


def test_what_reads_much_is_written_in_parts_without_a_first_try(
    ask: Callable[..., QueryResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result, "SMALL_INPUT_BYTES", 1_000_000)
    monkeypatch.setattr("pyspark.sql.DataFrame.limit", None)
    assert ask("select carrier, count(*) from flights group by carrier").row_count == 16
    assert ask("select count(*) from flights").row_count == 1


def test_a_result_beyond_the_limit_of_size_ends_the_statement_and_its_tasks(
    spark: SparkSession, ask: Callable[..., QueryResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result, "MAX_BYTES", 2_000_000)
    with pytest.raises(QueryFailed, match="The result is larger than"):
        ask("select a.id, repeat('x', 1000) as x from range(100000) a cross join range(100000) b")
    scala: Any = spark.sparkContext._jsc.sc()
    deadline = time.monotonic() + 60
    while any(executor.numRunningTasks() for executor in scala.statusTracker().getExecutorInfos()):
        assert time.monotonic() < deadline, "its tasks go on after the statement has ended"
        threading.Event().wait(0.1)


@pytest.mark.usefixtures("way")
def test_more_bytes_than_allowed_fail_the_query_with_the_way_out(ask: Callable[..., QueryResult]) -> None:
    assert ask("select * from airlines", max_result_bytes=1_000).row_count == 16
    with pytest.raises(QueryFailed, match=r"the limit here; .* run it asynchronously\."):
        ask("select * from airlines", max_result_bytes=300)


def test_a_result_that_outgrows_its_bytes_is_stopped_while_it_is_written(
    ask: Callable[..., QueryResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result, "SMALL_ROWS", 0)
    with pytest.raises(QueryFailed, match="The result is larger than"):
        ask(
            "select a.id, repeat('x', 1000) as x from range(100000) a cross join range(100000) b",
            max_result_bytes=2_000_000,
        )
