"""What a submitted statement comes to: the query for Spark, and what is done with its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from analytics import run as engine
from analytics.errors import QueryRefused
from console.accounts.actor import Actor
from console.sql import ddl, hints, statements, targets
from console.sql.statements import Ddl, Explain, Query, SelectConstants
from console.web.errors import Refused

#: Longer statements are refused before anything parses them.
LONGEST_STATEMENT = 1024 * 1024
#: `task_name` of a statement whose plan is asked for.
EXPLAIN = "EXPLAIN"


@dataclass(frozen=True, slots=True)
class Work:
    """A statement taken apart; `name` is the task's in `show query_task`."""

    statement: str
    name: str
    #: Mode of EXPLAIN; the statement is the query whose plan is asked for.
    explain: str = ""
    #: Where the rows of the query go, as `targets.prepare` says.
    target: dict[str, Any] | None = None
    #: The statement defines something, and Spark has nothing to do.
    is_definition: bool = False


def read(text: str) -> hints.Hint:
    """The hint and the statement behind it. Raises Refused when it is too long, empty or its hint is not closed."""
    if len(text) > LONGEST_STATEMENT:
        raise Refused(
            "STATEMENT_TOO_LONG", f"The statement has {len(text)} characters; {LONGEST_STATEMENT} are allowed.", "text"
        )
    try:
        hint = hints.split(text)
    except hints.HintError as error:
        raise Refused("HINT_INVALID", str(error), "text") from error
    if not hint.statement:
        raise Refused("STATEMENT_EMPTY", "There is no statement behind the comments.", "text")
    return hint


def work_of(actor: Actor, statement: str, schema: str) -> Work:
    """What there is to do for a statement without its hint; `schema` is the default one.

    Raises Refused for a statement that no task runs, and what `targets.prepare` raises for one that writes.
    """
    parsed = statements.parse(statement)
    match parsed:
        case Query() | SelectConstants():
            return Work(statement, _kind(statement))
        case Explain():
            _kind(parsed.query)
            return Work(parsed.query, EXPLAIN, explain=parsed.mode)
        case Ddl():
            return Work(statement, ddl.name_of(statement)[:32], is_definition=True)
        case targets.Insert() | targets.CreateTableAs():
            _kind(parsed.query)
            target = targets.prepare(actor, parsed, schema)
            return Work(parsed.query, targets.TASK_NAMES[type(parsed)], target=target)
    raise Refused(
        "STATEMENT_NOT_A_QUERY", "This statement is answered at once, without a task: send it without a hint.", "text"
    )


def _kind(statement: str) -> str:
    try:
        return engine.statement_kind(statement)[:32]
    except QueryRefused as error:
        raise Refused("STATEMENT_REFUSED", error.user_message, "text") from error
