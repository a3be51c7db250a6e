"""`manage.py sqlalone`: runs the statements that must run alone; the Spark worker starts it (console/sql/worker.py)."""

from __future__ import annotations

import os
import threading
from typing import Any

from django.core.management.base import BaseCommand

from console.sql import worker


class Command(BaseCommand):
    help = "Run the statements that lost an engine before, one at a time. The Spark worker starts this by itself."

    def handle(self, *args: Any, **options: Any) -> None:
        threading.Thread(target=_wait_for_parent, name="parent", daemon=True).start()
        worker.run_alone()


def _wait_for_parent() -> None:
    """Standard input ends when the worker closes it, or dies."""
    while os.read(0, 1):  # not sys.stdin: its lock, held here, would abort the interpreter at its end
        continue
    worker.end_with_parent()
