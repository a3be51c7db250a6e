"""Decoded messages of PostgreSQL's stream to changes, without I/O.

A position is one of

    0/16B3748              all before this place of the log
    0/16B3748+17           and of the transaction whose commit stands there, its first 17 rows
    snapshot@0/16B3748     a part of the rows that were there before; they are read again from the beginning

The same change has the same identity whenever it is read: the number of the database cluster, the place of the change
in its log, and which of the rows of that place it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from analytics.inflow.changes import Change, Event, Operation, TablePatterns, Values, event_of
from analytics.inflow.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Decoded,
    DecodingFailed,
    Delete,
    Insert,
    Relation,
    Row,
    Truncate,
    Update,
    epoch_ms,
    lsn_of,
    lsn_text,
)
from analytics.inflow.postgres_values import Convert

_SNAPSHOT = "snapshot@"


class Position(NamedTuple):
    """Where to go on."""

    lsn: int
    rows: int = 0
    in_snapshot: bool = False

    @classmethod
    def of(cls, text: str) -> Position:
        """The position of a text. Raises ValueError for what is none."""
        in_snapshot = text.startswith(_SNAPSHOT)
        place, _, rows = text.removeprefix(_SNAPSHOT).partition("+")
        return cls(lsn_of(place), int(rows or 0), in_snapshot)

    def __str__(self) -> str:
        rows = f"+{self.rows}" if self.rows else ""
        return f"{_SNAPSHOT if self.in_snapshot else ''}{lsn_text(self.lsn)}{rows}"


class TableColumn(NamedTuple):
    """A column, and how its values become JSON."""

    name: str
    convert: Convert
    in_identity: bool


class Table(NamedTuple):
    """A table as the rows that follow are of it. `key` has the names of the primary key's columns."""

    schema: str
    name: str
    columns: tuple[TableColumn, ...]
    key: tuple[str, ...]
    types: Mapping[str, str]
    """Of columns whose values do not tell them (`postgres_values.Types.name`)."""


class Origin(NamedTuple):
    """Where changes are from: the `source` of events, the number of the cluster, and the database."""

    source: str
    system: str
    database: str


class Transactions:
    """Takes messages in order; what they are complete with stands in `ready`.

    The last row of a transaction is held back until its end is known, so that its position is that of the end.
    """

    def __init__(
        self, origin: Origin, patterns: TablePatterns, describe: Callable[[Relation], Table], position: Position
    ) -> None:
        self.ready: list[Change] = []
        self._origin = origin
        self._patterns = patterns
        self._describe = describe
        self._go_on = position
        self._tables: dict[int, Table | None] = {}  # None for one that no pattern has
        self._relations: dict[int, Relation] = {}
        self.is_inside = False
        """Whether a transaction has begun and not ended."""
        self._commit = self._transaction = ""
        self.commit_ms = 0
        """When the last transaction was committed, ms since the epoch."""
        self.end_lsn = 0
        """Where the last complete transaction ends."""
        self._rows = 0
        self._skipped = 0
        self._held: tuple[int, Event] | None = None
        self._place = (0, 0)

    def take(self, lsn: int, message: Decoded) -> None:
        """The next message; `lsn` is where its change stands."""
        handle = self._HANDLERS.get(type(message))
        if handle is not None:
            handle(self, lsn, message)

    def _took_begin(self, _lsn: int, message: Begin) -> None:
        self.is_inside = True
        self._commit = lsn_text(message.commit_lsn)
        self._transaction = str(message.xid)
        self.commit_ms = epoch_ms(message.commit_us)
        self._rows = 0
        self._skipped = self._go_on.rows if message.commit_lsn == self._go_on.lsn else 0

    def _took_commit(self, _lsn: int, message: Commit) -> None:
        if self._held is not None:
            self.ready.append(Change(lsn_text(message.end_lsn), self.commit_ms, self._held[1]))
        self._held = None
        self.is_inside = False
        self.end_lsn = message.end_lsn

    def _took_relation(self, _lsn: int, message: Relation) -> None:
        # PostgreSQL tells a table again whenever it may have changed. Where the identity is not the primary key, this
        # is asked of the catalog each time.
        if message.identity == "d" and self._relations.get(message.oid) == message:
            return
        self._relations[message.oid] = message
        wanted = self._patterns.match(message.schema, message.name)
        self._tables[message.oid] = self._describe(message) if wanted else None

    def _took_insert(self, lsn: int, message: Insert) -> None:
        table = self._next_row(lsn, message.relation)
        if table is not None:
            after, unavailable = _values(table, message.new, None)
            self._hold(lsn, table, Operation.INSERT, after=after, unavailable=unavailable)

    def _took_update(self, lsn: int, message: Update) -> None:
        table = self._next_row(lsn, message.relation)
        if table is not None:
            old = message.old
            before = None if old is None else _old_values(table, old, message.old_is_key)
            after, unavailable = _values(table, message.new, None if message.old_is_key else before)
            self._hold(lsn, table, Operation.UPDATE, before=before, after=after, unavailable=unavailable)

    def _took_delete(self, lsn: int, message: Delete) -> None:
        table = self._next_row(lsn, message.relation)
        if table is not None:
            self._hold(lsn, table, Operation.DELETE, before=_old_values(table, message.old, message.old_is_key))

    def _took_truncate(self, lsn: int, message: Truncate) -> None:
        for relation in message.relations:
            table = self._next_row(lsn, relation)
            if table is not None:
                self._hold(lsn, table, Operation.TRUNCATE)

    def _next_row(self, lsn: int, relation: int) -> Table | None:
        """The table of the next row; None when the row is not wanted, or was read before."""
        if relation not in self._tables or not self.is_inside:
            raise DecodingFailed(f"A row of table {relation} comes before its table, or outside of a transaction.")
        # Rows that COPY or one INSERT wrote together stand at one place. Those that are not wanted count too.
        self._place = (lsn, self._place[1] + 1 if self._place[0] == lsn else 0)
        self._rows += 1
        return self._tables[relation] if self._rows > self._skipped else None

    def _hold(
        self,
        lsn: int,
        table: Table,
        operation: Operation,
        *,
        before: Values | None = None,
        after: Values | None = None,
        unavailable: list[str] | None = None,
    ) -> None:
        if self._held is not None:
            rows, event = self._held
            self.ready.append(Change(f"{self._commit}+{rows}", self.commit_ms, event))
        place = lsn_text(lsn)
        event = event_of(
            operation,
            source=self._origin.source,
            identity=f"{self._origin.system}-{place}-{self._place[1]}",
            database=self._origin.database,
            schema=table.schema,
            table=table.name,
            primary_key=primary_key(table, after or before),
            before=before,
            after=after,
            commit_ms=self.commit_ms,
            position=place,
            transaction=self._transaction,
            unavailable=unavailable,
            types=table.types,
        )
        self._held = (self._rows, event)

    _HANDLERS: dict[type, Callable[[Any, int, Any], None]] = {
        Begin: _took_begin,
        Commit: _took_commit,
        Relation: _took_relation,
        Insert: _took_insert,
        Update: _took_update,
        Delete: _took_delete,
        Truncate: _took_truncate,
    }


def primary_key(table: Table, values: Values | None) -> Values | None:
    """The values of the primary key in a row, None where the table has none or the row lacks one."""
    if not values or not table.key:
        return None
    try:
        return {name: values[name] for name in table.key}
    except KeyError:
        return None


def _values(table: Table, row: Row, before: Values | None) -> tuple[Values, list[str] | None]:
    values: Values = {}
    unavailable = None
    for (name, convert, _), raw in zip(table.columns, row, strict=True):
        if raw is None:
            values[name] = None
        elif raw is not UNCHANGED:
            values[name] = convert(raw)
        elif before is not None and name in before:
            values[name] = before[name]
        else:
            unavailable = [*(unavailable or ()), name]
    return values, unavailable


def _old_values(table: Table, row: Row, is_key: bool) -> Values:
    """What was before. Of an identity the other columns come as null, which they were not."""
    return {
        name: None if raw is None else convert(raw)
        for (name, convert, in_identity), raw in zip(table.columns, row, strict=True)
        if (in_identity or not is_key) and raw is not UNCHANGED
    }
