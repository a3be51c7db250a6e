"""What an account has stored in the lake and in results, and how much more it may store (docs/operate/limits.md).

The figures are kept (`TenantUse`), so that a request asks for one row: what comes has its room before it is
written; what goes is seen when it is counted anew, within a minute of a change and before anybody is refused. So a
figure is too high for a while, never too low for long, and nobody is refused for what was deleted.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Protocol

from django.db.models import Case, F, Q, Value, When
from django.db.models.functions import Greatest
from django.utils import timezone
from django.utils.translation import gettext as _

from analytics import lake
from analytics.errors import LakeError, QueryFailed
from console.accounts.models import Tenant, TenantUse
from console.catalog.models import Bucket
from console.rights import limits
from console.web.errors import Refused
from console.web.provided import Provided
from console.web.text import in_words

log = logging.getLogger(__name__)

#: The bucket in which SQL jobs keep their states, a folder for each account by its number; nobody can have this name.
STATES_BUCKET = "gantry-pipelines"
#: The same for the logs of change tracking tasks.
TRACKING_BUCKET = "gantry-tracking"
LAKE, RESULTS, ARRIVING = "lake_bytes", "result_bytes", "arriving_bytes"
#: The condition and the symbol of what is refused.
NO_ROOM = "STORAGE_LIMIT"
#: What nobody has changed here is counted anew after this time: files come and go by other ways too.
_COUNTED_AGAIN = timedelta(hours=1)
#: Files are not under way for so long: who wrote one was killed, and its room is free again.
_LONGEST_ARRIVAL = timedelta(hours=1)


class Tasks(Protocol):
    """What is to be known of an account's query tasks, which stand above the catalog."""

    def running(self, tenant: Tenant) -> list[str]:
        """Ids of those that run."""

    def being_written(self, tenant: Tenant, kind: str) -> int:
        """Bytes of a kind (LAKE or RESULTS) that those have written by now."""

    def result_bytes(self, tenant: Tenant) -> int:
        """Bytes of all results that are kept."""


tasks = Provided[Tasks](f"{__name__}.tasks", "console.sql")


def reserve(tenant: Tenant, size: int) -> None:
    """Keep room for bytes that are about to be written to the account's buckets. Raises Refused when there is none.

    Call `note_written` when they were written, else `release`.
    """
    limit = limits.effective(tenant)[LAKE]
    if not _reserve(tenant, size, limit):
        recount(tenant, only_changed=True)
        if not _reserve(tenant, size, limit):
            raise Refused(NO_ROOM, lake_sentence(tenant, limit), "content")


def _reserve(tenant: Tenant, size: int, limit: int) -> bool:
    """By one conditional change, so that those that come at once do not all get the same rest; a limit of 0 is none."""
    row = TenantUse.objects.filter(pk=row_of(tenant).pk)
    if limit:
        row = row.filter(lake_bytes__lte=limit - size - tasks.get().being_written(tenant, LAKE) - F(ARRIVING))
    began = Case(When(arriving_bytes=0, then=Value(timezone.now())), default=F("arriving_at"))
    return bool(row.update(arriving_bytes=F(ARRIVING) + size, arriving_at=began))


def note_written(tenant: Tenant, size: int) -> None:
    """What room was kept for lies there now."""
    row = TenantUse.objects.filter(pk=row_of(tenant).pk)
    row.update(arriving_bytes=Greatest(F(ARRIVING) - size, 0), lake_bytes=F(LAKE) + size, counted_at=None)


def release(tenant: Tenant, size: int) -> None:
    """What room was kept for was not written after all."""
    TenantUse.objects.filter(tenant=tenant).update(arriving_bytes=Greatest(F(ARRIVING) - size, 0))


def add(tenant: Tenant, *, lake: int = 0, results: int = 0) -> None:
    """Count what was written."""
    row = TenantUse.objects.filter(pk=row_of(tenant).pk)
    row.update(lake_bytes=F(LAKE) + lake, result_bytes=F(RESULTS) + results, counted_at=None)


def changed(tenant: Tenant) -> None:
    """Files of the account went: its figures are counted anew within a minute, or when they matter."""
    TenantUse.objects.filter(tenant=tenant).update(counted_at=None)


def require_room_for_archive(tenant: Tenant) -> None:
    """Raise QueryFailed when the account may store no further step of an archive."""
    if reason := why_no_room(tenant):
        raise QueryFailed(reason, NO_ROOM)


def why_no_room(tenant: Tenant, size: int = 1) -> str:
    """Why the account may not store so many bytes more in its part of the lake; empty when it may."""
    limit = limits.effective(tenant)[LAKE]
    written = tasks.get().being_written(tenant, LAKE)
    return lake_sentence(tenant, limit) if is_beyond(tenant, LAKE, limit, size, written) else ""


def is_far_beyond(tenant: Tenant, part: float) -> bool:
    """Whether the account has stored more than this part of its limit, which may be above 1."""
    limit = int(limits.effective(tenant)[LAKE] * part)
    return is_beyond(tenant, LAKE, limit, 0, tasks.get().being_written(tenant, LAKE))


def recount(tenant: Tenant, *, only_changed: bool = False) -> None:
    """Look how much there is. With `only_changed` nothing is done when nothing has changed since the last time."""
    row = row_of(tenant)
    stale = timezone.now() - _LONGEST_ARRIVAL
    TenantUse.objects.filter(pk=row.pk, arriving_at__lt=stale).update(arriving_bytes=0)
    while not (only_changed and row.counted_at is not None) and not _counted(tenant, row):
        changed(tenant)
        row.refresh_from_db()


def _counted(tenant: Tenant, row: TenantUse) -> bool:
    """Count, and whether that ends it: not when somebody else's count was taken meanwhile.

    The figures are changed by a difference to those of `row`; taken twice, it would make them too low.
    """
    # Written before it is looked: what changes meanwhile makes the figure one to be counted again.
    TenantUse.objects.filter(pk=row.pk).update(counted_at=timezone.now())
    running = [f"_staging-{task_id}" for task_id in tasks.get().running(tenant)]
    buckets = Bucket.objects.filter(tenant=tenant).values_list("name", flat=True)
    ours = (f"oss://{name}/{tenant.uid}" for name in (STATES_BUCKET, TRACKING_BUCKET))
    folders = [*(f"oss://{name}" for name in buckets), *ours]
    try:
        lake_bytes = sum(lake.size_of(folder, without=running) for folder in folders)
    except LakeError as error:
        log.warning("what %s has in the lake cannot be counted: %s", tenant.name, error.user_message)
        changed(tenant)
        return True
    results = tasks.get().result_bytes(tenant)
    # By the difference: what others have added meanwhile stays counted.
    same = TenantUse.objects.filter(pk=row.pk, counts=row.counts)
    taken = same.update(
        lake_bytes=F(LAKE) + (lake_bytes - row.lake_bytes),
        result_bytes=F(RESULTS) + (results - row.result_bytes),
        counts=F("counts") + 1,
    )
    return bool(taken)


def sweep() -> None:
    """Count what has changed, and once an hour everything."""
    for tenant in Tenant.objects.filter(
        Q(use=None) | Q(use__counted_at=None) | Q(use__counted_at__lt=timezone.now() - _COUNTED_AGAIN)
    ):
        recount(tenant)


def is_beyond(tenant: Tenant, kind: str, limit: int, written: int, others: int) -> bool:
    """Whether that is too much, by figures that are not too high."""
    if not limit or _stored(tenant, kind) + others + written <= limit:
        return False
    recount(tenant, only_changed=True)
    return _stored(tenant, kind) + others + written > limit


def _stored(tenant: Tenant, kind: str) -> int:
    """Bytes of a kind, with those of files that are being written."""
    return _with_arriving(row_of(tenant), kind)


def _with_arriving(row: TenantUse, kind: str) -> int:
    return int(getattr(row, kind)) + (row.arriving_bytes if kind == LAKE else 0)


def in_use(tenant: Tenant) -> dict[str, int | None]:
    """Bytes by kind, with all that is being written; None before they were counted for the first time."""
    row = TenantUse.objects.filter(tenant=tenant).first()
    if row is None:
        return dict.fromkeys((LAKE, RESULTS))
    written = tasks.get().being_written
    return {kind: max(0, _with_arriving(row, kind)) + written(tenant, kind) for kind in (LAKE, RESULTS)}


def lake_sentence(tenant: Tenant, limit: int) -> str:
    used = in_use(tenant)[LAKE] or 0
    return _(
        "%(tenant)s may store %(limit)s in the lake and has %(used)s: delete files or drop "
        "tables, or ask the platform's administrator, who sets this limit."
    ) % {"tenant": tenant.name, "limit": in_words(limit), "used": in_words(used)}


def row_of(tenant: Tenant) -> TenantUse:
    """The account's figures; counted when there are none yet."""
    row, created = TenantUse.objects.get_or_create(tenant=tenant)
    if created:
        recount(tenant)
        row.refresh_from_db()
    return row
