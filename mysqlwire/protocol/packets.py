"""Packets and their fields (pages MySQL Packets, Integers, Strings).

A packet has a header of four bytes: the size of what follows, and a number that goes up with every packet of a command.
What has 16 MiB or more goes in several; the last one is shorter, and may be empty.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mysqlwire.protocol.errors import PacketError

HEADER_SIZE = 4
#: A packet of this size goes on in the next one.
FULL = 0xFFFFFF
NULL = b"\xfb"
_HEADER = struct.Struct("<I")
#: What stands where a length is expected for NULL, and at the beginning of an error.
_NO_LENGTHS = (0xFB, 0xFF)
_WIDTHS = {0xFC: 2, 0xFD: 3, 0xFE: 8}
_SHORTEST_OF_TWO, _SHORTEST_OF_THREE, _SHORTEST_OF_EIGHT = 251, 1 << 16, 1 << 24


# --- Packets ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Header:
    """What stands in front of a packet: its size in bytes, and its number, 0 to 255."""

    size: int
    number: int

    @property
    def continues(self) -> bool:
        """True when what is sent goes on in the next packet."""
        return self.size == FULL


def read_header(data: bytes) -> Header:
    """The header of four bytes."""
    word = _HEADER.unpack(data)[0]
    return Header(word & FULL, word >> 24)


class Outgoing:
    """Packets that wait to be sent, and the numbers of what comes and goes: both sides count together."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._number = 0

    def __len__(self) -> int:
        """Bytes that wait."""
        return len(self._buffer)

    def restart(self) -> None:
        """A new command begins: numbers start at 0."""
        self._number = 0

    def received(self, number: int) -> None:
        """Count a packet that came in. Raises PacketError when it is not the one whose turn it is."""
        if number != self._number:
            raise PacketError("The packet is out of order.")
        self._number = (number + 1) & 0xFF

    def add(self, payload: bytes | bytearray) -> None:
        """Append a payload as one packet, or as several when it is larger."""
        start, size = 0, len(payload)
        while size - start >= FULL:
            self._append_header(FULL)
            self._buffer += memoryview(payload)[start : start + FULL]
            start += FULL
        self._append_header(size - start)
        self._buffer += memoryview(payload)[start:] if start else payload

    def add_rows(self, rows: Iterable[Iterable[str | bytes | int | float | None]], codec: str) -> None:
        """Append rows of the text protocol, each a packet (page Text Resultset Row): the one place that is to be fast.

        Numbers go as Python writes them; other values are for the caller to turn into texts or bytes. What the codec
        lacks becomes `?`.
        """
        buffer = self._buffer
        for row in rows:
            begin = len(buffer)
            buffer += b"\0\0\0\0"
            for cell in row:
                if cell is None:
                    buffer += NULL
                    continue
                data = cell if isinstance(cell, bytes) else str(cell).encode(codec, "replace")
                size = len(data)
                if size < _SHORTEST_OF_TWO:
                    buffer.append(size)
                else:
                    buffer += length(size)
                buffer += data
            size = len(buffer) - begin - HEADER_SIZE
            if size >= FULL:
                payload = bytes(memoryview(buffer)[begin + HEADER_SIZE :])
                del buffer[begin:]
                self.add(payload)
            else:
                _HEADER.pack_into(buffer, begin, size | self._number << 24)
                self._number = (self._number + 1) & 0xFF

    def data_to_send(self) -> bytearray:
        """All that waits; nothing does afterwards."""
        taken, self._buffer = self._buffer, bytearray()
        return taken

    def _append_header(self, size: int) -> None:
        self._buffer += _HEADER.pack(size | self._number << 24)
        self._number = (self._number + 1) & 0xFF


# --- Fields -----------------------------------------------------------------------------------------------------------


def length(number: int) -> bytes:
    """A length-encoded integer, 0 to 2**64 - 1."""
    if number < _SHORTEST_OF_TWO:
        return number.to_bytes(1, "little")
    if number < _SHORTEST_OF_THREE:
        return b"\xfc" + number.to_bytes(2, "little")
    if number < _SHORTEST_OF_EIGHT:
        return b"\xfd" + number.to_bytes(3, "little")
    return b"\xfe" + number.to_bytes(8, "little")


def with_length(data: bytes) -> bytes:
    """Bytes behind their length."""
    return length(len(data)) + data


def with_null(data: bytes) -> bytes:
    """Bytes before a NUL; those behind a NUL that they hold would be read as something else, and are left out."""
    return data.partition(b"\0")[0] + b"\0"


class Reader:
    """The fields of one payload, front to back. Every method raises PacketError when it ends too early."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def at_end(self) -> bool:
        """True when nothing is left."""
        return self._position >= len(self._data)

    def read(self, size: int) -> bytes:
        """So many bytes."""
        piece = self._data[self._position : self._position + size]
        if len(piece) < size:
            raise PacketError("The packet ends too early.")
        self._position += size
        return piece

    def rest(self) -> bytes:
        """All that is left."""
        return self.read(len(self._data) - self._position)

    def number(self, layout: str) -> int | float:
        """A number of a struct layout."""
        value: int | float = struct.unpack(layout, self.read(struct.calcsize(layout)))[0]
        return value

    def integer(self, size: int) -> int:
        """An unsigned integer of so many bytes."""
        return int.from_bytes(self.read(size), "little")

    def length(self) -> int:
        """A length-encoded integer."""
        first = self.read(1)[0]
        if first in _NO_LENGTHS:
            raise PacketError("A length of the packet is none.")
        width = _WIDTHS.get(first)
        return self.integer(width) if width else first

    def bytes_with_length(self) -> bytes:
        """Bytes behind their length."""
        return self.read(self.length())

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
