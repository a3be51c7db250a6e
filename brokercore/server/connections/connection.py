"""One client connection: bytes to commands and back, with limits and backpressure."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Callable, Iterable
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from brokercore.protocol.codes import ResponseCode
from brokercore.protocol.command import Command, Frame, FrameReader, decode
from brokercore.protocol.errors import FrameError
from brokercore.protocol.ids import pack_host
from brokercore.server.connections.fairness import FEW_SECONDS, MOST_UNSTORED_BYTES, PART_SECONDS, Reads, Rounds, Share
from brokercore.server.connections.gate import Gate
from brokercore.server.connections.write_batching import Turn
from brokercore.server.errors import Refusal

if TYPE_CHECKING:
    from brokercore.server.rights.account import Account

logger = logging.getLogger(__name__)

HIGH_WATER, LOW_WATER = 4 << 20, 1 << 20
"""Unsent bytes at which a connection is not read any further, and at which it is read again."""

UNREAD_LIMIT = 256 << 20
"""Unsent bytes at which a client that does not read is closed: waiting requests are answered beyond HIGH_WATER."""

MOST_WATCHED = 10_000
"""What may wait on a connection, or be held by it, at a time: pulls, pops, queue locks."""

MAX_HEADER = 256 << 10
"""Largest header of a request in bytes: the properties of a message, every character escaped, fit."""

READ_SECONDS = 0.00005
"""What it takes to read what a client has sent in the meantime, paid for when it is read again."""

MOST_ASKED = 100
"""Questions to one client that wait for its answers at a time."""

_FLUSH_EVERY = 63
_LARGE = 64 << 10
NEVER = float("inf")

Dispatch = Callable[["Connection", Command], None]

Complain = Callable[["Connection", str, str], None]


class Connection(asyncio.Protocol):
    """A peer. Requests go to `dispatch` in their order; what is written in one loop turn leaves in one write."""

    minds_unset_types = False
    """Whether a topic that was made without a message type takes normal messages only, as for clients of gRPC."""
    minds_late_handles = False
    """Whether a receipt handle ends with the invisible time of its message, as at the proxy for clients of gRPC, and
    not only when the message is given out again."""

    def __init__(
        self,
        dispatch: Dispatch,
        opened: Callable[[Connection], None],
        turn: Turn,
        rounds: Rounds,
        gate: Gate | None = None,
    ) -> None:
        """Without a gate it is no stranger: something else has asked who it is."""
        self._dispatch, self._opened, self._turn, self._gate = dispatch, opened, turn, gate
        self._rounds = rounds
        self._stranger_share: Share | None = None
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._scheduled = False
        self._loop = asyncio.get_running_loop()
        self._opaque = 0
        self._waiting: dict[int, asyncio.Future[Command]] = {}
        self.on_close: dict[object, Callable[[], None]] = {}
        self.peer = ("0.0.0.0", 0)  # noqa: S104 (an unknown peer, nothing is bound)
        self.host_bytes = bytes(8)
        self.last_seen = self.opened_at = 0.0
        self.stranger = gate is not None
        """Until its first request with a right signature."""
        self.frame_began = NEVER
        """When the frame began that is not complete yet."""
        self.unread_since = NEVER
        """Since when the peer has read nothing of more than HIGH_WATER."""
        self._unread = 0
        self.reads = Reads(self._reads_of_account)
        self._unhandled: list[Frame] = []
        self._unread_data: list[bytes] = []
        self._in_line = self._reading_paused = False
        self.client_id = ""
        """As its heartbeats say."""
        self.complain: Complain = _log
        """Told before the connection is closed for what its peer did: a word for it, and a sentence."""
        self.account: Account | None = None
        """The tenant that it counts as a connection of; None before the first signed request, and of the system."""
        self.secure = False
        """Whether the peer speaks TLS, which conditions of policies ask about."""

    @property
    def address(self) -> str:
        """The peer as ip:port."""
        return f"{self.peer[0]}:{self.peer[1]}"

    @property
    def is_open(self) -> bool:
        """False once the connection is lost or being closed."""
        return self._transport is not None

    def _reads_of_account(self) -> asyncio.Semaphore | None:
        return self.account.reads if self.account is not None else None

    # Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(HIGH_WATER, LOW_WATER)
        name = transport.get_extra_info("peername")
        if isinstance(name, tuple):
            self.peer = (_plain(name[0]), name[1])
            self.host_bytes = pack_host(*self.peer)
        if self.stranger:
            self._stranger_share = self._rounds.of_address(self.peer[0])
        self.last_seen = self.opened_at = monotonic()
        self._opened(self)

    def speak_through(self, transport: asyncio.Transport) -> None:
        """From now on write to TLS, which reads for this connection."""
        self._transport, self.secure = transport, True

    def data_received(self, data: bytes) -> None:
        self.last_seen = now = monotonic()
        account = self.account
        share = self._share() if account is None else account.share
        if share is not self._rounds.latest:
            self._rounds.others(share, now)
        # `share.is_used_up` without its call: such calls, a few for every message, cost 5 to 10 % of all sends.
        if share.left <= 0 or share.waiting or share.unstored > MOST_UNSTORED_BYTES or self._in_line or self._unhandled:
            self._keep_for_later(share, data)
            return
        self._turn.begin()
        try:
            self._read(share, data, now, now + share.left)
        finally:
            share.left -= monotonic() - now
            if share.left < FEW_SECONDS:
                self._rounds.renew(share)
            self._turn.end(self)

    def _share(self) -> Share:
        """Of whose share its requests are: an account's, its address's as long as it is a stranger, the system's."""
        if self.account is not None:
            return self.account.share
        return self._rounds.system if self._stranger_share is None or not self.stranger else self._stranger_share

    def _read(self, share: Share, data: bytes, now: float, end: float) -> None:
        """Cut what came into frames and dispatch them until `end`; what is not understood closes the connection."""
        try:
            frames = self._reader.feed(data)
            self._handle(share, frames, end)
            if not self._reader.pending or self._in_line:
                self.frame_began = NEVER
            elif frames or self.frame_began == NEVER:
                self.frame_began = now
            if self.stranger and self._gate is not None:
                self._gate.holds(self, self._reader.pending)
            elif self.account is not None and (self._reader.pending > _LARGE or self.account.incoming):
                self.note_incoming(self.account, self._reader.pending)
        except FrameError as error:
            self._malformed(error)

    def _handle(self, share: Share, frames: list[Frame], end: float) -> None:
        """Dispatch requests in their order, as many as there is time for; those of a client that reads nothing wait."""
        for place, frame in enumerate(frames):
            if self.unread_since != NEVER:
                self._unhandled += frames[place:]
                return
            if place and (monotonic() >= end or share.unstored > MOST_UNSTORED_BYTES):
                self._unhandled += frames[place:]
                self._wait(share)
                return
            command = decode(frame, MAX_HEADER)
            if command.flag & 1:
                self._answered(command)
            else:
                self._dispatch(self, command)
            if place & _FLUSH_EVERY == _FLUSH_EVERY:
                self.flush()  # what it does not read is seen before there is much of it

    def _malformed(self, error: FrameError) -> None:
        self.complain(self, "malformed", str(error))
        self.abort()

    def _keep_for_later(self, share: Share, data: bytes) -> None:
        """Let bytes wait for the account's turn; whoever sends more meanwhile is not read any further."""
        self._unread_data.append(data)
        if self.stranger or len(self._unread_data) > 1:
            self._pause_reading()
        if self.stranger and self._gate is not None:
            self._gate.holds(self, self._reader.pending + sum(map(len, self._unread_data)))
        self._wait(share)

    def _wait(self, share: Share) -> None:
        if not self._in_line and self.unread_since == NEVER:
            self._in_line = True
            self.frame_began = NEVER  # it is not the peer that is slow now
            self._rounds.wait(share, self._go_on)

    def pause_writing(self) -> None:
        self.unread_since, self._unread = monotonic(), self.unsent
        self.reads.stop()
        self._pause_reading()

    def resume_writing(self) -> None:
        self.unread_since = NEVER
        self.reads.go_on()
        if self._unhandled or self._unread_data:
            self._wait(self._share())
        else:
            self._resume_reading()

    def _go_on(self) -> None:
        """Go on with what had to wait, and read on when nothing is left of it."""
        self._in_line = False
        if self.unread_since != NEVER or self._transport is None:
            return  # when it has read; or never
        share, now = self._share(), monotonic()
        end = now + min(share.left, PART_SECONDS)
        unhandled, self._unhandled = self._unhandled, []
        self._turn.begin()
        try:
            self._handle(share, unhandled, end)
            if not self._unhandled and self._unread_data:
                data, self._unread_data = b"".join(self._unread_data), []
                self._read(share, data, now, end)
        except FrameError as error:
            self._malformed(error)
        finally:
            self._rounds.spent(share, monotonic() - now)
            self._turn.end(self)
        if self._reader.pending and self.frame_began == NEVER and not self._in_line:
            self.frame_began = now
        if self._reading_paused and not self._unhandled and self.unread_since == NEVER:
            self._resume_reading()
            self._rounds.spent(share, READ_SECONDS)

    def _pause_reading(self) -> None:
        self._reading_paused = True
        if self._transport is not None:
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        self._reading_paused = False
        if self._transport is not None:
            self._transport.resume_reading()

    @property
    def unsent(self) -> int:
        """Bytes that the peer has not read yet."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def note_reading(self, now: float) -> None:
        """Start its time anew when it has read something since the last look."""
        if self.unread_since != NEVER:
            unsent = self.unsent
            if unsent < self._unread:
                self.unread_since = now
            self._unread = unsent

    def limit_frames(self, size: int) -> None:
        """Take frames of at most so many bytes from now on."""
        self._reader.limit = size

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._unhandled.clear()
        if self.account is not None:
            self.account.unread.pop(self, None)
            self.account.note_incoming(self, 0)
        self._unread_data.clear()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ConnectionResetError(f"client {self.address} disconnected"))
        self._waiting.clear()
        for callback in list(self.on_close.values()):
            callback()
        self.on_close.clear()
        self.reads.go_on()

    # Writing

    def write(self, *parts: bytes) -> None:
        """Queue bytes for this turn's write."""
        self._out += parts
        if not self._scheduled:
            self._scheduled = True
            self._turn.later(self.flush)

    def send(self, command: Command) -> None:
        """Queue a command."""
        self.write(command.encode())

    def send_frames(self, command: Command, frames: Iterable[bytes], size: int) -> None:
        """Queue a command whose body is given in pieces of `size` bytes in all."""
        self.write_frames(command.encode_head(size), frames, size)

    def write_frames(self, head: bytes, frames: Iterable[bytes], size: int) -> None:
        """Queue bytes of which a turn may cause many: they leave before there are too many of them."""
        self.write(head, *frames)
        self._out_bytes += size
        if self._out_bytes > HIGH_WATER:
            self.flush()

    def flush(self) -> None:
        """Hand what is queued to the socket."""
        self._scheduled = False
        out, self._out, self._out_bytes = self._out, [], 0
        if self._transport is not None and out and not self._transport.is_closing():
            self._transport.writelines(out)
            if self.account is not None and self.unsent > _LARGE:
                self._note_unread(self.account)
            if self.unread_since != NEVER and self.unsent > UNREAD_LIMIT:
                self.complain(self, "unread", f"{self.unsent} bytes wait for it to read")
                self.abort()

    def note_incoming(self, account: Account, size: int) -> None:
        """What is not complete yet counts for its account, which may have thousands of connections that begin a frame.

        The one that has sent most of something that it does not end is closed when all of them hold too much.
        """
        if size <= _LARGE and self not in account.incoming:
            return
        most = cast("Connection | None", account.note_incoming(self, size if size > _LARGE else 0))
        if most is not None:
            most.complain(most, "slow", f"account {account.uid} has begun more requests than it may send at a time")
            most.abort()

    def _note_unread(self, account: Account) -> None:
        """What waits for this client counts for its account: it may have thousands of connections that read nothing."""
        idle = cast("Connection | None", account.note_unread(self))
        if idle is not None:
            idle.complain(idle, "unread", f"the connections of account {account.uid} read nothing of what they ask for")
            idle.abort()

    async def request(self, code: int, ext: dict[str, str], body: bytes = b"", *, seconds: float) -> Command:
        """Ask the client something and wait for its answer.

        Raises TimeoutError after `seconds`, ConnectionResetError when the client leaves, and Refusal (SYSTEM_BUSY)
        while it does not read, or has too many questions to answer.
        """
        if self.unread_since != NEVER or len(self._waiting) >= MOST_ASKED:
            raise Refusal(
                ResponseCode.SYSTEM_BUSY, f"client {self.client_id} has not read or answered what came before"
            )
        opaque = self._next_opaque()
        future: asyncio.Future[Command] = self._loop.create_future()
        self._waiting[opaque] = future
        self.send(Command(code, opaque, language="JAVA", ext=ext, body=body))
        if len(body) > _LARGE:
            self.flush()  # whether it is read is seen before there is much of it
        try:
            async with asyncio.timeout(seconds):
                return await future
        finally:
            self._waiting.pop(opaque, None)

    def push(self, code: int, ext: dict[str, str], body: bytes = b"") -> None:
        """Tell the client something that it does not answer."""
        self.send(Command(code, self._next_opaque(), flag=2, language="JAVA", ext=ext, body=body))

    # Closing

    def close(self) -> None:
        """Close after what is queued has been sent."""
        self.flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._out.clear()
        if self._transport is not None:
            self._transport.abort()

    def _answered(self, command: Command) -> None:
        future = self._waiting.pop(command.opaque, None)
        if future is not None and not future.done():
            future.set_result(command)

    def _next_opaque(self) -> int:
        self._opaque = (self._opaque + 1) & 0x7FFFFFFF
        return self._opaque


def _log(connection: Connection, _kind: str, why: str) -> None:
    logger.warning("connection %s closed: %s", connection.address, why)


def respond(connection: Connection, command: Command, code: int, remark: str | None = None, **kept: Any) -> None:
    """Answer a request, unless it is one-way."""
    if not command.flag & 2:
        connection.send(command.response(code, remark, **kept))


def refuse(connection: Connection, command: Command, refusal: Refusal) -> None:
    """Answer a request with what is wrong."""
    respond(connection, command, refusal.code, refusal.remark)


def _plain(host: str) -> str:
    """The IPv4 address inside an IPv4-mapped IPv6 address; every other address as it is."""
    mapped = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(mapped, ipaddress.IPv6Address) and mapped.ipv4_mapped:
        return str(mapped.ipv4_mapped)
    return host
