"""Writes of async SQL on behalf of a user: submit a statement, cancel one."""

from __future__ import annotations

import re
import secrets
from datetime import datetime
from functools import partial

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.utils import timezone

from analytics import run as engine
from analytics.errors import QueryRefused
from console.accounts.access import require
from console.accounts.actor import Actor, dla_resource
from console.audit import services as audit
from console.sql import hints, lifecycle, queries, statements
from console.sql.models import QueryTask, Schema, TaskStatus
from console.web.errors import Refused

#: Longer statements are refused before anything parses them.
LONGEST_STATEMENT = 1024 * 1024
CANCEL = "dla:CancelQuery"
Parameter = str | int | float | bool | None


def submit(
    actor: Actor,
    text: str,
    schema: str,
    connection_id: int = 0,
    *,
    parameters: tuple[Parameter, ...] = (),
    synchronous: bool = False,
) -> QueryTask:
    """Take a statement in as a task; Spark runs it once this transaction has committed.

    `text` is the statement as the user wrote it, with its hint; `schema` the default schema. Raises Refused when the
    hint is not closed, the statement is empty, too long or not a query, or the schema is unknown; PermissionDenied when
    no policy allows dla:SubmitQuery on the schema or one of its tables.
    """
    hint = _read(text)
    _require_schema(actor, schema)
    now = timezone.now()
    with transaction.atomic():
        task = QueryTask.objects.create(
            id=new_task_id(now),
            tenant=actor.tenant,
            creator=actor.user,
            role=actor.role,
            submitter=actor.name[:150],
            table_schema=schema,
            command=text,
            statement=hint.statement,
            parameters=list(parameters),
            synchronous=synchronous,
            task_name=_kind(hint.statement),
            connection_id=connection_id,
            source_ip=actor.source_ip,
            secure_transport=actor.secure,
            notify=None if synchronous else hint.receipt,
            heartbeat_at=now,
        )
        audit.record(actor, "sql.query.submit", dla_resource(actor.tenant, schema), detail={"task": task.id})
        transaction.on_commit(partial(lifecycle.hand_over, task.id), robust=True)
    return task


def cancel(actor: Actor, task: QueryTask) -> bool:
    """Stop a task: a waiting one ends at once, a running one as soon as its worker has stopped Spark.

    Returns False when it had ended before. Raises PermissionDenied without dla:CancelQuery on its schema.
    """
    require(actor, CANCEL, dla_resource(actor.tenant, task.table_schema), owner=task.tenant)
    outcome = lifecycle.Outcome(TaskStatus.CANCELLED, message=f"Cancelled by {actor.name}.")
    with transaction.atomic():
        task.refresh_from_db()
        found = lifecycle.end(task, outcome, expected=TaskStatus.QUEUED) or bool(
            QueryTask.objects.filter(pk=task.pk, status=TaskStatus.RUNNING).update(cancel_requested=True)
        )
        if found:
            audit.record(
                actor, "sql.query.cancel", dla_resource(task.tenant, task.table_schema), detail={"task": task.id}
            )
    task.refresh_from_db()
    return found


def new_task_id(now: datetime) -> str:
    """An id of the vendor's form: `q`, minute of the submission (UTC), two letters of the region, 15 hex digits."""
    region = re.sub(r"[^a-z]", "", settings.REGION.lower())[:2].ljust(2, "x")
    return f"q{now:%Y%m%d%H%M}{region}{secrets.token_hex(8)[:15]}"


def _read(text: str) -> hints.Hint:
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
    if not isinstance(statements.parse(hint.statement), statements.Query | statements.SelectConstants):
        raise Refused(
            "STATEMENT_NOT_A_QUERY",
            "This statement is answered at once by the MySQL port and is no query: write a SELECT.",
            "text",
        )
    return hint


def _kind(statement: str) -> str:
    try:
        return engine.statement_kind(statement)[:32]
    except QueryRefused as error:
        raise Refused("STATEMENT_REFUSED", error.user_message, "text") from error


def _require_schema(actor: Actor, schema: str) -> None:
    """Allow when the schema or any of its tables may be queried; which ones is decided again when it runs."""
    if not Schema.objects.filter(tenant=actor.tenant, name=schema).exists():
        raise Refused("SCHEMA_NOT_FOUND", f"There is no schema {schema!r}." if schema else "Choose a schema.", "schema")
    if schema not in queries.readable_schemas(actor):
        require(actor, queries.SUBMIT, dla_resource(actor.tenant, schema), owner=actor.tenant)
        raise PermissionDenied(f"no policy allows {queries.SUBMIT} on schema {schema}")
