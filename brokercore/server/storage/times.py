"""How long messages take into the store and out of it, as tools are told (docs/operate/broker.md)."""

from __future__ import annotations

from bisect import bisect_left

_BOUNDS_MS = (0, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10_000)
_NAMES = (
    "<=0ms", "0~10ms", "10~50ms", "50~100ms", "100~200ms", "200~500ms", "500ms~1s", "1~2s", "2~3s", "3~4s", "4~5s",
    "5~10s", "10s~",
)  # fmt: skip
"""As brokers of Apache RocketMQ name the steps."""


class StorageTimes:
    """Since the start of the broker, in whole ms: from taking a message to its being safe, and reads of Redis."""

    def __init__(self) -> None:
        self._counts = [0] * len(_NAMES)
        self.longest_put_ms = self.longest_read_ms = 0

    def put(self, milliseconds: int) -> None:
        """Count a message that is safe. A clock that was set back counts as no time."""
        self._counts[bisect_left(_BOUNDS_MS, milliseconds)] += 1
        if milliseconds > self.longest_put_ms:  # noqa: PLR1730 (once a message: a call costs time here)
            self.longest_put_ms = milliseconds

    def read(self, milliseconds: int) -> None:
        """Count a read of messages that were not in memory."""
        self.longest_read_ms = max(self.longest_read_ms, milliseconds)

    def distribution(self) -> str:
        """`[<=0ms]:12 [0~10ms]:345 …`, the value of `putMessageDistributeTime`."""
        return " ".join(f"[{name}]:{count}" for name, count in zip(_NAMES, self._counts, strict=True))
