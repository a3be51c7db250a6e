"""Reads what the console answers by itself: `show`, `describe`, `explain`, `cancel`, `use` and their like. Pure.

Each reader gets a statement that begins with its word, and returns None when it is none of these after all.
"""

from __future__ import annotations

import re

from console.statements.lexer import NAME, TEXT, value_of
from console.statements.select import QUERY_WORDS
from console.statements.statement import (
    CancelTask,
    DescribeTable,
    Explain,
    Kill,
    SearchTasks,
    ShowColumns,
    ShowConnection,
    ShowCreateSchema,
    ShowCreateTable,
    ShowDatabases,
    ShowList,
    ShowNothing,
    ShowPartitions,
    ShowTables,
    ShowTableStatus,
    ShowTask,
    ShowVariables,
    Statement,
    Subject,
    Transaction,
    Use,
)

_LIKE = rf"(?:\s+like\s+(?P<like>{TEXT})|\s+where\s+(?P<condition>.+))?"
_FROM_SCHEMA = rf"(?:\s+(?:from|in)\s+(?P<schema>{NAME}))?"
_TABLE = rf"(?:(?P<before>{NAME})\s*\.\s*)?(?P<table>{NAME})"


def _form(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


SHOW_TASK = _form(rf"show\s+query_task\s+where\s+id\s*=\s*(?P<id>{TEXT})")
SEARCH_TASKS = _form(rf"show\s+query_tasks?\b(?:\s+like\s+(?P<like>{TEXT}))?(?P<clauses>.*)")
CANCEL_TASK = _form(
    rf"cancel\s+query_task\s+where\s+id\s*(?:=\s*(?P<id>{TEXT})|in\s*\((?P<ids>\s*{TEXT}(?:\s*,\s*{TEXT})*)\s*\))"
)
_ONE_TEXT = re.compile(TEXT)
SHOW_DATABASES = _form(rf"show\s+(?:databases|schemas){_LIKE}")
SHOW_TABLES = _form(rf"show\s+(?:extended\s+)?(?P<full>full\s+)?tables{_FROM_SCHEMA}{_LIKE}")
SHOW_TABLE_STATUS = _form(rf"show\s+table\s+status{_FROM_SCHEMA}{_LIKE}")
SHOW_COLUMNS = _form(
    rf"show\s+(?:extended\s+)?(?P<full>full\s+)?(?:columns|fields)\s+(?:from|in)\s+{_TABLE}{_FROM_SCHEMA}{_LIKE}"
)
SHOW_CREATE_TABLE = _form(rf"show\s+create\s+table\s+{_TABLE}")
SHOW_CREATE_SCHEMA = _form(rf"show\s+create\s+(?:schema|database)\s+(?:if\s+not\s+exists\s+)?(?P<schema>{NAME})")
SHOW_PARTITIONS = _form(rf"show\s+partitions\s+(?:from\s+)?{_TABLE}")
DESCRIBE = _form(rf"(?:describe|desc|explain)\s+(?:table\s+)?{_TABLE}")
DESCRIBE_TABLE = _form(rf"(?:describe|desc)\s+(?:table\s+)?(?:formatted|extended)\s+{_TABLE}")
SHOW_VARIABLES = _form(
    rf"show\s+(?:(?:session|global|local)\s+)?variables(?:\s+like\s+(?P<like>{TEXT})|\s+where\s+(?P<where>.+))?"
)
SHOW_WARNINGS = _form(
    rf"show\s+(?P<count>count\s*\(\s*\*\s*\)\s+)?(?P<what>warnings|errors)(?:\s+limit\s+[\d\s,]+)?{_LIKE}"
)
SHOW_STATUS = _form(rf"show\s+(?:(?:session|global|local)\s+)?status{_LIKE}")
SHOW_PROCESSES = _form(r"show\s+(?P<full>full\s+)?processlist")
SHOW_GRANTS = _form(r"show\s+grants(?:\s+for\s+[^;]{1,200})?")
SHOW_PRIVILEGES = _form(r"show\s+privileges")
VARIABLE_NAME = _form(rf"variable_name\s*(?:=|like)\s*(?P<name>{TEXT})")
USE = _form(rf"use\s+(?P<schema>{NAME})")
TRANSACTION = _form(r"(?:begin|start\s+transaction|commit|rollback)(?:\s+.{0,64})?")
KILL = _form(r"kill\s+(?:(?P<kind>connection|query)\s+)?(?P<id>\d{1,19})")
#: Stands in front of the query, which may be long.
EXPLAIN = _form(
    r"(?:explain|describe|desc)\s+(?:(?P<mode>extended|formatted|codegen|cost)\s+|format\s*=\s*\w+\s+)?(?=[\w(])"
)
#: Headers of what is shown of a connection.
WARNING_COLUMNS, STATUS_COLUMNS = ("Level", "Code", "Message"), ("Variable_name", "Value")
PRIVILEGE_COLUMNS = ("Privilege", "Context", "Comment")
_WARNINGS = {
    "warnings": (Subject.WARNINGS, Subject.WARNING_COUNT),
    "errors": (Subject.ERRORS, Subject.ERROR_COUNT),
}
#: Lists that stay the same, from the table of `information_schema` of that name.
LISTS = (
    (_form(rf"show\s+collation{_LIKE}"), "COLLATIONS"),
    (_form(rf"show\s+(?:character\s+set|charset){_LIKE}"), "CHARACTER_SETS"),
    (_form(rf"show\s+(?:storage\s+)?engines{_LIKE}"), "ENGINES"),
)
_INDEX = (
    "Table", "Non_unique", "Key_name", "Seq_in_index", "Column_name", "Collation", "Cardinality", "Sub_part", "Packed",
    "Null", "Index_type", "Comment", "Index_comment", "Visible", "Expression",
)  # fmt: skip
_ROUTINE = (
    "Db", "Name", "Type", "Definer", "Modified", "Created", "Security_type", "Comment", "character_set_client",
    "collation_connection", "Database Collation",
)  # fmt: skip
_TRIGGER = (
    "Trigger", "Event", "Table", "Statement", "Timing", "Created", "sql_mode", "Definer", "character_set_client",
    "collation_connection", "Database Collation",
)  # fmt: skip
_EVENT = (
    "Db", "Name", "Definer", "Time zone", "Type", "Execute at", "Interval value", "Interval field", "Starts", "Ends",
    "Status", "Originator", "character_set_client", "collation_connection", "Database Collation",
)  # fmt: skip
NOTHING = (
    (_form(r"show\s+(?:extended\s+)?(?:index|indexes|keys)\s+(?:from|in)\s+.+"), _INDEX),
    (_form(rf"show\s+(?:procedure|function)\s+status{_LIKE}"), _ROUTINE),
    (_form(rf"show\s+triggers{_FROM_SCHEMA}{_LIKE}"), _TRIGGER),
    (_form(rf"show\s+events{_FROM_SCHEMA}{_LIKE}"), _EVENT),
    (_form(rf"show\s+open\s+tables{_FROM_SCHEMA}{_LIKE}"), ("Database", "Table", "In_use", "Name_locked")),
    (_form(r"show\s+plugins"), ("Name", "Status", "Type", "Library", "License")),
)


def _show_task(match: re.Match[str]) -> Statement:
    return ShowTask(value_of(match["id"]))


def _search_tasks(match: re.Match[str]) -> Statement:
    return SearchTasks(match["clauses"].strip(), _value(match["like"]))


def _show_databases(match: re.Match[str]) -> Statement:
    return ShowDatabases(_value(match["like"]), match["condition"])


def _show_tables(match: re.Match[str]) -> Statement:
    like = _value(match["like"])
    return ShowTables(_value(match["schema"]), like, bool(match["full"]), match["condition"])


def _show_columns(match: re.Match[str]) -> Statement:
    schema = _value(match["schema"] or match["before"])
    like = _value(match["like"])
    return ShowColumns(value_of(match["table"]), schema, like, bool(match["full"]), match["condition"])


def _show_table_status(match: re.Match[str]) -> Statement:
    return ShowTableStatus(_value(match["schema"]), _value(match["like"]), match["condition"])


def _show_create_table(match: re.Match[str]) -> Statement:
    return ShowCreateTable(value_of(match["table"]), _value(match["before"]))


def _show_create_schema(match: re.Match[str]) -> Statement:
    return ShowCreateSchema(value_of(match["schema"]))


def _show_partitions(match: re.Match[str]) -> Statement:
    return ShowPartitions(value_of(match["table"]), _value(match["before"]))


def _show_variables(match: re.Match[str]) -> Statement:
    names = tuple(value_of(n["name"]) for n in VARIABLE_NAME.finditer(match["where"] or ""))
    return ShowVariables(_value(match["like"]), names)


def _show_warnings(match: re.Match[str]) -> Statement:
    if match["like"] or match["condition"]:
        return ShowNothing(WARNING_COLUMNS)
    return ShowConnection(_WARNINGS[match["what"].lower()][bool(match["count"])])


def _show_status(match: re.Match[str]) -> Statement:
    """Of conditions the one for a name is met; of others nothing is known."""
    named = VARIABLE_NAME.fullmatch(match["condition"] or "")
    if match["condition"] and named is None:
        return ShowNothing(STATUS_COLUMNS)
    return ShowConnection(Subject.STATUS, _value(named["name"] if named else match["like"]))


def _show_processes(match: re.Match[str]) -> Statement:
    return ShowConnection(Subject.PROCESSES, full=bool(match["full"]))


def _show_grants(_: re.Match[str]) -> Statement:
    return ShowConnection(Subject.GRANTS)


def _show_privileges(_: re.Match[str]) -> Statement:
    return ShowConnection(Subject.PRIVILEGES)


_SHOW_FORMS = (
    (SHOW_TASK, _show_task),
    (SEARCH_TASKS, _search_tasks),
    (SHOW_DATABASES, _show_databases),
    (SHOW_TABLES, _show_tables),
    (SHOW_COLUMNS, _show_columns),
    (SHOW_TABLE_STATUS, _show_table_status),
    (SHOW_CREATE_TABLE, _show_create_table),
    (SHOW_CREATE_SCHEMA, _show_create_schema),
    (SHOW_PARTITIONS, _show_partitions),
    (SHOW_VARIABLES, _show_variables),
    (SHOW_WARNINGS, _show_warnings),
    (SHOW_STATUS, _show_status),
    (SHOW_PROCESSES, _show_processes),
    (SHOW_GRANTS, _show_grants),
    (SHOW_PRIVILEGES, _show_privileges),
)


def read_show(text: str) -> Statement | None:
    """`show …` of schemas, tables, tasks, variables, lists and the connection."""
    for form, build in _SHOW_FORMS:
        if match := form.fullmatch(text):
            return build(match)
    for form, kind in LISTS:
        if match := form.fullmatch(text):
            return ShowList(kind, _value(match["like"]), match["condition"])
    return next((ShowNothing(columns) for form, columns in NOTHING if form.fullmatch(text)), None)


def read_cancel(text: str) -> Statement | None:
    """`cancel query_task where id …`."""
    match = CANCEL_TASK.fullmatch(text)
    if match is None:
        return None
    return CancelTask(tuple(value_of(id_) for id_ in _ONE_TEXT.findall(match["id"] or match["ids"])))


def read_describe(text: str) -> Statement | None:
    """`describe t`, and what MySQL takes as `explain`."""
    if match := DESCRIBE.fullmatch(text):
        return ShowColumns(value_of(match["table"]), _value(match["before"]))
    if match := DESCRIBE_TABLE.fullmatch(text):
        return DescribeTable(value_of(match["table"]), _value(match["before"]))
    return read_explain(text)


def read_explain(text: str) -> Statement | None:
    """`explain [mode] query`; whatever else stands behind the word is left to Spark's guard, which refuses it."""
    match = EXPLAIN.match(text)
    if match is None:
        return None
    query = text[match.end() :]
    first = re.match(r"\(|\w+", query)
    if first is None or first[0].lower() not in (*QUERY_WORDS, "("):
        return None
    return Explain((match["mode"] or "simple").lower(), query)


def read_use(text: str) -> Statement | None:
    """`use schema`."""
    match = USE.fullmatch(text)
    return Use(value_of(match["schema"])) if match else None


def read_transaction(text: str) -> Statement | None:
    """`begin`, `start transaction`, `commit`, `rollback`."""
    return Transaction() if TRANSACTION.fullmatch(text) else None


def read_kill(text: str) -> Statement | None:
    """`kill [connection|query] id`."""
    match = KILL.fullmatch(text)
    return Kill(int(match["id"]), (match["kind"] or "").lower() == "query") if match else None


def _value(written: str | None) -> str | None:
    return value_of(written) if written else None
