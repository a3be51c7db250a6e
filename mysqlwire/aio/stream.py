"""Packets on a connection: read within sizes and times, written as fast as the client takes them, over TLS if asked.

TLS is done here, between bytes that came and bytes that go: a ClientHello that came together with the request for TLS
is at hand when it begins, and no transport has to be exchanged.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import cast

from mysqlwire.aio.limits import Limits
from mysqlwire.protocol.packets import HEADER_SIZE, Outgoing, read_header

#: Bytes that lie here unread before the client is asked to wait.
_MOST_UNREAD = 128 * 1024
_PIECE = 64 * 1024


class ConnectionClosedError(ConnectionError):
    """The connection has ended, or is not worth going on with; the text says why, for the log."""


class Stream(asyncio.Protocol):
    """One connection. `connected` is called with it once it is there."""

    def __init__(self, limits: Limits, connected: Callable[[Stream], None]) -> None:
        self.limits = limits
        #: Largest packet that is read now, bytes.
        self.most = limits.packet_before_sign_in
        #: Time for the client to take a piece, seconds.
        self.write_s = limits.write_s
        #: Awaited with the size of a large packet before it is read.
        self.before_large: Callable[[int], Awaitable[None]] | None = None
        self.outgoing = Outgoing()
        self._connected = connected
        self._wire: asyncio.Transport  # there from `connected` on
        self._buffer = bytearray()
        self._needed = 0
        self._reading_paused = False
        self._ended = False
        self._lost: BaseException | None = None
        self._arrived: asyncio.Future[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._closed = asyncio.Event()
        self._tls: ssl.SSLObject | None = None
        self._tls_ready = False
        self._tls_in, self._tls_out = ssl.MemoryBIO(), ssl.MemoryBIO()

    # --- Who is there -------------------------------------------------------------------------------------------------

    @property
    def peer(self) -> str:
        """The client's address."""
        name = self._wire.get_extra_info("peername")
        return str(name[0]) if isinstance(name, tuple) else "localhost"

    @property
    def client_gone(self) -> bool:
        """True when the client has closed its side, which nobody reads while a statement runs."""
        return self._ended or self._lost is not None or self._wire.is_closing()

    @property
    def secure(self) -> bool:
        """True on TLS."""
        return self._tls_ready

    @property
    def cipher(self) -> tuple[str, str]:
        """The cipher and the version of TLS, both empty without TLS."""
        cipher = self._tls.cipher() if self._tls is not None else None
        return (cipher[0], str(self._tls.version())) if cipher and self._tls is not None else ("", "")

    # --- Reading ------------------------------------------------------------------------------------------------------

    async def read(self) -> bytes:
        """The next payload.

        Raises ConnectionClosedError when the client is gone, silent or sends more than it may, PacketError for a
        packet out of order.
        """
        data = b""
        while True:
            header = read_header(await self._exactly(HEADER_SIZE, self.limits.packet_s if data else self.limits.idle_s))
            self.outgoing.received(header.number)
            if len(data) + header.size > self.most:
                raise ConnectionClosedError(f"a packet is larger than {self.most} bytes")
            if header.size > self.limits.large_packet and self.before_large is not None:
                await self.before_large(header.size)
            data += await self._exactly(header.size, self.limits.packet_s)
            if not header.continues:
                return data

    async def _exactly(self, size: int, most_s: float) -> bytes:
        if len(self._buffer) < size:
            try:
                async with asyncio.timeout(most_s):
                    await self._until(size)
            except TimeoutError as error:
                raise ConnectionClosedError(f"nothing came for {most_s:g} s") from error
        piece = bytes(memoryview(self._buffer)[:size])
        del self._buffer[:size]
        self._let_in()
        return piece

    async def _until(self, size: int) -> None:
        """Wait until so many bytes are there."""
        self._needed = size
        try:
            while len(self._buffer) < size:
                if self._ended or self._lost is not None:
                    raise ConnectionClosedError(f"the client went away: {self._lost or 'it closed the connection'}")
                await self._arrival()
        finally:
            self._needed = 0

    async def _arrival(self) -> None:
        """Wait until something came, or nothing more will."""
        self._let_in()
        self._arrived = asyncio.get_running_loop().create_future()
        try:
            await self._arrived
        finally:
            self._arrived = None

    def _let_in(self) -> None:
        """Have the client send on, or wait, by what lies here unread."""
        full = len(self._buffer) > max(self._needed, _MOST_UNREAD)
        if full != self._reading_paused and self._lost is None and not self._wire.is_closing():
            self._reading_paused = full
            (self._wire.pause_reading if full else self._wire.resume_reading)()

    # --- Writing ------------------------------------------------------------------------------------------------------

    def add(self, payload: bytes) -> None:
        """Have one packet wait to be sent."""
        self.outgoing.add(payload)

    def add_rows(self, rows: Iterable[Iterable[str | bytes | int | float | None]], codec: str) -> None:
        """Have rows of the text protocol wait to be sent."""
        self.outgoing.add_rows(rows, codec)

    async def send(self, payload: bytes) -> None:
        """Send one packet behind what waits. Raises as `drain`."""
        self.outgoing.add(payload)
        await self.drain()

    async def drain(self) -> None:
        """Send what waits, until the client has taken most of it.

        Raises ConnectionClosedError when it has not within `write_s`, or is gone.
        """
        if self._lost is not None:
            raise ConnectionClosedError(f"the client went away: {self._lost}")
        if waiting := self.outgoing.data_to_send():
            self._write(waiting)
        if self._wire.is_closing():
            await asyncio.sleep(0)  # for the loop to say that the connection was lost
        if not self._writable.is_set():
            try:
                async with asyncio.timeout(self.write_s):
                    await self._writable.wait()
            except TimeoutError as error:
                self.abort()
                raise ConnectionClosedError(f"the client did not take what was sent within {self.write_s:g} s") from (
                    error
                )
        if self._lost is not None:
            raise ConnectionClosedError(f"the client went away: {self._lost}")

    def _write(self, data: bytearray) -> None:
        if self._tls is None:
            self._wire.write(data)
            return
        view = memoryview(data)
        try:
            while view:
                view = view[self._tls.write(view[:_PIECE]) :]
                self._send_encrypted()
        except ssl.SSLError as error:
            self.abort()
            raise ConnectionClosedError(f"TLS: {error}") from error

    # --- TLS ----------------------------------------------------------------------------------------------------------

    async def start_tls(self, context: ssl.SSLContext) -> None:
        """Be the server of TLS from here on. Raises ConnectionClosedError when the client cannot, or goes away.

        There is no time of its own for it: it belongs to the sign-in, which has one.
        """
        early, self._buffer = self._buffer, bytearray()
        self._tls_in.write(early)
        self._tls = context.wrap_bio(self._tls_in, self._tls_out, server_side=True)
        while not self._tls_ready:
            try:
                self._tls.do_handshake()
                self._tls_ready = True
            except ssl.SSLWantReadError:
                if self._ended or self._lost is not None:
                    raise ConnectionClosedError("the client went away during the TLS handshake") from None
                self._send_encrypted()
                await self._arrival()
            except ssl.SSLError as error:
                self._send_encrypted()  # says what was wrong
                raise ConnectionClosedError(f"TLS handshake: {error}") from error
        self._send_encrypted()
        self._decrypt(self._tls)

    def _decrypt(self, tls: ssl.SSLObject) -> None:
        """Read what has come, as far as it is whole."""
        try:
            while piece := tls.read(_PIECE):
                self._buffer += piece
            self._ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self._ended = True
        except ssl.SSLError as error:
            self._lost = self._lost or error
            self.abort()
        self._send_encrypted()

    def _send_encrypted(self) -> None:
        if (data := self._tls_out.read()) and self._lost is None:
            self._wire.write(data)

    # --- The end ------------------------------------------------------------------------------------------------------

    def abort(self) -> None:
        """Cut the connection off, whatever is under way."""
        self._wire.abort()

    async def close(self) -> None:
        """Close the connection; a client that does not take the rest within its time is cut off."""
        if self._lost is None:
            if self._tls_ready and self._tls is not None:
                with suppress(ssl.SSLError):
                    self._tls.unwrap()
                self._send_encrypted()
            self._wire.close()
        try:
            async with asyncio.timeout(self.limits.last_words_s):
                await self._closed.wait()
        except TimeoutError:
            self.abort()

    # --- What asyncio says --------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The client is there."""
        self._wire = cast(asyncio.Transport, transport)  # no other comes from a server of streams
        self._connected(self)

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        if self._tls is None:
            self._buffer += data
        else:
            self._tls_in.write(data)
            if self._tls_ready:
                self._decrypt(self._tls)
        self._let_in()
        self._wake()

    def eof_received(self) -> bool:
        """The client will send no more; it may still read."""
        self._ended = True
        self._wake()
        return True

    def connection_lost(self, exc: BaseException | None) -> None:
        """The connection is no more."""
        self._lost = self._lost or exc or ConnectionResetError("the connection was closed")
        self._closed.set()
        self._writable.set()
        self._wake()

    def pause_writing(self) -> None:
        """Much waits for the client."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """The client has taken most of it."""
        self._writable.set()

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)
