"""What a line has to know of HTTP/2: how much of the calls on it is held until they are answered.

The gRPC library takes a request of 8 MiB on each of a thousand streams, before anybody has looked at who asks.
"""

from __future__ import annotations

_DATA, _HEADERS, _RESET = 0, 1, 3
_END_STREAM = 0x1
_HEAD_BYTES, _PREFACE_BYTES = 9, 24

_Head = tuple[int, int, int, int]
"""Type, flags, stream and length of a frame."""


class _Heads:
    """Finds the heads of frames in what goes over a line one way."""

    __slots__ = ("_begun", "_skip")

    def __init__(self, skip: int = 0) -> None:
        self._skip = skip
        self._begun = b""

    def feed(self, data: bytes) -> list[_Head]:
        """The heads that are complete now."""
        found: list[_Head] = []
        at, size = 0, len(data)
        while True:
            step = min(self._skip, size - at)
            self._skip -= step
            at += step
            needed = _HEAD_BYTES - len(self._begun)
            if self._skip or size - at < needed:
                self._begun += data[at:]
                return found
            head = self._begun + data[at : at + needed]
            self._begun = b""
            at += needed
            self._skip = int.from_bytes(head[:3], "big")
            found.append((head[3], head[4], int.from_bytes(head[5:], "big") & 0x7FFFFFFF, self._skip))


class Calls:
    """The bytes of the requests on one line that are not answered yet."""

    __slots__ = ("_from_broker", "_from_client", "_held", "held_bytes")

    def __init__(self) -> None:
        self._from_client, self._from_broker = _Heads(_PREFACE_BYTES), _Heads()
        self._held: dict[int, int] = {}
        self.held_bytes = 0

    def came(self, data: bytes) -> None:
        """The client sent this."""
        for kind, _, stream, size in self._from_client.feed(data):
            if kind == _DATA and size:
                self._held[stream] = self._held.get(stream, 0) + size
                self.held_bytes += size
            elif kind == _RESET:
                self._ended(stream)

    def went(self, data: bytes) -> None:
        """The client was sent this."""
        for kind, flags, stream, _ in self._from_broker.feed(data):
            if kind == _RESET or (kind in (_DATA, _HEADERS) and flags & _END_STREAM):
                self._ended(stream)

    def _ended(self, stream: int) -> None:
        self.held_bytes -= self._held.pop(stream, 0)
