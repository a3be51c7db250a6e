"""How much a task may write, and the results that an account keeps."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, time, timedelta

from django.conf import settings
from django.db import DatabaseError, close_old_connections
from django.db.models import Q, QuerySet, Sum
from django.utils import timezone
from django.utils.translation import gettext as _

from analytics import lake
from analytics.errors import LakeError, QueryFailed
from analytics.specs import QueryResult, Room
from console.accounts.models import Tenant
from console.catalog.storage import LAKE, NO_ROOM, RESULTS, add, is_beyond, lake_sentence, row_of
from console.rights import limits
from console.sql.models import ENDED, QueryTask, TaskStatus
from console.web.text import in_words

log = logging.getLogger(__name__)

#: What a running statement has written is noted for the others each time it has grown by so many bytes.
STEP_BYTES = 1024**2
#: Results are kept for so long whatever comes: a notification tells of one that somebody is to fetch, and of one whose
#: client waits the client has the rows already.
KEPT, KEPT_WHEN_WAITED_FOR = timedelta(days=1), timedelta(hours=1)
#: Results that are deleted at once to make room.
_MOST_DELETED = 1000


def room_of(task: QueryTask, kind: str) -> Room:
    """What a running statement may still write of a kind, for analytics, which asks twice a second."""
    noted = 0

    def told(written: int, is_all: bool) -> str:
        nonlocal noted
        if is_all:
            _held(task).update(writing_bytes=written)
            return _why_no_room(task, kind, written)
        if written - noted < STEP_BYTES:
            return ""
        try:
            _held(task).update(writing_bytes=written)
            noted = written
            return _why_no_room(task, kind, written)
        except DatabaseError as error:
            log.warning("what task %s may still write cannot be told: %s", task.pk, error)
            return ""
        finally:
            close_old_connections()  # the thread that asks is one of analytics, whose end Django does not see

    return told


def require_room(task: QueryTask) -> None:
    """Raise QueryFailed when a statement has nothing to begin for: there is no room for the first byte."""
    for kind in (LAKE, RESULTS) if task.target else (RESULTS,):
        if reason := _why_no_room(task, kind, 1):
            raise QueryFailed(reason, NO_ROOM)


def count_written(task: QueryTask, result: QueryResult) -> None:
    """What a statement has written is counted with what lies there, and no longer as being written."""
    add(task.tenant, lake=result.table_bytes, results=result.result_bytes)
    _held(task).update(writing_bytes=0)


def _why_no_room(task: QueryTask, kind: str, written: int) -> str:
    """Why a statement that has written so much must end; empty when it need not."""
    tenant = task.tenant
    limit = limits.effective(tenant)[kind]
    others = being_written(tenant, kind, but=task)
    if not is_beyond(tenant, kind, limit, written, others):
        return ""
    if kind == LAKE:
        return lake_sentence(tenant, limit)
    _delete_results(tenant, row_of(tenant).result_bytes + others + written - limit)
    if not is_beyond(tenant, kind, limit, written, others):
        return ""
    return _(
        "%(tenant)s may keep %(limit)s of results, and those of the last %(kept)s hours, which "
        "are never deleted for new ones, leave no room for this one: select less, write it into "
        "a table with CREATE TABLE … AS, or ask the platform's administrator, who sets this "
        "limit."
    ) % {"tenant": tenant.name, "limit": in_words(limit), "kept": KEPT // timedelta(hours=1)}


def being_written(tenant: Tenant, kind: str, but: QueryTask | None = None) -> int:
    """Bytes that running statements of the account have written by now."""
    running = QueryTask.objects.filter(tenant=tenant, status=TaskStatus.RUNNING, target__isnull=kind == RESULTS)
    if but is not None:
        running = running.exclude(pk=but.pk)
    return running.aggregate(size=Sum("writing_bytes"))["size"] or 0


def running(tenant: Tenant) -> list[str]:
    """Ids of the account's tasks that run."""
    found = QueryTask.objects.filter(tenant=tenant, status=TaskStatus.RUNNING)
    return [str(task_id) for task_id in found.values_list("pk", flat=True)]


def result_bytes(tenant: Tenant) -> int:
    """Bytes of all results that the account keeps."""
    return _kept_results(tenant).aggregate(size=Sum("result_bytes"))["size"] or 0


def _delete_results(tenant: Tenant, size: int) -> None:
    """Make room for new results: those that are old enough go, the oldest first."""
    now = timezone.now()
    old = Q(create_time__lt=now - KEPT) | Q(synchronous=True, create_time__lt=now - KEPT_WHEN_WAITED_FOR)
    for task in _kept_results(tenant).filter(old, status__in=ENDED).order_by("create_time")[:_MOST_DELETED]:
        if size <= 0:
            return
        try:
            lake.remove(task.result_file.rpartition("/")[0])
        except LakeError as error:
            log.warning("the result of task %s stays: %s", task.pk, error.user_message)
            return
        if QueryTask.objects.filter(pk=task.pk, result_bytes=task.result_bytes).update(result_bytes=0):
            add(tenant, results=-task.result_bytes)
        size -= task.result_bytes


def _kept_results(tenant: Tenant) -> QuerySet[QueryTask]:
    """Tasks whose result is there, as far as rows tell."""
    found = QueryTask.objects.filter(tenant=tenant, result_bytes__gt=0)
    if not settings.RESULTS_DAYS:
        return found
    first = timezone.now().astimezone(UTC).date() - timedelta(days=settings.RESULTS_DAYS)
    return found.filter(create_time__gte=datetime.combine(first, time(), UTC))


def _held(task: QueryTask) -> QuerySet[QueryTask]:
    return QueryTask.objects.filter(pk=task.pk, attempts=task.attempts, worker=task.worker)
