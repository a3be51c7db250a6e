"""Frames: a length word, then that many bytes. The limit is checked before the payload is read."""

from __future__ import annotations

from brokercore.protocol.errors import FrameError

MAX_FRAME = 16 * 1024 * 1024
"""Largest frame in bytes, counted after the length word (com.rocketmq.remoting.frameMaxLength)."""

MIN_FRAME = 4
"""A frame has at least its header word."""

__all__ = ["MAX_FRAME", "FrameError", "FrameReader"]


_COPIED_FRAME = 16 * 1024
"""Up to so many bytes a copy costs less than a view, and does not hold what came with it."""

_SMALL_PIECE = 4096

Frame = bytes | memoryview


class FrameReader:
    """Cuts the byte stream of one connection into frames.

    A frame is handed out without its length word, as `command.decode` takes it; a large one as a view of what was read.
    """

    __slots__ = ("_awaited", "_pieces", "limit", "pending")

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._pieces: list[bytes | bytearray] = []
        self._awaited = 0
        self.pending = 0
        """Bytes of a frame that is not complete yet."""
        self.limit = limit
        """Largest frame in bytes; it may change between two calls of `feed`."""

    def feed(self, data: bytes) -> list[Frame]:
        """Take what the socket gave and return the frames that are complete.

        Raises FrameError when a length word is below 4 or above the limit; the reader is of no use after that.
        """
        if self._pieces:
            self._keep(data)
            self.pending += len(data)
            if self.pending < self._awaited:
                return []
            data = b"".join(self._pieces)
            self._pieces = []
        frames: list[Frame] = []
        position, size = 0, len(data)
        self._awaited = 4
        while size - position >= 4:
            end = position + 4 + self._length(data, position)
            if end > size:
                self._awaited = end - position
                break
            begin = position + 4
            frames.append(data[begin:end] if end - begin <= _COPIED_FRAME else memoryview(data)[begin:end])
            position = end
        self.pending = size - position
        if self.pending:
            self._pieces.append(data[position:] if position else data)
        return frames

    def _keep(self, data: bytes) -> None:
        """Add to the frame that is not complete: small pieces to each other, since each alone takes more memory."""
        last = self._pieces[-1]
        if len(data) >= _SMALL_PIECE:
            self._pieces.append(data)
        elif type(last) is bytearray:
            last += data
        else:
            self._pieces.append(bytearray(data))

    def _length(self, data: bytes, position: int) -> int:
        length = int.from_bytes(data[position : position + 4], "big")
        if length < MIN_FRAME or length > self.limit:
            raise FrameError(f"frame length {length} is outside {MIN_FRAME}..{self.limit} bytes")
        return length
