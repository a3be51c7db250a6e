"""Captures in a process of their own, as `manage.py tracking` has them, without its rows: `python -m …` with JSON.

Of each source the changes are appended to its event log and confirmed, or without a log only counted. It prints `ready`
when all are open, and of a source that is counted its changes a second.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

from analytics import collector
from analytics.inflow import quick_json
from analytics.inflow import source as sources
from analytics.inflow.changes import Capture, Change
from analytics.inflow.event_log import EventLog

_WAIT_S = 0.2


def main(told: list[dict[str, Any]]) -> None:
    """Capture until the process is ended."""
    collector.calm()
    opened = threading.Barrier(len(told) + 1)
    for one in told:
        threading.Thread(target=_capture, args=(one, opened), daemon=True).start()
    opened.wait()
    print("ready", flush=True)
    threading.Event().wait()


def _capture(told: dict[str, Any], opened: threading.Barrier) -> None:
    source = sources.Source(**told["source"])
    with sources.opened(source, told["tables"], None, snapshot=False) as capture:
        opened.wait()
        if told["log"]:
            with EventLog(Path(told["log"]), 1) as kept:
                while True:
                    if changes := capture.changes(_WAIT_S):
                        kept.append(_entry(change) for change in changes)
                        capture.confirm(changes[-1].position)
        _count(capture, told["expected"])


def _count(capture: Capture, expected: int) -> None:
    """Print the changes a second, from the first that came to the last."""
    seen = before = 0
    begun = 0.0
    while seen < expected:
        changes = capture.changes(_WAIT_S)
        if not changes:
            continue
        if not seen:
            before, begun = len(changes), time.perf_counter()
        seen += len(changes)
        capture.confirm(changes[-1].position)
    print((seen - before) / (time.perf_counter() - begun), flush=True)


def _entry(change: Change) -> tuple[str, int, bytes]:
    """As `console.tracking.capturing` makes it."""
    return change.position, change.commit_ms, quick_json.dumps(change.event)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
