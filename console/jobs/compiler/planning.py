"""From a job's text to its plan, with everything that is wrong with it. Pure but for the process that reads queries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Literal

from analytics.pipelines.plan import Column, Insert, Plan, Settings, Sink, Source, Value, View, Watermark, ends
from console.jobs.compiler import connectors, definition, dialect, settings
from console.jobs.compiler.connectors import SINK, SOURCE, UPDATED
from console.jobs.compiler.definition import Span, TableText, WatermarkText
from console.jobs.compiler.dialect import Context
from console.jobs.compiler.rows import Catalog, Relation, Rewritten
from console.jobs.compiler.scopes import listed
from console.jobs.compiler.script import Kind, Statement, split
from console.jobs.compiler.values import FoundSecret, Listed, Values, without_secrets
from console.jobs.compiler.words import Reader, Text, TextRefused, near, tokens_of
from console.statements.lexer import Token, quoted

_MILLISECONDS = {"second": 1000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
_LONGEST_DELAY = 36_500 * _MILLISECONDS["day"]
_CLOCK = "current_timestamp()"


def _no_catalog(schema: str, table: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Checked:
    """A text that was read: its plan, or why there is none."""

    #: None when anything is wrong.
    plan: Plan | None
    #: Everything that is wrong, by its place.
    refusals: tuple[TextRefused, ...]
    #: Sentences with line and column about what is read otherwise than it may be meant.
    warnings: tuple[str, ...]
    #: Secrets that the text itself has: they are saved under their names, and `text` is what is stored.
    found_secrets: tuple[FoundSecret, ...]
    #: The text with the names of secrets in place of the secrets.
    text: str = field(repr=False)
    #: Names of secrets that the text may not use, or that are not there: it is not told which.
    refused_secrets: tuple[str, ...] = ()
    #: Line and column of each table's definition, by its name in small letters.
    places: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def check(
    written: str,
    *,
    variables: Mapping[str, str] | None = None,
    secrets: Collection[str] | None = None,
    listed: Listed | None = None,
    catalog: Catalog = _no_catalog,
    holder: str = "",
) -> Checked:
    """Read a text; `secrets` are the names of those it may use (None: any), `holder` the account that asks.

    `listed` has the names that may be told (None: all that are given). Raises Refused when the processes that read
    queries have no time for the account at the moment.
    """
    told = listed or Listed(secrets or (), variables or {})
    return _Planning(Text(written), Values(variables or {}, secrets, told), catalog, holder).result()


@dataclass(slots=True)
class _Table:
    """A table of the text, and what it is used for."""

    statement: Statement
    text: TableText
    columns: tuple[Column, ...]
    watermark: Watermark | None
    roles: set[str] = field(default_factory=set)


class _Planning:
    def __init__(self, text: Text, values: Values, catalog: Catalog, holder: str) -> None:
        self._text, self._values = text, values
        self._context = Context(text, values, {}, catalog, holder)
        self._tables: dict[str, _Table] = {}
        self._views: list[View] = []
        self._inserts: list[Insert] = []
        self._shown: list[Sink] = []
        self._catalog_tables: set[tuple[str, str]] = set()
        self._refusals: list[TextRefused] = []
        self._warnings: list[str] = []
        self._settings = Settings()
        #: Names of tables and views, in small letters, whose definitions are wrong.
        self._wrong: set[str] = set()

    def result(self) -> Checked:
        try:
            tokens = tokens_of(self._text)
            self._values.find_secrets(tokens, connectors.SECRETS)
            script = split(self._text, tokens)
        except TextRefused as refused:
            return self._checked(None, [refused])
        self._refusals += script.refusals
        told = settings.read((one for one in script.statements if one.kind is Kind.SET), self._values)
        self._settings = told.settings
        self._context.batch = told.settings.mode == "batch"
        self._refusals += told.refusals
        self._warnings += told.warnings
        for statement in script.statements:
            if statement.kind is Kind.TABLE:
                self._go_over(self._table, statement)
        for statement in script.statements:
            if statement.kind in _READERS:
                self._go_over(partial(_READERS[statement.kind], self), statement)
        if not self._inserts and not self._refusals:
            self._refusals.append(
                self._text.refusal(0, "the text has no INSERT INTO … SELECT, so the job would write nothing.")
            )
        plan = self._plan()
        self._refusals.sort(key=lambda refused: (refused.line, refused.column))
        return self._checked(None if self._refusals else plan, self._refusals)

    def _checked(self, plan: Plan | None, refusals: list[TextRefused]) -> Checked:
        found = self._values.found_secrets
        text = without_secrets(self._text, found)
        refused = tuple(dict.fromkeys(self._values.refused_secrets))
        places = {name: self._text.place(table.text.name.start) for name, table in self._tables.items()}
        return Checked(plan, tuple(refusals), tuple(self._warnings), tuple(found), text, refused, places)

    def _go_over(self, step: Callable[[Statement], None], statement: Statement) -> None:
        """One statement; that a table is missing whose definition is wrong is not told as well."""
        missing = self._wrong - self._context.relations.keys()
        follows = {self._text.place(one.start) for one in statement.tokens if one.value.lower() in missing}
        try:
            step(statement)
        except TextRefused as refused:
            if statement.kind in (Kind.TABLE, Kind.VIEW):
                self._wrong.add(_defined(statement))
            if (refused.line, refused.column) not in follows:
                self._refusals.append(refused)

    def _try(self, step, *arguments) -> None:  # type: ignore[no-untyped-def]
        try:
            step(*arguments)
        except TextRefused as refused:
            self._refusals.append(refused)

    # --- tables

    def _table(self, statement: Statement) -> None:
        table = definition.read(statement.reader())
        self._require_new_name(table.name)
        connector = connectors.connector_of(self._text, table)
        types = {one.name.value.lower(): one.type for one in table.columns if one.computed is None}
        columns = tuple(self._column(one, types) for one in table.columns)
        watermark = self._watermark(statement, table.watermark, columns) if table.watermark else None
        self._tables[table.name.value.lower()] = _Table(statement, table, columns, watermark)
        names = {one.name.value: one.value.value for one in table.options}
        self._context.relations[table.name.value.lower()] = Relation(
            table.name.value,
            streams=not self._context.batch and not ends(connector.name, names),
            times=frozenset({watermark.column.lower()} if watermark else ()),
            clocks=frozenset(one.name.lower() for one in columns if one.computed.lower() == _CLOCK),
            types=types,
            columns=listed(one.name for one in columns),
        )

    def _require_new_name(self, name: Token) -> None:
        if name.value.lower() in self._context.relations:
            raise self._text.refusal(name, f"there are two tables or views called {name.value}.")

    def _column(self, column: definition.ColumnText, types: Mapping[str, str]) -> Column:
        name = column.name.value
        if column.computed is not None:
            return Column(name, "", computed=dialect.expression(self._context, column.computed, types))
        key = column.metadata.value if column.metadata is not None else ""
        return Column(name, column.type, metadata=key, virtual=column.virtual)

    def _watermark(self, statement: Statement, watermark: WatermarkText, columns: tuple[Column, ...]) -> Watermark:
        column = next(one for one in columns if one.name.lower() == watermark.column.value.lower())
        if not column.computed and column.type != "timestamp":
            raise self._text.refusal(
                watermark.column, f"a watermark is on a column of TIMESTAMP; {column.name} is {column.type}."
            )
        span = watermark.expression
        within = [one for one in statement.tokens if span.start <= one.start < span.end]
        reader = Reader(self._text, [*within, within[-1]._replace(kind="end", key="", start=span.end)])
        named = reader.name("column")
        if named.value.lower() != column.name.lower():
            raise self._text.refusal(
                named, f"the watermark for {column.name} is {column.name}, or that less an interval."
            )
        delay = _delay(reader) if reader.accept("-") else 0
        reader.end(f"{column.name} - INTERVAL '5' SECOND")
        return Watermark(column.name, delay)

    # --- views and inserts

    def _view(self, statement: Statement) -> None:
        reader = statement.reader()
        reader.expect("create")
        reader.accept("temporary")
        reader.expect("view")
        if reader.accept("if"):
            reader.expect("not", "exists")
        name = reader.name("view")
        self._require_new_name(name)
        columns = reader.column_names() if reader.next.key == "(" else []
        if reader.accept("comment"):
            reader.quoted("a comment")
        reader.expect("as")
        query = dialect.query(self._context, self._rest(reader, statement))
        if columns and query.width not in (None, len(columns)):
            raise self._text.refusal(
                name, f"{name.value} has {_count(len(columns))}, and its query gives {query.width}."
            )
        sql = f"SELECT * FROM {_renamed(query.sql, columns)}" if columns else query.sql  # noqa: S608
        self._use(query)
        self._views.append(View(name.value, sql))
        self._context.relations[name.value.lower()] = Relation(
            name.value,
            streams=query.streams,
            updates=query.updates_at is not None,
            times=query.times if not columns else frozenset(),
            types=query.types if not columns else {},
            columns=listed(one.value for one in columns) if columns else query.columns,
            reads=query.table_reads,
        )

    def _insert(self, statement: Statement) -> None:
        reader = statement.reader()
        reader.expect("insert")
        if reader.next.key == "overwrite":
            raise reader.unexpected("INTO, since a job only adds rows")
        reader.expect("into")
        name = reader.name("table")
        if reader.next.key == ".":
            raise reader.unexpected("a name without a schema, since a job writes into tables of its own text")
        sink = self._tables.get(name.value.lower())
        if sink is None:
            written = [one.text.name.value for one in self._tables.values()]
            raise self._text.refusal(
                name, f"there is no table {name.value} in this text to write into.{near(name.value, written)}"
            )
        if reader.next.key == "partition":
            raise reader.unexpected("the query, since the columns of PARTITIONED BY come with the rows")
        names_columns = reader.next.key == "(" and reader.ahead(1).key not in ("select", "with", "(")
        columns = reader.column_names() if names_columns else []
        query = dialect.query(self._context, self._rest(reader, statement))
        sink.roles.add(SINK)
        sql = self._fitted(name, sink, query, columns)
        output: Literal["append", "update"] = "append" if query.updates_at is None else "update"
        connector = connectors.connector_of(self._text, sink.text)
        if query.updates_at is not None and connector.name not in UPDATED:
            raise self._text.refusal(
                query.updates_at,
                "the row of a group comes again with new values when no window of time ends it, and the connector"
                f" {connector.name} takes new rows only; group by TUMBLE, HOP or SESSION, or write into print.",
            )
        self._use(query)
        self._inserts.append(Insert(sink.text.name.value, sql, output, statement.line))

    def _fitted(self, name: Token, sink: _Table, query: Rewritten, columns: list[Token]) -> str:
        """The query with the sink's columns, in their order."""
        stored = _stored(sink.columns)
        known = [one.name for one in stored]
        expected = len(columns) if columns else len(stored)
        if query.width not in (None, expected):
            listed = ", ".join(one.value for one in columns) if columns else ", ".join(known)
            raise self._text.refusal(
                name, f"the query gives {_count(query.width)}, and {name.value} takes {expected}: {listed}."
            )
        if not columns:
            return query.sql
        by_small = {one.name.lower(): one for one in stored}
        for column in columns:
            if column.value.lower() not in by_small:
                raise self._text.refusal(
                    column, f"table {name.value} has no column {column.value} to write.{near(column.value, known)}"
                )
        given = {one.value.lower() for one in columns}
        parts = [
            quoted(one.name) if one.name.lower() in given else f"CAST(NULL AS {one.type}) AS {quoted(one.name)}"
            for one in stored
        ]
        return f"SELECT {', '.join(parts)} FROM {_renamed(query.sql, columns)}"  # noqa: S608

    def _query(self, statement: Statement) -> None:
        """A SELECT alone shows its rows, as INSERT INTO a table of `print` would."""
        last = statement.tokens[-1]
        query = dialect.query(self._context, Span(statement.tokens[0].start, last.start))
        self._use(query)
        name = f"select_{statement.line}"
        options: dict[str, Value] = {"print-identifier": "", "standard-error": False, "logger": True, "limit": 2000}
        self._shown.append(Sink(name, "print", (), options=options))
        output: Literal["append", "update"] = "append" if query.updates_at is None else "update"
        self._inserts.append(Insert(name, query.sql, output, statement.line))

    def _rest(self, reader: Reader, statement: Statement) -> Span:
        if reader.next.kind == "end":
            raise reader.unexpected("a query")
        return Span(reader.next.start, statement.tokens[-1].start)

    def _use(self, query: Rewritten) -> None:
        self._catalog_tables |= query.tables
        for name in query.reads:
            if (table := self._tables.get(name.lower())) is not None:
                table.roles.add(SOURCE)
        for name, column in query.clocks:
            table = self._tables[name.lower()]
            if table.watermark is None:
                table.watermark = Watermark(column, 0)

    # --- the plan

    def _plan(self) -> Plan:
        sources: list[Source] = []
        sinks: list[Sink] = []
        for table in self._tables.values():
            if not table.roles:
                table.roles = {self._likely_role(table)}
                line, column = self._text.place(table.text.name.start)
                self._warnings.append(f"Line {line}, column {column}: table {table.text.name.value} is not used.")
                self._try(self._source if SOURCE in table.roles else self._sink, table, [])
                continue
            if SOURCE in table.roles:
                self._try(self._source, table, sources)
            if SINK in table.roles:
                self._try(self._sink, table, sinks)
        return Plan(
            tuple(sources),
            (*sinks, *self._shown),
            tuple(self._views),
            tuple(self._inserts),
            self._settings,
            tuple(sorted(self._catalog_tables)),
            tuple(sorted(self._values.used_secrets)),
        )

    def _likely_role(self, table: _Table) -> str:
        roles = connectors.connector_of(self._text, table.text).roles
        names = {one.name.value.lower() for one in table.text.options}
        return SOURCE if SOURCE in roles and (SINK not in roles or "consumergroup" in names) else SINK

    def _source(self, table: _Table, into: list[Source]) -> None:
        given, warnings = connectors.read(self._text, table.text, table.columns, SOURCE, self._values)
        self._warnings += warnings
        connector = connectors.connector_of(self._text, table.text)
        name = table.text.name
        if connector.name == "mns":
            if self._settings.mode == "batch":
                raise self._text.refusal(
                    name, "a queue has no end, so tables of the connector mns are read by streams only."
                )
            if not self._settings.checkpoint_interval_ms:
                raise self._text.refusal(
                    name,
                    "messages are deleted when a checkpoint is complete, so tables of the connector mns need"
                    " SET 'execution.checkpointing.interval' = '10s' or another interval above 0.",
                )
        into.append(
            Source(
                name.value,
                connector.name,  # type: ignore[arg-type]
                table.columns,
                table.watermark,
                given.format,
                dict(given.format_values),
                dict(given.values),
                self._text.place(name.start)[0],
            )
        )

    def _sink(self, table: _Table, into: list[Sink]) -> None:
        given, warnings = connectors.read(self._text, table.text, table.columns, SINK, self._values)
        self._warnings += warnings
        connector = connectors.connector_of(self._text, table.text)
        into.append(
            Sink(
                table.text.name.value,
                connector.name,  # type: ignore[arg-type]
                _stored(table.columns),
                given.format,
                dict(given.format_values),
                dict(given.values),
                tuple(one.value for one in table.text.partitions),
            )
        )


_READERS = {Kind.VIEW: _Planning._view, Kind.INSERT: _Planning._insert, Kind.QUERY: _Planning._query}


def _defined(statement: Statement) -> str:
    """The name that a CREATE TABLE or CREATE VIEW gives, in small letters; nothing where there is none."""
    keys = [one.key for one in statement.tokens]
    place = keys.index(str(statement.kind)) + 1
    if keys[place : place + 3] == ["if", "not", "exists"]:
        place += 3
    return statement.tokens[place].value.lower()


def _stored(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    return tuple(one for one in columns if not one.computed and not one.virtual)


def _delay(reader: Reader) -> int:
    reader.expect("interval")
    value = reader.quoted("a number")
    unit = reader.advance()
    milliseconds = _MILLISECONDS.get(unit.key.removesuffix("s"))
    if milliseconds is None:
        raise reader.refusal(unit, f"{unit} is no unit of a watermark; allowed are SECOND, MINUTE, HOUR and DAY.")
    if not value.value.replace(".", "", 1).isdecimal():
        raise reader.refusal(value, f"'{value.value}' is no interval; allowed is a number, such as '5'.")
    found = int(Decimal(value.value) * milliseconds)
    if found > _LONGEST_DELAY:
        raise reader.refusal(value, f"'{value.value[:20]}' is too long; allowed are up to 36500 days.")
    return found


def _renamed(sql: str, columns: list[Token]) -> str:
    listed = ", ".join(quoted(one.value) for one in columns)
    return f"({sql}) AS `given`({listed})"


def _count(columns: int | None) -> str:
    return f"{columns} column{'' if columns == 1 else 's'}"
