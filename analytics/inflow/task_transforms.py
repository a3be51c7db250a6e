"""What the `transform` of a task's document says, by its kind.

expression  `expression` in the `language` jmespath (without it) or jsonata (`analytics.inflow.expressions`)
function    `url`, where it is called (`analytics.inflow.http_function`)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from analytics.errors import AnalyticsError, QueryRefused
from analytics.inflow import parts
from analytics.inflow.expressions import BATCH_S, Expression, Language
from analytics.inflow.http_function import HttpFunction
from analytics.inflow.parts import TaskError
from analytics.inflow.transform import Transform, TransformFailed
from analytics.sql import outline
from brokercore.addresses import Network


class TaskTransform(Protocol):
    """The transform of a task."""

    kind: ClassVar[str]

    @property
    def place(self) -> str:
        """The place in the document of what is wrong with it, or with what it makes."""

    def to_document(self) -> dict[str, Any]:
        """All of it."""

    def made(self, function_key: bytes, networks: Collection[Network]) -> Transform:
        """What does it, to be closed by its user; what a function gets is signed with the key.

        Raises TransformFailed.
        """


@dataclass(frozen=True)
class ExpressionTransform:
    """An expression."""

    kind: ClassVar[str] = "expression"
    place: ClassVar[str] = "transform.expression"
    language: Language
    expression: str

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> ExpressionTransform:
        """Raises TaskError; whether it is an expression only its process tells."""
        parts.known("a transform of the kind expression", found, ("kind", "language", "expression"), "transform.")
        language = Language(parts.choice(found, "language", [str(one) for one in Language], "transform."))
        read = cls(language, parts.text(found, "expression", "transform."))
        with _told_at(cls.place):
            read.opened()
        return read

    def to_document(self) -> dict[str, Any]:
        """All of it."""
        return {"kind": self.kind, "language": str(self.language), "expression": self.expression}

    def opened(self, *, batch_s: int = BATCH_S) -> Expression:
        """To be closed by its user. Raises TransformFailed."""
        return Expression(self.expression, self.language, batch_s=batch_s)

    def made(self, function_key: bytes, networks: Collection[Network]) -> Transform:
        """The same."""
        return self.opened()


@dataclass(frozen=True)
class FunctionTransform:
    """A function behind HTTP."""

    kind: ClassVar[str] = "function"
    place: ClassVar[str] = "transform.url"
    url: str

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> FunctionTransform:
        """Raises TaskError."""
        parts.known("a transform of the kind function", found, ("kind", "url"), "transform.")
        read = cls(parts.text(found, "url", "transform."))
        with _told_at(cls.place):
            read.made(b"-", ())
        return read

    def to_document(self) -> dict[str, Any]:
        """All of it."""
        return {"kind": self.kind, "url": self.url}

    def made(self, function_key: bytes, networks: Collection[Network]) -> Transform:
        """The function."""
        return HttpFunction(self.url, function_key, networks=networks)


@dataclass(frozen=True)
class SqlTransform:
    """A query over each batch, with joins to tables of the catalog. What is made of events only the engine knows."""

    kind: ClassVar[str] = "sql"
    place: ClassVar[str] = "transform.sql"
    sql: str
    #: (schema, table) of the catalog that it names.
    tables: tuple[tuple[str, str], ...]

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> SqlTransform:
        """Raises TaskError; whether Spark takes it, and one event at a time, is told when the task starts."""
        parts.known("a transform of the kind sql", found, ("kind", "sql"), "transform.")
        sql = parts.text(found, "sql", "transform.")
        try:
            outline.check(sql)
            return cls(sql, tables_of(sql))
        except AnalyticsError as error:
            raise TaskError(cls.place, error.user_message) from None

    def to_document(self) -> dict[str, Any]:
        """All of it."""
        return {"kind": self.kind, "sql": self.sql}

    def made(self, function_key: bytes, networks: Collection[Network]) -> Transform:
        """Raises TransformFailed: the engine makes it of each batch."""
        raise TransformFailed("A query is made by the engine over a whole batch.")


_TRANSFORMS: dict[str, Callable[[Mapping[str, Any]], TaskTransform]] = {
    "expression": ExpressionTransform.read,
    "function": FunctionTransform.read,
    "sql": SqlTransform.read,
}


def read(found: Any) -> TaskTransform | None:
    """The transform of a document, if it has one. Raises TaskError."""
    if found is None:
        return None
    if not isinstance(found, Mapping) or found.get("kind") not in list(_TRANSFORMS):
        raise TaskError("transform.kind", f"it is {' or '.join(_TRANSFORMS)}")
    return _TRANSFORMS[found["kind"]](found)


@contextmanager
def _told_at(place: str) -> Iterator[None]:
    try:
        yield
    except TransformFailed as error:
        raise TaskError(place, error.user_message) from None


def tables_of(sql: str) -> tuple[tuple[str, str], ...]:
    """The tables of the catalog that a query names, (schema, table), without Spark: rights are asked before it starts.

    It decides nothing: what Spark's own parser finds beside these the guard refuses. Raises QueryRefused for what is no
    SELECT over `events`.
    """
    try:
        statements = sqlglot.parse(sql, read="databricks")
    except (SqlglotError, RecursionError) as error:
        found = getattr(error, "errors", None)
        place = f" at line {found[0]['line']}, column {found[0]['col']}" if found and found[0].get("line") else ""
        raise QueryRefused(f"This is no SELECT{place}.") from None
    query = statements[0] if len(statements) == 1 else None
    if not isinstance(query, exp.Query):
        raise QueryRefused("One SELECT over the table events is allowed.")
    common = {one.alias_or_name.lower() for one in query.find_all(exp.CTE)}
    tables: set[tuple[str, str]] = set()
    reads_events = False
    for table in query.find_all(exp.Table):
        schema, name = table.db, table.name
        if not name or (not schema and name.lower() in common):
            continue
        if not schema and name.lower() == "events":
            reads_events = True
        elif not schema:
            raise QueryRefused(f"There is no table {name}; a table of the catalog is named with its schema.")
        else:
            tables.add((schema, name))
    if not reads_events:
        raise QueryRefused("The query has to read the table events.")
    return tuple(sorted(tables))
