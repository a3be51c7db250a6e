"""Reading a packet front to back. Pure; never reads past the end, whatever the client sent."""

from __future__ import annotations

import struct
from collections.abc import Callable


class PacketError(ValueError):
    """The packet breaks the protocol, or wants what is not offered; the text says what."""


class Reader:
    """The fields of one packet, in order. Every method raises PacketError when the packet ends too early."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def at_end(self) -> bool:
        """True when nothing is left."""
        return self._position >= len(self._data)

    def take(self, size: int) -> bytes:
        """So many bytes."""
        piece = self._data[self._position : self._position + size]
        if len(piece) < size:
            raise PacketError("The packet ends too early.")
        self._position += size
        return piece

    def rest(self) -> bytes:
        """All that is left."""
        return self.take(len(self._data) - self._position)

    def number(self, layout: str) -> int | float:
        """A number of a struct layout."""
        value: int | float = struct.unpack(layout, self.take(struct.calcsize(layout)))[0]
        return value

    def integer(self, size: int) -> int:
        """An unsigned integer of so many bytes."""
        return int.from_bytes(self.take(size), "little")

    def length(self) -> int:
        """A length-encoded integer."""
        first = self.take(1)[0]
        wider = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(first)
        return self.integer(wider) if wider else first

    def bytes_with_length(self) -> bytes:
        """Bytes behind their length."""
        return self.take(self.length())

    def bytes_to_null(self) -> bytes:
        """Bytes up to a NUL, which is taken too."""
        end = self._data.find(b"\0", self._position)
        if end < 0:
            raise PacketError("A text of the packet has no end.")
        piece = self._data[self._position : end]
        self._position = end + 1
        return piece

    def text(self, decode: Callable[[bytes], str]) -> str:
        """A text behind its length."""
        return decode(self.bytes_with_length())
