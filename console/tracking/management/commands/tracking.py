"""`manage.py tracking`: captures the changes of the databases of all change tracking tasks."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from analytics import collector
from console.instances.models import Cluster, Origin
from console.topics import wanted
from console.tracking.capturing import Process


class Command(BaseCommand):
    """Works until SIGTERM or SIGINT."""

    help = "Capture the changes of databases for change tracking tasks. Several of it share the tasks."

    def handle(self, *args: Any, **options: Any) -> None:
        collector.calm()
        process, stop = Process(), threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: process.end())
        # Beside the captures, since this process does nothing else while it waits, and is always there.
        naming = threading.Thread(target=wanted.serve, args=(stop,), name="wanted names", daemon=True)
        if Cluster.objects.filter(origin=Origin.EMBEDDED).exists():
            naming.start()
        process.run(self._ready)
        stop.set()

    def _ready(self) -> None:
        self.stdout.write("ready tracking")
        self.stdout.flush()
        if file := os.environ.get("GANTRY_READY_FILE"):
            Path(file).touch()
