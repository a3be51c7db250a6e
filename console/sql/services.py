"""Writes of async SQL on behalf of a user: submit a statement, cancel one, send its notification again."""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import replace
from datetime import datetime

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.utils import timezone

from console.accounts.access import require
from console.accounts.actor import Actor, dla_resource
from console.audit import services as audit
from console.outbox import services as outbox
from console.sql import ddl, lifecycle, queries, scheduling, submission, targets, virtual
from console.sql.models import QueryTask, Schema, TaskStatus
from console.sql.relations import INFORMATION_SCHEMA
from console.web.after_commit import after_commit
from console.web.errors import Refused

LONGEST_STATEMENT = submission.LONGEST_STATEMENT
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

    `text` is the statement as the user wrote it, with its hint; `schema` the default schema. A definition is carried
    out here and now, and its task has ended when it is returned. Raises Refused when the hint is not closed, the
    statement is empty, too long or not a query, the schema is unknown, or the account has SQL_WAITING_PER_TENANT
    statements waiting; PermissionDenied when no policy allows dla:SubmitQuery on the schema or one of its tables, or
    what the statement writes or defines.
    """
    hint = submission.read(text)
    work = submission.work_of(actor, hint.statement, schema)
    if not work.is_definition:
        schema = _require_schema(actor, schema)
    now = timezone.now()
    task = QueryTask(
        id=new_task_id(now),
        tenant=actor.tenant,
        creator=actor.user,
        role=actor.role,
        submitter=actor.name[:150],
        table_schema=schema,
        command=text,
        statement=work.statement,
        parameters=list(parameters),
        synchronous=synchronous,
        task_name=work.name,
        explain=work.explain,
        target=work.target,
        connection_id=connection_id,
        source_ip=actor.source_ip,
        secure_transport=actor.secure,
        notify=None if synchronous else hint.receipt,
        heartbeat_at=now,
    )
    with transaction.atomic():
        if work.is_definition:
            _define(actor, task)
        else:
            scheduling.admit(actor.tenant)
            task.engine_losses = scheduling.known_losses(actor.tenant, work.statement)
            task.save(force_insert=True)
            targets.reserve(task)
            after_commit(lifecycle.hand_over, task.id)
        audit.record(actor, "sql.query.submit", dla_resource(actor.tenant, schema), detail={"task": task.id})
    return task


def _define(actor: Actor, task: QueryTask) -> None:
    """Carry out a definition; the task ends SUCCESS or FAILURE, with its notification, in the caller's transaction."""
    begun = time.monotonic()
    try:
        with transaction.atomic():
            answer = ddl.run(actor, task.statement, task.table_schema)
        outcome = lifecycle.Outcome(TaskStatus.SUCCESS, row_count=answer.affected)
    except Refused as refused:
        outcome = lifecycle.Outcome(TaskStatus.FAILURE, message=refused.message, error_condition=refused.symbol)
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


def _require_schema(actor: Actor, schema: str) -> str:
    """The schema's name as it was made, when it or any of its tables may be queried; which is decided when it runs."""
    if schema.lower() in (*virtual.SCHEMAS, INFORMATION_SCHEMA):
        require(actor, queries.SUBMIT, dla_resource(actor.tenant, schema.lower()), owner=actor.tenant)
        return schema.lower()
    found = Schema.objects.filter(tenant=actor.tenant, name__iexact=schema).first()
    if found is None:
        raise Refused("SCHEMA_NOT_FOUND", f"There is no schema {schema!r}." if schema else "Choose a schema.", "schema")
    if not queries.may_query_in(actor, found):
        require(actor, queries.SUBMIT, dla_resource(actor.tenant, found.name), owner=actor.tenant)
        raise PermissionDenied(f"no policy allows {queries.SUBMIT} on schema {found.name}")
    return found.name
