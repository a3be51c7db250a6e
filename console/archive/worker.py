"""What a Spark worker does with a claimed archive: step after step, up to where the topic reached when it began."""

from __future__ import annotations

import json
import logging
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from celery.signals import worker_shutting_down
from django.conf import settings
from django.db import close_old_connections, transaction

from analytics import archives, engine, errors
from analytics.errors import QueryRefused
from analytics.specs import Archived, ArchiveRanges, ArchiveStep, Column, TableSpec
from console.accounts.actor import Actor, acting_later
from console.archive import access, lifecycle
from console.archive.models import TopicArchive
from console.catalog import bucket_events, storage
from console.catalog.virtual import mq
from console.sql.heartbeats import worker_name

log = logging.getLogger(__name__)

#: How often a run shows that it lives, seconds.
HEARTBEAT_S = 5.0
NAME = worker_name()
#: Task ids of the steps that this process writes, by archive.
_running: dict[int, str] = {}
_shutting_down = threading.Event()


def run(number: int, engine_lost: Callable[[str], None]) -> None:
    """Claim and run an archive. Returns at once when it is not there to be claimed.

    `engine_lost` ends the process: after its JVM died another one goes on.
    """
    archive = lifecycle.claim(number, NAME)
    if archive is None:
        return
    try:
        with _beating(archive) as check:
            _run(archive, check)
        lifecycle.end(archive)
    except lifecycle.ClaimLost:
        log.warning("the archive of %s was taken by another worker", archive)
    except errors.EngineLost as error:
        lifecycle.release(archive)
        engine_lost(error.user_message)
    except errors.EngineOutdated as error:
        lifecycle.release(archive)  # the sweep hands it over again
        with suppress(errors.EngineOutdated):
            engine.renew(error.addresses)
    except errors.QueryCancelled:  # the worker is being stopped
        lifecycle.release(archive)
    except errors.AnalyticsError as error:
        lifecycle.end(archive, error.user_message)
    except Exception:
        log.exception("the archive of %s failed", archive)
        lifecycle.end(archive, f"Internal error; the log of the worker has the reason under archive {archive.pk}.")


def _run(archive: TopicArchive, check: Callable[[], None]) -> None:
    options = _options(archive)
    target = archives.plan(options, archive.offsets, settings.ARCHIVE_RUN_MESSAGES).end
    while not _shutting_down.is_set():
        ranges = _noted(archive) or _next(archive, options, target)
        if ranges is None:
            return
        storage.require_room_for_archive(archive.tenant)
        if archive.pending is None:
            lifecycle.note_step(archive, ranges)
        step = _step(archive, options, ranges)
        _running[archive.pk] = step.task_id
        try:
            written = archives.write_step(step, check)
        finally:
            _running.pop(archive.pk, None)
        _commit(archive, ranges, written)
        storage.add(archive.tenant, lake=written.size)
        archives.clean_up(step.location, step.number)
    raise errors.QueryCancelled("The worker is being stopped.")


def _commit(archive: TopicArchive, ranges: ArchiveRanges, written: Archived) -> None:
    """Let readers believe the step's files, and tell of them, as one. Raises ClaimLost."""
    with transaction.atomic():
        lifecycle.commit_step(archive, ranges, written)
        step = f"archive-{archive.pk}-{archive.steps}"
        bucket_events.note(author_of(archive), archive.tenant, step, list(written.placed), [])
        bucket_events.confirm(step)


def _options(archive: TopicArchive) -> dict[str, str]:
    """How the topic is read. Raises QueryRefused when whoever asked for the archive may not any more."""
    topic, author = archive.topic, author_of(archive)
    if topic is None:
        raise QueryRefused("The topic was deleted; what was archived before stays.")
    if author is None or not access.may_archive(author, topic):
        raise QueryRefused(f"{archive.requester} may no longer archive this topic; start it again.")
    return mq.reader_options(topic.physical_name, topic.instance.cluster)


def author_of(archive: TopicArchive) -> Actor | None:
    """Who asked last, with the rights of now; None for who, or whose account, was disabled or deleted since."""
    return acting_later(
        tenant=archive.tenant,
        user=archive.creator,
        role=archive.role,
        source_ip=archive.source_ip,
        secure=archive.secure_transport,
    )


def _noted(archive: TopicArchive) -> ArchiveRanges | None:
    """The step that another worker, or this one before it was stopped, had begun."""
    return ArchiveRanges(**archive.pending) if archive.pending else None


def _next(archive: TopicArchive, options: dict[str, str], target: dict[str, int]) -> ArchiveRanges | None:
    """The next step, None when the archive reaches as far as the topic did when the run began."""
    bounded = options | {"end": json.dumps(target)}
    ranges = archives.plan(bounded, archive.offsets, settings.ARCHIVE_STEP_MESSAGES)
    return ranges if ranges.end else None


def _step(archive: TopicArchive, options: dict[str, str], ranges: ArchiveRanges) -> ArchiveStep:
    bounds = {"begin": json.dumps(ranges.begin), "end": json.dumps(ranges.end)}
    columns = tuple(Column(name, kind) for name, kind, _unused in mq.COLUMNS)
    table = TableSpec(archive.physical_name, "", "mq", columns, options=tuple((options | bounds).items()))
    number = archive.steps + 1
    # Spark counts by it, so a step that is done again has another one.
    task_id = f"archive-{archive.pk}-{number}-{secrets.token_hex(4)}"
    return ArchiveStep(task_id, archive.tenant.uid, table, archive.location, number, float(settings.SQL_TIME_LIMIT_S))


@contextmanager
def _beating(archive: TopicArchive) -> Iterator[Callable[[], None]]:
    """Show that the worker lives for as long as the block runs; gives the check that the claim still holds."""
    ended = threading.Event()
    lost = threading.Event()

    def beat() -> None:
        while not ended.wait(HEARTBEAT_S):
            try:
                close_old_connections()
                lifecycle.beat(archive)
            except lifecycle.ClaimLost:
                lost.set()
                engine.cancel(_running.get(archive.pk, ""))
                return
            except Exception:
                # The border of the thread: without it the archive would be given to another worker as well.
                log.exception("the heartbeat failed; trying again")

    def check() -> None:
        lifecycle.beat(archive)

    thread = threading.Thread(target=beat, name="archive-heartbeat", daemon=True)
    thread.start()
    try:
        yield check
    except errors.QueryCancelled:
        if lost.is_set():
            raise lifecycle.ClaimLost(str(archive)) from None
        raise
    finally:
        ended.set()
        thread.join(timeout=1)


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def stop_steps(**_unused: Any) -> None:
    """Celery waits for running tasks: stop them, another worker goes on with the same ranges."""
    _shutting_down.set()
    for task_id in list(_running.values()):
        engine.cancel(task_id)
