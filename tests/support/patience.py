"""How long a test waits: in seconds of a machine that runs, not of a clock."""

from __future__ import annotations

import time

#: What one look counts at the most, s. It takes longer when the machine stood still meanwhile, or did other things.
_MOST_COUNTED_S = 1.0


class Patience:
    """So many seconds in which a test looks again and again, every `pause` seconds."""

    def __init__(self, seconds: float, pause: float = 0.0) -> None:
        self._left = seconds
        self._most = pause + _MOST_COUNTED_S
        self._last = time.monotonic()

    def is_over(self) -> bool:
        """To be asked after each look that saw nothing."""
        now = time.monotonic()
        self._left -= min(now - self._last, self._most)
        self._last = now
        return self._left <= 0
