"""Which columns a SELECT may name. Pure.

Where anything whose columns are not known is among what it reads, as a table of the catalog that has them in its files
only, every name passes: what Spark would run is never refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from console.jobs.compiler import windows
from console.jobs.compiler.windows import Refusal
from console.jobs.compiler.words import near

#: Columns in small letters → as they are written.
Columns = Mapping[str, str]

#: Names that are no columns of a table: parts of windows, and functions that Spark calls without parentheses.
_ALWAYS = frozenset(
    {
        *windows.COLUMNS,
        "window",
        "session_window",
        "current_date",
        "current_timestamp",
        "localtimestamp",
        "current_time",
    }
    | {"current_user", "user", "session_user", "grouping__id", "_metadata"}
)
_MOST_LISTED = 20


@dataclass(frozen=True, slots=True)
class Scope:
    """What one SELECT reads: columns by the name that qualifies them, None where they are not known."""

    sources: Mapping[str, Columns | None]
    #: Of the query around it, whose columns a query in an expression may name too.
    above: Scope | None = None

    @property
    def all(self) -> Columns | None:
        """The columns of all of them; None where those of one are not known."""
        found: dict[str, str] = {}
        for columns in self.sources.values():
            if columns is None:
                return None
            found |= columns
        return found

    def has(self, parts: list[str]) -> bool:
        """Whether a name can be one of a column, of a table's column, or of a field of a column."""
        columns = self.all
        if columns is None or parts[0] in columns:
            return True
        of_table = self.sources.get(parts[0])
        if of_table is not None and len(parts) > 1 and parts[1] in of_table:
            return True
        return self.above is not None and self.above.has(parts)


def listed(names: Iterable[str]) -> Columns:
    """The columns of these names."""
    return {name.lower(): name for name in names}


def sources_of(select: exp.Select) -> list[exp.Expr]:
    """What stands behind FROM and JOIN."""
    first = [select.args["from_"].this] if select.args.get("from_") else []
    return first + [join.this for join in select.args.get("joins") or ()]


def columns_of(source: exp.Expr, known: Columns | None) -> Columns | None:
    """The columns of a source as the SELECT may name them; `known` are those of the table or query that it is."""
    if any(source.args.get(name) for name in ("joins", "laterals", "pivots")):
        return None
    alias = source.args.get("alias")
    renamed = [one.name for one in alias.columns] if isinstance(alias, exp.TableAlias) else []
    if isinstance(source, exp.Table) and isinstance(source.this, exp.Anonymous):  # a window over a table
        return None if known is None or renamed else {**known, **listed(windows.COLUMNS)}
    return listed(renamed) if renamed else known


def require(select: exp.Select, own: list[exp.Expr], scope: Scope, refusal: Refusal) -> None:
    """Refuse the first name of a SELECT that is no column; `own` are its nodes without the queries within it."""
    behind_from = {id(node) for source in sources_of(select) for node in source.walk()}
    aliased = [one for one in select.expressions if isinstance(one, exp.Alias)]
    named = {id(node): one for one in aliased for node in one.walk()}
    for node in own:
        if not isinstance(node, exp.Column) or id(node) in behind_from or isinstance(node.this, exp.Star):
            continue
        if isinstance(node.parent, exp.Kwarg) and node.arg_key == "this":
            continue
        parts = [part.name.lower() for part in node.parts]
        # Of more than two parts the first ones may be a catalog and a schema.
        if len(parts) > 2 or parts[0] in _ALWAYS or scope.has(parts):
            continue
        # Spark takes the alias of another expression for a column.
        if parts[0] not in {one.alias.lower() for one in aliased if one is not named.get(id(node))}:
            raise refusal(node, no_column(node, scope))


def no_column(node: exp.Column, scope: Scope) -> str:
    """The sentence about a name that the scope does not have, with the nearest that it has."""
    parts = [part.name.lower() for part in node.parts]
    columns = scope.sources.get(parts[0]) if len(parts) > 1 else scope.all
    if columns is None:
        names = [name for name in scope.sources if not name.startswith("?")]
        suggestion = near(parts[0], names) or f" There is {', '.join(names)}."
        return f"there is neither a table nor a column {node.parts[0].name} here.{suggestion}"
    where = f"in {node.parts[0].name}" if len(parts) > 1 else "here"
    suggestion = near(node.name, columns.values())
    if suggestion or not columns:
        return f"there is no column {node.name} {where}.{suggestion}"
    shown = ", ".join([*columns.values()][:_MOST_LISTED])
    more = "" if len(columns) <= _MOST_LISTED else ", …"
    return f"there is no column {node.name} {where}; there are {shown}{more}."


def given(select: exp.Select, scope: Scope) -> Columns | None:
    """The columns that a SELECT gives; None where they are not known."""
    found: dict[str, str] = {}
    for columns in _given(select, scope):
        if columns is None:
            return None
        found |= columns
    return found


def _given(select: exp.Select, scope: Scope) -> Iterator[Columns | None]:
    for one in select.expressions:
        if isinstance(one, exp.Star):
            yield None if any(one.args.values()) else scope.all
        elif isinstance(one, exp.Column) and isinstance(one.this, exp.Star):
            yield scope.sources.get(one.parts[0].name.lower())
        elif isinstance(one, exp.Alias | exp.Column):
            yield listed([one.alias_or_name])
        else:  # Spark makes a name of it
            yield None
