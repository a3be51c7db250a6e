"""Who is in the engine: one that is outdated is ended, for another to start, only while nobody is.

Everything that Spark does for somebody is a use: statements, steps of archives, roll-ups, pipelines from start to end,
trials of queries, and the warm start.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from analytics import session as spark_session

#: For so long those are waited for who are about to leave, s: who finds the engine outdated is in it until then.
PATIENCE_S = 2.0
_changed = threading.Condition()
_users = 0
_is_ending = False


@contextmanager
def one() -> Iterator[None]:
    """Be in the engine for as long as the block runs, so that it is not ended. Waits while one is being ended."""
    global _users  # noqa: PLW0603  of the one engine of the process
    with _changed:
        _changed.wait_for(lambda: not _is_ending)
        _users += 1
    try:
        yield
    finally:
        with _changed:
            _users -= 1
            _changed.notify_all()


def renew(addresses: Iterable[str], end: Callable[[], object]) -> None:
    """Have an engine that may connect to these `host:port`: `end` one that may not; the next call starts another.

    Takes as long as the engine takes to end, 8 s at most. Raises EngineOutdated while somebody is in it.
    """
    global _is_ending  # noqa: PLW0603  as above
    old = spark_session.running()
    outdated = spark_session.outdated(addresses)
    if outdated is None:
        return
    with _changed:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            _changed.wait_for(lambda: not _is_ending)
            if spark_session.running() is not old:
                return
            if not _users:
                break
            if time.monotonic() >= deadline:
                raise outdated
            _changed.wait(deadline - time.monotonic())
        _is_ending = True
    try:
        end()
    finally:
        with _changed:
            _is_ending = False
            _changed.notify_all()
