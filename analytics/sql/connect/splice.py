"""Puts views in the place of a statement's tables, in the text of the statement.

A view mostly has the bare name of its table, so that `demo.flights` becomes `flights` wherever it stands, and
`flights` stays. Positions are those of the guard's own parse.
"""

from collections.abc import Mapping
from typing import Any

from analytics.errors import QueryRefused
from analytics.sql.second_guard import Guarded2
from analytics.sql.spelling import quoted


def spliced(sql: str, guarded: Guarded2, schema: str, names: Mapping[tuple[str, str], str]) -> str:
    """The statement over the views. `names` gives the view of each (schema, table) of the statement."""
    import sqlglot
    from sqlglot import exp

    tree = sqlglot.parse_one(sql, read="spark")
    tables = {(found.start, found.end): found.relation for found in guarded.positions}
    changes: list[tuple[int, int, str]] = []
    for table in tree.find_all(exp.Table):
        span = _span(table.parts)
        relation = tables.get(span) if span else None
        if span is None or relation is None:
            continue
        name, written = names[relation], table.parts[-1].name
        if name == relation[1]:
            changes.append((*span, quoted(written)))
            continue
        if table.args.get("sample"):
            raise QueryRefused(f"Give the table {written} a name of its own with AS before it is sampled.")
        changes.append((*span, quoted(name) if table.alias else f"{quoted(name)} as {quoted(written)}"))
    for column in tree.find_all(exp.Column):
        parts = column.parts
        span = _span(parts[:2]) if len(parts) > 2 else None
        if span and _relation([part.name for part in parts[:2]], schema) in names:
            changes.append((*span, quoted(parts[1].name)))
    for start, end, text in sorted(set(changes), reverse=True):
        sql = sql[:start] + text + sql[end:]
    return sql


def _relation(parts: list[str], schema: str) -> tuple[str, str]:
    lower = [part.lower() for part in parts]
    return (schema.lower(), lower[0]) if len(lower) == 1 else (lower[0], ".".join(lower[1:]))


def _span(parts: list[Any]) -> tuple[int, int] | None:
    """Where the parts stand in the text; None for what is no name, or was not written."""
    if all("start" in part.meta for part in (parts[0], parts[-1])):
        return parts[0].meta["start"], parts[-1].meta["end"] + 1
    return None
