"""Reads of async SQL: who sees which tasks, the 27 columns of `show query_task`, schemas and tables."""

from __future__ import annotations

from datetime import UTC, datetime

from django.conf import settings
from django.db.models import QuerySet

from console.accounts.actor import Actor, service_resource
from console.accounts.models import Tenant
from console.catalog.virtual.gantry import Columns, Rows, Table
from console.outbox.models import NotificationStatus
from console.sql.models import QueryTask, TaskStatus
from console.statements import hint

#: The columns of `show query_task`, in the order of the vendor's page; clients read them by name.
COLUMNS = (
    "id",
    "mpp_query_id",
    "status",
    "task_name",
    "table_schema",
    "command",
    "creator_id",
    "create_time",
    "update_time",
    "connection_id",
    "message",
    "row_count",
    "elapse_time",
    "scanned_row_count",
    "scanned_data_bytes",
    "result_file_oss_file",
    "cancellable_task",
    "mq_product",
    "mq_model",
    "mq_topic",
    "mq_queue",
    "mq_producer_id",
    "mq_endpoint",
    "mq_status",
    "mq_error_msg",
    "mq_message_id",
    "mq_total_time",
)
#: Those of them that are numbers; all others are texts.
INTEGER_COLUMNS = frozenset(
    {
        "connection_id",
        "row_count",
        "elapse_time",
        "scanned_row_count",
        "scanned_data_bytes",
        "cancellable_task",
        "mq_total_time",
    }
)
_TIMES = ("create_time", "update_time")
_CHUNK = 1_000
MODELS = {"ons": "topic", "mns": "queue"}
Row = dict[str, str | int | None]

#: The states that a list can be narrowed to, as they are shown: waiting tasks are among the running ones.
STATUSES = (TaskStatus.RUNNING, TaskStatus.SUCCESS, TaskStatus.FAILURE, TaskStatus.CANCELLED)


def row_of(task: QueryTask) -> Row:
    """The 27 columns of a task, in order. Times are UTC, `yyyy-MM-dd HH:mm:ss`; durations are ms."""
    status = TaskStatus.RUNNING if task.status == TaskStatus.QUEUED else task.status
    row: Row = {
        "id": task.id,
        "mpp_query_id": task.mpp_query_id,
        "status": str(status),
        "task_name": task.task_name,
        "table_schema": task.table_schema,
        "command": task.command,
        "creator_id": task.creator.uid if task.creator else task.submitter,
        "create_time": _time(task.create_time),
        "update_time": _time(task.update_time),
        "connection_id": task.connection_id,
        "message": task.message,
        "row_count": task.row_count,
        "elapse_time": task.elapse_time,
        "scanned_row_count": task.scanned_row_count,
        "scanned_data_bytes": task.scanned_data_bytes,
        "result_file_oss_file": task.result_file,
        "cancellable_task": int(task.cancellable),
    }
    return row | _receipt_columns(task)


def _receipt_columns(task: QueryTask) -> Row:
    """The `mq_…` columns: all null when no notification was asked for."""
    columns: Row = dict.fromkeys(COLUMNS[17:])
    if task.notify is None:
        return columns
    product = task.notify.get(hint.NOTIFY_BY)
    columns |= {
        "mq_product": product,
        "mq_model": MODELS.get(product),
        "mq_topic": task.notify.get(hint.TOPIC),
        "mq_queue": task.notify.get(hint.QUEUE),
        "mq_producer_id": task.notify.get(hint.PRODUCER_ID),
        "mq_endpoint": task.notify.get(hint.ENDPOINT),
    }
    notification = task.notification
    if notification is not None and notification.status in (NotificationStatus.SUCCESS, NotificationStatus.FAILURE):
        columns |= {
            "mq_status": notification.status,
            "mq_error_msg": notification.error or None,
            "mq_message_id": notification.message_id or None,
            "mq_total_time": notification.total_time_ms,
        }
    return columns


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def tasks_of(tenant: Tenant) -> QuerySet[QueryTask]:
    """All tasks of a tenant, latest first, with what `row_of` needs."""
    return QueryTask.objects.filter(tenant=tenant).select_related("tenant", "creator", "role__tenant", "notification")


def visible_tasks(actor: Actor) -> QuerySet[QueryTask]:
    """A RAM user or role sees the own tasks only, the tenant's administrator all of the tenant's."""
    tasks = tasks_of(actor.tenant)
    if actor.is_account:
        return tasks
    return tasks.filter(creator=actor.user) if actor.user else tasks.filter(role=actor.role)


def search(actor: Actor, text: str = "", status: str = "") -> QuerySet[QueryTask]:
    """The tasks that the actor may see, latest first; `text` is part of the statement or the beginning of the id."""
    found = visible_tasks(actor)
    if text:
        found = found.filter(command__icontains=text) | found.filter(pk__startswith=text)
    if status == TaskStatus.RUNNING:
        return found.filter(status__in=(TaskStatus.QUEUED, TaskStatus.RUNNING))
    return found.filter(status=status) if status in TaskStatus.values else found


def mine(actor: Actor, text: str = "", status: str = "") -> QuerySet[QueryTask]:
    """As `search`, the actor's own only: the history that the editor shows."""
    found = search(actor, text, status)
    return found.filter(creator=actor.user) if actor.user else found.filter(role=actor.role)


def waiting_before(task: QueryTask) -> int | None:
    """How many statements of the account wait in front of this one; None when it does not wait."""
    if task.status != TaskStatus.QUEUED:
        return None
    waiting = QueryTask.objects.filter(tenant=task.tenant, status=TaskStatus.QUEUED)
    return waiting.filter(create_time__lt=task.create_time).count()


# --- Table gantry.query_tasks -----------------------------------------------------------------------------------------


def _type_of(column: str) -> str:
    if column in _TIMES:
        return "timestamp"
    return "bigint" if column in INTEGER_COLUMNS else "string"


_TABLE_COLUMNS: Columns = (
    *((name, _type_of(name), "as in show query_task") for name in COLUMNS),
    ("submitter", "string", "user or role session that submitted it"),
    ("synchronous", "boolean", "a client waited for the rows"),
    ("source_ip", "string", "from where it was submitted"),
)


def _may_read_table(actor: Actor) -> bool:
    return actor.decide("dla:QueryTask", service_resource("dla", actor.tenant), owner=actor.tenant).allowed


def _table_rows(actor: Actor) -> Rows:
    for task in visible_tasks(actor).order_by("-create_time")[: settings.SQL_SNAPSHOT_ROWS].iterator(_CHUNK):
        row = row_of(task) | {"create_time": task.create_time, "update_time": task.update_time}
        yield (*(row[name] for name in COLUMNS), task.submitter, task.synchronous, task.source_ip)


#: The tasks that the caller may see, as a table to query.
TASK_TABLE = Table(_TABLE_COLUMNS, _may_read_table, _table_rows)
