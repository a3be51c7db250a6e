"""Reads of SQL jobs for their pages: rows of the list, and what completion offers."""

from __future__ import annotations

from typing import Any

from console.accounts.actor import Actor
from console.catalog import schema_tree
from console.jobs import access
from console.jobs.compiler import functions, settings
from console.jobs.compiler.connectors import formats, known
from console.pipelines import queries as pipelines

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
