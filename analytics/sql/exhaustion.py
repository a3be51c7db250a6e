"""Notices a JVM that does nothing but collect garbage, and ends it.

With a heap that is full a JVM may go on for minutes, each second of which goes into collecting, before it gives up by
itself; meanwhile nobody's statement moves. Ended at once it is started again in a quarter of a minute.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from analytics import session as spark_session

_log = logging.getLogger(__name__)

#: How often the JVM is asked, s.
PERIOD_S = 1.0
#: So much of the last so many seconds went into garbage collection: no statement that does any work comes near it.
SHARE = 0.8
WINDOW_S = 6.0


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
    """Watch the JVM of this process for as long as statements run in it."""
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
