"""Attack: the guard has a gap. A statement of any kind reaches Spark, and Spark is to open what is not the account's.

The guard is switched off here by a hook of the test; what holds is the file system that the sessions are given.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from analytics import engine
from analytics.errors import AnalyticsError, QueryFailed, QueryRefused
from analytics.lake import Place, allowed_paths, lake_path
from analytics.specs import Column, TableSpec
from analytics.sql import guard, outline, sessions
from tests.analytics.conftest import result_text, specification, write_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SALARY = "70001"
NUMBERS = pa.table({"a": [1]})
IMPLEMENTATIONS = ("org.apache.hadoop.fs.RawLocalFileSystem", "org.apache.hadoop.fs.LocalFileSystem")


@pytest.fixture
def no_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every statement through; it is only noted which tables it names."""
    see = guard.Judge.see

    def seen(self: guard.Judge, node: guard.Node, first_word: str) -> None:
        try:
            see(self, node, first_word)
        except QueryRefused:
            return

    monkeypatch.setattr(guard.Judge, "see", seen)
    monkeypatch.setattr(outline, "check", lambda _sql: "SELECT")


@pytest.fixture
def secrets(secret_table: TableSpec, tmp_path: Path) -> dict[str, str]:
    """What must not be read: a table of another account, and a file outside of the lake."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "master_key").write_text(f"{SALARY}\n")
    lake = Path(lake_path("oss://bob-lake"))
    (lake / "text").mkdir(exist_ok=True)
    (lake / "text" / "a.csv").write_text(f"{SALARY}\n")
    return {
        "bob": str(lake / "text"),
        "parquet": str(lake / "secret/salaries"),
        "outside": str(outside),
        "lake": str(lake.parent),
    }


def told_by(statements: list[str], tables: dict[str, list[TableSpec]]) -> str:
    """What alice gets to see of several statements, one after the other in one session: rows and errors."""
    seen = ""
    for sql in statements:
        spec = specification(sql, tables, time_limit_s=60)
        try:
            engine.run_query(spec)
            seen += result_text(spec)
        except AnalyticsError as error:
            seen += error.user_message + "\n"
    return seen


def views(name: str, path: str, options: str = "") -> list[str]:
    return [
        f"create or replace temporary view {name} (v string) using csv options (path '{path}'{options})",
        f"select * from {name}",
        f"select count(*) as n, max(v) from {name}",
    ]


ATTACKS = {
    "a path": lambda s: views("a1", s["bob"]),
    "a path outside": lambda s: views("a2", s["outside"]),
    "an address": lambda s: views("a3", f"file://{s['outside']}/master_key"),
    "a pattern": lambda s: views("a4", f"{s['lake']}/{{bob-lake,x}}/text"),
    "a pattern from one's own folder": lambda s: views("a5", f"{s['lake']}/alice-lake/demo/{{../../bob-lake/text,x}}"),
    "a star": lambda s: views("a6", f"{s['lake']}/*/text"),
    "recursion": lambda s: views("a7", s["lake"], ", recursiveFileLookup 'true', pathGlobFilter '*.csv'"),
    "a way up": lambda s: views("a8", f"{s['lake']}/alice-lake/demo/flights/../../../bob-lake/text"),
    "many lines": lambda s: views("a9", s["bob"], ", multiLine 'true', inferSchema 'true'"),
    "a class of Hadoop": lambda s: [
        line
        for n, name in enumerate(IMPLEMENTATIONS)
        for cache in ("true", "false")
        for line in views(
            f"b{n}{cache}", s["bob"], f", 'fs.file.impl' '{name}', 'fs.file.impl.disable.cache' '{cache}'"
        )
    ],
    "a class of Hadoop for another scheme": lambda s: views(
        "c1", f"hdfs://x{s['bob']}", f", 'fs.hdfs.impl' '{IMPLEMENTATIONS[0]}'"
    ),
    "a new scheme": lambda s: views("c2", f"mine://{s['bob']}", f", 'fs.mine.impl' '{IMPLEMENTATIONS[0]}'"),
    "a setting": lambda s: [
        f"set fs.file.impl={IMPLEMENTATIONS[0]}", "set fs.file.impl.disable.cache=false", *views("c3", s["bob"]),
        "reset",
    ],
    "no number": lambda s: ["set gantry.lake.session=", *views("c4", s["bob"]), "reset gantry.lake.session"],
    "a file as a table": lambda s: [
        "set spark.sql.runSQLOnFiles=true", f"select * from csv.`{s['bob']}`", f"select * from text.`{s['outside']}`",
    ],
    "a table": lambda s: [
        f"create table demo.grab (salary bigint) using parquet location '{s['parquet']}'", "select * from demo.grab",
    ],
    "another place for a table": lambda s: [
        f"alter table demo.flights set location '{s['parquet']}'", "select * from demo.flights limit 1",
    ],
    "a web address": lambda s: views("c5", "http://127.0.0.1:1/x"),
    "a jar's content": lambda s: views("c6", f"har://file{s['bob']}"),
}  # fmt: skip


@pytest.mark.usefixtures("no_guard")
@pytest.mark.parametrize("name", ATTACKS)
def test_nothing_of_another_account_and_nothing_outside_is_read(
    spark: SparkSession, demo_tables: list[TableSpec], secrets: dict[str, str], name: str
) -> None:
    seen = told_by(ATTACKS[name](secrets), {"demo": demo_tables})
    assert SALARY not in seen, seen
    assert seen.strip()


@pytest.mark.usefixtures("no_guard")
def test_the_same_statements_read_it_when_the_list_has_it(
    spark: SparkSession, demo_tables: list[TableSpec], secrets: dict[str, str]
) -> None:
    """Or the attacks above would be harmless for a reason of their own."""
    sessions.forget()  # the attacks have changed theirs
    tables = {"demo": demo_tables}
    session = sessions.of(specification("select 1", tables)).spark
    with allowed_paths.reaching(session, "oss://bob-lake/text"):
        assert SALARY in told_by(ATTACKS["a path"](secrets), tables)
    assert SALARY not in told_by(ATTACKS["a path"](secrets), tables)


@pytest.mark.usefixtures("no_guard")
def test_nothing_is_written_elsewhere(
    spark: SparkSession, demo_tables: list[TableSpec], secrets: dict[str, str]
) -> None:
    for place in (f"{secrets['bob']}/in", f"{secrets['outside']}/in"):
        told_by(
            [
                f"insert overwrite directory '{place}' using csv select 1",
                f"insert overwrite local directory '{place}' using csv select 1",
                f"create table demo.w using csv location '{place}' as select 1 as a",
            ],
            {"demo": demo_tables},
        )
        assert not Path(place).exists()


@pytest.mark.usefixtures("no_guard")
def test_accounts_at_the_same_time_reach_their_own_folders_only(
    spark: SparkSession, demo_tables: list[TableSpec], secret_table: TableSpec, secrets: dict[str, str]
) -> None:
    own: list[str] = []

    def bob() -> None:
        for _ in range(4):
            spec = specification(
                "select * from secret.salaries", {"secret": [secret_table]}, tenant="bob", schema="secret"
            )
            engine.run_query(spec)
            own.append(result_text(spec))

    thread = threading.Thread(target=bob)
    thread.start()
    seen = "".join(told_by(ATTACKS["a path"](secrets), {"demo": demo_tables}) for _ in range(3))
    thread.join()
    assert SALARY not in seen
    assert len(own) == 4
    assert all(SALARY in text for text in own)


def test_a_file_whose_name_is_a_pattern_spoils_its_table_and_opens_nothing(
    spark: SparkSession, secrets: dict[str, str]
) -> None:
    """Spark takes names of files for patterns where it looks into text of many lines."""
    folder = Path(lake_path("oss://alice-lake/patterns"))
    (folder / "{x,..").mkdir(parents=True)
    (folder / "{x,.." / "a}.csv").write_text("a\n1\n")
    table = TableSpec("t", "oss://alice-lake/patterns/", "csv", (), (), (("multiLine", "true"),))
    with pytest.raises(QueryFailed, match=r"a file of it has a name that is not allowed.*'\{'"):
        engine.run_query(specification("select * from t", {"demo": [table]}))


@pytest.mark.parametrize(
    "option", [("path", "/etc"), ("basePath", "/"), ("fs.file.impl", IMPLEMENTATIONS[0]), ("pathGlobFilter", "{a,b}")]
)
def test_an_option_that_names_a_path_or_a_class_never_reaches_spark(
    spark: SparkSession, option: tuple[str, str]
) -> None:
    write_table("oss://alice-lake/options/", NUMBERS)
    table = TableSpec("t", "oss://alice-lake/options/", "parquet", (), (), (option,))
    with pytest.raises(QueryFailed, match="has the"):
        engine.run_query(specification("select * from t", {"demo": [table]}))


def test_a_denied_file_ends_the_statement_whatever_the_table_says(spark: SparkSession) -> None:
    folder = Path(lake_path("oss://alice-lake/public"))
    (folder / "secret").mkdir(parents=True)
    (folder / "a.csv").write_text("a\n1\n")
    (folder / "secret" / "s.csv").write_text("a\n42\n")

    def decide(places: Iterable[Place]) -> None:
        for place in places:
            if place.key.startswith("public/secret/"):
                raise QueryRefused("denied: policy p denies it")

    for options in ((), (("recursiveFileLookup", "true"),)):
        table = TableSpec("t", "oss://alice-lake/public/", "csv", (Column("a", "int"),), (), options)
        tables = {"demo": [table]}
        spec = specification("select * from t", tables)
        engine.run_query(spec)  # by somebody to whom nothing is denied: the session stays
        with pytest.raises(QueryRefused, match="policy p denies it"):
            engine.run_query(specification("select * from t", tables, decide=decide))


HIDING = [
    "select * from t where exists (with t as (select 1 as b) select * from t)",
    "select a from (with t as (select 1 as b) select b as a from t) union all select a from t",
    "with u as (select * from t), t as (select 1 as a) select * from u",
    "with t as (select * from t) select * from t",
    "select (with T as (select 1 as b) select max(b) from T) as n, a from t",
    "with `t` as (table t) select * from `T`",
]


@pytest.mark.parametrize("sql", HIDING)
def test_a_with_name_does_not_hide_a_table_from_who_decides(spark: SparkSession, sql: str) -> None:
    """The name stands for the table in one part of the statement, and for a query in another."""
    folder = Path(lake_path("oss://alice-lake/hidden"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "s.csv").write_text(f"a\n{SALARY}\n")
    tables = {"demo": [TableSpec("t", "oss://alice-lake/hidden/", "csv", (Column("a", "int"),))]}

    def decide(places: Iterable[Place]) -> None:
        raise QueryRefused(f"denied: {next(iter(places)).location}")

    assert SALARY in told_by(["select * from t"], tables)  # by somebody to whom nothing is denied: the session stays
    spec = specification(sql, tables, decide=decide)
    with pytest.raises(AnalyticsError) as refused:
        engine.run_query(spec)
    assert SALARY not in refused.value.user_message


def test_a_with_name_may_be_that_of_a_table_and_read_it(spark: SparkSession) -> None:
    write_table("oss://alice-lake/same/", NUMBERS)
    tables = {"demo": [TableSpec("same", "oss://alice-lake/same/", "parquet", (Column("a", "bigint"),))]}
    assert told_by(["with same as (select a + 1 as a from same) select * from same"], tables) == "a\n2\n"


def test_a_with_name_that_hides_a_denied_table_is_read(spark: SparkSession) -> None:
    write_table("oss://alice-lake/same/", NUMBERS)
    tables = {"demo": [TableSpec("same", "oss://alice-lake/same/", "parquet", (Column("a", "bigint"),))]}

    def decide(_places: Iterable[Place]) -> None:
        raise QueryRefused("denied")

    spec = specification("with same as (select 5 as a) select * from same", tables, decide=decide)
    engine.run_query(spec)
    assert result_text(spec) == "a\n5\n"
