"""What a statement asks for: the few forms that are answered here, everything else is a query for Spark.

The forms are those of the vendor (`show query_task`, `cancel query_task`), of describing schemas, and what MySQL
clients send on their own at sign-in. Pure: text in, plain data out. Works on the text without its hint
(`console.sql.hints`).
"""

from __future__ import annotations

import re

from console.sql import constants
from console.sql import target_text as targets
from console.sql.statements import patterns
from console.sql.statements.forms import (
    CancelTask,
    Ddl,
    DescribeTable,
    Explain,
    InformationSchemaQuery,
    Kill,
    Query,
    SearchTasks,
    SelectConstants,
    SetVariables,
    ShowColumns,
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
    Transaction,
    Use,
)

__all__ = [
    "LONGEST_FORM",
    "CancelTask",
    "Ddl",
    "DescribeTable",
    "Explain",
    "InformationSchemaQuery",
    "Kill",
    "Query",
    "SearchTasks",
    "SelectConstants",
    "SetVariables",
    "ShowColumns",
    "ShowCreateSchema",
    "ShowCreateTable",
    "ShowDatabases",
    "ShowList",
    "ShowNothing",
    "ShowPartitions",
    "ShowTableStatus",
    "ShowTables",
    "ShowTask",
    "ShowVariables",
    "Statement",
    "Transaction",
    "Use",
    "parse",
]

#: Longer texts are queries: no form below needs as much, and patterns must not be tried on megabytes.
LONGEST_FORM = 16 * 1024
#: First words of definitions, which `console.sql.ddl` reads.
DEFINING = frozenset({"create", "drop", "alter", "msck", "repair", "refresh", "truncate"})
#: First words of queries, which alone can be explained.
_QUERY_WORDS = frozenset({"select", "with", "values", "from", "table", "("})


def parse(text: str) -> Statement:
    """Recognise a statement; what has none of the forms is a Query.

    Raises Refused for an INSERT or CREATE TABLE … AS that goes on as nothing that can be run.
    """
    keyword = text[:16].split(maxsplit=1)[0].lower() if text.strip() else ""
    if keyword in ("insert", "create") and (target := targets.parse(text)) is not None:
        return target
    if keyword in DEFINING:
        return Ddl(text)
    if keyword == "explain" and (explained := _read_explain(text)) is not None:
        return explained
    if len(text) > LONGEST_FORM:
        return Query(text)
    reader = _READERS.get(keyword)
    return (reader(text) if reader else None) or Query(text)


def _show_task(match: re.Match[str]) -> Statement:
    return ShowTask(constants.text_of(match["id"]))


def _search_tasks(match: re.Match[str]) -> Statement:
    return SearchTasks(match["clauses"].strip(), _optional_text(match["like"]))


def _show_databases(match: re.Match[str]) -> Statement:
    return ShowDatabases(_optional_text(match["like"]), match["condition"])


def _show_tables(match: re.Match[str]) -> Statement:
    like = _optional_text(match["like"])
    return ShowTables(_optional_name(match["schema"]), like, bool(match["full"]), match["condition"])


def _show_columns(match: re.Match[str]) -> Statement:
    schema = _optional_name(match["schema"] or match["before"])
    like = _optional_text(match["like"])
    return ShowColumns(_name(match["table"]), schema, like, bool(match["full"]), match["condition"])


def _show_table_status(match: re.Match[str]) -> Statement:
    return ShowTableStatus(_optional_name(match["schema"]), _optional_text(match["like"]), match["condition"])


def _show_create_table(match: re.Match[str]) -> Statement:
    return ShowCreateTable(_name(match["table"]), _optional_name(match["before"]))


def _show_create_schema(match: re.Match[str]) -> Statement:
    return ShowCreateSchema(_name(match["schema"]))


def _show_partitions(match: re.Match[str]) -> Statement:
    return ShowPartitions(_name(match["table"]), _optional_name(match["before"]))


def _show_variables(match: re.Match[str]) -> Statement:
    names = tuple(constants.text_of(n["name"]) for n in patterns.VARIABLE_NAME.finditer(match["where"] or ""))
    return ShowVariables(_optional_text(match["like"]), names)


_SHOW_FORMS = (
    (patterns.SHOW_TASK, _show_task),
    (patterns.SEARCH_TASKS, _search_tasks),
    (patterns.SHOW_DATABASES, _show_databases),
    (patterns.SHOW_TABLES, _show_tables),
    (patterns.SHOW_COLUMNS, _show_columns),
    (patterns.SHOW_TABLE_STATUS, _show_table_status),
    (patterns.SHOW_CREATE_TABLE, _show_create_table),
    (patterns.SHOW_CREATE_SCHEMA, _show_create_schema),
    (patterns.SHOW_PARTITIONS, _show_partitions),
    (patterns.SHOW_VARIABLES, _show_variables),
)


def _read_show(text: str) -> Statement | None:
    for form, build in _SHOW_FORMS:
        if match := form.fullmatch(text):
            return build(match)
    for form, kind in patterns.LISTS:
        if match := form.fullmatch(text):
            return ShowList(kind, _optional_text(match["like"]), match["condition"])
    return next((ShowNothing(columns) for form, columns in patterns.NOTHING if form.fullmatch(text)), None)


def _read_cancel(text: str) -> Statement | None:
    match = patterns.CANCEL_TASK.fullmatch(text)
    if match is None:
        return None
    return CancelTask(tuple(constants.text_of(id_) for id_ in patterns.TEXT.findall(match["id"] or match["ids"])))


def _read_describe(text: str) -> Statement | None:
    """`describe t`, and what MySQL takes as `explain`."""
    if match := patterns.DESCRIBE.fullmatch(text):
        return ShowColumns(_name(match["table"]), _optional_name(match["before"]))
    if match := patterns.DESCRIBE_TABLE.fullmatch(text):
        return DescribeTable(_name(match["table"]), _optional_name(match["before"]))
    return _read_explain(text)


def _read_explain(text: str) -> Statement | None:
    """`explain [mode] query`; whatever else stands behind the word is left to Spark's guard, which refuses it."""
    match = patterns.EXPLAIN.match(text)
    if match is None:
        return None
    query = text[match.end() :]
    first = re.match(r"\(|\w+", query)
    if first is None or first[0].lower() not in _QUERY_WORDS:
        return None
    return Explain((match["mode"] or "simple").lower(), query)


def _read_use(text: str) -> Statement | None:
    match = patterns.USE.fullmatch(text)
    return Use(_name(match["schema"])) if match else None


def _read_set(text: str) -> Statement | None:
    return SetVariables(text)


def _read_select(text: str) -> Statement | None:
    items = constants.parse_select(text)
    if items:
        return SelectConstants(items)
    return InformationSchemaQuery(text) if patterns.INFORMATION_SCHEMA.search(patterns.without_texts(text)) else None


def _read_transaction(text: str) -> Statement | None:
    return Transaction() if patterns.TRANSACTION.fullmatch(text) else None


def _read_kill(text: str) -> Statement | None:
    match = patterns.KILL.fullmatch(text)
    return Kill(int(match["id"]), (match["kind"] or "").lower() == "query") if match else None


_READERS = {
    "show": _read_show,
    "cancel": _read_cancel,
    "explain": _read_describe,
    "describe": _read_describe,
    "desc": _read_describe,
    "use": _read_use,
    "set": _read_set,
    "select": _read_select,
    "with": _read_select,
    "(select": _read_select,
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
