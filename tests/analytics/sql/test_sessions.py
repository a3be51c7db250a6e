"""Isolation, the second layer: what another tenant has does not exist here, even for a statement not guarded."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from analytics import engine, lake
from analytics.errors import QueryFailed
from analytics.specs import Column, TableSpec
from analytics.sql import sessions
from tests.analytics.conftest import result_text, specification, write_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def bob_was_here(spark: SparkSession, secret_table: TableSpec) -> None:
    """Bob has just read his table, so Spark knows it."""
    spec = specification(
        "select sum(salary) as s from secret.salaries", {"secret": [secret_table]}, tenant="bob", schema="secret"
    )
    engine.run_query(spec)
    assert result_text(spec) == "s\n150003\n"


def alices(tables: list[TableSpec]) -> sessions.TenantSession:
    session = sessions.of(specification("select 1", {"demo": tables}))
    session.register({("demo", "flights")})
    return session


@pytest.mark.usefixtures("bob_was_here")
@pytest.mark.parametrize(
    "sql",
    [
        "select * from secret.salaries",
        "select * from spark_catalog.secret.salaries",
        "select * from text.`/etc/passwd`",
        "select reflect('java.lang.System', 'getenv', 'HOME')",
        "select java_method('java.lang.System', 'getenv', 'HOME')",
        "select input_file_name() from flights",
    ],
)
def test_a_statement_that_passed_the_guard_finds_nothing_of_others(demo_tables: list[TableSpec], sql: str) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match=r"TABLE_OR_VIEW_NOT_FOUND|UNRESOLVED_ROUTINE"):
        alices(demo_tables).spark.sql(sql).collect()


@pytest.mark.usefixtures("bob_was_here")
def test_a_session_lists_only_its_own_schemas_and_tables(demo_tables: list[TableSpec]) -> None:
    spark = alices(demo_tables).spark
    assert {row[0] for row in spark.sql("show databases").collect()} == {"default", "demo"}
    assert "salaries" not in {row.tableName for row in spark.sql("show tables").collect()}


def test_two_tenants_have_different_tables_of_the_same_name(spark: SparkSession) -> None:
    for tenant, value in (("alice", 1), ("bob", 2), ("alice", 1)):
        location = f"oss://{tenant}-lake/same/t/"
        write_table(location, pa.table({"a": [value]}))
        table = TableSpec("t", location, "parquet", (Column("a", "bigint"),))
        spec = specification("select a from same.t", {"same": [table]}, tenant=tenant, schema="same")
        engine.run_query(spec)
        assert result_text(spec) == f"a\n{value}\n"


def test_a_user_who_may_read_less_sees_less_than_another_of_the_tenant(demo_tables: list[TableSpec]) -> None:
    from pyspark.errors import AnalysisException

    alices(demo_tables)
    airlines = [table for table in demo_tables if table.name == "airlines"]
    session = sessions.of(specification("select 1", {"demo": airlines}))
    session.register({("demo", "airlines")})
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        session.spark.sql("select * from demo.flights")


def test_both_spellings_of_a_table_work(csv_of: Callable[..., str]) -> None:
    for name in ("airlines", "demo.airlines", "DEMO.Airlines", "`demo`.`airlines`"):
        assert csv_of(f"select count(*) as n from {name}") == "n\n16\n"


def test_the_jvm_has_none_of_our_settings_in_its_environment(spark: SparkSession) -> None:
    names = {"GANTRY_MASTER_KEY", "GANTRY_SECRET_KEY", "GANTRY_BROKER_ACCESS_KEY_SECRET", "GANTRY_HOME"}
    assert names <= os.environ.keys()
    assert spark._jvm is not None
    assert not names & set(spark._jvm.System.getenv())


def test_tasks_have_none_of_our_settings_in_their_environment(spark: SparkSession) -> None:
    (found,) = spark.sparkContext.parallelize([0], 1).map(lambda _: sorted(os.environ)).collect()
    assert not [name for name in found if name.startswith("GANTRY_")]


def test_a_variable_in_a_statement_is_only_text(csv_of: Callable[..., str]) -> None:
    assert csv_of("select '${env:HOME} ${system:user.home} ${spark:spark.app.name}' as a") == (
        "a\n${env:HOME} ${system:user.home} ${spark:spark.app.name}\n"
    )


def test_a_type_cannot_smuggle_anything_into_a_table(spark: SparkSession, secret_table: TableSpec) -> None:
    column = Column("a", "int) using text location '/etc' --")
    table = TableSpec("t", secret_table.location, "parquet", (column,))
    with pytest.raises(QueryFailed):
        engine.run_query(specification("select * from t", {"demo": [table]}))


def test_names_that_spark_refuses_in_create_are_names_of_tables(spark: SparkSession) -> None:
    write_table("oss://alice-lake/odd/t/", pa.table({"a": [1]}))
    for name in ("a b", "MQ_INST_1000001_abcd%orders", "a-b"):
        table = TableSpec(name, "oss://alice-lake/odd/t/", "parquet", (Column("a", "bigint"),))
        spec = specification(f"select `{name}`.a from demo.`{name}`", {"demo": [table]})
        engine.run_query(spec)
        assert result_text(spec) == "a\n1\n"


def test_a_reserved_word_can_be_a_table(spark: SparkSession) -> None:
    write_table("oss://alice-lake/odd/t/", pa.table({"a": [1]}))
    table = TableSpec("table", "oss://alice-lake/odd/t/", "parquet", (Column("a", "bigint"),))
    spec = specification("select * from demo.`table`", {"demo": [table]})
    engine.run_query(spec)
    assert result_text(spec) == "a\n1\n"


def test_tables_of_other_formats_are_read(spark: SparkSession) -> None:
    for name, text in (("csv", 'a,b\n1,"x, ""y"""\n'), ("json", '{"a": 1, "b": "x, \\"y\\""}\n')):
        folder = Path(lake.lake_path(f"oss://alice-lake/formats/{name}/"))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"data.{name}").write_text(text)
        columns = (Column("a", "int"), Column("b", "string"))
        table = TableSpec("t", f"oss://alice-lake/formats/{name}/", name, columns)
        spec = specification("select * from t", {"demo": [table]})
        engine.run_query(spec)
        assert result_text(spec) == 'a,b\n1,"x, ""y"""\n'


def test_a_table_without_told_columns_takes_those_of_its_files(spark: SparkSession) -> None:
    write_table("oss://alice-lake/told/t/", pa.table({"a": [1], "b": ["x"]}))
    result = engine.run_query(
        specification("select * from t", {"demo": [TableSpec("t", "oss://alice-lake/told/t/", "parquet")]})
    )
    assert result.columns == [Column("a", "bigint"), Column("b", "string")]
