"""Entries that the database did not take, on a full disk or in an outage: kept in memory, and written afterwards."""

from __future__ import annotations

import atexit
import json
import logging
import threading
from collections import deque
from typing import Any

from django.db import DatabaseError, connection

from console.audit.models import Entry

log = logging.getLogger(__name__)
#: Entries that a process keeps; some hundred bytes each. What is more is told in the log, entry by entry.
MOST = 10_000
#: Seconds between two tries.
PAUSE_S = 2.0

_lock = threading.Lock()
_waiting: deque[dict[str, Any]] = deque()
_ended = threading.Event()
_writer: threading.Thread | None = None


def keep(values: dict[str, Any]) -> None:
    """Keep an entry's values until the database takes them. Its time is that of the attempt, if they hold `at`."""
    global _writer  # noqa: PLW0603 (one thread a process, started when there is something to do)
    with _lock:
        if len(_waiting) >= MOST:
            _tell(values)
            return
        _waiting.append(values)
        if _writer is None or not _writer.is_alive():
            _writer = threading.Thread(target=_work, name="audit reserve", daemon=True)
            _writer.start()


def write() -> int:
    """Write what waits, in order, as far as the database takes it; returns how many entries still wait."""
    while True:
        with _lock:
            if not _waiting:
                return 0
            values = _waiting[0]
        try:
            Entry.objects.create(**values)
        except DatabaseError:
            return len(_waiting)
        with _lock:
            _waiting.popleft()


def _work() -> None:
    try:
        while not _ended.wait(PAUSE_S):
            with _lock:
                if not _waiting:
                    return
            write()
    finally:
        connection.close()


@atexit.register
def _end() -> None:
    """What the database has still not taken when the process ends stands in the log at least."""
    _ended.set()
    if _waiting and write():
        for values in list(_waiting):
            _tell(values)


def _tell(values: dict[str, Any]) -> None:
    kept = {name: str(value) for name, value in values.items() if name != "tenant"}
    log.error("an audit entry that the database did not take", extra={"fields": {"entry": json.dumps(kept)}})
