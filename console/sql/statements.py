"""What a statement asks for: the few forms that are answered here, everything else is a query for Spark.

The forms are those of the vendor (`show query_task`, `cancel query_task`), of describing schemas, and what MySQL
clients send on their own at sign-in. Pure: text in, plain data out. Works on the text without its hint
(`console.sql.hints`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from console.sql import constants
from console.sql.constants import Constant

#: Longer texts are queries: no form below needs as much, and patterns must not be tried on megabytes.
LONGEST_FORM = 16 * 1024
LIST_LIMIT = 100


@dataclass(frozen=True, slots=True)
class ShowTask:
    """`show query_task where id = '…'`."""

    task_id: str


@dataclass(frozen=True, slots=True)
class ListTasks:
    """`show query_task [limit n]`: the latest tasks."""

    limit: int


@dataclass(frozen=True, slots=True)
class CancelTask:
    """`cancel query_task where id = '…'`."""

    task_id: str


@dataclass(frozen=True, slots=True)
class ShowDatabases:
    """`show databases [like '…']`, also written `show schemas`."""

    like: str | None = None


@dataclass(frozen=True, slots=True)
class ShowTables:
    """`show [full] tables [from schema] [like '…']`."""

    schema: str | None = None
    like: str | None = None
    full: bool = False


@dataclass(frozen=True, slots=True)
class ShowColumns:
    """`show [full] columns from table [from schema] [like '…']`, `describe table`."""

    table: str
    schema: str | None = None
    like: str | None = None
    full: bool = False


@dataclass(frozen=True, slots=True)
class ShowVariables:
    """`show [session|global] variables [like '…'|where variable_name = '…' or …]`."""

    like: str | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShowNothing:
    """A question of clients whose answer is an empty list: warnings, errors, status, engines."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Use:
    """`use schema`."""

    schema: str


@dataclass(frozen=True, slots=True)
class SetVariables:
    """`set …`: names, session variables, transaction characteristics."""

    text: str


@dataclass(frozen=True, slots=True)
class SelectConstants:
    """`select` of constants, system variables and facts of the connection, without FROM."""

    items: tuple[Constant, ...]


@dataclass(frozen=True, slots=True)
class Transaction:
    """`begin`, `start transaction`, `commit`, `rollback`: accepted, since every statement stands alone."""


@dataclass(frozen=True, slots=True)
class Kill:
    """`kill [connection|query] id`."""

    connection_id: int
    query_only: bool


@dataclass(frozen=True, slots=True)
class Query:
    """Everything else: for Spark, behind its guard."""

    text: str


Statement = (
    ShowTask
    | ListTasks
    | CancelTask
    | ShowDatabases
    | ShowTables
    | ShowColumns
    | ShowVariables
    | ShowNothing
    | Use
    | SetVariables
    | SelectConstants
    | Transaction
    | Kill
    | Query
)

_NAME = r"(?:`(?:[^`]|``)+`|[\w$-]+)"
_TEXT = r"(?:'(?:[^'\\]|''|\\.)*'|\"(?:[^\"\\]|\"\"|\\.)*\")"
_LIKE = rf"(?:\s+like\s+(?P<like>{_TEXT}))?"
_FROM_SCHEMA = rf"(?:\s+(?:from|in)\s+(?P<schema>{_NAME}))?"


def _form(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


_SHOW_TASK = _form(rf"show\s+query_task\s+where\s+id\s*=\s*(?P<id>{_TEXT})")
_LIST_TASKS = _form(r"show\s+query_task(?:\s+limit\s+(?P<limit>\d{1,9}))?")
_CANCEL_TASK = _form(rf"cancel\s+query_task\s+where\s+id\s*=\s*(?P<id>{_TEXT})")
_SHOW_DATABASES = _form(rf"show\s+(?:databases|schemas){_LIKE}")
_SHOW_TABLES = _form(rf"show\s+(?P<full>full\s+)?tables{_FROM_SCHEMA}{_LIKE}")
_SHOW_COLUMNS = _form(
    rf"show\s+(?P<full>full\s+)?(?:columns|fields)\s+(?:from|in)\s+(?:(?P<before>{_NAME})\s*\.\s*)?(?P<table>{_NAME})"
    rf"{_FROM_SCHEMA}{_LIKE}"
)
_DESCRIBE = _form(rf"(?:describe|desc)\s+(?:table\s+)?(?:(?P<before>{_NAME})\s*\.\s*)?(?P<table>{_NAME})")
_SHOW_VARIABLES = _form(rf"show\s+(?:(?:session|global|local)\s+)?variables(?:{_LIKE}|\s+where\s+(?P<where>.+))")
_VARIABLE_NAME = _form(rf"variable_name\s*(?:=|like)\s*(?P<name>{_TEXT})")
_USE = _form(rf"use\s+(?P<schema>{_NAME})")
_TRANSACTION = _form(r"(?:begin|start\s+transaction|commit|rollback)(?:\s+.{0,64})?")
_KILL = _form(r"kill\s+(?:(?P<kind>connection|query)\s+)?(?P<id>\d{1,19})")
_NOTHING = (
    (
        _form(rf"show\s+(?:count\(\*\)\s+)?(?:warnings|errors)(?:\s+limit\s+[\d\s,]+)?{_LIKE}"),
        ("Level", "Code", "Message"),
    ),
    (_form(rf"show\s+(?:(?:session|global)\s+)?status{_LIKE}"), ("Variable_name", "Value")),
    (_form(r"show\s+(?:storage\s+)?engines"), ("Engine", "Support", "Comment", "Transactions", "XA", "Savepoints")),
    (_form(r"show\s+plugins"), ("Name", "Status", "Type", "Library", "License")),
)


def parse(text: str) -> Statement:
    """Recognise a statement. Never raises: what has none of the forms is a Query."""
    if len(text) > LONGEST_FORM:
        return Query(text)
    keyword = text[:16].split(maxsplit=1)[0].lower() if text.strip() else ""
    reader = _READERS.get(keyword)
    return (reader(text) if reader else None) or Query(text)


def _show_task(match: re.Match[str]) -> Statement:
    return ShowTask(constants.text_of(match["id"]))


def _list_tasks(match: re.Match[str]) -> Statement:
    return ListTasks(int(match["limit"] or LIST_LIMIT))


def _show_databases(match: re.Match[str]) -> Statement:
    return ShowDatabases(_optional_text(match["like"]))


def _show_tables(match: re.Match[str]) -> Statement:
    return ShowTables(_optional_name(match["schema"]), _optional_text(match["like"]), bool(match["full"]))


def _show_columns(match: re.Match[str]) -> Statement:
    schema = _optional_name(match["schema"] or match["before"])
    return ShowColumns(_name(match["table"]), schema, _optional_text(match["like"]), bool(match["full"]))


def _show_variables(match: re.Match[str]) -> Statement:
    names = tuple(constants.text_of(n["name"]) for n in _VARIABLE_NAME.finditer(match["where"] or ""))
    return ShowVariables(_optional_text(match["like"]), names)


_SHOW_FORMS = (
    (_SHOW_TASK, _show_task),
    (_LIST_TASKS, _list_tasks),
    (_SHOW_DATABASES, _show_databases),
    (_SHOW_TABLES, _show_tables),
    (_SHOW_COLUMNS, _show_columns),
    (_SHOW_VARIABLES, _show_variables),
)


def _read_show(text: str) -> Statement | None:
    for form, build in _SHOW_FORMS:
        if match := form.fullmatch(text):
            return build(match)
    return next((ShowNothing(columns) for form, columns in _NOTHING if form.fullmatch(text)), None)


def _read_cancel(text: str) -> Statement | None:
    match = _CANCEL_TASK.fullmatch(text)
    return CancelTask(constants.text_of(match["id"])) if match else None


def _read_describe(text: str) -> Statement | None:
    match = _DESCRIBE.fullmatch(text)
    return ShowColumns(_name(match["table"]), _optional_name(match["before"])) if match else None


def _read_use(text: str) -> Statement | None:
    match = _USE.fullmatch(text)
    return Use(_name(match["schema"])) if match else None


def _read_set(text: str) -> Statement | None:
    return SetVariables(text)


def _read_select(text: str) -> Statement | None:
    items = constants.parse_select(text)
    return SelectConstants(items) if items else None


def _read_transaction(text: str) -> Statement | None:
    return Transaction() if _TRANSACTION.fullmatch(text) else None


def _read_kill(text: str) -> Statement | None:
    match = _KILL.fullmatch(text)
    return Kill(int(match["id"]), (match["kind"] or "").lower() == "query") if match else None


_READERS = {
    "show": _read_show,
    "cancel": _read_cancel,
    "describe": _read_describe,
    "desc": _read_describe,
    "use": _read_use,
    "set": _read_set,
    "select": _read_select,
    "begin": _read_transaction,
    "start": _read_transaction,
    "commit": _read_transaction,
    "rollback": _read_transaction,
    "kill": _read_kill,
}


def _name(written: str) -> str:
    return written[1:-1].replace("``", "`") if written.startswith("`") else written


def _optional_name(written: str | None) -> str | None:
    return _name(written) if written else None


def _optional_text(written: str | None) -> str | None:
    return constants.text_of(written) if written else None
