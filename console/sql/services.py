"""Writes of async SQL on behalf of a user: submit a statement, cancel one, send its notification again."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from analytics import engine
from analytics.errors import QueryRefused
from console.accounts.access import require
from console.accounts.actor import Actor, dla_resource
from console.audit import record as audit
from console.catalog import ddl, queries, targets, virtual
from console.catalog.models import Schema
from console.catalog.queries import INFORMATION_SCHEMA
from console.outbox import services as outbox
from console.sql import lifecycle, scheduling, writes
from console.sql.models import QueryTask, TaskStatus
from console.statements import Ddl, Explain, Malformed, Parsed, Query, SelectConstants, ShowConnection, Subject
from console.statements.ddl import grammar
from console.statements.ddl.words import Reader
from console.statements.lexer import tokens
from console.statements.write import CreateTableAs, Insert
from console.web.after_commit import after_commit
from console.web.errors import Refused

#: `task_name` of a statement whose plan is asked for.
EXPLAIN = "EXPLAIN"

CANCEL = "dla:CancelQuery"
#: After so many tables that are named with their schema nobody looks further.
_MOST_NAMED = 100
_IN_FRONT_OF_TABLES, _NAMES = {"from", "join"}, {"word", "name"}
Parameter = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Work:
    """A statement taken apart; `name` is the task's in `show query_task`."""

    statement: str
    name: str
    #: Mode of EXPLAIN; the statement is the query whose plan is asked for.
    explain: str = ""
    #: Where the rows of the query go, as `targets.prepare` says.
    target: dict[str, Any] | None = None
    #: A statement that defines something, for which Spark has nothing to do; not read further than its name.
    definition: Reader | None = None


def work_of(actor: Actor, parsed: Parsed, schema: str) -> Work:
    """What there is to do for a statement; `schema` is the default one.

    Raises Refused for a statement that no task runs, and what `targets.prepare` raises for one that writes.
    """
    form, statement = parsed.form, parsed.statement
    match form:
        case Query() | SelectConstants() | ShowConnection(subject=Subject.PROCESSES | Subject.GRANTS):
            return Work(statement, _kind(statement))
        case Explain():
            _kind(form.query)
            return Work(form.query, EXPLAIN, explain=form.mode)
        case Ddl():
            definition = Reader(statement)
            return Work(statement, ddl.name_of(definition)[:32], definition=definition)
        case Insert() | CreateTableAs():
            _kind(form.query)
            target = targets.prepare(actor, form, schema)
            return Work(form.query, targets.TASK_NAMES[type(form)], target=target)
        case Malformed():
            raise form.refusal()
    raise Refused(
        "STATEMENT_NOT_A_QUERY",
        _("This statement is answered at once, without a task: send it without a hint."),
        "text",
    )


def _kind(statement: str) -> str:
    try:
        return engine.statement_kind(statement)[:32]
    except QueryRefused as error:
        raise Refused("STATEMENT_REFUSED", error.user_message, "text") from error


def submit(
    actor: Actor,
    parsed: Parsed,
    schema: str,
    connection_id: int = 0,
    *,
    parameters: tuple[Parameter, ...] = (),
    synchronous: bool = False,
) -> QueryTask:
    """Take a statement in as a task; Spark runs it once this transaction has committed.

    `parsed` is the statement as `statements.read` gave it; `schema` the default schema. A definition is carried out
    here and now, and its task has ended when it is returned. Raises Refused when the statement is empty or not a query,
    the schema is unknown, or the account has SQL_WAITING_PER_TENANT statements waiting; PermissionDenied when no policy
    allows dla:SubmitQuery on the schema or one of its tables, or what the statement writes or defines.
    """
    if not parsed.statement:
        raise Refused("STATEMENT_EMPTY", _("There is no statement after the comments."), "text")
    work = work_of(actor, parsed, schema)
    if work.definition is None:
        schema = _require_schema(actor, schema or _named_schema(actor, work.statement))
    now = timezone.now()
    task = QueryTask(
        id=new_task_id(now),
        tenant=actor.tenant,
        creator=actor.user,
        role=actor.role,
        submitter=actor.name[:150],
        table_schema=schema,
        command=parsed.text,
        statement=work.statement,
        parameters=list(parameters),
        synchronous=synchronous,
        task_name=work.name,
        explain=work.explain,
        target=work.target,
        connection_id=connection_id,
        source_ip=actor.source_ip,
        secure_transport=actor.secure,
        notify=None if synchronous else parsed.hint.receipt,
        heartbeat_at=now,
    )
    with transaction.atomic():
        if work.definition is not None:
            _define(actor, task, work.definition)
        else:
            scheduling.admit(actor.tenant)
            task.engine_losses = scheduling.known_losses(actor.tenant, work.statement)
            task.save(force_insert=True)
            writes.reserve(task)
            after_commit(lifecycle.hand_over, task.id)
        audit.record(actor, "sql.query.submit", dla_resource(actor.tenant, schema), detail={"task": task.id})
    return task


def _define(actor: Actor, task: QueryTask, definition: Reader) -> None:
    """Carry out a definition; the task ends SUCCESS or FAILURE, with its notification, in the caller's transaction."""
    begun = time.monotonic()
    try:
        with transaction.atomic():
            answer = ddl.carry_out(actor, grammar.read_definition(definition), task.table_schema)
        outcome = lifecycle.Outcome(TaskStatus.SUCCESS, row_count=answer.affected)
    except Refused as refused:
        outcome = lifecycle.Outcome(TaskStatus.FAILURE, message=refused.kept, error_condition=refused.symbol)
    task.save(force_insert=True)
    elapse_time = round((time.monotonic() - begun) * 1000)
    lifecycle.end(task, replace(outcome, elapse_time=elapse_time), expected=TaskStatus.QUEUED)


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


def send_notification_again(actor: Actor, task: QueryTask) -> bool:
    """Have the failed notification of a task sent once more, as it was: key, tag, body and destination.

    Returns False when there is none that has failed. Raises PermissionDenied without dla:SubmitQuery on its schema.
    """
    require(actor, queries.SUBMIT, dla_resource(actor.tenant, task.table_schema), owner=task.tenant)
    with transaction.atomic():
        found = task.notification is not None and outbox.send_again(task.notification)
        if found:
            audit.record(
                actor, "sql.notification.resend", dla_resource(task.tenant, task.table_schema), detail={"task": task.id}
            )
    task.refresh_from_db()
    return found


def new_task_id(now: datetime) -> str:
    """An id of the vendor's form: `q`, minute of the submission (UTC), two letters of the region, 15 hex digits."""
    region = re.sub(r"[^a-z]", "", settings.REGION.lower())[:2].ljust(2, "x")
    return f"q{now:%Y%m%d%H%M}{region}{secrets.token_hex(8)[:15]}"


def _named_schema(actor: Actor, statement: str) -> str:
    """The first schema of the account that a statement names with a table, for who has chosen none; empty for none.

    It decides nothing: what the statement reads is asked for each table when it runs.
    """
    there = {name.lower() for name in Schema.objects.filter(tenant=actor.tenant).values_list("name", flat=True)}
    there |= {*virtual.SCHEMAS, INFORMATION_SCHEMA}
    return next((name for name in islice(_schemas_in(statement), _MOST_NAMED) if name in there), "")


def _schemas_in(statement: str) -> Iterator[str]:
    """What stands in front of the dot of each table behind FROM and JOIN, in small letters."""
    parts = list(tokens(statement))
    for keyword, schema, dot, table in zip(parts, parts[1:], parts[2:], parts[3:], strict=False):
        if keyword.key in _IN_FRONT_OF_TABLES and dot.key == "." and {schema.kind, table.kind} <= _NAMES:
            yield schema.value.lower()


def _require_schema(actor: Actor, schema: str) -> str:
    """The schema's name as it was made, when it or any of its tables may be queried; which is decided when it runs."""
    if schema.lower() in (*virtual.SCHEMAS, INFORMATION_SCHEMA):
        require(actor, queries.SUBMIT, dla_resource(actor.tenant, schema.lower()), owner=actor.tenant)
        return schema.lower()
    found = Schema.objects.filter(tenant=actor.tenant, name__iexact=schema).first()
    if found is None:
        raise Refused(
            "SCHEMA_NOT_FOUND",
            _("There is no schema %(schema)r.") % {"schema": schema} if schema else _("Choose a schema."),
            "schema",
        )
    if not queries.may_query_in(actor, found):
        require(actor, queries.SUBMIT, dla_resource(actor.tenant, found.name), owner=actor.tenant)
        raise PermissionDenied(
            _("no policy allows %(submit)s on schema %(found)s") % {"submit": queries.SUBMIT, "found": found.name}
        )
    return found.name
