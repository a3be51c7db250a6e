"""Which process fills which feed. A claim has a number (`fence`), which is part of the condition of every update.

It is the number of the log's writer, too: a process that was given up writes neither the row nor the log.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from console.feeds.models import LEASE, Feed


@dataclass(frozen=True, slots=True)
class Lease:
    """One process's hold of one feed."""

    pk: int
    worker: str
    fence: int


def claim_all(worker: str) -> None:
    """Take every feed that nobody holds, those of silent processes too."""
    for pk in list(_free().values_list("pk", flat=True)):
        with transaction.atomic():
            _free().filter(pk=pk).update(worker=worker, fence=F("fence") + 1, heartbeat_at=timezone.now())


def beat(worker: str) -> list[Feed]:
    """Show that the process lives; the feeds that it holds, as they are now."""
    held = Feed.objects.filter(worker=worker)
    held.update(heartbeat_at=timezone.now())
    return list(held.select_related("tenant"))


def lease_of(feed: Feed) -> Lease:
    """The hold that the row tells."""
    return Lease(feed.pk, feed.worker, feed.fence)


def tell(lease: Lease, code: str, sentence: str) -> None:
    """What is wrong with a feed, or nothing; nobody is told where another process has it."""
    _held(lease).update(code=code[:32], sentence=sentence)


def outrank(lease: Lease, number: int) -> None:
    """The log has this number, which is higher: the next claim's is higher still, as with a database from a backup."""
    _held(lease).update(fence=number, worker="", heartbeat_at=None)


def release(leases: Iterable[Lease]) -> None:
    """The process ends: others may go on at once."""
    for lease in leases:
        _held(lease).update(worker="", heartbeat_at=None)


def forget(lease: Lease) -> None:
    """The log of a deleted feed is removed, and now the feed."""
    _held(lease).filter(deleted_at__isnull=False).delete()


def _free() -> QuerySet[Feed]:
    silent = Q(worker="") | Q(heartbeat_at__isnull=True) | Q(heartbeat_at__lt=timezone.now() - LEASE)
    return Feed.objects.filter(silent)


def _held(lease: Lease) -> QuerySet[Feed]:
    return Feed.objects.filter(pk=lease.pk, worker=lease.worker, fence=lease.fence)
