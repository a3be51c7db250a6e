"""The console's Celery application with a task that lasts as long as a test likes."""

from __future__ import annotations

import time
from pathlib import Path

from console.celery import app

__all__ = ["app"]


@app.task(name="tests.hold")  # type: ignore[untyped-decorator]
def hold(begun: str, end: str) -> None:
    """Make the file `begun`, and last until the file `end` is there."""
    Path(begun).touch()
    while not Path(end).exists():
        time.sleep(0.05)
