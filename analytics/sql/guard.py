"""Lets only queries on the given tables through: an allow-list over the plan that Spark's own parser makes of them.

The plan that was judged is the plan that is executed (`engine`), so nothing can be parsed differently the second time.
Second layer: each tenant's session has a catalog of its own (`sessions`), without the dangerous functions (`session`).
"""

import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analytics.errors import QueryFailed, QueryRefused
from analytics.specs import TableSpec
from analytics.sql import functions, outline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The names of what is no node, but an argument of one.
TYPE_ARGUMENT, OPTIONS_ARGUMENT = "TypeArgument", "OptionsArgument"
_NODE, _FIELD, _TOO_COMPLEX = "\2", "\1", "TOO COMPLEX"
_lock = threading.Lock()
_walkers: "weakref.WeakKeyDictionary[Any, Any]" = weakref.WeakKeyDictionary()

#: The tables a statement may name: schema → table names.
Tables = Mapping[str, Iterable[str]]
#: Finds a table of a schema that is too large to list, by the names as written.
Lookup = Callable[[str, str], TableSpec | None]


@dataclass(frozen=True, slots=True)
class Node:
    """A plan or expression node: its Java class, and for the few kinds that are judged by more, their `fields`.

    UnresolvedRelation: "options" or "", "streaming" or "", then the parts of the name · functions, columns: the
    parts of the name · UnresolvedWith: the names it defines · TypeArgument: the function, "text" and the text, or
    "function" and the parts of its name, or "other" · OptionsArgument: the function, "map" with names and values in
    turn, or "other".
    """

    name: str
    fields: tuple[str, ...]

    @property
    def kind(self) -> str:
        """The class without its package."""
        return self.name.rpartition(".")[2]


def plan_nodes(session: "SparkSession", plan: Any) -> list[Node]:
    """All nodes, those of subqueries and common table expressions included. Raises QueryRefused for too many."""
    listing = _walker(session).apply(plan)
    if listing == _TOO_COMPLEX:
        raise QueryRefused("The statement has too many parts; split it.")
    return [Node(name, tuple(fields)) for name, *fields in (line.split(_FIELD) for line in listing.split(_NODE))]


def _walker(session: "SparkSession") -> Any:
    gateway: Any = session.sparkContext._gateway
    with _lock:
        walker = _walkers.get(gateway)
        if walker is None:
            walker = _walkers[gateway] = _compile(session, gateway)
        return walker


def _compile(session: "SparkSession", gateway: Any) -> Any:
    jvm: Any = session._jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(session._jsparkSession.getClass().getClassLoader())
    compiler.cook(Path(__file__).with_name("PlanWalk.java").read_text())
    compiled = compiler.getClassLoader().loadClass("PlanWalk")
    no_types, no_values = gateway.new_array(jvm.Class, 0), gateway.new_array(jvm.Object, 0)
    return compiled.getDeclaredConstructor(no_types).newInstance(no_values)


@dataclass(frozen=True, slots=True)
class Guarded:
    """A statement that was let through: Spark's parsed plan, an object of the JVM, and the (schema, table) it reads."""

    plan: Any
    relations: frozenset[tuple[str, str]]
    #: Tables whose name is that of a WITH query too: which of the two the statement reads is for Spark to find out.
    hidden: frozenset[tuple[str, str]] = frozenset()
    #: Those of `relations` that `lookup` found.
    looked_up: Mapping[tuple[str, str], TableSpec] = field(default_factory=dict)


def check(
    session: "SparkSession",
    sql: str,
    *,
    schema: str,
    tables: Tables,
    parameters: tuple[object, ...] = (),
    lookup: Lookup | None = None,
) -> Guarded:
    """Parse the statement and judge the plan; nothing is executed. The case of names does not matter, as in Spark.

    Raises QueryRefused with what is refused and what is allowed, and Spark's ParseException for a syntax error.
    """
    first_word = outline.check(sql)
    plan = _parse(session, sql, parameters)
    nodes = plan_nodes(session, plan)
    common = {name.lower() for node in nodes if node.kind == "UnresolvedWith" for name in node.fields}
    known = {name.lower(): {table.lower() for table in names} for name, names in tables.items()}
    judge = Judge(schema, known, common, lookup)
    for node in nodes:
        judge.see(node, first_word)
    return Guarded(plan, frozenset(judge.relations), frozenset(judge.hidden), judge.looked_up)


def _parse(session: "SparkSession", sql: str, parameters: tuple[object, ...]) -> Any:
    parser = session._jsparkSession.sessionState().sqlParser()
    if not parameters:
        return parser.parsePlan(sql)
    jvm: Any = session._jvm
    values = jvm.java.util.ArrayList()
    for value in parameters:
        values.add(_literal(jvm, value))
    sequence = jvm.scala.jdk.javaapi.CollectionConverters.asScala(values).toSeq()
    context = jvm.org.apache.spark.sql.catalyst.parser.PositionalParameterContext(sequence)
    return parser.parsePlanWithParameters(sql, context)


def _literal(jvm: Any, value: object) -> Any:
    literal = getattr(getattr(jvm.org.apache.spark.sql.catalyst.expressions, "Literal$"), "MODULE$")
    if isinstance(value, datetime):
        return literal.apply(jvm.java.sql.Timestamp(round(value.timestamp() * 1000)))
    if isinstance(value, date):
        return literal.apply(jvm.java.time.LocalDate.parse(value.isoformat()))
    if value is None or isinstance(value, str | bool | int | float | bytes | Decimal):
        return literal.apply(value)
    raise QueryFailed(
        f"A parameter cannot be a {type(value).__name__}; numbers, texts, dates, times, bytes and null are possible."
    )


class Judge:
    """Looks at one node after the other and remembers the tables seen."""

    def __init__(self, schema: str, tables: dict[str, set[str]], common: set[str], lookup: Lookup | None) -> None:
        self._schema = schema
        self._lookup = lookup
        self.looked_up: dict[tuple[str, str], TableSpec] = {}
        self._tables = tables
        self._common = common
        self.relations: set[tuple[str, str]] = set()
        self.hidden: set[tuple[str, str]] = set()

    def see(self, node: Node, first_word: str) -> None:
        """Raise QueryRefused when the node is not allowed."""
        if node.name == TYPE_ARGUMENT:
            functions.require_type(*node.fields)
            return
        if node.name == OPTIONS_ARGUMENT:
            functions.require_options(*node.fields)
            return
        if node.name not in functions.PLAN_NODES and not node.name.startswith(functions.EXPRESSIONS):
            what = functions.NODE_WORDS.get(node.kind, first_word)
            raise QueryRefused(f"{what}: not allowed here; only queries are (SELECT, WITH, VALUES, FROM, TABLE).")
        match node.kind:
            case "UnresolvedRelation":
                options, streaming, *parts = node.fields
                self._plain_relation(options, streaming, parts)
                self.relation(tuple(parts))
            case "UnresolvedFunction":
                functions.require_allowed(node.fields)
            case "UnresolvedTableValuedFunction" | "UnresolvedGenerator":
                functions.require_table_function(".".join(node.fields))
            case "UnresolvedAttribute" | "UnresolvedStar":
                self.column(node.fields)

    def _plain_relation(self, options: str, streaming: str, parts: list[str]) -> None:
        if options:
            raise QueryRefused(
                f"Options behind a table's name are not allowed; name {'.'.join(parts)} alone, without WITH (…)."
            )
        if streaming:
            raise QueryRefused(f"STREAM is not allowed; name {'.'.join(parts)} alone.")

    def relation(self, parts: tuple[str, ...]) -> tuple[str, str] | None:
        """Judge a name that stands where a table may; returns (schema, table), or None for a WITH name."""
        known = [part.lower() for part in parts]
        if len(known) == 1 and known[0] in self._common:
            if known[0] in self._tables.get(self._schema.lower(), ()):
                self.hidden.add((self._schema.lower(), known[0]))
            return None
        schema, table = (self._schema.lower(), known[0]) if len(known) == 1 else (known[0], ".".join(known[1:]))
        if len(known) <= 2 and table not in self._tables.get(schema, ()) and self._is_found(schema, table, parts):
            return schema, table
        if schema not in self._tables:
            raise QueryRefused(
                f"There is no schema {schema} that you may read; there is {_listed(self._tables)}.",
                condition="SCHEMA_NOT_FOUND",
            )
        if len(known) > 2 or table not in self._tables[schema]:
            raise QueryRefused(
                f"There is no table {'.'.join(parts)}; schema {schema} has {_listed(self._tables[schema])}.",
                condition="TABLE_OR_VIEW_NOT_FOUND",
            )
        self.relations.add((schema, table))
        return schema, table

    def _is_found(self, schema: str, table: str, parts: tuple[str, ...]) -> bool:
        """Whether the lookup knows the table; two that differ by the case of letters cannot be told apart by Spark."""
        found = self._lookup(parts[0] if len(parts) > 1 else self._schema, parts[-1]) if self._lookup else None
        if found is None:
            return False
        known = self.looked_up.setdefault((schema, table), found)
        if known.name != found.name:
            raise QueryRefused(f"{known.name} and {found.name} differ by case only; name one of them in a statement.")
        self.relations.add((schema, table))
        return True

    def column(self, parts: tuple[str, ...]) -> None:
        """Judge the name of a column, or of a star's table."""
        if any(part.lower() == functions.REFUSED_COLUMN for part in parts):
            raise QueryRefused(f"The column {functions.REFUSED_COLUMN} is not allowed; name the table's own columns.")
        if len(parts) == 1 and parts[0].lower() in functions.REFUSED_NAMES:
            functions.require_allowed(parts)


def _listed(names: Iterable[str]) -> str:
    """The first names of a collection as text."""
    shown = sorted(names)
    return ", ".join(shown[:20]) + (f" and {len(shown) - 20} more" if len(shown) > 20 else "") or "nothing"
