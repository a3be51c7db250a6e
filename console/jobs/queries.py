"""Reads of SQL jobs: their operators with the rows that went by, and what completion offers."""

from __future__ import annotations

from typing import Any

from analytics.pipelines.plan import Plan
from console.accounts.actor import Actor
from console.catalog import schema_tree
from console.jobs import access
from console.jobs.compiler import functions, settings
from console.jobs.compiler.connectors import formats, known
from console.jobs.graph import Graph, of_plan
from console.pipelines import queries as pipelines
from console.pipelines.models import Pipeline
from console.pipelines.samples import Now

#: Words of a job's text beyond those that every statement has.
_KEYWORDS = (
    "CREATE TEMPORARY TABLE", "CREATE TEMPORARY VIEW", "WITH", "WATERMARK FOR", "DESCRIPTOR", "TUMBLE", "HOP",
    "SESSION", "BEGIN STATEMENT SET", "END", "INSERT INTO", "METADATA FROM", "VIRTUAL", "PARTITIONED BY",
    "PRIMARY KEY", "NOT ENFORCED", "INTERVAL", "SECOND", "MINUTE", "HOUR", "DAY", "PROCTIME()", "window_start",
    "window_end", "SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "UNION ALL", "JOIN", "LEFT JOIN", "ON", "AS",
    "CASE", "WHEN", "THEN", "ELSE", "CAST", "AND", "OR", "NOT", "IS NULL", "LIKE", "BETWEEN", "SET",
)  # fmt: skip
_TYPES = (
    "STRING", "VARCHAR", "CHAR", "BOOLEAN", "BINARY", "VARBINARY", "BYTES", "TINYINT", "SMALLINT", "INT", "BIGINT",
    "FLOAT", "DOUBLE", "DECIMAL", "DATE", "TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", "ARRAY", "MAP", "ROW",
)  # fmt: skip


def completions(actor: Actor) -> dict[str, Any]:
    """What the editor offers: tables of the catalog, words of a job, and `texts`, which stand in quotes.

    Names of tables, secrets and variables are those that the actor may list.
    """
    secrets = pipelines.secrets(actor.tenant) if access.may_list(actor, "job-secret") else []
    variables = pipelines.variables(actor.tenant) if access.may_list(actor, "job-variable") else []
    texts = [
        *([name, "connector"] for name in known.CONNECTORS),
        *([name, "option"] for name in sorted({o.name for one in known.CONNECTORS.values() for o in one.options})),
        *([name, "format"] for name in formats.NAMES),
        *([f"{name}.{o.name}", "option"] for name, options in formats.OPTIONS.items() for o in options),
        *([name, "setting"] for name in settings.OPTIONS),
        *([f"${{secret_values.{one.name}}}", "secret"] for one in secrets),
        *([f"${{{one.name}}}", "variable"] for one in variables),
    ]
    words = [
        *([name, "keyword"] for name in _KEYWORDS),
        *([name, "type"] for name in _TYPES),
        *([name.upper(), "function"] for name in functions.NAMES),
    ]
    return {"schemas": schema_tree.completions(actor)["schemas"], "searched": [], "texts": texts, "words": words}


def graph(job: Pipeline, now: Now | None, ran: int | None) -> Graph | None:
    """The operators of the version that runs or ran last (`ran`), with the rows of the latest report.

    Of the deployed version before the first run. None where there is none, or its plan is outdated.
    """
    version = pipelines.version(job, ran) if ran is not None else job.version
    if version is None:
        return None
    try:
        plan = Plan.from_json(version.plan)
    except ValueError:  # made by another version of the product, and made anew when it is deployed
        return None
    return of_plan(plan, now.report if now is not None and ran is not None else None)
