"""What a Spark worker process does: take the task whose turn it is, run it, end it; how the process starts and ends.

The JVM is expendable: one statement can exhaust it. Then the process ends, whoever started it starts it again, and its
tasks are claimed anew, to be run alone (docs/use/sql.md).
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from celery.signals import worker_ready, worker_shutdown, worker_shutting_down
from django.conf import settings
from django.db import DatabaseError, close_old_connections, connection
from django.utils import timezone

from analytics import engine, errors
from console.accounts.actor import dla_resource
from console.audit import record as audit
from console.instances import broker
from console.sql import lifecycle, quota, scheduling, specs, writes
from console.sql.heartbeats import Keeper
from console.sql.lifecycle import Outcome
from console.sql.models import QueryTask, TaskStatus

log = logging.getLogger(__name__)

#: Between the end of the process and the next one, while tasks wait for it, seconds.
_PAUSE_S = 1.0
#: How long it may take to give its task back when the worker ends, seconds.
_END_S = 4.0
#: What only the worker's own process may have: its readiness, its warm start, the launcher's mark by which everything
#: of a dead worker is killed, which would cost the task a second engine.
_NOT_FOR_IT = ("GANTRY_READY_FILE", "GANTRY_WARM_SPARK", "LAUNCHER_RUN")
#: Exit code after the JVM died (EX_SOFTWARE), and when it cannot be started at all (EX_UNAVAILABLE).
ENGINE_LOST_EXIT = 70
ENGINE_UNAVAILABLE_EXIT = 69
#: Time for the other tasks of a dead JVM to be given back before the process ends, seconds.
_LAST_WORDS_S = 3.0
#: To fill the heap takes longer than this, ms: what runs for less when its engine dies was taken on while it died.
ONLY_BEGUN_MS = 1000
#: A task for which the engine would have to start again, and is too busy, is not tried here for this long, seconds.
POSTPONED_S = 10.0
#: A thread goes on with the next task for this long; then it lets what else is in Celery's queue pass, seconds.
TURN_S = 30.0
#: The process that runs what must run alone waits this long for more, seconds: its start costs about ten.
_ALONE_IDLE_S = 10.0
#: How often the JVM is looked at, seconds.
_LOOK_S = 0.5

keeper = Keeper(engine.cancel, engine.progress)
_engine_lost = threading.Event()
_shutting_down = threading.Event()


class Alone:
    """A second process with an engine of its own, for tasks that must run alone: at most one, started when one waits.

    A task that lost an engine may be what killed it, or only have been near. Alone, one at a time, a killer costs
    nobody else anything, while all others go on in the worker's own engine (docs/use/sql.md).
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._may_start = False
        self._released = False

    def may_start(self) -> None:
        """From now on: two engines that start at a time would take each other the processors."""
        self._may_start = True
        self.look()

    def look(self) -> None:
        """Start the process if a task waits for it and it does not run."""
        with self._lock:
            if not self._may_start or self._released or self._process is not None or not scheduling.suspects_wait():
                return
            self._process = _start()
        threading.Thread(target=self._follow, args=(self._process,), name="alone", daemon=True).start()

    def release(self) -> None:
        """Tell the process to give its task back and end; it is told the same by the death of this one."""
        with self._lock:
            self._released = True
            if self._process is not None and self._process.stdin is not None:
                with contextlib.suppress(OSError):
                    self._process.stdin.close()

    def wait(self) -> None:
        """Wait for its end, and kill it when it takes too long."""
        process = self._process
        if process is not None:
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()

    def _follow(self, process: subprocess.Popen[bytes]) -> None:
        status = process.wait()
        if status:
            log.warning("the process for statements that run alone ended with exit status %s", status)
        time.sleep(_PAUSE_S)
        with self._lock:
            self._process = None
        try:
            self.look()
        finally:
            connection.close()


def _start() -> subprocess.Popen[bytes]:
    environ = {name: value for name, value in os.environ.items() if name not in _NOT_FOR_IT}
    command = (sys.executable, str(settings.BASE_DIR / "manage.py"), "sqlalone", "--skip-checks")
    # A session of its own: the signals of a terminal and of the launcher are for the worker, which passes them on.
    return subprocess.Popen(command, stdin=subprocess.PIPE, env=environ, start_new_session=True)  # noqa: S603


alone = Alone()


class Places:
    """How many statements this process may run, one for each of its threads.

    A quarter is kept for statements that a client waits for: those end soon, by their limit of time, so however many
    long ones there are a place for them comes free.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asynchronous = 0
        #: Tasks that this process leaves waiting, by their ids, and until when by the monotonic clock.
        self._postponed: dict[str, float] = {}
        #: Most statements at a time that no client waits for; None without a limit.
        self.most_asynchronous: int | None = None

    def set_threads(self, threads: int) -> None:
        """Divide the threads of the process; a single one is for all."""
        self.most_asynchronous = threads - max(1, threads // 4) if threads > 1 else None

    def claim(self) -> QueryTask | None:
        """Claim the task whose turn it is, if there is a place for it. Give the place back by `release`."""
        with self._lock:
            free = self.most_asynchronous is None or self._asynchronous < self.most_asynchronous
            now = time.monotonic()
            self._postponed = {task_id: until for task_id, until in self._postponed.items() if until > now}
            task = scheduling.claim(keeper.name, asynchronous=free, without=list(self._postponed))
            if task is not None and not task.synchronous:
                self._asynchronous += 1
            return task

    def postpone(self, task: QueryTask) -> None:
        """Leave a task waiting for a while; another process may have it meanwhile."""
        with self._lock:
            self._postponed[task.pk] = time.monotonic() + POSTPONED_S

    def readmit(self, task: QueryTask) -> None:
        """The task may be claimed here again at once."""
        with self._lock:
            self._postponed.pop(task.pk, None)

    def release(self, task: QueryTask) -> None:
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
        task = places.claim()
        if task is None:
            alone.look()
            return
        if ended is not None and ended.tenant_id != task.tenant_id:
            tell_others(ended)
        try:
            execute(task)
        finally:
            places.release(task)
        if time.monotonic() >= turn_ends:
            lifecycle.hand_over(task_id)
            return
        ended = task
    # The sweep hands a task without a sign of life over again, to a process that can run it.
    QueryTask.objects.filter(pk=task_id, status=TaskStatus.QUEUED).update(heartbeat_at=None)


def run_alone() -> None:
    """Run the tasks that lost an engine before, one at a time, until there are no more; a process of its own."""
    engine.ask_for_addresses(broker.added_addresses)
    idle_since = time.monotonic()
    while not _ending() and time.monotonic() - idle_since < _ALONE_IDLE_S:
        task = scheduling.claim(keeper.name, alone=True)
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
    try:
        _execute(task)
    except errors.EngineOutdated as error:
        _renew_engine(task, error)


def _execute(task: QueryTask) -> None:
    """As `execute`. Raises EngineOutdated: then nothing was run, and the task is still claimed."""
    with keeper.holding(task):
        try:
            outcome = outcome_of(task)
        except errors.EngineLost as error:
            _lose_engine(task, error)
            return
        except errors.QueryCancelled:
            if _shutting_down.is_set() and not lifecycle.cancel_requested([task.pk]):
                lifecycle.release(task)
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


def _renew_engine(task: QueryTask, error: errors.EngineOutdated) -> None:
    """Let the task wait, and start the engine again for it unless somebody is in it: then it is tried again later."""
    places.postpone(task)  # else it would be tried by another thread, whose look would keep the engine from ending
    lifecycle.release(task, error.user_message)
    if _ending():
        return
    try:
        engine.renew(error.addresses)
    except errors.EngineOutdated:
        log.info("task %s waits: %s", task.pk, error.user_message)
    else:
        places.readmit(task)


def _lose_engine(task: QueryTask, error: errors.EngineLost) -> None:
    """Give the task up, and end this process."""
    if error.culprit is not None and error.culprit != task.pk:
        lifecycle.release(task)
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
        engine.ask_for_addresses(broker.added_addresses)
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
        lifecycle.release(task)
    stop_statements()
    _end_process(0)


def outcome_of(task: QueryTask) -> Outcome:
    """Run the task and return how it ended. Raises what is the worker's business.

    That is EngineLost, EngineOutdated and QueryCancelled.
    """
    try:
        return _executed(task)
    except (errors.EngineLost, errors.EngineOutdated, errors.QueryCancelled):
        raise
    except errors.AnalyticsError as error:
        outcome = _failure(error)
        _record_refusal(task, error, outcome)
        return outcome
    except Exception:
        log.exception("task %s failed", task.pk)
        message = f"Internal error; the log of the worker has the reason under {task.pk}."
        return Outcome(TaskStatus.FAILURE, message, "INTERNAL_ERROR")


def _executed(task: QueryTask) -> Outcome:
    quota.require_room(task)
    spec = replace(specs.spec_of(task), engine_query_id=task.mpp_query_id or None)
    result = engine.run_query(spec)
    quota.count_written(task, result)
    writes.note_columns(task, list(result.table_columns))
    writes.note_files(task, specs.author_of(task))
    return Outcome(
        TaskStatus.SUCCESS,
        row_count=result.row_count,
        elapse_time=result.elapse_ms,
        scanned_row_count=result.scanned_row_count,
        scanned_data_bytes=result.scanned_data_bytes,
        result_file=spec.result_file,
        result_bytes=result.result_bytes,
        result_columns=[{"name": c.name, "type": c.type} for c in result.columns],
    )


def _failure(error: errors.AnalyticsError) -> Outcome:
    """FAILURE with the reason in the words of analytics, and where in the statement it is, when that is known."""
    message, condition = error.user_message, getattr(error, "condition", None) or ""
    if isinstance(error, errors.QueryTimedOut):
        condition = "QUERY_TIMED_OUT"
    elif isinstance(error, errors.QueryRefused):
        condition = error.condition
        if error.line is not None:
            message = f"{message} (line {error.line}, column {error.column})"
    return Outcome(TaskStatus.FAILURE, message, condition)


def _record_refusal(task: QueryTask, error: errors.AnalyticsError, outcome: Outcome) -> None:
    """A statement that the guard refused reached for what it may not: that is the trail's business."""
    author = specs.author_of(task)
    if author is not None and isinstance(error, errors.QueryRefused):
        detail = {"task": task.pk, "reason": outcome.message}
        resource = dla_resource(task.tenant, task.table_schema)
        audit.record(author, "sql.query.run", resource, result="refused", detail=detail)
