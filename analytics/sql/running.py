"""The statements that run in this process: their time limit, their limit of size, and the way to cancel them."""

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

from analytics import session as spark_session
from analytics.errors import AnalyticsError, QueryCancelled, QueryFailed, QueryTimedOut
from analytics.specs import Progress
from analytics.sql.backend import Backend

_log = logging.getLogger(__name__)

#: How often the JVM is asked, s.
PERIOD_S = 1.0
#: So much of the last so many seconds went into garbage collection: no statement that does any work comes near it.
SHARE = 0.8
WINDOW_S = 6.0
#: How often a statement's limits are looked at, s.
_PERIOD_S = 0.5
#: A statement submits several jobs one after the other, so cancelling is repeated until its thread is out, s.
_REPEAT_S = 0.1
#: A statement that is still not out may be busy in the driver, where no job can be cancelled: then the JVM is ended, s.
PATIENCE_S = 30.0
_lock = threading.Lock()
_running: dict[str, "Statement"] = {}
#: The threads that watch the JVM while statements run: one at most.
_watchers: list[threading.Thread] = []


class Gauge:
    """The share of time that went into garbage collection, over a window that moves on."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def is_exhausted(self, now: float, collection_ms: int) -> bool:
        """Take a sample, the time by a steady clock (s) and the collection time so far; tell whether it is too much."""
        self._samples.append((now, collection_ms))
        while len(self._samples) > 2 and now - self._samples[1][0] >= WINDOW_S:
            self._samples.popleft()
        began, before = self._samples[0]
        return now - began >= WINDOW_S and (collection_ms - before) / 1000 >= SHARE * (now - began)


def watch_while(is_running: Callable[[], bool]) -> None:
    """Watch the JVM of this process for as long as statements run in it; end it when it only collects garbage.

    With a full heap it may do so for minutes before it gives up by itself, and meanwhile nobody's statement moves.
    """
    gauge = Gauge()
    pause = threading.Event()
    while not pause.wait(PERIOD_S) and is_running() and spark_session.is_alive():
        try:
            exhausted = gauge.is_exhausted(time.monotonic(), _collection_ms())
        except Exception as error:  # noqa: BLE001  a JVM that has died is noticed by its statements
            _log.debug("the JVM does not answer: %s", error)
            return
        if exhausted:
            _log.error("Spark's JVM only collects garbage; it is ended")
            spark_session.kill()
            return


def _collection_ms() -> int:
    """Time that the JVM has spent in garbage collection since its start."""
    jvm = spark_session.get()._jvm
    beans = jvm.java.lang.management.ManagementFactory.getGarbageCollectorMXBeans()  # type: ignore[union-attr]
    return sum(bean.getCollectionTime() for bean in beans)


class Statement:
    """One running statement: its jobs carry its tag, and whoever ends it early leaves the reason."""

    def __init__(self, spark: Backend, task_id: str, time_limit_s: float) -> None:
        self.task_id = task_id
        self._spark = spark
        self.tag = f"gantry-{task_id}"
        #: Asked every half second; returns why the statement must end, or None.
        self.limit: Callable[[], AnalyticsError | None] = lambda: None
        self._reason: AnalyticsError | None = None
        self._time_limit_s = time_limit_s
        self._deadline = time.monotonic() + time_limit_s
        self._wake = threading.Event()
        self._done = threading.Event()

    def check(self) -> None:
        """Raise the reason when the statement was ended: between two steps no job is there to be cancelled."""
        if self._reason is not None:
            raise self._reason

    def end(self, reason: AnalyticsError) -> None:
        """Stop the statement as soon as possible; the first reason counts."""
        if self._reason is None:
            self._reason = reason
        self._wake.set()

    def finished(self) -> None:
        """The statement's thread is out: stop watching it."""
        self._done.set()
        self._wake.set()

    def progress(self) -> Progress | None:
        """How far its jobs are; None before the first one."""
        return self._spark.progress(self.tag)

    def watch(self) -> None:
        """Wait for a limit, a cancellation or the end; runs in a thread of its own."""
        while not self._wake.wait(min(_PERIOD_S, max(0.01, self._deadline - time.monotonic()))):
            if time.monotonic() >= self._deadline:
                self.end(QueryTimedOut(f"The statement ran longer than its limit of {self._time_limit_s:g} s."))
            elif reason := self._beyond_its_limit():
                self.end(reason)
        patience_ends = time.monotonic() + PATIENCE_S
        while not self._done.is_set():
            if time.monotonic() >= patience_ends:
                self._end_engine("does not end")
                return
            self._spark.cancel(self.tag)
            self._done.wait(_REPEAT_S)
        self._follow_tasks()

    def _beyond_its_limit(self) -> AnalyticsError | None:
        """As `limit` says; a look that fails is made again, or the statement would be watched by nobody."""
        try:
            return self.limit()
        except Exception as error:  # noqa: BLE001  the border of the thread
            _log.warning("what task %s has written cannot be told: %s", self.task_id, error)
            return None

    def _follow_tasks(self) -> None:
        """Wait until no task of the ended statement holds a core; one that does not end costs the JVM."""
        patience_ends = time.monotonic() + spark_session.TASK_PATIENCE_S
        try:
            while self._spark.holds_cores(self.tag):
                if time.monotonic() >= patience_ends:
                    self._end_engine("has ended, but its tasks do not")
                    return
                self._spark.cancel(self.tag)
                time.sleep(_REPEAT_S)
        except Exception as error:  # noqa: BLE001  a dead Spark has no tasks
            _log.info("the tasks of %s cannot be seen: %s", self.task_id, error)

    def _end_engine(self, why: str) -> None:
        _log.error("the statement of task %s %s: the engine is ended", self.task_id, why)
        self._spark.kill(self.task_id)


@contextlib.contextmanager
def watched(spark: Backend, task_id: str, time_limit_s: float) -> Iterator[Statement]:
    """Run the block as a statement that can be cancelled and ends in time. Its jobs must be started in this thread."""
    statement = Statement(spark, task_id, time_limit_s)
    with _lock:
        if task_id in _running:
            raise QueryFailed(f"The task {task_id} is running here already.")
        _running[task_id] = statement
        if not _watchers:
            _watchers.append(threading.Thread(target=_watch_memory, name="watch memory", daemon=True))
            _watchers[0].start()
    threading.Thread(target=statement.watch, name=f"watch {task_id}", daemon=True).start()
    try:
        yield statement
    finally:
        statement.finished()
        with _lock:
            del _running[task_id]


def _watch_memory() -> None:
    watch_while(_any_runs)
    with _lock:
        if threading.current_thread() in _watchers:
            _watchers.clear()


def _any_runs() -> bool:
    """Whether the watcher has to go on; decided with the lock held under which the next statement looks for it."""
    with _lock:
        if not _running:
            _watchers.clear()
        return bool(_running)


def cancel(task_id: str) -> bool:
    """Cancel a statement of this process. Returns whether it was running here."""
    with _lock:
        statement = _running.get(task_id)
    if statement is None:
        return False
    statement.end(QueryCancelled("The statement was cancelled."))
    return True


def progress(task_id: str) -> Progress | None:
    """How far a statement of this process is; None when it is not here, has no job yet, or Spark does not tell."""
    with _lock:
        statement = _running.get(task_id)
    if statement is None:
        return None
    try:
        return statement.progress()
    except Exception as error:  # noqa: BLE001  a dead Spark is noticed by the statement's own thread
        _log.debug("no progress of %s: %s", task_id, error)
        return None


def cancel_all(reason: AnalyticsError) -> None:
    """End every statement of this process, such as before the process itself ends."""
    with _lock:
        statements = list(_running.values())
    for statement in statements:
        statement.end(reason)
