"""A few places that several accounts want at a time: none of them ever has all.

For threads, which wait for a place; the web server's requests, which have no thread while they wait, have
`console/web/turns.py`.
"""

from __future__ import annotations

import threading
import time
from collections import Counter


class Places:
    """So many places, of which one holder has all but one."""

    def __init__(self, most: int, *, most_waiting: int | None = None) -> None:
        """Of one holder not more than `most_waiting` threads wait at a time; beyond it a place is free or refused."""
        self._most = most
        self._most_waiting = most_waiting
        self._changed = threading.Condition()
        self._busy: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()

    @property
    def are_free(self) -> bool:
        """Whether nobody has a place."""
        with self._changed:
            return not self._busy

    def take(self, holder: str, deadline: float) -> bool:
        """Wait for a place until `deadline`, of the monotonic clock; False without one."""
        with self._changed:
            self._waiting[holder] += 1
            try:
                while self._busy.total() >= self._most or self._busy[holder] >= self._most - 1:
                    if not self._changed.wait(self._may_wait_s(holder, deadline)):
                        return False
            finally:
                self._waiting[holder] -= 1
                self._waiting += Counter()  # forgets who has none
            self._busy[holder] += 1
        return True

    def give_back(self, holder: str) -> None:
        """A place of the holder is free."""
        with self._changed:
            self._busy[holder] -= 1
            self._busy += Counter()  # forgets who holds none
            self._changed.notify_all()

    def _may_wait_s(self, holder: str, deadline: float) -> float:
        if self._most_waiting is not None and self._waiting[holder] > self._most_waiting:
            return 0.0
        return max(0.0, deadline - time.monotonic())
