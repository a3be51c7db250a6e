"""What must start anew in a forked child: Celery and Django fork after the clients were made."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Restartable(Protocol):
    """Something with connections, threads or locks that a child must not share with its parent."""

    def start_anew(self) -> None:
        """Drop what belongs to the parent. Runs in the child before any of its threads."""


_registered: weakref.WeakSet[Restartable] = weakref.WeakSet()


def restart_after_fork(thing: Restartable) -> None:
    """Call `thing.start_anew()` in every child forked from now on, as long as it lives."""
    _registered.add(thing)


def _after_fork() -> None:
    for thing in list(_registered):
        thing.start_anew()


os.register_at_fork(after_in_child=_after_fork)
