"""What every reader of a database's log gives: changes as events, and failures that say how they are mended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Change:
    """One row change. `position` is where to go on after it; `event` a CloudEvent, its `id` always the same."""

    position: str
    commit_ms: int
    event: dict[str, Any]


class CaptureFailed(Exception):  # noqa: N818
    """Changes cannot be read. `sentence` says why, `code` names it for programs, `mend` is a statement or empty."""

    def __init__(self, sentence: str, code: str, mend: str = "") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.code = code
        self.mend = mend


class Capture(Protocol):
    """A reader of one database's changes, in the order of their commits."""

    def changes(self, wait_s: float) -> list[Change]:
        """What came since: whole transactions, or bounded pieces of one. Empty after `wait_s` seconds without any.

        Raises CaptureFailed.
        """
        ...

    def confirm(self, position: str) -> None:
        """All changes up to `position` are durable here; the database may forget them."""
        ...

    def close(self) -> None:
        """End the connections."""
        ...
