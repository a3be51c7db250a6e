"""Runs a query on small tables in an SQLite of its own, in memory, that can do nothing but read them."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from django.utils.translation import gettext as _

from console.catalog.describe import Answer, Cells
from console.web.errors import Refused

LONGEST_S = 3.0
MOST_ROWS = 50_000
MOST_CHARACTERS = 16 * 1024**2
#: No value grows longer; functions that make long texts end there.
_LONGEST_VALUE = 64 * 1024
_STEPS = 10_000
#: Of LIKE, bytes: to find a pattern costs its length times that of the text, and SQLite looks at nothing meanwhile.
_LONGEST_PATTERN = 512
#: What may be called: nothing that reads files, loads code or makes long texts of nothing.
_FUNCTIONS = frozenset(
    [
        "abs",
        "avg",
        "ceil",
        "ceiling",
        "char_length",
        "character_length",
        "coalesce",
        "concat",
        "concat_ws",
        "count",
        "date",
        "datetime",
        "find_in_set",
        "floor",
        "group_concat",
        "hex",
        "ifnull",
        "iif",
        "instr",
        "isnull",
        "length",
        "like",
        "locate",
        "lower",
        "ltrim",
        "max",
        "min",
        "mod",
        "nullif",
        "replace",
        "round",
        "rtrim",
        "sign",
        "strftime",
        "substr",
        "substring",
        "substring_index",
        "sum",
        "time",
        "total",
        "trim",
        "upper",
        "row_number",
        "rank",
        "dense_rank",
        "lag",
        "lead",
        "first_value",
        "last_value",
        "current_date",
        "current_time",
        "current_timestamp",
    ]
)

#: Collations that clients name in a query: with the case of letters, and without.
_EXACT = ("utf8mb4_bin", "utf8mb4_0900_bin", "utf8mb3_bin", "utf8_bin", "latin1_bin", "ascii_bin")
_WITHOUT_CASE = (
    *("utf8mb4_0900_ai_ci", "utf8mb4_general_ci", "utf8mb4_unicode_ci"),
    *("utf8mb3_general_ci", "utf8mb3_unicode_ci", "utf8_general_ci", "utf8_unicode_ci", "latin1_swedish_ci"),
)


@dataclass(frozen=True, slots=True)
class SmallTable:
    """Columns and rows."""

    columns: Sequence[str]
    rows: Iterable[Cells]


def run(sql: str, tables: Mapping[str, SmallTable], headers: Sequence[str] = ()) -> Answer:
    """The rows of a query in SQLite's way of writing; `headers` rename the columns.

    Raises Refused for an unknown column or function, syntax, and beyond the limits above.
    """
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        _fill(connection, tables)
        _restrict(connection, time.monotonic() + LONGEST_S)
        # Steps may be long: by this the statement ends behind the one that is being taken.
        watch = threading.Timer(LONGEST_S, connection.interrupt)
        watch.daemon = True
        watch.start()
        try:
            cursor = connection.execute(sql)
            rows = _rows(cursor)
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise _refused(error) from error
        finally:
            watch.cancel()
            watch.join()  # it must not find the connection closed
        names = tuple(headers) or tuple(column[0] for column in cursor.description or ())
    return Answer(names, rows, integers=_integers(names, rows))


def _fill(connection: sqlite3.Connection, tables: Mapping[str, SmallTable]) -> None:
    for name, table in tables.items():
        columns = ", ".join(f'"{column}" collate nocase' for column in table.columns)
        connection.execute(f'create table "{name}" ({columns})')
        marks = ",".join("?" * len(table.columns))
        connection.execute("begin")
        connection.executemany(f'insert into "{name}" values ({marks})', table.rows)  # noqa: S608 own names, values bound
        connection.execute("commit")


def _restrict(connection: sqlite3.Connection, deadline: float) -> None:
    connection.create_function("concat", -1, _concat, deterministic=True)
    connection.create_function("concat_ws", -1, _concat_ws, deterministic=True)
    connection.create_function("locate", -1, _locate, deterministic=True)
    connection.create_function("find_in_set", 2, _find_in_set, deterministic=True)
    connection.create_function("substring_index", 3, _substring_index, deterministic=True)
    for name, strip in (("trim", str.strip), ("ltrim", str.lstrip), ("rtrim", str.rstrip)):
        # SQLite compares each sign of the text with each of the set.
        connection.create_function(name, 2, partial(_trimmed, strip), deterministic=True)
    for name in ("char_length", "character_length"):
        connection.create_function(name, 1, lambda v: None if v is None else len(str(v)), deterministic=True)
    connection.create_function("isnull", 1, lambda v: int(v is None), deterministic=True)
    for name in _EXACT:
        connection.create_collation(name, _compared)
    for name in _WITHOUT_CASE:
        connection.create_collation(name, lambda one, other: _compared(one.lower(), other.lower()))
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, _LONGEST_PATTERN)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 200)
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
    connection.set_authorizer(_authorize)


def _authorize(action: int, one: str | None, two: str | None, database: str | None, source: str | None) -> int:
    """Reading and harmless functions, nothing else: no pragma, no attach, no recursion, no change."""
    if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ):
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and (two or "").lower() in _FUNCTIONS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _rows(cursor: sqlite3.Cursor) -> list[Cells]:
    rows: list[Cells] = []
    characters = 0
    for row in cursor:
        cells = tuple(cell if cell is None or isinstance(cell, int) else str(cell) for cell in row)
        characters += sum(len(cell) for cell in cells if isinstance(cell, str))
        if len(rows) >= MOST_ROWS or characters > MOST_CHARACTERS:
            raise Refused(
                "RESULT_TOO_LARGE",
                _("The answer has more than %(most_rows)s rows or 16 MiB; narrow it by WHERE.")
                % {"most_rows": MOST_ROWS},
                "text",
            )
        rows.append(cells)
    return rows


def _integers(names: Sequence[str], rows: Sequence[Cells]) -> frozenset[str]:
    """Columns all of whose known values are integers."""
    found = set()
    for number, name in enumerate(names):
        values = [row[number] for row in rows if row[number] is not None]
        if values and all(isinstance(value, int) for value in values):
            found.add(name)
    return frozenset(found)


def _refused(error: Exception) -> Refused:
    reason = str(error)
    what = reason.rpartition(": ")[2]
    if reason == "interrupted":
        return Refused(
            "STATEMENT_TIME_LIMIT",
            _("The statement took longer than %(longest_s)s s; narrow it.") % {"longest_s": f"{LONGEST_S:.0f}"},
            "text",
        )
    if reason.startswith(("no such column", "ambiguous column name")):
        kind = "Unknown" if reason.startswith("no such") else "Ambiguous"
        return Refused("UNKNOWN_COLUMN", _("%(kind)s column %(what)r.") % {"kind": kind, "what": what}, "text")
    if "function" in reason or "not authorized" in reason:
        return Refused(
            "STATEMENT_NOT_OFFERED",
            _("On information_schema this cannot be evaluated: %(reason)s; functions are %(functions)s.")
            % {"reason": reason, "functions": ", ".join(sorted(_FUNCTIONS))},
            "text",
        )
    return Refused(
        "SYNTAX_ERROR",
        _("The statement cannot be answered from information_schema: %(reason)s.") % {"reason": reason},
        "text",
    )


def _compared(one: str, other: str) -> int:
    return (one > other) - (one < other)


def _concat(*values: object) -> str | None:
    return None if any(value is None for value in values) else "".join(map(str, values))


def _concat_ws(separator: object, *values: object) -> str | None:
    return None if separator is None else str(separator).join(str(value) for value in values if value is not None)


def _trimmed(strip: Callable[[str, str], str], text: object, signs: object) -> str | None:
    return None if text is None or signs is None else strip(str(text), str(signs))


def _locate(needle: object, text: object, begin: int = 1) -> int | None:
    """Place of `needle` in `text` from 1, or 0; as in MySQL the case of letters does not count."""
    if needle is None or text is None:
        return None
    return str(text).lower().find(str(needle).lower(), max(begin - 1, 0)) + 1


def _substring_index(text: object, separator: object, count: int) -> str | None:
    """What stands before the `count`-th separator, or behind the last ones when it is negative."""
    if text is None or separator is None:
        return None
    pieces = str(text).split(str(separator)) if separator else [str(text)]
    return str(separator).join(pieces[:count] if count >= 0 else pieces[count:])


def _find_in_set(needle: object, texts: object) -> int | None:
    if needle is None or texts is None:
        return None
    among = str(texts).lower().split(",")
    return among.index(str(needle).lower()) + 1 if str(needle).lower() in among else 0
