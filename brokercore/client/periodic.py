"""A thread that does one thing again and again: at once when woken, else after its interval."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from brokercore.client.errors import ClientError

log = logging.getLogger(__name__)


class Periodic:
    """Runs `work` every `interval_s` seconds until stopped; what it raises is logged and does not end it.

    `work` may return the seconds to wait this time. After a ClientError the wait is `retry_s`.
    """

    def __init__(
        self, name: str, interval_s: float, work: Callable[[], float | None], *, retry_s: float | None = None
    ) -> None:
        self._name = name
        self._interval_s = interval_s
        self._work = work
        self._retry_s = interval_s if retry_s is None else retry_s
        self._wake = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start; the first run is after one interval, or when woken."""
        self._thread.start()

    def wake(self) -> None:
        """Run now."""
        self._wake.set()

    def signal(self) -> None:
        """Let it stop, without waiting for a run that is under way."""
        self._stopped = True
        self._wake.set()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Stop and wait for a run that is under way, at most `timeout_s`. Can be called again."""
        self.signal()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        wait_s = self._interval_s
        while True:
            self._wake.wait(wait_s)
            self._wake.clear()
            if self._stopped:
                return
            wait_s = self._run_once()

    def _run_once(self) -> float:
        try:
            return self._work() or self._interval_s
        except ClientError as error:
            log.warning("%s: %s", self._name, error)
            return self._retry_s
        except Exception:
            log.exception("%s failed", self._name)
        return self._interval_s
