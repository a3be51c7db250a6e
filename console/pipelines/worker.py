"""What a pipeline worker process does: claims pipelines that wait, keeps them running, ends them.

One thread shows every second that the process lives, and claims; each pipeline has a thread of its own, which starts
it, looks after it and writes down its end. Whoever has lost a lease kills the queries and writes nothing: another
worker has the pipeline, or will have it at once.

The JVM is expendable. When it dies the pipelines in it are given back, the process ends, and whoever started it starts
it again. Suspects begin apart, so that the next death tells whose doing it is (suspects).
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from celery.signals import worker_ready, worker_shutdown, worker_shutting_down
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import Error, close_old_connections, connection
from django.db.models import Q
from redis.exceptions import RedisError

from analytics import engine, errors
from analytics.inflow.task import EVENTS
from console.instances import broker
from console.pipelines import journal, lifecycle, room, samples, starts, suspects
from console.pipelines.event_logs import Progress
from console.pipelines.lifecycle import Lease, LeaseLost
from console.pipelines.models import Pipeline, State
from console.sql.heartbeats import worker_name
from console.sql.worker import ENGINE_LOST_EXIT, ENGINE_UNAVAILABLE_EXIT
from console.web.errors import Refused
from console.web.holding import Hold

if TYPE_CHECKING:
    from analytics.pipelines.reports import Reached
    from analytics.pipelines.runner import Pipeline as Running
    from analytics.pipelines.waits import Waiting

log = logging.getLogger(__name__)
T = TypeVar("T")

#: How often a worker shows that it lives and looks for work, seconds.
BEAT_S = 1.0
#: How often the thread of a pipeline looks whether it is to end, seconds.
LOOK_S = 0.2
#: How often a report is kept, and how often its starter's rights are looked at again, seconds.
REPORT_S, RIGHTS_S = 1.0, 10.0
#: How often a worker without Spark looks whether anybody writes a job, seconds: it starts Spark long before the start.
WARM_S = 10.0
#: Lines that are printed in that time and kept; of more the last ones, with a line that tells how many are left out.
MOST_PRINTED = 200
#: How long a batch that is under way may take to end when the process does, seconds; it is repeated else.
_PATIENCE_S = 2.0
#: How long the threads of pipelines may take to end when the process does, seconds; the launcher's patience is 5.
_END_S = 3.0
#: What a further start is refused as well.
_FOR_GOOD = (Refused, PermissionDenied, errors.PipelineRefused, errors.PipelineEnded, errors.QueryRefused)


class Life:
    """One pipeline that this process holds, from its claim to its end."""

    def __init__(self, worker: Worker, lease: Lease) -> None:
        self.lease = lease
        #: By the monotonic clock, when the last sign of life was given.
        self.beaten = time.monotonic()
        #: What the engine knows it by, once it was told.
        self.name = ""
        self._worker = worker
        #: By the monotonic clock, when it was claimed, and since when its queries run.
        self._begun, self._ran = self.beaten, math.inf
        self._telling = Telling(lease)
        self._room = room.Watch(lease)
        self._progress = Progress(lease.pipeline_id)
        #: Values that no reason may tell, by what stands for them: those of secrets, and of keys that were given.
        self._hidden: dict[str, str] = {}
        self._stop = threading.Event()
        self._leave = threading.Event()
        loss = partial(LeaseLost, f"pipeline {lease.pipeline_id} is not {lease.worker}'s any more")
        self._hold = Hold(f"pipeline {lease.pipeline_id}", loss, BEAT_S)
        self.thread = threading.Thread(target=self._live, name=f"pipeline {lease.pipeline_id}", daemon=True)

    @property
    def is_sound(self) -> bool:
        """Whether its queries have run for so long that it is not what ends an engine."""
        return time.monotonic() - self._ran >= suspects.SOUND_AFTER.total_seconds()

    @property
    def is_young(self) -> bool:
        """Whether an end of the engine may be its doing: it begins, or has not run for long."""
        starts_long = time.monotonic() - self._begun >= suspects.BELIEVED_AFTER.total_seconds()
        return not self.is_sound and (self._ran < math.inf or not starts_long)

    def stop(self) -> None:
        """A user asks for its end."""
        self._stop.set()

    def leave(self) -> None:
        """The process ends: leave it to another one."""
        self._leave.set()

    def lose(self) -> None:
        """Another one has it: end it, and write nothing."""
        self._hold.lose()

    def _live(self) -> None:
        try:
            self._run()
        except LeaseLost as lost:
            log.warning("%s; it is ended here", lost)
        except Exception:
            # The border of the thread: the lease ends by itself, and the pipeline is claimed again.
            log.exception("pipeline %s was given up", self.lease.pipeline_id)
        finally:
            self._worker.forget(self)
            connection.close()

    def _run(self) -> None:
        from analytics.pipelines import runner

        try:
            spec = self._hold.insist(lambda: starts.spec_of(self.lease))
            self._hidden = self._telling.hidden = starts.hidden(spec)
            self.name = spec.pipeline
            # Here and not in the worker's own thread, which goes on to show that this one lives.
            engine.renew(self._hold.insist(lambda: starts.brokers_of(spec)))
        except Exception as error:  # noqa: BLE001  told to the pipeline's owner, or to the log by its number
            self._end(error)
            return
        with engine.in_use():
            self._hold.require()
            try:
                running = runner.start(spec)
            except Exception as error:  # noqa: BLE001  as above
                self._end(error)
                return
            try:
                self._keep(running)
            except Exception:
                running.abandon()
                raise

    def _keep(self, running: Running) -> None:
        """Until its end, whatever it comes by. Raises LeaseLost."""
        self._hold.require()
        self._hold.insist(lambda: lifecycle.run(self.lease))
        self._ran = time.monotonic()
        self._telling.say(f"Its queries run in {self.lease.worker}, with the number {self.lease.fence}.")
        looked = time.monotonic()
        while not running.wait(LOOK_S):
            self._hold.require()
            if self._stop.is_set():
                self._carry_out_stop(running)
                return
            if self._leave.is_set():
                running.abandon(_PATIENCE_S)
                lifecycle.release(self.lease)
                return
            self._look(running)
            if time.monotonic() - looked >= RIGHTS_S:
                looked = time.monotonic()
                if (refusal := self._refusal()) is not None:
                    running.abandon()
                    self._end(refusal)
                    return
            if (refusal := self._no_room(running)) is not None:
                running.abandon(_PATIENCE_S)
                self._end(refusal)
                return
        self._look(running, last=True)
        if running.failure is None:
            self._hold.insist(lambda: lifecycle.finish(self.lease))
            self._telling.say("It has come to its end.")
        else:
            self._end(running.failure)

    def _look(self, running: Running, *, last: bool = False) -> None:
        """Keep what it tells, and how far it has read."""
        self._telling.look(running, last=last)
        try:
            self._progress.tell(self._telling.reached, last=last)
        except Error as error:
            log.warning("how far pipeline %s has read is not kept: %s", self.lease.pipeline_id, error)
            connection.close()

    def _refusal(self) -> Exception | None:
        """Why its starter may not run it any more; None while that is so, or cannot be told."""
        try:
            starts.require_still(self.lease)
        except (Refused, PermissionDenied) as refused:
            return refused
        except Error as error:
            log.warning("the rights of pipeline %s cannot be looked at: %s", self.lease.pipeline_id, error)
            connection.close()  # a broken one answers nothing any more
        return None

    def _no_room(self, running: Running) -> Exception | None:
        """Why it must end since the lake is full; a job that need not is told. Raises LeaseLost."""
        try:
            said, refusal = self._room.look(running.spec.plan)
        except Error as error:
            log.warning("the room for pipeline %s cannot be looked at: %s", self.lease.pipeline_id, error)
            connection.close()
            return None
        if said:
            self._telling.say(said, "warning")
        return refusal

    def _carry_out_stop(self, running: Running) -> None:
        asked = Pipeline.objects.values_list("stop_with_savepoint", flat=True)
        wanted = self._hold.insist(lambda: asked.get(pk=self.lease.pipeline_id))
        try:
            folder = running.stop(f"{self.lease.fence:08}" if wanted else "")
        except errors.AnalyticsError as error:
            self._end(error)
            return
        self._hold.require()
        self._look(running, last=True)
        if folder:
            self._hold.insist(lambda: lifecycle.keep_savepoint(self.lease, folder))
        # Said before: behind the stop of one that is deleted there is no log any more.
        self._telling.say("It has stopped." if not folder else f"It has stopped, with the savepoint {folder}.")
        self._hold.insist(lambda: lifecycle.stop(self.lease))

    def _end(self, error: Exception) -> None:
        """Write down why it ended, or could not be started. Raises LeaseLost."""
        self._hold.require()
        if isinstance(error, errors.PipelineFenced):
            if error.number is None:
                raise LeaseLost(error.user_message) from error
            lifecycle.outrank(self.lease, error.number)
            return
        if isinstance(error, errors.EngineLost | errors.EngineUnavailable):
            self._worker.end_without_engine(error)
            return
        if isinstance(error, errors.AnalyticsError):
            reason = error.user_message
        elif isinstance(error, Refused):
            reason = error.message
        elif isinstance(error, PermissionDenied):
            reason = f"Its starter may not run it: {error}."
        else:
            log.error("pipeline %s cannot be run", self.lease.pipeline_id, exc_info=error)
            reason = f"Internal error; the log of the worker has the reason under pipeline {self.lease.pipeline_id}."
        reason = starts.without(self._hidden, reason)
        line, for_good = getattr(error, "line", None), isinstance(error, _FOR_GOOD)
        halted = isinstance(error, errors.PipelineEnded) and not error.is_misset
        if isinstance(error, errors.EngineBusy):
            self._hold.insist(lambda: lifecycle.lose(self.lease, reason))
        else:
            self._hold.insist(lambda: lifecycle.fail(self.lease, reason, line=line, for_good=for_good, halted=halted))
        self._telling.say(reason, "error")


class Telling:
    """Keeps what one running pipeline tells of itself, figures and lines for its page; Redis may be away."""

    def __init__(self, lease: Lease) -> None:
        self._account, self._pipeline_id = lease.account, lease.pipeline_id
        self._kept = 0.0
        #: Sinks that waited at the last look.
        self._waiting: frozenset[str] = frozenset()
        #: What was printed and is in no log yet: the engine tells it once.
        self._unsaid: list[str] = []
        #: Of printed lines, those that had no place, until that is said.
        self._left_out = 0
        #: Where its event log stands, if it reads one.
        self.reached: Reached | None = None
        #: As that of its Life.
        self.hidden: dict[str, str] = {}

    def look(self, running: Running, *, last: bool = False) -> None:
        """Keep a report and what was printed, when it is time."""
        now = time.monotonic()
        if now - self._kept < REPORT_S and not last:
            return
        self._kept = now
        with _redis_may_be_away(self._pipeline_id):
            report = running.report()
            self.reached = report.reached.get(EVENTS)
            waiting = tuple(replace(one, reason=starts.without(self.hidden, one.reason)) for one in report.waiting)
            samples.keep(self._pipeline_id, replace(report, waiting=waiting))
            self._say_of(waiting)
            printed = [*self._unsaid, *running.printed()]
            self._unsaid = printed[-MOST_PRINTED:]
            self._left_out += len(printed) - len(self._unsaid)
            if self._left_out:
                kept = f"of those of a second the last {MOST_PRINTED} are kept"
                sentence = f"{self._left_out:,} printed rows are left out here: {kept}."
                journal.write(self._account, self._pipeline_id, "warning", sentence)
                self._left_out = 0
            if self._unsaid:
                journal.write_all(self._account, self._pipeline_id, "print", self._unsaid)
                self._unsaid = []

    def _say_of(self, waiting: tuple[Waiting, ...]) -> None:
        """Say once of each sink that it waits, and that it does no more."""
        for one in waiting:
            if one.sink not in self._waiting:
                self.say(one.sentence, "warning")
        now = frozenset(one.sink for one in waiting)
        for sink in sorted(self._waiting - now):
            self.say(f"The table {sink} waits no more.")
        self._waiting = now

    def say(self, text: str, level: journal.Level = "info") -> None:
        """A line in the pipeline's log."""
        with _redis_may_be_away(self._pipeline_id):
            journal.write(self._account, self._pipeline_id, level, text)


@contextlib.contextmanager
def _redis_may_be_away(pipeline_id: int) -> Iterator[None]:
    try:
        yield
    except RedisError as error:
        log.warning("what pipeline %s tells is not kept: %s", pipeline_id, error)


class Worker:
    """All pipelines of this process."""

    def __init__(self) -> None:
        self.name = worker_name()
        self._lives: dict[int, Life] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._ending = threading.Event()
        self._started = False
        self._is_warm = False
        self._warming = threading.Thread(target=self._warm, name="warm", daemon=True)
        #: By the monotonic clock, when it is looked next whether there is anything to be warm for.
        self._warm_due = 0.0

    def start(self) -> None:
        """Look for pipelines from now on."""
        with self._lock:
            if self._started:
                return
            self._started = True
        threading.Thread(target=self._work, name="pipelines", daemon=True).start()

    def wake(self) -> None:
        """Look at once."""
        self.start()
        self._wake.set()

    def leave(self) -> None:
        """Give all pipelines back, since the process ends, and wait a little for that."""
        self._ending.set()
        lives = self._held()
        for life in lives:
            life.leave()
        deadline = time.monotonic() + _END_S
        for life in lives:
            life.thread.join(max(0.0, deadline - time.monotonic()))
        for life in self._held():  # busy with a start, or with a batch: the next one fences it off
            life.lose()
            self._give_back(life, lifecycle.release)

    def forget(self, life: Life) -> None:
        """A pipeline has ended here."""
        with self._lock:
            if self._lives.get(life.lease.pipeline_id) is life:
                del self._lives[life.lease.pipeline_id]
        self._wake.set()

    def end_without_engine(self, error: errors.AnalyticsError) -> None:
        """Give all pipelines back and end this process: a dead JVM cannot be used again."""
        with self._lock:
            if self._ending.is_set():
                return
            self._ending.set()
        log.error("Spark is lost (%s); this worker ends", error.user_message)
        is_lost = isinstance(error, errors.EngineLost)
        try:
            lives = self._held()
            blamed = _blamed(lives) if is_lost else []
            for life in lives:
                life.lose()
                lose = partial(lifecycle.lose, reason=error.user_message, is_blamed=life in blamed)
                self._give_back(life, lose)
        finally:  # whoever stays has `_ending` set: it would claim nothing and show no sign of life
            _exit(ENGINE_LOST_EXIT if is_lost else ENGINE_UNAVAILABLE_EXIT)

    @staticmethod
    def _give_back(life: Life, give: Callable[[Lease], object]) -> None:
        """Write down that the process has it no more; where that cannot be, its lease ends by itself."""
        try:
            give(life.lease)
        except (LeaseLost, Error) as lost:
            log.warning("pipeline %s was not given back: %s", life.lease.pipeline_id, lost)
            connection.close()

    def look(self) -> None:
        """One turn: signs of life, requests to stop, and what waits."""
        for life in self._held():
            self._beat(life)
        if self._ending.is_set():
            return
        if engine.is_lost():
            self.end_without_engine(errors.EngineLost("The engine has ended."))
            return
        held = self._held()
        young = [life for life in held if life.is_young]
        if any(life.lease.is_suspect for life in young):
            return  # should the engine end now, it is certain by whom
        if apart := lifecycle.waiting_suspects(suspects.PATIENCE if held else timedelta(0)):
            # An engine that ends while it gets warm, or by what has only begun, would be laid to the suspect.
            if not young and not self._warming.is_alive():
                self._claim(apart, 1)
            return
        self._claim(lifecycle.waiting(), settings.PIPELINES_PER_WORKER)

    def _claim(self, pipelines: Sequence[int], most: int) -> None:
        """Claim and begin so many of them, as far as there is room."""
        for pipeline_id in pipelines:
            if most <= 0 or len(self._held()) >= settings.PIPELINES_PER_WORKER:
                return
            lease = lifecycle.claim(pipeline_id, self.name)
            if lease is not None:
                most -= 1
                self._begin(lease)

    def _work(self) -> None:
        while not self._ending.is_set():
            self._wake.wait(BEAT_S)
            self._wake.clear()
            try:
                self._warm_once()
                self.look()
            except Exception:
                # The border of the thread: without it all pipelines of the process would lose their signs of life.
                log.exception("a look at the pipelines failed; trying again")
                connection.close()
            close_old_connections()
        connection.close()

    def _beat(self, life: Life) -> None:
        try:
            state = lifecycle.beat(life.lease)
        except LeaseLost:
            life.lose()
        except Error as error:
            log.warning("pipeline %s gives no sign of life: %s", life.lease.pipeline_id, error)
            # Others may have it by now: the fence in the state's folder is the last word, but nothing is to run twice.
            if time.monotonic() - life.beaten >= lifecycle.LEASE.total_seconds():
                life.lose()
        else:
            life.beaten = time.monotonic()
            if state == State.STOPPING:
                life.stop()
            if life.lease.deaths and life.is_sound:
                lifecycle.clear(life.lease)
                life.lease = replace(life.lease, deaths=0)

    def _begin(self, lease: Lease) -> None:
        life = Life(self, lease)
        with self._lock:
            self._lives[lease.pipeline_id] = life
        life.thread.start()

    def _held(self) -> list[Life]:
        with self._lock:
            return list(self._lives.values())

    def _warm_once(self) -> None:
        """Start Spark with the first pipeline that is being written, or was ever started; who has none pays no JVM.

        The demo's job is deployed, and waits for its first start.
        """
        if self._is_warm or time.monotonic() < self._warm_due:
            return
        self._warm_due = time.monotonic() + WARM_S
        if Pipeline.objects.filter(Q(version=None) | Q(started_at__isnull=False)).exists():
            self._is_warm = True
            self._warming.start()

    def _warm(self) -> None:
        from analytics.pipelines import runner

        try:
            runner.warm()
        except (errors.EngineLost, errors.EngineUnavailable) as error:
            self.end_without_engine(error)
        except errors.AnalyticsError as error:
            log.warning("the warm start of pipelines failed: %s", error.user_message)
        finally:
            connection.close()


def _blamed(lives: Sequence[Life]) -> list[Life]:
    """Whose doing the end of the engine may be; when a suspect has begun there it is alone, since nobody else has."""
    if (culprit := engine.culprit()) is not None:
        return [life for life in lives if life.name == culprit]
    if engine.was_ended_from_outside():
        return []
    young = [life for life in lives if life.is_young]
    return [life for life in young if life.lease.is_suspect] or young


worker = Worker()


def _exit(status: int) -> None:
    os._exit(status)


def _is_pipeline_worker() -> bool:
    return os.environ.get("GANTRY_WARM_PIPELINES") == "true"


@worker_ready.connect  # type: ignore[untyped-decorator]
def begin(**_: Any) -> None:
    """Look for pipelines, with or without a message of Celery's."""
    if _is_pipeline_worker():
        engine.ask_for_addresses(broker.added_addresses)
        worker.start()


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def leave(**_: Any) -> None:
    """Give the pipelines back: another worker goes on from their checkpoints."""
    worker.leave()


@worker_shutdown.connect  # type: ignore[untyped-decorator]
def stop_engine(**_: Any) -> None:
    """Stop Spark with its JVM."""
    if _is_pipeline_worker():
        engine.stop()
