"""Reads of async SQL: who sees which tasks, the 27 columns of `show query_task`, schemas and tables."""

from __future__ import annotations

from datetime import UTC, datetime

from django.db.models import Prefetch, QuerySet

from console.accounts.actor import Actor, dla_resource
from console.accounts.models import Tenant
from console.outbox.models import NotificationStatus
from console.sql import hints
from console.sql.models import ExternalTable, QueryTask, Schema, TaskStatus
from console.topics.models import Group, Topic

SUBMIT = "dla:SubmitQuery"
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
MODELS = {"ons": "topic", "mns": "queue"}
Row = dict[str, str | int | None]


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
    product = task.notify.get(hints.NOTIFY_BY)
    columns |= {
        "mq_product": product,
        "mq_model": MODELS.get(product),
        "mq_topic": task.notify.get(hints.TOPIC),
        "mq_queue": task.notify.get(hints.QUEUE),
        "mq_producer_id": task.notify.get(hints.PRODUCER_ID),
        "mq_endpoint": task.notify.get(hints.ENDPOINT),
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


def readable_schemas(actor: Actor) -> dict[str, list[ExternalTable]]:
    """The schemas and tables that the actor may query: all that a statement of theirs can name."""
    tables = Prefetch("tables", queryset=ExternalTable.objects.order_by("name"))
    readable = {}
    for schema in Schema.objects.filter(tenant=actor.tenant).prefetch_related(tables):
        allowed = [t for t in schema.tables.all() if _may_query(actor, schema.name, t.name)]
        if allowed or _may_query(actor, schema.name):
            readable[schema.name] = allowed
    return readable


def may_query_in(actor: Actor, schema: Schema) -> bool:
    """Whether the actor may query the schema or one of its tables: `readable_schemas` has it then."""
    if _may_query(actor, schema.name):
        return True
    return any(_may_query(actor, schema.name, table) for table in schema.tables.values_list("name", flat=True))


def _may_query(actor: Actor, schema: str, table: str = "*") -> bool:
    return actor.decide(SUBMIT, dla_resource(actor.tenant, schema, table), owner=actor.tenant).allowed


def notification_targets(tenant: Tenant) -> tuple[list[Topic], list[Group]]:
    """The topics and groups that a hint of the tenant can name."""
    topics = Topic.objects.filter(instance__tenant=tenant).select_related("instance__cluster")
    groups = Group.objects.filter(instance__tenant=tenant).select_related("instance")
    return list(topics.order_by("instance__name", "name")[:500]), list(
        groups.order_by("instance__name", "group_id")[:500]
    )
