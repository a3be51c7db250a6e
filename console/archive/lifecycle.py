"""The life of a run: handed over, claimed, committed step by step, ended. Each change is one conditional update."""

from __future__ import annotations

import logging
from datetime import timedelta

from django.db.models import F, Q, QuerySet
from django.utils import timezone

from analytics.specs import Archived, ArchiveRanges
from console.archive.models import ArchiveStatus, TopicArchive
from console.celery import app

log = logging.getLogger(__name__)

#: A worker shows that it lives every few seconds; one that is silent for so long is given up.
WORKER_LOST_AFTER = timedelta(seconds=30)
#: A run whose message was lost is handed over again.
HAND_OVER_AGAIN_AFTER = timedelta(seconds=60)
EVERY = timedelta(hours=1)


class ClaimLost(Exception):  # noqa: N818
    """Another worker has the archive now: whatever this one does for it must stop."""


def hand_over(number: int) -> None:
    """Tell a Spark worker. The sweep tells it again when the message is lost."""
    app.send_task("console.archive.tasks.run", [number], retry=False)


def claim(number: int, worker: str) -> TopicArchive | None:
    """Take a waiting run for `worker` alone; None when it is taken, ended or gone."""
    waiting = TopicArchive.objects.filter(pk=number, status=ArchiveStatus.QUEUED)
    now = timezone.now()
    claimed = waiting.update(
        status=ArchiveStatus.RUNNING, worker=worker, attempts=F("attempts") + 1, heartbeat_at=now, error=""
    )
    related = ("tenant", "creator", "role__tenant", "topic__instance__cluster", "topic__instance__tenant")
    return TopicArchive.objects.select_related(*related).get(pk=number) if claimed else None


def beat(archive: TopicArchive) -> None:
    """Show that the worker lives. Raises ClaimLost."""
    _held(archive, heartbeat_at=timezone.now())


def note_step(archive: TopicArchive, ranges: ArchiveRanges) -> None:
    """Note what the next step archives, before it does. Raises ClaimLost."""
    pending = {"begin": ranges.begin, "end": ranges.end, "missed": ranges.missed}
    _held(archive, pending=pending, heartbeat_at=timezone.now())
    archive.pending = pending


def commit_step(archive: TopicArchive, ranges: ArchiveRanges, written: Archived) -> None:
    """The step's files are in their place: let readers believe them. Raises ClaimLost."""
    archive.offsets = archive.offsets | ranges.end
    archive.pending = None
    archive.steps += 1
    _held(
        archive,
        offsets=archive.offsets,
        pending=None,
        steps=archive.steps,
        messages=F("messages") + written.messages,
        size=F("size") + written.size,
        missed=F("missed") + ranges.missed,
        heartbeat_at=timezone.now(),
    )


def end(archive: TopicArchive, error: str = "") -> bool:
    """End the run; False when it is no longer this worker's."""
    status = ArchiveStatus.FAILED if error else ArchiveStatus.IDLE
    return bool(_mine(archive).update(status=status, error=error, worker="", ended_at=timezone.now()))


def release(archive: TopicArchive) -> None:
    """Let another worker go on."""
    _mine(archive).update(status=ArchiveStatus.QUEUED, worker="", heartbeat_at=None)


def sweep() -> None:
    """Find runs whose worker or message was lost, and start those that are due by the hour."""
    now = timezone.now()
    silent = TopicArchive.objects.filter(status=ArchiveStatus.RUNNING, heartbeat_at__lt=now - WORKER_LOST_AFTER)
    for archive in silent:
        log.warning("the archive of %s lost its worker %s", archive, archive.worker)
        release(archive)
    due = TopicArchive.objects.filter(hourly=True, topic__isnull=False, requested_at__lt=now - EVERY)
    due.exclude(status__in=(ArchiveStatus.QUEUED, ArchiveStatus.RUNNING)).update(
        status=ArchiveStatus.QUEUED, requested_at=now, heartbeat_at=None
    )
    waiting = TopicArchive.objects.filter(status=ArchiveStatus.QUEUED)
    quiet = waiting.filter(Q(heartbeat_at=None) | Q(heartbeat_at__lt=now - HAND_OVER_AGAIN_AFTER))
    for number in list(quiet.values_list("pk", flat=True)[:100]):
        TopicArchive.objects.filter(pk=number, status=ArchiveStatus.QUEUED).update(heartbeat_at=now)
        hand_over(number)


def _mine(archive: TopicArchive) -> QuerySet[TopicArchive]:
    """The row, as long as it is still this claim's."""
    return TopicArchive.objects.filter(
        pk=archive.pk, status=ArchiveStatus.RUNNING, worker=archive.worker, attempts=archive.attempts
    )


def _held(archive: TopicArchive, **values: object) -> None:
    if not _mine(archive).update(**values):
        raise ClaimLost(str(archive))
