"""Commands for Redis that are not written yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hiredis

Callback = Callable[[Any], None]
"""Takes the reply: a value, a hiredis.ReplyError, or ConnectionError when the connection broke first."""


def pack(arguments: tuple[bytes | str | int, ...]) -> bytes:
    """One command as RESP."""
    packed: bytes = hiredis.pack_command(arguments)  # type: ignore[arg-type]
    return packed


class Gathering:
    """What the next write to Redis will hold; `size` are the bytes of `parts`.

    References stand in `first`, ahead of all others: they must be there before what they name.
    """

    __slots__ = ("callbacks", "first", "first_callbacks", "parts", "size")

    def __init__(self) -> None:
        self.first: list[bytes] = []
        self.first_callbacks: list[Callback | None] = []
        self.parts: list[bytes] = []
        self.callbacks: list[Callback | None] = []
        self.size = 0

    def take(self) -> tuple[list[bytes], list[Callback | None], int]:
        """Parts, callbacks and size of everything, which is gone from here then."""
        taken = self.first + self.parts, self.first_callbacks + self.callbacks, self.size + sum(map(len, self.first))
        self.first, self.first_callbacks = [], []
        self.parts, self.callbacks, self.size = [], [], 0
        return taken
