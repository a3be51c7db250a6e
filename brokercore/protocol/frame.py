"""Frames: a length word, then that many bytes. The limit is checked before the payload is read."""

from __future__ import annotations

from brokercore.protocol.errors import FrameError

MAX_FRAME = 16 * 1024 * 1024
"""Largest frame in bytes, counted after the length word (com.rocketmq.remoting.frameMaxLength)."""

MIN_FRAME = 4
"""A frame has at least its header word."""

__all__ = ["MAX_FRAME", "FrameError", "FrameReader"]


class FrameReader:
    """Cuts the byte stream of one connection into frames.

    A frame is handed out without its length word, as `command.decode` takes it.
    """

    __slots__ = ("_buffer", "limit")

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._buffer = bytearray()
        self.limit = limit
        """Largest frame in bytes; it may change between two calls of `feed`."""

    @property
    def pending(self) -> int:
        """Bytes of a frame that is not complete yet."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """Take what the socket gave and return the frames that are complete.

        Raises FrameError when a length word is below 4 or above the limit; the reader is of no use after that.
        """
        buffer = self._buffer
        if not buffer:
            frames, position = self._cut(data)
            if position < len(data):
                buffer += data[position:]
            return frames
        buffer += data
        if len(buffer) < 4 or len(buffer) < 4 + self._length(buffer, 0):
            return []
        whole = bytes(buffer)
        frames, position = self._cut(whole)
        del buffer[:position]
        return frames

    def _cut(self, data: bytes) -> tuple[list[bytes], int]:
        frames: list[bytes] = []
        position, size = 0, len(data)
        while size - position >= 4:
            end = position + 4 + self._length(data, position)
            if end > size:
                break
            frames.append(data[position + 4 : end])
            position = end
        return frames, position

    def _length(self, data: bytes | bytearray, position: int) -> int:
        length = int.from_bytes(data[position : position + 4], "big")
        if length < MIN_FRAME or length > self.limit:
            raise FrameError(f"frame length {length} is outside {MIN_FRAME}..{self.limit} bytes")
        return length
