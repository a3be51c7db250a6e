"""Running a statement for the editor and the JSON API: answered at once by the console, or taken in as a task."""

from __future__ import annotations

from dataclasses import replace

from django.utils.translation import gettext as _

from console import statements
from console.accounts.actor import Actor
from console.catalog.describe import Answer, UnknownSchemaError, UnknownTableError
from console.sql import answers, services
from console.sql.models import QueryTask
from console.sql.services import Parameter
from console.statements import Parsed
from console.web.errors import Refused

SCHEMA_NOT_FOUND, TABLE_NOT_FOUND = "SCHEMA_NOT_FOUND", "TABLE_NOT_FOUND"


def start(
    actor: Actor, text: str, schema: str, *, parameters: tuple[Parameter, ...] = (), explain: bool = False
) -> Answer | QueryTask:
    """Answer the statement, or take it in as a task. `explain` asks for its plan and runs nothing.

    Raises Refused when the statement is refused before anything runs, PermissionDenied without the right to it.
    """
    parsed = statements.read(text)
    if explain:
        parsed = explained(parsed)
    else:
        answer = answered(actor, parsed, schema)
        if answer is not None:
            return answer
    return services.submit(actor, parsed, schema, parameters=parameters)


def answered(actor: Actor, parsed: Parsed, schema: str) -> Answer | None:
    """What the console answers by itself; None for what Spark has to run, and for what `submit` will refuse."""
    statement = parsed.form
    if isinstance(statement, statements.Use):
        return _used(actor, statement.schema)
    try:
        return answers.answer(actor, statement, schema)
    except UnknownSchemaError as error:
        raise Refused(SCHEMA_NOT_FOUND, str(error), "text") from error
    except UnknownTableError as error:
        raise Refused(TABLE_NOT_FOUND, str(error), "text") from error


def explained(parsed: Parsed) -> Parsed:
    """The statement that asks for the plan of another one, whose hint stays in front; of an EXPLAIN the same."""
    statement, start = parsed.statement, parsed.hint.start
    if not statement or statement[:8].lower().split()[:1] == ["explain"]:
        return parsed
    text = f"{parsed.text[:start]}explain formatted {parsed.text[start:]}"
    return replace(parsed.of(f"explain formatted {statement}"), text=text)


def _used(actor: Actor, schema: str) -> Answer:
    """`use`: nothing is kept here, the caller keeps the schema; this says whether it can be one."""
    found = answers.answer(actor, statements.ShowDatabases(), "")
    if found is None or (schema,) not in found.rows:
        raise Refused(SCHEMA_NOT_FOUND, _("There is no schema %(schema)r.") % {"schema": schema}, "text")
    return Answer((), [])
