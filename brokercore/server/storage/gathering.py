"""Commands for Redis that are not written yet."""

from __future__ import annotations

import hiredis

from brokercore.server.storage.group_commit import grouped, is_worth_it
from brokercore.server.storage.replies import Callback


def pack(arguments: tuple[bytes | str | int, ...]) -> bytes:
    """One command as RESP."""
    packed: bytes = hiredis.pack_command(arguments)  # type: ignore[arg-type]
    return packed


class Gathering:
    """What the next write to Redis will hold; `size` are the bytes of `parts`, `mixed` that not all are new messages.

    References stand in `first`, ahead of all others: they must be there before what they name.
    """

    __slots__ = ("callbacks", "first", "first_callbacks", "mixed", "parts", "size")

    def __init__(self) -> None:
        self.first: list[bytes] = []
        self.first_callbacks: list[Callback | None] = []
        self.parts: list[bytes] = []
        self.callbacks: list[Callback | None] = []
        self.size = 0
        self.mixed = False

    def take(self, *, together: bool = False) -> tuple[list[bytes], list[Callback | None], int]:
        """Parts, callbacks and size of everything, which is gone from here then; messages as one group if wanted."""
        taken = self.first + self.parts, self.first_callbacks + self.callbacks, self.size + sum(map(len, self.first))
        if together and not self.mixed and is_worth_it(len(taken[1]), taken[2]):
            taken = grouped(*taken)
        self.first, self.first_callbacks = [], []
        self.parts, self.callbacks, self.size, self.mixed = [], [], 0, False
        return taken
