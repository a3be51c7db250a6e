"""Rights have changed: `console.rights`, which compiles them for the brokers, is told."""

from __future__ import annotations

from typing import Protocol

from console.web.provided import Provided


class Table(Protocol):
    """The compiled table of rights."""

    def publish_on_commit(self) -> None:
        """Have it published once the current transaction has committed."""


table = Provided[Table](f"{__name__}.table", "console.rights")


def rights_changed() -> None:
    """Have the brokers told once the current transaction has committed. Every change of a right calls it."""
    table.get().publish_on_commit()
