"""The life of a pipeline between start and end, as workers and the sweep drive it.

    DRAFT, STOPPED, FAILED, FINISHED ──start──▶ STARTING ──run──▶ RUNNING ──finish──▶ FINISHED
                                                 ▲   │              │
                                                 │   └────stop──────┴──▶ STOPPING ──▶ STOPPED
                                                 └── fail, lose ────┘
                                                         └──▶ FAILED, when it has failed, or ended its engine, too often

One that is deleted while it runs is STOPPING, whatever becomes of that, and removed behind it (removal).

A worker claims a STARTING pipeline that nobody holds, and holds it by signs of life. Each claim has a number (`fence`):
it is part of the condition of every update and stands in the checkpoint's folder, so a worker that was given up (it
slept, or its network did) changes nothing any more, even while it still runs. Every step is a conditional update.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from analytics.pipelines.plan import Plan, Settings
from console.catalog import storage
from console.pipelines import removal, suspects
from console.pipelines.models import BUSY, Event, Pipeline, Savepoint, StartFrom, State
from console.pipelines.suspects import SOUND_AFTER, SUSPECT_AFTER

#: A worker that was silent for this long has lost its pipelines; workers beat every second.
LEASE = timedelta(seconds=15)
#: After so long without a failure the next one is the first again.
STABLE_AFTER = timedelta(minutes=10)
#: The longest pause after a lost engine: those wait too who have nothing to do with it.
LONGEST_AFTER_LOSS = timedelta(seconds=60)
#: Pauses are doubled so often at most; more would leave the numbers of a timedelta.
_MOST_DOUBLINGS = 20


@dataclass(frozen=True, slots=True)
class Lease:
    """One worker's hold of one pipeline."""

    pipeline_id: int
    worker: str
    fence: int
    #: The ID of whose pipeline it is, where a worker has claimed it.
    account: str = field(default="", compare=False)
    #: How many the claim found (suspects).
    deaths: int = field(default=0, compare=False)

    @property
    def is_suspect(self) -> bool:
        """Whether it begins apart from others."""
        return self.deaths >= SUSPECT_AFTER


class LeaseLost(Exception):  # noqa: N818
    """Somebody else holds the pipeline, or it has ended: whoever runs it stops at once and writes nothing."""


def claim(pipeline_id: int, worker: str) -> Lease | None:
    """Take a pipeline that waits for a worker; None when it is taken, not due, ended or gone."""
    now = timezone.now()
    waiting = Pipeline.objects.filter(_due(now), pk=pipeline_id, state=State.STARTING, worker="")
    with transaction.atomic():
        if not waiting.update(worker=worker, fence=F("fence") + 1, heartbeat_at=now, due_at=None):
            return None
        # The row is this transaction's, so the number is this claim's.
        fence, account, deaths = Pipeline.objects.values_list("fence", "tenant__uid", "deaths").get(pk=pipeline_id)
        lease = Lease(pipeline_id, worker, fence, account, deaths)
        alone = ", with no other job beginning beside it" if lease.is_suspect else ""
        _tell(lease, "claimed", f"{worker} begins to start it{alone}.")
    return lease


def waiting() -> list[int]:
    """Pipelines that a worker may claim now, the longest waiting first; without suspects."""
    due = Pipeline.objects.filter(_due(timezone.now()), state=State.STARTING, worker="", deaths__lt=SUSPECT_AFTER)
    return list(due.order_by(F("due_at").asc(nulls_first=True), "started_at", "pk").values_list("pk", flat=True))


def waiting_suspects(waited: timedelta = timedelta(0)) -> list[int]:
    """Those that begin apart and have waited for so long; first who is most likely the one that ends engines."""
    since = timezone.now() - waited
    due = Pipeline.objects.filter(_due(since), state=State.STARTING, worker="", deaths__gte=SUSPECT_AFTER)
    return list(due.order_by("-deaths", "-started_at", "pk").values_list("pk", flat=True))


def _due(now: datetime) -> Q:
    return Q(due_at__isnull=True) | Q(due_at__lte=now)


def beat(lease: Lease) -> State:
    """Show that the worker still holds the pipeline; answers its state, where STOPPING asks for a stop.

    Raises LeaseLost.
    """
    with transaction.atomic():
        if not _held(lease).update(heartbeat_at=timezone.now()):
            raise LeaseLost(f"pipeline {lease.pipeline_id} is not {lease.worker}'s any more")
        return State(Pipeline.objects.values_list("state", flat=True).get(pk=lease.pipeline_id))


def run(lease: Lease) -> None:
    """Its queries run. A stop that was asked for meanwhile stays asked for. Raises LeaseLost."""
    now = timezone.now()
    changed = _held(lease, State.STARTING).update(
        state=State.RUNNING, running_at=now, heartbeat_at=now, start_from=StartFrom.CHECKPOINT, savepoint=None,
        reason="", line=None,
    )  # fmt: skip
    if changed:
        _tell(lease, State.RUNNING, "")
    else:
        beat(lease)


@transaction.atomic
def keep_savepoint(lease: Lease, folder: str) -> Savepoint:
    """Write down a savepoint that lies in its folder. Raises LeaseLost."""
    pipeline = _held(lease).select_for_update().first()
    if pipeline is None:
        raise LeaseLost(f"pipeline {lease.pipeline_id} is not {lease.worker}'s any more")
    savepoint = Savepoint.objects.create(pipeline=pipeline, version_id=pipeline.started_version_id, folder=folder)
    storage.changed(pipeline.tenant)
    _tell(lease, "savepoint", folder)
    return savepoint


def note(lease: Lease, kind: str, sentence: str) -> None:
    """Tell the owner of what runs something that changes nothing. Raises LeaseLost."""
    beat(lease)
    _tell(lease, kind, sentence)


def stop(lease: Lease) -> None:
    """Its queries have stopped, as was asked for. Raises LeaseLost."""
    _end(lease, State.STOPPED, "", (State.STOPPING,))


@transaction.atomic
def finish(lease: Lease) -> None:
    """Its queries came to their end by themselves. Raises LeaseLost."""
    clear(lease)
    _end(lease, State.FINISHED, "", BUSY)


@transaction.atomic
def fail(lease: Lease, reason: str, *, line: int | None = None, for_good: bool = False, halted: bool = False) -> State:
    """A query ended by an error; answers whether it starts again (STARTING) or not (FAILED, STOPPED).

    `for_good` is an error that every further start has too, and `halted` tells of one that it met what it is told to
    stop for. Raises LeaseLost.
    """
    pipeline = _held(lease).select_for_update(of=("self",)).select_related("started_version").first()
    if pipeline is None:
        raise LeaseLost(f"pipeline {lease.pipeline_id} is not {lease.worker}'s any more")
    if pipeline.state == State.STOPPING:
        _end(lease, State.STOPPED, reason, (State.STOPPING,), line)
        return State.STOPPED
    now = timezone.now()
    settings = _settings(pipeline)
    was_stable = pipeline.running_at is not None and now - pipeline.running_at >= STABLE_AFTER
    failures = 1 if was_stable else pipeline.failures + 1
    if for_good or (settings.restart_attempts is not None and failures > settings.restart_attempts):
        _end(lease, State.FAILED, reason, BUSY, line)
        Pipeline.objects.filter(pk=lease.pipeline_id).update(halted=halted)
        return State.FAILED
    due_at = now + pause(settings, failures)
    _held(lease).update(
        state=State.STARTING, worker="", heartbeat_at=None, running_at=None, reason=reason, line=line, due_at=due_at,
        failures=failures, restarts=F("restarts") + 1,
    )  # fmt: skip
    _tell(lease, "restarting", reason)
    return State.STARTING


@transaction.atomic
def lose(lease: Lease, reason: str, *, is_blamed: bool = False) -> State:
    """The engine died under it, or had no time for it; answers whether it starts again (STARTING) or not.

    Where it is blamed that is a death (suspects), and after too many it has FAILED. No loss counts among the failures
    after which a pipeline has failed, and the pause grows only for what had hardly run, never far. Raises LeaseLost.
    """
    related = ("started_version", "tenant")
    pipeline = _held(lease).select_for_update(of=("self",)).select_related(*related).first()
    if pipeline is None:
        raise LeaseLost(f"pipeline {lease.pipeline_id} is not {lease.worker}'s any more")
    if pipeline.state == State.STOPPING:
        _end(lease, State.STOPPED, reason, (State.STOPPING,))
        return State.STOPPED
    now = timezone.now()
    was_sound = pipeline.running_at is not None and now - pipeline.running_at >= SOUND_AFTER
    losses, deaths = 1 if was_sound else pipeline.losses + 1, pipeline.deaths + is_blamed
    wait = min(pause(_settings(pipeline), losses), LONGEST_AFTER_LOSS)
    if is_blamed:
        reason = suspects.told(reason, deaths)
        # The next engine is new, and nobody's yet: a suspect has it before the others are in it.
        wait = wait if deaths < SUSPECT_AFTER else timedelta(0)
    if deaths >= suspects.MOST_DEATHS:
        _held(lease).update(losses=losses, deaths=deaths)
        _end(lease, State.FAILED, reason, BUSY)
        suspects.record(pipeline, reason)
        return State.FAILED
    _held(lease).update(
        state=State.STARTING, worker="", heartbeat_at=None, running_at=None, reason=reason, line=None,
        due_at=now + wait, losses=losses, deaths=deaths, restarts=F("restarts") + 1,
    )  # fmt: skip
    _tell(lease, "lost", reason)
    return State.STARTING


def clear(lease: Lease) -> None:
    """It has run soundly: deaths before are not its doing. Raises nothing when the pipeline is another's already."""
    if _held(lease).filter(deaths__gt=0).update(deaths=0) and lease.is_suspect:
        _tell(lease, "cleared", suspects.CLEARED)


def outrank(lease: Lease, number: int) -> None:
    """The state in the lake has this number, which is higher: the next claim's is higher still. Raises LeaseLost.

    So it is with a database from a backup: it knows nothing of the claims since. Whoever holds the pipeline by the
    database has it.
    """
    reason = f"Its state in the lake is of the start {number}, later than what the database knows; it is taken over."
    if not _held(lease, State.STARTING).update(fence=number, worker="", heartbeat_at=None, due_at=None):
        raise LeaseLost(f"pipeline {lease.pipeline_id} is not {lease.worker}'s any more")
    _tell(lease, "lost", reason)


def pause(settings: Settings, failures: int) -> timedelta:
    """How long to wait before the start after so many failures in a row: doubled each time, up to the maximum."""
    doubled = settings.restart_delay_ms * 2 ** min(max(failures - 1, 0), _MOST_DOUBLINGS)
    return timedelta(milliseconds=min(doubled, max(settings.restart_max_delay_ms, settings.restart_delay_ms)))


def release(lease: Lease) -> None:
    """The worker shuts down: another one may go on at once. Raises nothing when the pipeline is another's already."""
    if _held(lease, State.STARTING, State.RUNNING).update(
        state=State.STARTING, worker="", heartbeat_at=None, running_at=None, due_at=None
    ):
        _tell(lease, "lost", f"{lease.worker} shuts down; another worker goes on from the checkpoint.")
    elif _held(lease, State.STOPPING).exists():
        stop(lease)


def sweep() -> list[int]:
    """Give pipelines whose worker is silent to others; returns those. Stops that nobody can carry out are done.

    What was deleted and has stopped is removed, should its worker have been killed in between.
    """
    removal.remove_ended()
    silent = Q(state__in=BUSY, heartbeat_at__lt=timezone.now() - LEASE) & ~Q(worker="")
    found = []
    for pipeline in Pipeline.objects.filter(silent | Q(state=State.STOPPING, worker="")):
        lease = Lease(pipeline.pk, pipeline.worker, pipeline.fence)
        # A sign of life that came since the look keeps the pipeline where it is.
        same = _held(lease, State(pipeline.state)).filter(heartbeat_at=pipeline.heartbeat_at)
        if pipeline.state == State.STOPPING:
            reason = "Its worker was lost before it had stopped; it goes on from the last checkpoint when started."
            if same.update(state=State.STOPPED, worker="", ended_at=timezone.now(), running_at=None, reason=reason):
                _tell(lease, State.STOPPED, reason)
                _after_stop(pipeline.pk)
                found.append(pipeline.pk)
            continue
        # Should the worker have ended by a suspect, the others are to have their turn before it.
        due_at = timezone.now() + suspects.PATIENCE if pipeline.deaths >= SUSPECT_AFTER else None
        if same.update(
            state=State.STARTING, worker="", heartbeat_at=None, running_at=None, due_at=due_at,
            restarts=F("restarts") + 1,
        ):  # fmt: skip
            _tell(lease, "lost", f"{lease.worker} gave no sign of life; another worker goes on from the checkpoint.")
            found.append(pipeline.pk)
    return found


def _settings(pipeline: Pipeline) -> Settings:
    return Plan.from_json(pipeline.started_version.plan).settings if pipeline.started_version else Settings()


def _held(lease: Lease, *states: State) -> QuerySet[Pipeline]:
    return Pipeline.objects.filter(
        pk=lease.pipeline_id, worker=lease.worker, fence=lease.fence, state__in=states or BUSY
    )


def _end(lease: Lease, state: State, reason: str, before: tuple[State, ...], line: int | None = None) -> None:
    ended = _held(lease, *before).update(
        state=state, worker="", heartbeat_at=None, running_at=None, ended_at=timezone.now(), reason=reason, line=line
    )
    if not ended:
        raise LeaseLost(f"pipeline {lease.pipeline_id} is not {lease.worker}'s any more")
    _tell(lease, state, reason)
    _after_stop(lease.pipeline_id)


def _after_stop(pipeline_id: int) -> None:
    """What it was stopped for, if for anything."""
    _begin_again(pipeline_id)
    removal.remove_ended(pipeline_id)


def _begin_again(pipeline_id: int) -> None:
    """Let the deployed version wait for a worker, where that is what it was stopped for (`services.restart`)."""
    now = timezone.now()
    stopped = Pipeline.objects.filter(pk=pipeline_id, state=State.STOPPED, start_again=True)
    if stopped.update(
        state=State.STARTING, started_version=F("version"), start_again=False, due_at=None, failures=0, losses=0,
        restarts=0, started_at=now, ended_at=None, reason="", line=None, halted=False,
    ):  # fmt: skip
        number = Pipeline.objects.filter(pk=pipeline_id).values_list("version__number", flat=True).first()
        Event.objects.create(pipeline_id=pipeline_id, kind=State.STARTING, version=number)


def _tell(lease: Lease, kind: str, sentence: str) -> None:
    number = Pipeline.objects.filter(pk=lease.pipeline_id).values_list("started_version__number", flat=True).first()
    Event.objects.create(pipeline_id=lease.pipeline_id, kind=kind, sentence=sentence, fence=lease.fence, version=number)
