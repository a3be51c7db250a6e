"""Definitions in Hive's, DLA's and Spark's way of writing, and what is told about those that cannot be read."""

from __future__ import annotations

import pytest

from console.statements.ddl import definition as f
from console.statements.ddl.grammar import parse
from console.web.errors import Refused

DEFINITIONS = [
    ("create schema sales", f.CreateSchema("sales")),
    (
        "CREATE DATABASE IF NOT EXISTS `sales` COMMENT 'it''s ours' LOCATION 'oss://b/sales/'",
        f.CreateSchema("sales", True, "it's ours", "oss://b/sales/"),
    ),
    (
        "create schema sales with dbproperties (catalog='oss', location = 'oss://b/sales/');",
        f.CreateSchema("sales", location="oss://b/sales/"),
    ),
    ("drop schema if exists sales cascade", f.DropSchema("sales", True, True)),
    ("drop database sales restrict", f.DropSchema("sales")),
    ("create table a.b like c.d", f.CreateTableLike(f.Named("b", "a"), f.Named("d", "c"))),
    ("drop table if exists a.b", f.DropTable(f.Named("b", "a"), True)),
    ("alter table t rename to u", f.RenameTable(f.Named("t"), f.Named("u"))),
    (
        "alter table t add columns (x int comment 'the x', y string)",
        f.AddColumns(f.Named("t"), (f.Column("x", "int", "the x"), f.Column("y", "string"))),
    ),
    (
        "alter table t add if not exists partition (day='2026-01-15', n=3)",
        f.AddPartition(f.Named("t"), (("day", "2026-01-15"), ("n", "3"))),
    ),
    ("alter table t set location 'oss://b/t/'", f.SetLocation(f.Named("t"), "oss://b/t/")),
    (
        "alter table t set tblproperties ('skip.header.line.count'='1')",
        f.SetProperties(f.Named("t"), {"skip.header.line.count": "1"}),
    ),
    ("msck repair table a.b", f.RepairTable(f.Named("b", "a"))),
    ("refresh table b", f.RepairTable(f.Named("b"))),
    ("truncate table b", f.TruncateTable(f.Named("b"))),
]


@pytest.mark.parametrize(("text", "expected"), DEFINITIONS)
def test_it_reads_definitions(text: str, expected: f.Definition) -> None:
    assert parse(text) == expected


def test_it_reads_a_table_in_the_vendors_way() -> None:
    table = parse(
        """create external table if not exists sales.orders (
             id bigint comment 'the number', price decimal(10, 2), tags array<string>,
             buyer struct<name: varchar(20), `postal code`: string comment 'of the house', last: map<string, double>>
           ) -- what was ordered
           comment 'orders'
           partitioned by (day date, shop string)
           row format serde 'org.apache.hive.hcatalog.data.JsonSerDe'
           stored as textfile
           location 'oss://b/orders/'
           tblproperties ('recursive.directories' = 'true')"""
    )
    assert isinstance(table, f.CreateTable)
    assert table.table == f.Named("orders", "sales")
    assert [(c.name, c.type) for c in table.columns] == [
        ("id", "bigint"),
        ("price", "decimal(10,2)"),
        ("tags", "array<string>"),
        ("buyer", "struct<name:string,`postal code`:string,last:map<string,double>>"),
        ("day", "date"),
        ("shop", "string"),
    ]
    assert table.columns[0].comment == "the number"
    assert (table.partitions, table.format, table.options) == (("day", "shop"), "json", {})
    assert (table.external, table.if_not_exists, table.comment, table.location) == (
        True,
        True,
        "orders",
        "oss://b/orders/",
    )


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ("", ("parquet", {})),
        ("stored as orc", ("orc", {})),
        ("using csv options (sep ';', 'nullValue' = 'NA')", ("csv", {"delimiter": ";", "nullValue": "NA"})),
        ("stored as csv", ("csv", {})),
        (
            "row format delimited fields terminated by '|' escaped by '\\\\' lines terminated by '\\n'"
            " stored as textfile",
            (
                "csv",
                {
                    "header": "false",
                    "delimiter": "|",
                    "quote": "",
                    "escape": "\\",
                    "multiLine": "false",
                    "nullValue": "\\N",
                },
            ),
        ),
        (
            "row format serde 'org.apache.hadoop.hive.serde2.OpenCSVSerde' with serdeproperties"
            " ('separatorChar'=',', 'quoteChar'='\"') tblproperties ('skip.header.line.count'='1')",
            ("csv", {"header": "true", "delimiter": ",", "quote": '"', "escape": "\\"}),
        ),
        ("stored as parquet tblproperties ('parquet.compression'='ZSTD')", ("parquet", {"compression": "zstd"})),
    ],
)
def test_it_knows_formats_by_all_their_names(clauses: str, expected: tuple[str, dict[str, str]]) -> None:
    table = parse(f"create table t (a int) {clauses}")
    assert isinstance(table, f.CreateTable)
    assert (table.format, table.options) == expected


def test_partition_columns_named_without_types_are_moved_to_the_end() -> None:
    table = parse("create table t (day date, a int) using parquet partitioned by (day)")
    assert isinstance(table, f.CreateTable)
    assert [c.name for c in table.columns] == ["a", "day"]
    assert table.partitions == ("day",)


REFUSALS = [
    ("create view v as select 1", "STATEMENT_NOT_OFFERED", "Line 1: `view` cannot be created; only schemas"),
    ("drop function f", "STATEMENT_NOT_OFFERED", "cannot be dropped"),
    ("create table t (\n a money)", "SYNTAX_ERROR", "Line 2: column a has the unknown type 'money'; allowed are"),
    ("create table t (a decimal(39,2))", "SYNTAX_ERROR", "column a is decimal(39,2)"),
    ("create table t (a int, A string)", "SYNTAX_ERROR", "column a appears twice"),
    ("create table t (a int) stored as avro", "SYNTAX_ERROR", "`avro` is not supported; allowed are parquet, orc"),
    ("create table t (a array<int>) stored as textfile", "SYNTAX_ERROR", "text files hold no nested columns"),
    ("create table t (a int) partitioned by (b)", "SYNTAX_ERROR", "partition column b is not among the columns"),
    ("create table t (a int) partitioned by (a)", "SYNTAX_ERROR", "a column besides"),
    ("create table t (a int) clustered by (a)", "SYNTAX_ERROR", "`clustered` is not expected here; allowed is"),
    ("create table t (a int) using csv options (path_glob 'x')", "SYNTAX_ERROR", "the option 'path_glob'"),
    ("create table t (a int) location", "SYNTAX_ERROR", "the end of the statement is not expected"),
    ("create table t (a int not null)", "SYNTAX_ERROR", "NOT NULL"),
    ("create table t (a 'x", "SYNTAX_ERROR", "a text that is not closed"),
    ("drop table a, b", "SYNTAX_ERROR", "one table is dropped at a time"),
    ("drop table a; select 1", "SYNTAX_ERROR", "`select` is not expected"),
    ("alter table t drop column a", "SYNTAX_ERROR", "allowed is `rename to`"),
    ("create table t (a " + "array<" * 20 + "int" + ">" * 20 + ")", "SYNTAX_ERROR", "nested deeper than 16"),
    ("create schema s with dbproperties (catalog='mysql')", "SYNTAX_ERROR", "'mysql' are not supported"),
    ("create table t (a int) -- " + "x" * 300_000, "SYNTAX_ERROR", "262144 are allowed"),
]


@pytest.mark.parametrize(("text", "symbol", "message"), REFUSALS)
def test_it_says_what_is_wrong_where_and_what_is_allowed(text: str, symbol: str, message: str) -> None:
    with pytest.raises(Refused) as refused:
        parse(text)
    assert refused.value.symbol == symbol
    assert message in refused.value.message
    assert refused.value.message.startswith("Line ")
