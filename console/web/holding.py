"""What a process holds by a lease until somebody else has it, and what it asks of the database meanwhile."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from django.db import Error, connection

log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Hold:
    """The hold of one thing, for the thread that works with it; another thread tells that it is lost."""

    def __init__(self, what: str, loss: Callable[[], Exception], pause_s: float) -> None:
        """`what` is its name in the log, `loss` makes what is raised when it is lost, `pause_s` parts two questions."""
        self._what, self._loss, self._pause_s = what, loss, pause_s
        self._lost = threading.Event()

    def lose(self) -> None:
        """Somebody else has it."""
        self._lost.set()

    def require(self) -> None:
        """Raise the loss when it is lost."""
        if self._lost.is_set():
            raise self._loss()

    def insist(self, ask: Callable[[], _T]) -> _T:
        """Ask the database until it answers, since an outage of it changes nothing. Raises the loss."""
        while True:
            self.require()
            try:
                return ask()
            except Error as error:
                log.warning("%s waits for the database: %s", self._what, error)
                connection.close()
                self._lost.wait(self._pause_s)
