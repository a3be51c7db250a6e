"""Texts of jobs for tests, and what is made of them."""

from __future__ import annotations

import pytest

from analytics.pipelines.plan import Plan
from console.jobs.compiler.planning import Checked, check
from console.jobs.compiler.rows import CatalogTable

MNS = {
    "connector": "mns",
    "endpoint": "http://1000000001.mns.cn-demo.example.com",
    "region": "cn-demo",
    "queueName": "clicks",
    "accessKeyId": "${secret_values.id}",
    "accessKeySecret": "${secret_values.secret}",
    "format": "json",
}
MQ = {
    "connector": "mq",
    "endpoint": "mq-demo.internal:9876",
    "accessId": "${secret_values.id}",
    "accessKey": "${secret_values.secret}",
    "topic": "orders_demo",
}
MQ_SINK = {**MQ, "producerGroup": "GID_flink"}
MQ_SOURCE = {**MQ, "consumerGroup": "GID_flink"}
DATAGEN = {"connector": "datagen"}
FILES = {"connector": "filesystem", "path": "oss://demo-bucket/folder/", "format": "json"}

#: Tables that queries of tests name: a stream with a watermark, one without, one that ends, and two to write into.
TABLES = """CREATE TEMPORARY TABLE clicks (visitor BIGINT, page STRING, `at` TIMESTAMP(3), n INT, arr ARRAY<INT>,
  m MAP<STRING, INT>, p AS PROCTIME(), WATERMARK FOR `at` AS `at` - INTERVAL '5' SECOND) WITH ('connector' = 'datagen');
CREATE TEMPORARY TABLE bare (visitor BIGINT, ts TIMESTAMP(3), p AS PROCTIME()) WITH ('connector' = 'datagen');
CREATE TEMPORARY TABLE fixed (visitor BIGINT, carrier STRING) WITH ('connector'='datagen', 'number-of-rows'='5');
CREATE TEMPORARY TABLE shown (a BIGINT, b STRING) WITH ('connector' = 'print');
CREATE TEMPORARY TABLE sent (a BIGINT, b STRING) WITH ('connector' = 'mq', 'topic' = 't', 'endpoint' = 'h:9876',
  'accessId' = 'x', 'accessKey' = '${secret_values.k}', 'producerGroup' = 'GID_x');
"""
LINES = TABLES.count("\n")


def table(name: str, columns: str, options: dict[str, str]) -> str:
    """A definition."""
    listed = ", ".join(f"'{key}' = '{value.replace(chr(39), chr(39) * 2)}'" for key, value in options.items())
    return f"CREATE TEMPORARY TABLE {name} ({columns}) WITH ({listed});\n"


def read_job(columns: str, options: dict[str, str]) -> str:
    """A job that reads a table of these columns and options, and prints it."""
    return table("read", columns, options) + "SELECT * FROM `read`;"


def write_job(columns: str, options: dict[str, str]) -> str:
    """A job that writes a table of these columns and options."""
    return (
        table("made", columns, DATAGEN) + table("written", columns, options) + "INSERT INTO written SELECT * FROM made;"
    )


def flights(schema: str, name: str) -> CatalogTable | None:
    """A catalog with the tables `demo.flights` and `demo.airlines`, where demo is the default schema."""
    return CatalogTable("demo", name) if schema in ("", "demo") and name in ("flights", "airlines") else None


def checked(text: str, **given: object) -> Checked:
    """What is made of a text."""
    return check(text, **given)  # type: ignore[arg-type]


def plan(text: str, **given: object) -> Plan:
    """The plan of a text that nothing is wrong with."""
    found = checked(text, **given)
    assert [refused.message for refused in found.refusals] == []
    assert found.plan is not None
    return found.plan


def refusal(text: str, **given: object) -> str:
    """The first thing that is wrong with a text."""
    found = checked(text, **given)
    assert found.plan is None
    assert found.refusals
    return found.refusals[0].message


def sql(query: str, **given: object) -> str:
    """What Spark gets for the query of an INSERT INTO shown, over TABLES."""
    return plan(f"{TABLES}INSERT INTO shown {query}", catalog=flights, **given).inserts[-1].sql


def refused_query(query: str, into: str = "shown", before: str = "") -> str:
    """What is wrong with a query over TABLES: line and column count from its own INSERT INTO."""
    found = checked(f"{TABLES}{before}INSERT INTO {into}\n{query}", catalog=flights)
    assert found.plan is None
    refused = found.refusals[0]
    return f"{refused.line - LINES - before.count(chr(10)) - 1}:{refused.column} {refused.sentence}"


process = pytest.mark.process
"""A process reads the queries."""
