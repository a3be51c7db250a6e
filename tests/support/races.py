"""Several callers at the same moment, each in a thread and on a connection of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import connections

from console.web.errors import Refused

WON, DENIED = "won", "denied"


def race(*attempts: Callable[[], Any]) -> list[str]:
    """Start all at the same moment: "won" for each success, "denied", or the symbol of a refusal, in their order."""
    start = threading.Barrier(len(attempts))

    def run(attempt: Callable[[], Any]) -> str:
        try:
            start.wait(10)
            attempt()
        except Refused as refused:
            return refused.symbol
        except PermissionDenied:
            return DENIED
        finally:
            connections.close_all()
        return WON

    with ThreadPoolExecutor(len(attempts)) as pool:
        return list(pool.map(run, attempts))
