"""What a capture gives, whichever database it reads: changes, their events, and what can go wrong.

An event is a CloudEvents 1.0 object whose `data` tells one row change:

    operation     INSERT, UPDATE, DELETE, TRUNCATE, or READ for a row that was there before (initial snapshot)
    databaseName, schemaName (null where the database has no schemas), tableName
    primaryKey    {column: value}, null where there is none or no row
    before, after {column: value}, null where the operation has none
    commitTime    milliseconds since the epoch
    position      where the change stands, in the source's own words
    transaction   the source's name of the transaction
    snapshot      true for READ
    unavailable   only there when the database did not send values that did not change: the names of these columns,
                  which `after` lacks
    types         {column: type} of columns whose values do not tell by themselves what they are: dates and times, bits,
                  sets, JSON, geometries, and arrays of them; not there without any
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from brokercore.globs import expression

Event = dict[str, Any]
Values = dict[str, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Operation(StrEnum):
    """What happened to a row, or to all rows of a table."""

    INSERT = "INSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    TRUNCATE = "TRUNCATE"
    READ = "READ"


class Change(NamedTuple):
    """One change. `position` is where a later capture goes on when this change is the last that is kept."""

    position: str
    commit_ms: int
    event: Event


class Capture(Protocol):
    """A reader of changes. Not for several threads at once."""

    def changes(self, wait_s: float) -> list[Change]:
        """What has come since, in order: whole transactions or bounded pieces of one.

        Empty after `wait_s` seconds without any. Raises CaptureFailed; then the capture is closed and opened again.
        """
        ...

    def confirm(self, position: str) -> None:
        """All up to this position is kept: the database may forget it."""
        ...

    def close(self) -> None:
        """Disconnect. What was not confirmed is read again by the next."""
        ...


class CaptureFailed(Exception):  # noqa: N818
    """A capture cannot begin or go on. The sentence may be shown to users.

    `code` is a word for programs, such as LOG_OFF; `mend` the statement or statements that mend it, empty if none does.
    """

    def __init__(self, sentence: str, code: str, mend: str = "") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.code = code
        self.mend = mend


class TablePatterns:
    """Tables by patterns `schema.table` (in MySQL `database.table`), where `*` stands for any characters.

    The first point separates the two. Raises ValueError for a pattern without one, or with an empty side.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = tuple(patterns)
        if not self.patterns:
            raise ValueError("At least one pattern of tables is needed, such as public.*.")
        self.named = frozenset(_sides(pattern) for pattern in self.patterns if "*" not in pattern)
        """Schema and table of the patterns that name one table."""
        self._matching = re.compile("|".join(_expression(pattern) for pattern in self.patterns), re.DOTALL)

    def match(self, schema: str, table: str) -> bool:
        """Whether a pattern has this table. Upper and lower case differ."""
        return self._matching.fullmatch(f"{schema}\0{table}") is not None


def event_of(
    operation: Operation,
    *,
    source: str,
    identity: str,
    database: str,
    schema: str | None,
    table: str,
    primary_key: Values | None,
    before: Values | None,
    after: Values | None,
    commit_ms: int,
    position: str,
    transaction: str,
    unavailable: list[str] | None = None,
    types: Mapping[str, str] | None = None,
) -> Event:
    """The event of a change. `identity` is the same whenever the same change is read, and no other change has it."""
    data: Event = {
        "operation": operation.value,
        "databaseName": database,
        "schemaName": schema,
        "tableName": table,
        "primaryKey": primary_key,
        "before": before,
        "after": after,
        "commitTime": commit_ms,
        "position": position,
        "transaction": transaction,
        "snapshot": operation is Operation.READ,
    }
    if unavailable:
        data["unavailable"] = unavailable
    if types:
        data["types"] = types
    return {
        "specversion": "1.0",
        "id": identity,
        "source": source,
        "type": "dts:Change",
        "time": _rfc3339(commit_ms),
        "subject": f"{database if schema is None else schema}.{table}",
        "datacontenttype": "application/json",
        "data": data,
    }


@lru_cache(maxsize=64)  # the changes of a transaction have one time
def _rfc3339(milliseconds: int) -> str:
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}Z"


def _sides(pattern: str) -> tuple[str, str]:
    schema, _, table = pattern.partition(".")
    if not schema or not table:
        raise ValueError(f"A pattern of tables is schema.table, where * stands for any characters; {pattern!r} is not.")
    return schema, table


def _expression(pattern: str) -> str:
    # `?` stands for itself, and the end of the schema is no character of a name.
    return "\0".join(expression(side, "[^\0]", one=r"\?") for side in _sides(pattern))
