"""What a Spark worker process does: take the task whose turn it is, run it, end it; how the process starts and ends.

The JVM is expendable: one statement can exhaust it. Then the process ends, whoever started it starts it again, and its
tasks are claimed anew, to be run alone (docs/sql.md).
"""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from celery.signals import worker_ready, worker_shutdown, worker_shutting_down
from django.db import DatabaseError, close_old_connections
from django.utils import timezone

from analytics import errors
from analytics import run as engine
from console.sql import execution, lifecycle, scheduling
from console.sql.alone import Alone
from console.sql.keeper import Keeper
from console.sql.models import QueryTask, TaskStatus

log = logging.getLogger(__name__)

#: Exit code after the JVM died (EX_SOFTWARE), and when it cannot be started at all (EX_UNAVAILABLE).
ENGINE_LOST_EXIT = 70
ENGINE_UNAVAILABLE_EXIT = 69
#: Time for the other tasks of a dead JVM to be given back before the process ends, seconds.
_LAST_WORDS_S = 3.0
#: To fill the heap takes longer than this, ms: what runs for less when its engine dies was taken on while it died.
ONLY_BEGUN_MS = 1000
#: A thread goes on with the next task for this long; then it lets what else is in Celery's queue pass, seconds.
TURN_S = 30.0
#: The process that runs what must run alone waits this long for more, seconds: its start costs about ten.
_ALONE_IDLE_S = 10.0

#: How often the JVM is looked at, seconds.
_LOOK_S = 0.5

keeper = Keeper(engine.cancel, engine.progress)
alone = Alone()
_engine_lost = threading.Event()
_shutting_down = threading.Event()


class Places:
    """How many statements this process may run, one for each of its threads.

    A quarter is kept for statements that a client waits for: those end soon, by their limit of time, so however many
    long ones there are a place for them comes free.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asynchronous = 0
        #: Most statements at a time that no client waits for; None without a limit.
        self.most_asynchronous: int | None = None

    def set_threads(self, threads: int) -> None:
        """Divide the threads of the process; a single one is for all."""
        self.most_asynchronous = threads - max(1, threads // 4) if threads > 1 else None

    def take(self) -> QueryTask | None:
        """Claim the task whose turn it is, if there is a place for it. Give the place back by `leave`."""
        with self._lock:
            free = self.most_asynchronous is None or self._asynchronous < self.most_asynchronous
            task = scheduling.take(keeper.name, asynchronous=free)
            if task is not None and not task.synchronous:
                self._asynchronous += 1
            return task

    def leave(self, task: QueryTask) -> None:
        """The task has ended."""
        if not task.synchronous:
            with self._lock:
                self._asynchronous -= 1


places = Places()


def run(task_id: str) -> None:
    """Run waiting tasks, one after the other, until none may run here. Which ones is not the message's choice."""
    turn_ends = time.monotonic() + TURN_S
    ended: QueryTask | None = None
    while not _ending():
        task = places.take()
        if task is None:
            alone.look()
            return
        if ended is not None and ended.tenant_id != task.tenant_id:
            tell_others(ended)
        try:
            execute(task)
        finally:
            places.leave(task)
        if time.monotonic() >= turn_ends:
            lifecycle.hand_over(task_id)
            return
        ended = task
    # The sweep hands a task without a sign of life over again, to a process that can run it.
    QueryTask.objects.filter(pk=task_id, status=TaskStatus.QUEUED).update(heartbeat_at=None)


def run_alone() -> None:
    """Run the tasks that lost an engine before, one at a time, until there are no more; a process of its own."""
    idle_since = time.monotonic()
    while not _ending() and time.monotonic() - idle_since < _ALONE_IDLE_S:
        task = scheduling.take(keeper.name, alone=True)
        if task is None:
            time.sleep(0.5)
            continue
        execute(task)
        tell_others(task)
        idle_since = time.monotonic()
    engine.stop()


def tell_others(ended: QueryTask) -> None:
    """The place of an ended task's tenant is free, and this thread does not use it: let another one look."""
    if scheduling.has_waiting(ended.tenant_id):
        lifecycle.hand_over(ended.pk)


def execute(task: QueryTask) -> None:
    """Run and end a task that was claimed."""
    if task.cancel_requested:
        lifecycle.end(task, lifecycle.CANCELLED)
        return
    with keeper.holding(task):
        try:
            outcome = execution.outcome_of(task)
        except errors.EngineLost as error:
            _lose_engine(task, error)
            return
        except errors.QueryCancelled:
            if _shutting_down.is_set() and not lifecycle.cancel_requested([task.pk]):
                lifecycle.give_back(task)
                return
            outcome = lifecycle.CANCELLED
        if outcome.elapse_time is None:
            outcome = replace(outcome, elapse_time=_ms_since_start(task))
        lifecycle.end(task, outcome)


def _ending() -> bool:
    """Whether this process takes nothing on any more: what a dead engine was given would count as lost by it."""
    if engine.is_lost():
        end_without_engine("its JVM has ended")
    return _engine_lost.is_set() or _shutting_down.is_set()


def _lose_engine(task: QueryTask, error: errors.EngineLost) -> None:
    """Give the task up, and end this process."""
    if error.culprit is not None and error.culprit != task.pk:
        lifecycle.give_back(task)
    else:
        lifecycle.lose(task, error.user_message, had_only_begun=_ms_since_start(task) < ONLY_BEGUN_MS)
    end_without_engine(error.user_message)


def end_without_engine(reason: str) -> None:
    """End this process soon, once its other tasks are given up: a dead JVM cannot be used again."""
    if not _engine_lost.is_set():
        _engine_lost.set()
        log.error("Spark is lost (%s); this worker ends", reason)
        _blame(engine.culprit())
        threading.Thread(target=_end_process, daemon=True).start()


def _blame(culprit: str | None) -> None:
    """Remember the statement for which the JVM was ended: it may have ended itself, cancelled or out of time."""
    if culprit is not None:
        try:
            lifecycle.blame(culprit)
        except DatabaseError as error:
            log.error("that task %s cost the engine was not written down: %s", culprit, error)


def _end_process(status: int = ENGINE_LOST_EXIT) -> None:
    """End at once, when the running tasks have had the time to be given up or back."""
    deadline = time.monotonic() + _LAST_WORDS_S
    while keeper.running and time.monotonic() < deadline:
        time.sleep(0.05)
    os._exit(status)


def _ms_since_start(task: QueryTask) -> int:
    began = task.started_at or timezone.now()
    return round((timezone.now() - began).total_seconds() * 1000)


def _is_spark_worker() -> bool:
    return os.environ.get("GANTRY_WARM_SPARK") == "true"


@worker_ready.connect  # type: ignore[untyped-decorator]
def warm(sender: Any = None, **_: Any) -> None:
    """Start Spark before the first statement asks for it."""
    if _is_spark_worker():
        places.set_threads(sender.controller.concurrency)
        threading.Thread(target=_warm, name="warm", daemon=True).start()


def _warm() -> None:
    try:
        engine.warm()
    except errors.AnalyticsError as error:
        log.error("Spark cannot be started: %s", error.user_message)
        os._exit(ENGINE_UNAVAILABLE_EXIT)
    if file := os.environ.get("GANTRY_READY_FILE"):
        Path(file).touch()
    try:
        alone.may_start()
    finally:
        close_old_connections()
    # A JVM may die while it has nothing to do: then the next statement would be the one that finds out.
    while not _ending():
        time.sleep(_LOOK_S)


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def stop_statements(**_: Any) -> None:
    """Celery waits for running tasks, however long: stop them, they are given back to the next worker."""
    _shutting_down.set()
    for task_id in keeper.running:
        engine.cancel(task_id)
    alone.release()


@worker_shutdown.connect  # type: ignore[untyped-decorator]
def stop_engine(**_: Any) -> None:
    """Stop Spark with its JVM."""
    if _is_spark_worker():
        engine.stop()
        alone.wait()


def end_with_parent() -> None:
    """The process that runs tasks alone: when the one that started it has gone, give the task back and end.

    First give back, then stop: this process may be killed before Spark has stopped, and a task lost here ends.
    """
    _shutting_down.set()
    for task in keeper.tasks():
        lifecycle.give_back(task)
    stop_statements()
    _end_process(0)
