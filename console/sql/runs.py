"""Running a statement for the editor and the JSON API: answered at once by the console, or taken in as a task."""

from __future__ import annotations

from console.accounts.actor import Actor
from console.sql import answers, hints, services, statements
from console.sql.catalog import Answer, UnknownSchemaError, UnknownTableError
from console.sql.models import QueryTask
from console.sql.services import Parameter
from console.web.errors import Refused

SCHEMA_NOT_FOUND, TABLE_NOT_FOUND = "SCHEMA_NOT_FOUND", "TABLE_NOT_FOUND"


def start(
    actor: Actor, text: str, schema: str, *, parameters: tuple[Parameter, ...] = (), explain: bool = False
) -> Answer | QueryTask:
    """Answer the statement, or take it in as a task. `explain` asks for its plan and runs nothing.

    Raises Refused when the statement is refused before anything runs, PermissionDenied without the right to it.
    """
    if not explain:
        answer = answered(actor, text, schema)
        if answer is not None:
            return answer
    return services.submit(actor, explained(text) if explain else text, schema, parameters=parameters)


def answered(actor: Actor, text: str, schema: str) -> Answer | None:
    """What the console answers by itself; None for what Spark has to run, and for what `submit` will refuse."""
    if len(text) > services.LONGEST_STATEMENT:
        return None
    try:
        statement = statements.parse(hints.split(text).statement)
    except hints.HintError:
        return None
    if isinstance(statement, statements.Use):
        return _used(actor, statement.schema)
    try:
        return answers.answer(actor, statement, schema)
    except UnknownSchemaError as error:
        raise Refused(SCHEMA_NOT_FOUND, str(error), "text") from error
    except UnknownTableError as error:
        raise Refused(TABLE_NOT_FOUND, str(error), "text") from error


def explained(text: str) -> str:
    """The statement that asks for the plan of `text`; its hint stays in front. Text that has EXPLAIN is left alone."""
    try:
        statement = hints.split(text).statement
    except hints.HintError:
        return text
    start = text.find(statement) if statement else -1
    if start < 0 or statement[:8].lower().split()[:1] == ["explain"]:
        return text
    return f"{text[:start]}explain formatted {text[start:]}"


def _used(actor: Actor, schema: str) -> Answer:
    """`use`: nothing is kept here, the caller keeps the schema; this says whether it can be one."""
    found = answers.answer(actor, statements.ShowDatabases(), "")
    if found is None or (schema,) not in found.rows:
        raise Refused(SCHEMA_NOT_FOUND, f"There is no schema {schema!r}.", "text")
    return Answer((), [])
