"""The 27 columns of `show query_task` as expressions of the database, so that it filters and sorts, not Python.

Each gives what `queries.row_of` shows; a test compares the two for every column.
"""

from __future__ import annotations

from typing import Any

from django.db.models import Case, CharField, Expression, F, Func, IntegerField, Q, TextField, Value, When
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Coalesce, NullIf

from console.outbox.models import NotificationStatus
from console.sql import hints, queries
from console.sql.models import TaskStatus


class UtcText(Func):
    """A time as `show query_task` writes it: UTC, `yyyy-MM-dd HH:mm:ss`."""

    output_field = CharField()

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """SQLite keeps times in UTC."""
        return self.as_sql(
            compiler, connection, template="strftime('%%Y-%%m-%%d %%H:%%M:%%S', %(expressions)s)", **extra
        )

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """PostgreSQL keeps moments."""
        template = "to_char(%(expressions)s at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS')"
        return self.as_sql(compiler, connection, template=template, **extra)


_NOTIFIED = Q(notify__isnull=False, notification__status__in=(NotificationStatus.SUCCESS, NotificationStatus.FAILURE))


def _option(name: str) -> Expression:
    return KeyTextTransform(name, "notify")


def _of_notification(value: Any, output_field: Any) -> Expression:
    """A column that is null until the notification has ended."""
    return Case(When(_NOTIFIED, then=value), default=Value(None), output_field=output_field)


def expression(column: str) -> Expression | F:
    """The expression of one of `queries.COLUMNS`."""
    return _COMPUTED.get(column) or F(column)


_PRODUCT = _option(hints.NOTIFY_BY)
_COMPUTED: dict[str, Expression | F] = {
    "status": Case(
        When(status=TaskStatus.QUEUED, then=Value(TaskStatus.RUNNING.value)),
        default=F("status"),
        output_field=CharField(),
    ),
    "creator_id": Coalesce(F("creator__uid"), F("submitter"), output_field=CharField()),
    "create_time": UtcText(F("create_time")),
    "update_time": UtcText(F("update_time")),
    "result_file_oss_file": F("result_file"),
    "cancellable_task": Case(
        When(status__in=(TaskStatus.QUEUED, TaskStatus.RUNNING), cancel_requested=False, then=Value(1)),
        default=Value(0),
        output_field=IntegerField(),
    ),
    "mq_product": _PRODUCT,
    "mq_model": Case(
        *(When(Q(**{"notify__mq-notify-by": product}), then=Value(model)) for product, model in queries.MODELS.items()),
        default=Value(None),
        output_field=CharField(),
    ),
    "mq_topic": _option(hints.TOPIC),
    "mq_queue": _option(hints.QUEUE),
    "mq_producer_id": _option(hints.PRODUCER_ID),
    "mq_endpoint": _option(hints.ENDPOINT),
    "mq_status": _of_notification(F("notification__status"), CharField()),
    "mq_error_msg": _of_notification(NullIf(F("notification__error"), Value("")), TextField()),
    "mq_message_id": _of_notification(NullIf(F("notification__message_id"), Value("")), CharField()),
    "mq_total_time": _of_notification(F("notification__total_time_ms"), IntegerField()),
}
