"""The life of a change tracking task as the capturing processes drive it.

    STARTING ──capture is open──▶ NORMAL ──it failed──▶ FAILED ──is tried again──▶ NORMAL
       ▲  └──────it failed──────────────────────────────▶ │
       └────resume──── PAUSED ◀───────pause────────────────┘        from each: ──delete──▶ DELETING ──▶ gone

A process claims a task that nobody holds, or whose holder was silent for longer than LEASE, and holds it by signs of
life. Each claim has a number (`fence`), which is part of the condition of every update, and the number of the writer of
the log: a process that was given up changes nothing any more, even while it still runs.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from analytics.inflow.changes import CaptureFailed
from console.tracking.models import BUSY, LEASE, State, TrackingTask


@dataclass(frozen=True, slots=True)
class Lease:
    """One process's hold of one task."""

    pk: int
    worker: str
    fence: int


class LeaseLost(Exception):  # noqa: N818
    """Somebody else holds the task, it is paused or gone: whoever captures it stops at once and writes nothing."""


def waiting() -> list[int]:
    """Tasks that a process may claim now, the longest waiting first."""
    return list(_free().order_by(F("heartbeat_at").asc(nulls_first=True), "pk").values_list("pk", flat=True))


def claim(pk: int, worker: str) -> Lease | None:
    """Take a task; None when it is taken, paused or gone."""
    with transaction.atomic():
        if not _free().filter(pk=pk).update(worker=worker, fence=F("fence") + 1, heartbeat_at=timezone.now()):
            return None
        # The row is this transaction's, so the number is this claim's.
        return Lease(pk, worker, TrackingTask.objects.values_list("fence", flat=True).get(pk=pk))


def beat(worker: str, leases: Collection[Lease]) -> dict[Lease, int]:
    """Show that a process lives, for the tasks that it holds; the revisions of those of them that it still has."""
    if not leases:
        return {}
    rows = TrackingTask.objects.filter(worker=worker, pk__in=[lease.pk for lease in leases], state__in=BUSY)
    rows.update(heartbeat_at=timezone.now())
    held = {Lease(pk, worker, fence): revision for pk, fence, revision in rows.values_list("pk", "fence", "revision")}
    return {lease: held[lease] for lease in leases if lease in held}


def task_of(lease: Lease) -> TrackingTask:
    """The task as it is now, with its account. Raises LeaseLost."""
    found = _held(lease).select_related("tenant").first()
    if found is None:
        raise LeaseLost(f"task {lease.pk} is not {lease.worker}'s any more")
    return found


def normal(lease: Lease, **figures: Any) -> None:
    """Its changes are kept from now on. Raises LeaseLost."""
    now = timezone.now()
    same = _held(lease).exclude(state=State.DELETING)
    _one(lease, same.update(state=State.NORMAL, code="", sentence="", mend="", normal_at=now, **figures))


def tell(lease: Lease, **figures: Any) -> None:
    """Write down how far it is: position, range, rate, lag. Raises LeaseLost."""
    _one(lease, _held(lease).update(**figures))


def fail(lease: Lease, failure: CaptureFailed) -> None:
    """Write down what is wrong; the process goes on trying. Raises LeaseLost."""
    same = _held(lease).exclude(state=State.DELETING)
    told = same.update(
        state=State.FAILED, code=failure.code[:32], sentence=failure.sentence, mend=failure.mend, normal_at=None,
        rate=None, lag_bytes=None, lag_ms=None,
    )  # fmt: skip
    _one(lease, told)


def outrank(lease: Lease, number: int) -> None:
    """The log has this number, which is higher: the next claim's is higher still.

    So it is with a database from a backup: it knows nothing of the claims since.
    """
    _held(lease).update(fence=number, worker="", heartbeat_at=None)


def release(lease: Lease) -> None:
    """The process ends: another one may go on at once. Nothing happens when the task is another's already."""
    _held(lease).update(worker="", heartbeat_at=None)


def forget(lease: Lease) -> None:
    """All that a deleted task has made is removed, and now the task itself."""
    _held(lease).filter(state=State.DELETING).delete()


def _free() -> QuerySet[TrackingTask]:
    silent = Q(worker="") | Q(heartbeat_at__isnull=True) | Q(heartbeat_at__lt=timezone.now() - LEASE)
    return TrackingTask.objects.filter(silent, state__in=BUSY)


def _held(lease: Lease) -> QuerySet[TrackingTask]:
    return TrackingTask.objects.filter(pk=lease.pk, worker=lease.worker, fence=lease.fence, state__in=BUSY)


def _one(lease: Lease, changed: int) -> None:
    if not changed:
        raise LeaseLost(f"task {lease.pk} is not {lease.worker}'s any more")
