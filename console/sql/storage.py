"""What an account has stored in the lake and in results, and how much more it may store (docs/limits.md).

The figures are kept (`TenantUse`), so that a request asks for one row: what comes is added before it is written; what
goes is seen when it is counted anew, which happens within a minute of a change, and before anybody is refused. So a
figure is too high for a while, never too low for long, and nobody is refused for what was deleted.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, time, timedelta

from django.conf import settings
from django.db import DatabaseError, close_old_connections
from django.db.models import F, Q, QuerySet, Sum
from django.utils import timezone

from analytics import run as engine
from console.accounts import limits
from console.accounts.models import Tenant, TenantUse
from console.sql.models import ENDED, Bucket, QueryTask, TaskStatus
from console.web.errors import Refused
from console.web.sizes import in_words

log = logging.getLogger(__name__)

LAKE, RESULTS = "lake_bytes", "result_bytes"
#: The condition and the symbol of what is refused.
NO_ROOM = "STORAGE_LIMIT"
#: What a running statement has written is noted for the others each time it has grown by so many bytes.
STEP_BYTES = 1024**2
#: Results are kept for so long whatever comes: a notification tells of one that somebody is to fetch, and of one whose
#: client waits the client has the rows already.
KEPT, KEPT_WHEN_WAITED_FOR = timedelta(days=1), timedelta(hours=1)
#: What nobody has changed here is counted anew after this time: files come and go by other ways too.
_COUNTED_AGAIN = timedelta(hours=1)
#: Results that are deleted at once to make room.
_MOST_DELETED = 1000


def take(tenant: Tenant, size: int) -> None:
    """Count bytes that are about to be written to the account's buckets. Raises Refused when there is no room.

    Give them back by `give_back` when they were not written.
    """
    limit = limits.effective(tenant)[LAKE]
    if limit and not _take(tenant, size, limit):
        recount(tenant, only_changed=True)
        if not _take(tenant, size, limit):
            raise Refused(NO_ROOM, _lake_sentence(tenant, limit), "content")
    if not limit:
        add(tenant, lake=size)


def _take(tenant: Tenant, size: int, limit: int) -> bool:
    """By one conditional change, so that those that come at once do not all get the same rest."""
    most = limit - size - _being_written(tenant, LAKE)
    changed = TenantUse.objects.filter(pk=_row(tenant).pk, lake_bytes__lte=most)
    return bool(changed.update(lake_bytes=F(LAKE) + size, counted_at=None))


def give_back(tenant: Tenant, size: int) -> None:
    """What was taken was not written after all."""
    add(tenant, lake=-size)


def add(tenant: Tenant, *, lake: int = 0, results: int = 0) -> None:
    """Count what was written."""
    row = TenantUse.objects.filter(pk=_row(tenant).pk)
    row.update(lake_bytes=F(LAKE) + lake, result_bytes=F(RESULTS) + results, counted_at=None)


def changed(tenant: Tenant) -> None:
    """Files of the account went: its figures are counted anew within a minute, or when they matter."""
    TenantUse.objects.filter(tenant=tenant).update(counted_at=None)


def room_of(task: QueryTask, kind: str) -> engine.Room:
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
            raise engine.QueryFailed(reason, NO_ROOM)


def require_room_for_archive(tenant: Tenant) -> None:
    """Raise QueryFailed when the account may store no further step of an archive."""
    limit = limits.effective(tenant)[LAKE]
    if _is_beyond(tenant, LAKE, limit, 1, _being_written(tenant, LAKE)):
        raise engine.QueryFailed(_lake_sentence(tenant, limit), NO_ROOM)


def count_written(task: QueryTask, result: engine.QueryResult) -> None:
    """What a statement has written is counted with what lies there, and no longer as being written."""
    add(task.tenant, lake=result.table_bytes, results=result.result_bytes)
    _held(task).update(writing_bytes=0)


def recount(tenant: Tenant, *, only_changed: bool = False) -> None:
    """Look how much there is. With `only_changed` nothing is done when nothing has changed since the last time."""
    row = _row(tenant)
    if only_changed and row.counted_at is not None:
        return
    # Written before it is looked: what changes meanwhile makes the figure one to be counted again.
    TenantUse.objects.filter(pk=row.pk).update(counted_at=timezone.now())
    running = [
        f"_staging-{task_id}"
        for task_id in QueryTask.objects.filter(tenant=tenant, status=TaskStatus.RUNNING).values_list("pk", flat=True)
    ]
    buckets = Bucket.objects.filter(tenant=tenant).values_list("name", flat=True)
    try:
        lake = sum(engine.size_of(f"oss://{name}", without=running) for name in buckets)
    except engine.LakeError as error:
        log.warning("what %s has in the lake cannot be counted: %s", tenant.name, error.user_message)
        changed(tenant)
        return
    results = _kept_results(tenant).aggregate(size=Sum("result_bytes"))["size"] or 0
    # By the difference: what others have added meanwhile stays counted.
    TenantUse.objects.filter(pk=row.pk).update(
        lake_bytes=F(LAKE) + (lake - row.lake_bytes),
        result_bytes=F(RESULTS) + (results - row.result_bytes),
    )


def sweep() -> None:
    """Count what has changed, and once an hour everything."""
    for tenant in Tenant.objects.filter(
        Q(use=None) | Q(use__counted_at=None) | Q(use__counted_at__lt=timezone.now() - _COUNTED_AGAIN)
    ):
        recount(tenant)


def _why_no_room(task: QueryTask, kind: str, written: int) -> str:
    """Why a statement that has written so much must end; empty when it need not."""
    tenant = task.tenant
    limit = limits.effective(tenant)[kind]
    others = _being_written(tenant, kind, but=task)
    if not _is_beyond(tenant, kind, limit, written, others):
        return ""
    if kind == LAKE:
        return _lake_sentence(tenant, limit)
    _delete_results(tenant, _row(tenant).result_bytes + others + written - limit)
    if not _is_beyond(tenant, kind, limit, written, others):
        return ""
    return (
        f"{tenant.name} may keep {in_words(limit)} of results, and those of the last"
        f" {KEPT // timedelta(hours=1)} hours, which are never deleted for new ones, leave no room for this one: select"
        " less, write it into a table with CREATE TABLE … AS, or ask the platform's administrator, who sets this limit."
    )


def _is_beyond(tenant: Tenant, kind: str, limit: int, written: int, others: int) -> bool:
    """Whether that is too much, by figures that are not too high."""
    if not limit or getattr(_row(tenant), kind) + others + written <= limit:
        return False
    recount(tenant, only_changed=True)
    return bool(getattr(_row(tenant), kind) + others + written > limit)


def _lake_sentence(tenant: Tenant, limit: int) -> str:
    used = getattr(_row(tenant), LAKE) + _being_written(tenant, LAKE)
    return (
        f"{tenant.name} may store {in_words(limit)} in the lake and has {in_words(used)}: delete files or drop tables,"
        " or ask the platform's administrator, who sets this limit."
    )


def _being_written(tenant: Tenant, kind: str, but: QueryTask | None = None) -> int:
    """Bytes that running statements of the account have written by now."""
    running = QueryTask.objects.filter(tenant=tenant, status=TaskStatus.RUNNING, target__isnull=kind == RESULTS)
    if but is not None:
        running = running.exclude(pk=but.pk)
    return running.aggregate(size=Sum("writing_bytes"))["size"] or 0


def _delete_results(tenant: Tenant, size: int) -> None:
    """Make room for new results: those that are old enough go, the oldest first."""
    now = timezone.now()
    old = Q(create_time__lt=now - KEPT) | Q(synchronous=True, create_time__lt=now - KEPT_WHEN_WAITED_FOR)
    for task in _kept_results(tenant).filter(old, status__in=ENDED).order_by("create_time")[:_MOST_DELETED]:
        if size <= 0:
            return
        try:
            engine.remove(task.result_file.rpartition("/")[0])
        except engine.LakeError as error:
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


def _row(tenant: Tenant) -> TenantUse:
    """The account's figures; counted when there are none yet."""
    row, created = TenantUse.objects.get_or_create(tenant=tenant)
    if created:
        recount(tenant)
        row.refresh_from_db()
    return row
