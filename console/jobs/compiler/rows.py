"""What is known of a query's rows: whether they keep coming, come again, and by which times they are grouped. Pure.

Spark runs a query over rows that keep coming in fewer forms than one over rows that end. Those that it does not run are
refused here, at their place; windows are rewritten on the way (`windows`), and so is the quotient of whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sqlglot import exp

from console.jobs.compiler import scopes, windows
from console.jobs.compiler.functions import AGGREGATES, call
from console.jobs.compiler.scopes import Columns, Scope
from console.jobs.compiler.windows import Partitioned, Refusal, Window
from console.jobs.compiler.words import near
from console.statements.lexer import Token


class CatalogTable(NamedTuple):
    """A table of the catalog, in its own spelling."""

    schema: str
    name: str
    #: None where they are in its files only.
    columns: Columns | None = None


#: Finds a table of the catalog by schema (empty for the default one) and name.
Catalog = Callable[[str, str], CatalogTable | None]
#: Makes the refusal of what stands at a word.
RefusalAt = Callable[[Token, str], Exception]

#: Tables that a query may read, views and WITH written out: each is a piece of Spark's plan.
MOST_READS = 200
_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})
_COUNTS = frozenset(
    {"count", "char_length", "character_length", "length", "year", "month", "hour", "minute", "second", "div"}
)
_AGGREGATES = AGGREGATES | {"collect_list"}


@dataclass(frozen=True, slots=True)
class Relation:
    """What a query may name behind FROM: a source, a view, or a table of the catalog."""

    name: str
    #: Rows keep coming.
    streams: bool = False
    #: A row may come again with new values: what is without a window's end has none.
    updates: bool = False
    #: Columns that the watermark is on, in small letters.
    times: frozenset[str] = frozenset()
    #: Columns that tell the clock's time.
    clocks: frozenset[str] = frozenset()
    #: Column in small letters → Spark's type, as far as known.
    types: Mapping[str, str] = field(default_factory=dict)
    #: None where they are not known.
    columns: Columns | None = None
    #: How many tables Spark reads for it: for a view as many as its query does, views within it written out.
    reads: int = 1


@dataclass(slots=True)
class Rewritten:
    """A query for Spark, and what is known of its rows."""

    sql: str
    streams: bool = False
    #: Where it is said that rows come again, or None.
    updates_at: int | None = None
    times: frozenset[str] = frozenset()
    #: How many columns it gives, where no `*` hides it.
    width: int | None = None
    #: Column in small letters → Spark's type, as far as known.
    types: Mapping[str, str] = field(default_factory=dict)
    #: The columns that it gives; None where they are not known.
    columns: Columns | None = None
    #: Names of relations that it reads.
    reads: set[str] = field(default_factory=set)
    #: How many tables Spark reads for it, views written out: one that is named twice is read twice.
    table_reads: int = 0
    #: (schema, table) of the catalog.
    tables: set[tuple[str, str]] = field(default_factory=set)
    #: (source, column) whose clock a window looks at: the source needs a watermark on it.
    clocks: set[tuple[str, str]] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Shape:
    """What is known of the rows of a query within the query."""

    relations: tuple[Relation, ...] = ()
    updates_at: exp.Expr | None = None
    times: frozenset[str] = frozenset()
    width: int | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    columns: Columns | None = None

    @property
    def reads(self) -> int:
        return sum(one.reads for one in self.relations)

    @property
    def streams(self) -> bool:
        return any(one.streams for one in self.relations)


class Rows:
    """Looks at one query."""

    def __init__(
        self,
        relations: Mapping[str, Relation],
        catalog: Catalog,
        partitioned: list[Partitioned],
        refusal: Refusal,
        refusal_at: RefusalAt,
    ) -> None:
        self._relations, self._catalog = relations, catalog
        self._partitioned = partitioned
        self._refusal, self._refusal_at = refusal, refusal_at
        #: Of the SELECT around the query that is looked at.
        self._scope: Scope | None = None
        self.found = Rewritten("")

    def look(self, tree: exp.Query) -> tuple[Rewritten, exp.Expr | None]:
        """What is known of the rows, and where it is said that they come again."""
        shape = self._shape(tree, {})
        self.found.streams, self.found.times = shape.streams, shape.times
        self.found.width, self.found.types, self.found.columns = shape.width, shape.types, shape.columns
        self.found.table_reads = shape.reads
        return self.found, shape.updates_at if shape.streams else None

    def _shape(self, tree: exp.Expr, above: Mapping[str, _Shape]) -> _Shape:
        known = dict(above)
        for cte in tree.args["with_"].expressions if tree.args.get("with_") else ():
            shape = self._shape(cte.this, known)
            renamed = [one.name for one in cte.args["alias"].columns]
            known[cte.alias.lower()] = replace(shape, columns=scopes.listed(renamed)) if renamed else shape
        if isinstance(tree, exp.Subquery):
            shape = self._shape(tree.this, known)
            self._require_no_order(tree, shape)
            return shape
        if isinstance(tree, exp.SetOperation):
            return self._shape_of_set(tree, known)
        if isinstance(tree, exp.Select):
            return self._shape_of_select(tree, known)
        return _Shape()

    def _shape_of_set(self, tree: exp.SetOperation, known: Mapping[str, _Shape]) -> _Shape:
        left, right = self._shape(tree.this, known), self._shape(tree.expression, known)
        shape = _Shape(
            self._together(tree, left, right),
            left.updates_at or right.updates_at,
            left.times & right.times,
            left.width,
            columns=left.columns,
        )
        if left.width and right.width and left.width != right.width:
            raise self._refusal(
                tree.expression, f"this side gives {right.width} columns, and the one in front of it {left.width}."
            )
        if left.streams != right.streams:
            raise self._refusal(
                tree.expression, "rows that keep coming and rows that end cannot be one; make both sides streams."
            )
        if shape.streams and not isinstance(tree, exp.Union):
            raise self._refusal(tree.expression, "INTERSECT and EXCEPT are not possible over rows that keep coming.")
        if tree.args.get("distinct", True) and isinstance(tree, exp.Union):
            shape = replace(shape, updates_at=shape.updates_at or tree.expression)
        self._require_no_order(tree, shape)
        return shape

    def _together(self, at: exp.Expr, *parts: _Shape) -> tuple[Relation, ...]:
        """What all of them read. Spark writes views and WITH out: what names another one twice grows without end."""
        if sum(one.reads for one in parts) > MOST_READS:
            raise self._refusal(
                at, f"with views and WITH written out the query reads more than {MOST_READS} tables; make it smaller."
            )
        return tuple(relation for one in parts for relation in one.relations)

    def _shape_of_select(self, select: exp.Select, known: Mapping[str, _Shape]) -> _Shape:
        shapes = self._shapes_of_from(select, known)
        relations = self._together(select, *shapes.values())
        shape = _Shape(relations, next((one.updates_at for one in shapes.values() if one.updates_at), None))
        own = list(_own(select))
        above = self._scope
        sources = [(self._qualifier(one, at), one) for at, one in enumerate(scopes.sources_of(select))]
        scope = Scope(
            {name: scopes.columns_of(one, shapes.get(name, _Shape()).columns) for name, one in sources}, above
        )
        scopes.require(select, own, scope, self._refusal)
        columns = scopes.given(select, scope)
        self._scope = scope
        for nested in own:
            if (
                isinstance(nested, exp.Query)
                and nested is not select
                and not isinstance(nested.parent, exp.From | exp.Join)
            ):
                shape = replace(shape, relations=self._together(nested, shape, self._shape(nested, known)))
        self._scope = above
        if shape.streams:
            self._require_streamable(select, own, shapes)
        self._divide(own, shapes)
        aggregated = _aggregates(select, own)
        windowed = self._windows(select, own, shapes)
        at = shape.updates_at
        if aggregated and not windowed:
            group = select.args.get("group")
            at = at or (group.expressions[0] if group is not None and group.expressions else select.expressions[0])
        elif select.args.get("distinct"):
            at = at or select.expressions[0]
        times = frozenset[str]()
        if not aggregated:
            times = _times(select, frozenset().union(*(one.times for one in shapes.values())))
        stars = any(one.is_star for one in select.expressions)
        width = None if stars else len(select.expressions)
        return _Shape(shape.relations, at, times, width, _projected(select, _types(shapes)), columns)

    def _shapes_of_from(self, select: exp.Select, known: Mapping[str, _Shape]) -> dict[str, _Shape]:
        """By the name that columns are qualified with."""
        found = {}
        for at, source in enumerate(scopes.sources_of(select)):
            name = self._qualifier(source, at)
            if isinstance(source, exp.Table) and not isinstance(source.this, exp.Anonymous):
                found[name] = self._relation(source, known)
            elif isinstance(source, exp.Table):
                window = windows.of_table(source, self._refusal)
                if window is None or window.table is None:
                    function = source.this.name.upper()
                    raise self._refusal(
                        source, f"there is no table function {function}; allowed are TUMBLE, HOP and SESSION."
                    )
                found[name] = self._relation(window.table, known)
                of_time = Scope({name: found[name].columns})
                if not of_time.has([window.column.name.lower()]):
                    raise self._refusal(window.column, scopes.no_column(window.column, of_time))
            elif isinstance(source, exp.Query):
                found[name] = self._shape(source, known)
        return found

    def _qualifier(self, source: exp.Expr, at: int) -> str:
        """The name, in small letters, that the columns of a source behind FROM are qualified with."""
        window = windows.of_table(source, self._refusal) if isinstance(source, exp.Table) else None
        if window is not None and window.table is not None:
            return source.alias.lower() or window.table.name.lower()
        return source.alias_or_name.lower() or f"?{at}"

    def _relation(self, table: exp.Table, known: Mapping[str, _Shape]) -> _Shape:
        names = [part.name for part in table.parts]
        name = names[-1]
        if len(names) == 1 and name.lower() in known:
            self._as_of(table, known[name.lower()].streams)
            return known[name.lower()]
        if len(names) == 1 and (relation := self._relations.get(name.lower())) is not None:
            self.found.reads.add(relation.name)
            self._as_of(table, relation.streams)
            at = table if relation.updates else None
            return _Shape((relation,), at, relation.times, types=relation.types, columns=relation.columns)
        if len(names) > 2:
            raise self._refusal(table, f"{'.'.join(names)} has a catalog; write schema.table.")
        schema = names[0] if len(names) == 2 else ""
        located = self._catalog(schema, name)
        if located is None:
            own = [one.name for one in self._relations.values()]
            where = f"schema {schema}" if schema else "this job, nor in the catalog"
            raise self._refusal(table, f"there is no table {name} in {where}.{near(name, own)}")
        self._as_of(table, streams=False)
        table.set("db", exp.to_identifier(located.schema))
        table.set("this", exp.to_identifier(located.name))
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(name)))
        self.found.tables.add((located.schema, located.name))
        return _Shape((Relation(name),), columns=located.columns)

    def _as_of(self, table: exp.Table, streams: bool) -> None:
        """`FOR SYSTEM_TIME AS OF`: the table as it is when the row comes, which is what a batch reads."""
        version = table.args.get("version")
        if version is None:
            return
        if streams:
            raise self._refusal(
                table, f"FOR SYSTEM_TIME AS OF is for tables of the catalog; {table.name} keeps getting rows."
            )
        table.set("version", None)

    def _require_no_order(self, tree: exp.Expr, shape: _Shape) -> None:
        for name, said in (("order", "ORDER BY"), ("limit", "LIMIT"), ("offset", "OFFSET")):
            if tree.args.get(name) is not None and shape.streams:
                raise self._refusal(
                    tree.args[name], f"{said} is not possible over rows that keep coming; a batch job can."
                )

    def _require_streamable(self, select: exp.Select, own: list[exp.Expr], shapes: Mapping[str, _Shape]) -> None:
        self._require_no_order(select, _Shape((Relation("", streams=True),)))
        for node in own:
            if isinstance(node, exp.Window):
                raise self._refusal(
                    node, "OVER (…) is not possible over rows that keep coming; group by a window, or run it in batch."
                )
            if isinstance(node, exp.Cube | exp.Rollup | exp.GroupingSets):
                raise self._refusal(
                    node, "CUBE, ROLLUP and sets are not possible here; write an INSERT for each grouping."
                )
        named = list(shapes.values())
        left = named[0] if named else _Shape()
        for join in select.args.get("joins") or ():
            right = shapes.get(join.this.alias_or_name.lower(), _Shape())
            side = (join.side or "").upper()
            if not side:
                left = _Shape(left.relations + right.relations, None, left.times | right.times)
                continue
            kept = {"LEFT": (left,), "RIGHT": (right,)}.get(side, (left, right))
            if not all(one.streams for one in kept):
                raise self._refusal(
                    join,
                    f"{side} JOIN keeps all rows of a table that does not stream, and waits for ever; turn it round.",
                )
            if left.streams and right.streams and not (left.times and right.times):
                raise self._refusal(
                    join,
                    f"{side} JOIN of two streams needs a watermark on both tables, and a condition on their times.",
                )
            left = _Shape(left.relations + right.relations, None, left.times | right.times)

    def _divide(self, own: list[exp.Expr], shapes: Mapping[str, _Shape]) -> None:
        """The quotient of two whole numbers is one there, and a fraction in Spark."""
        types = _types(shapes)
        for node in reversed(own):
            if isinstance(node, exp.Div) and _is_whole(node.this, types) and _is_whole(node.expression, types):
                node.replace(call("div", node.this, node.expression))

    def _windows(self, select: exp.Select, own: list[exp.Expr], shapes: Mapping[str, _Shape]) -> bool:
        """Rewrite the windows of a SELECT; answers whether its groups are windows."""
        of_tables = [
            (source, window)
            for source in scopes.sources_of(select)
            if isinstance(source, exp.Table) and (window := windows.of_table(source, self._refusal)) is not None
        ]
        if len(of_tables) > 1:
            raise self._refusal(
                of_tables[1][0], "two windows cannot be joined; join the tables on their times within an interval."
            )
        if of_tables:
            return self._window_of_table(select, own, shapes, of_tables[0])
        return self._window_of_group(select, own, shapes)

    def _window_of_table(
        self, select: exp.Select, own: list[exp.Expr], shapes: Mapping[str, _Shape], found: tuple[exp.Table, Window]
    ) -> bool:
        source, window = found
        group = select.args.get("group") or exp.Group()
        parts = {id(one): _window_column(one) for one in group.expressions if _window_column(one)}
        table, alias = window.table, source.args.get("alias")
        if table is None:
            return False
        qualifier = source.alias.lower() or table.name.lower()
        if not parts:
            if window.kind == "SESSION":
                raise self._refusal(source, "SESSION needs GROUP BY window_start, window_end.")
            inner = exp.Select(
                expressions=[exp.Star(), *(_named_part(window, name, window.expression()) for name in windows.COLUMNS)],
                from_=exp.From(this=table),
            )
            source.replace(exp.Subquery(this=inner, alias=alias or exp.TableAlias(this=exp.to_identifier(qualifier))))
            return False
        if missing := {"window_start", "window_end"} - set(parts.values()):
            raise self._refusal(
                group.expressions[0], f"GROUP BY has a window without its {missing.pop()}; a window is grouped by both."
            )
        self._require_keys(group.expressions)
        self._require_time(source, window, shapes.get(qualifier, _Shape()))
        for node in own:
            name = _window_column(node)
            if not name or id(node) in parts or (node.text("table") or qualifier).lower() != qualifier:
                continue
            is_projection = node.parent is select and node.arg_key == "expressions"
            node.replace(_named_part(window, name) if is_projection else window.part(name))
        kept = [one for one in group.expressions if id(one) not in parts]
        self._require_session_key(source, window, len(kept), shapes)
        group.set("expressions", [*kept, window.expression()])
        if alias is not None:
            table.set("alias", alias)
        source.replace(table)
        return True

    def _require_keys(self, grouped: list[exp.Expr]) -> None:
        names = {one.name.lower() for one in grouped}
        for partitioned in self._partitioned:
            for key in partitioned.keys:
                if key.lower() not in names:
                    raise self._refusal_at(
                        partitioned.at, f"PARTITION BY names {key}, which GROUP BY does not; name it in both."
                    )

    def _window_of_group(self, select: exp.Select, own: list[exp.Expr], shapes: Mapping[str, _Shape]) -> bool:
        group = select.args.get("group")
        found = None
        grouped = group.expressions if group is not None else []
        for one in grouped:
            window = windows.of_group(one, self._refusal)
            if window is None:
                continue
            if found is not None:
                raise self._refusal(one, "GROUP BY has two windows; allowed is one.")
            found = window
            all_of_them = _Shape(
                tuple(relation for shape in shapes.values() for relation in shape.relations),
                times=frozenset().union(*(shape.times for shape in shapes.values())),
            )
            self._require_time(one, window, all_of_them)
            self._require_session_key(one, window, len(grouped) - 1, shapes)
            one.replace(window.expression())
        for node in own:
            if not (told := windows.told_by(node)):
                continue
            if found is None:
                raise self._refusal(node, f"{node.name.upper()} tells about a window, and GROUP BY has none.")
            is_projection = node.parent is select and node.arg_key == "expressions"
            node.replace(_named_part(found, told) if is_projection else found.part(told))
        return found is not None

    def _require_session_key(self, at: exp.Expr, window: Window, keys: int, shapes: Mapping[str, _Shape]) -> None:
        if window.kind == "SESSION" and not keys and any(shape.streams for shape in shapes.values()):
            raise self._refusal(at, "SESSION over rows that keep coming needs a column beside it in GROUP BY.")

    def _require_time(self, at: exp.Expr, window: Window, shape: _Shape) -> None:
        """A group that ends needs a watermark to end by."""
        column = window.column.name.lower()
        if not shape.streams or column in shape.times:
            return
        clocks = [one for one in shape.relations if column in one.clocks]
        if clocks:
            self.found.clocks.add((clocks[0].name, window.column.name))
            return
        name = shape.relations[0].name
        raise self._refusal(
            at,
            f"{window.column.name} has no watermark, so no window over it ends; declare WATERMARK FOR"
            f" {window.column.name} AS … in table {name}.",
        )


def _own(select: exp.Select) -> Iterator[exp.Expr]:
    """Nodes of a SELECT, those of queries within it left out; the queries themselves are told."""
    return select.walk(prune=lambda node: isinstance(node, exp.Query) and node is not select)


def _aggregates(select: exp.Select, own: list[exp.Expr]) -> bool:
    if select.args.get("group") is not None:
        return True
    return any(
        isinstance(node, exp.Anonymous)
        and node.name.lower() in _AGGREGATES
        and node.find_ancestor(exp.Window, exp.Select) is select
        for node in own
    )


def _window_column(node: exp.Expr) -> str:
    """Which of a window's columns a node is; empty for another one."""
    name = node.name.lower() if isinstance(node, exp.Column) else ""
    return name if name in windows.COLUMNS else ""


def _named_part(window: Window, name: str, of: exp.Expr | None = None) -> exp.Expr:
    return exp.Alias(this=window.part(name, of), alias=exp.to_identifier(name))


def _times(select: exp.Select, times: frozenset[str]) -> frozenset[str]:
    """Columns of a SELECT that are columns with the watermark."""
    found = set[str]()
    for one in select.expressions:
        if one.is_star:
            found |= times
        elif isinstance(one.unalias(), exp.Column) and one.unalias().name.lower() in times:
            found.add(one.alias_or_name.lower())
    return frozenset(found)


def _types(shapes: Mapping[str, _Shape]) -> dict[str, str]:
    """Of the columns behind FROM; none of one that two tables have with different types."""
    found: dict[str, str] = {}
    for shape in shapes.values():
        for name, kind in shape.types.items():
            found[name] = kind if found.get(name, kind) == kind else ""
    return found


def _projected(select: exp.Select, types: Mapping[str, str]) -> dict[str, str]:
    """Of the columns that a SELECT gives, as far as known."""
    found: dict[str, str] = {}
    for one in select.expressions:
        value = one.unalias()
        if one.is_star:
            found |= types
        elif isinstance(value, exp.Column):
            found[one.alias_or_name.lower()] = types.get(value.name.lower(), "")
        elif _is_whole(value, types):
            found[one.alias_or_name.lower()] = "bigint"
    return found


def _is_whole(node: exp.Expr, types: Mapping[str, str]) -> bool:
    found = False
    match node:
        case exp.Literal():
            found = not node.is_string and node.name.isdecimal()
        case exp.Column():
            found = types.get(node.name.lower()) in _WHOLE
        case exp.Paren() | exp.Neg():
            found = _is_whole(node.this, types)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Mod():
            found = _is_whole(node.this, types) and _is_whole(node.expression, types)
        case exp.Cast():
            found = node.to.args.get("kind") in _WHOLE
        case exp.Anonymous() if node.name.lower() in ("sum", "max", "min", "abs", "mod"):
            found = all(_is_whole(one, types) for one in node.expressions)
        case exp.Anonymous():
            found = node.name.lower() in _COUNTS
    return found
