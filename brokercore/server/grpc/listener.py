"""The listening side: TLS and plain HTTP/2 on one port, handed on to the gRPC server inside this process.

The gRPC library cannot tell TLS from plain by the first byte, and does not tell from whom it got a call that came
through a pipe. So it listens on a port of the loopback interface that only this process knows; each connection from
outside is a line to it, and a call is known by the inner port that it came from.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import cast

from brokercore.protocol.command import Command
from brokercore.server.broker import Broker
from brokercore.server.connections.connection import HIGH_WATER, LOW_WATER, NEVER, Connection

logger = logging.getLogger(__name__)

_DATA, _HEADERS, _RESET = 0, 1, 3
_END_STREAM = 0x1
_HEAD_BYTES, _PREFACE_BYTES = 9, 24

_Head = tuple[int, int, int, int]
"""Type, flags, stream and length of a frame."""

CONNECT_SECONDS = 10.0
STRANGER_BYTES = 10 << 20
"""What a line may send before a call on it has a right signature: one message of any size, and what is beside it."""

_MOST_EARLY_BYTES = 1 << 20


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
    """The bytes of the requests on one line that are not answered yet, by the frames of HTTP/2.

    The gRPC library takes a request of 8 MiB on each of a thousand streams before anybody has looked at who asks.
    """

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


class Lines:
    """The lines that are open, by inner port."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.inner_port = 0
        self.by_port: dict[int, Line] = {}
        self._connecting: set[asyncio.Task[None]] = set()

    def make(self) -> Line:
        """A line for a connection that is accepted now."""
        return Line(self)

    def connect(self, line: Line) -> None:
        """Open the inner side of a line."""
        task = asyncio.get_running_loop().create_task(self._connect(line))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def close(self) -> None:
        """Close all lines."""
        for line in list(self.by_port.values()):
            line.close()
        for task in self._connecting:
            task.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)

    async def _connect(self, line: Line) -> None:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                loop = asyncio.get_running_loop()
                await loop.create_connection(lambda: _Inner(self, line), "127.0.0.1", self.inner_port)
        except OSError as error:  # TimeoutError too
            logger.error("connection %s closed: the gRPC server inside does not answer: %s", line.address, error)
            line.abort()


class Line(Connection):
    """A connection from outside. What it says goes inside, and what comes from there goes out."""

    def __init__(self, lines: Lines) -> None:
        super().__init__(_dispatch, lines.broker.opened, lines.broker.turn, lines.broker.rounds, lines.broker.gate)
        self._lines = lines
        self._inner: asyncio.Transport | None = None
        self._early: list[bytes] = []
        self._calls = Calls()
        self._came = 0

    def data_received(self, data: bytes) -> None:
        self.last_seen = time.monotonic()
        self._lines.broker.watchdog.stir()
        self._calls.came(data)
        if not self._may_hold(len(data)):
            return
        if self._inner is not None:
            self._inner.write(data)
            return
        if not self._early:
            self._lines.connect(self)  # not before: the inner side speaks first, and TLS is known by the first byte
        self._early.append(data)
        if sum(map(len, self._early)) > _MOST_EARLY_BYTES and self._transport is not None:
            self._transport.pause_reading()

    def _may_hold(self, size: int) -> bool:
        """Whether the line may have sent what it sent; False when it is closed for it."""
        if self.stranger:
            self._came += size
            if self._came > STRANGER_BYTES:
                self.complain(self, "slow", f"it sent {STRANGER_BYTES >> 20} MiB and no call with a right signature")
                self.abort()
                return False
            self._lines.broker.gate.holds(self, self._came)
        elif self.account is not None:
            self.note_incoming(self.account, self._calls.held_bytes)
        return self.is_open

    def went(self, data: bytes) -> None:
        """Hand on what the inner side says."""
        self._calls.went(data)
        self.write(data)

    def pause_writing(self) -> None:
        self.unread_since, self._unread = time.monotonic(), self.unsent
        if self._inner is not None:
            self._inner.pause_reading()

    def resume_writing(self) -> None:
        self.unread_since = NEVER
        if self._inner is not None:
            self._inner.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        if self._inner is not None:
            self._inner.close()

    def joined(self, inner: asyncio.Transport) -> None:
        """The inner side is open."""
        self._inner = inner
        if self._transport is None:
            inner.close()
            return
        inner.writelines(self._early)
        self._early.clear()
        self._transport.resume_reading()

    def hold(self, *, full: bool) -> None:
        """The inner side takes no more, or takes again."""
        if self._transport is not None:
            (self._transport.pause_reading if full else self._transport.resume_reading)()


class _Inner(asyncio.Protocol):
    """The inner side of a line."""

    def __init__(self, lines: Lines, line: Line) -> None:
        self._lines, self._line, self._port = lines, line, 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        inner = cast(asyncio.Transport, transport)
        inner.set_write_buffer_limits(HIGH_WATER, LOW_WATER)
        self._port = inner.get_extra_info("sockname")[1]
        self._lines.by_port[self._port] = self._line  # before a byte goes in: a call is never from nobody
        self._line.joined(inner)

    def data_received(self, data: bytes) -> None:
        self._line.went(data)

    def pause_writing(self) -> None:
        self._line.hold(full=True)

    def resume_writing(self) -> None:
        self._line.hold(full=False)

    def connection_lost(self, _error: Exception | None) -> None:
        self._lines.by_port.pop(self._port, None)
        self._line.close()


def _dispatch(_connection: Connection, _command: Command) -> None:
    """A line hands on bytes; commands are what its calls become."""
