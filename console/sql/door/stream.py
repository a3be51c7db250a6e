"""Packets on a connection: bounded reading, and an upgrade to TLS that loses no byte.

Mends of mysql-mimic 3.0.5: its own stream takes packets of any size from anyone before sign-in, drops a ClientHello
that arrives in the same read as the SSLRequest, so that the handshake hangs, and waits for ever for a client that does
not read its answer.
"""

from __future__ import annotations

import asyncio
import struct
from asyncio import sslproto
from collections.abc import Awaitable, Callable
from ssl import SSLContext

from mysql_mimic.errors import ErrorCode, MysqlError
from mysql_mimic.stream import ConnectionClosed, MysqlStream

from console.sql.door.limits import BEFORE_SIGN_IN, IDLE_S, PACKET_S, WRITE_S
from console.sql.door.room import LARGE

TLS_HANDSHAKE_S = 10
_CONTINUES = 0xFFFFFF


class BoundedStream:
    """The interface that mysql-mimic's Connection wants of a stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.limit = BEFORE_SIGN_IN
        self.write_s: float = WRITE_S
        #: Awaited with the size of a large packet before it is read.
        self.before_large: Callable[[int], Awaitable[None]] | None = None
        # Never sends of its own accord: what waits for the client is to have a time limit.
        self._stock = stock = MysqlStream(reader, writer, buffer_size=2**31)
        self.seq = stock.seq
        self.write_many = stock.write_many
        self.write_text_rows = stock.write_text_rows
        self.reset_seq = stock.reset_seq

    async def write(self, data: bytes, drain: bool = True) -> None:
        """Buffer one packet; send what is buffered when `drain`."""
        await self._stock.write(data, drain=False)
        if drain:
            await self.drain()

    async def drain(self) -> None:
        """Send what is buffered, and wait until the client has taken most of it.

        Raises ConnectionClosed when it has not within `write_s`, ConnectionError when it is gone.
        """
        try:
            async with asyncio.timeout(self.write_s):
                await self._stock.drain()
        except TimeoutError as error:
            self.writer.transport.abort()
            raise ConnectionClosed(f"the client did not take what was sent within {self.write_s:g} s") from error

    async def read(self) -> bytes:
        """The next packet. Raises ConnectionClosed when the client is gone, silent or sends more than the limit."""
        data = b""
        while True:
            header = await self._exactly(4, PACKET_S if data else IDLE_S)
            word = struct.unpack("<I", header)[0]
            size, number = word & _CONTINUES, word >> 24
            if number != next(self.seq):
                raise MysqlError("The packet is out of order.", ErrorCode.MALFORMED_PACKET)
            if len(data) + size > self.limit:
                raise ConnectionClosed(f"a packet is larger than {self.limit} bytes")
            if size > LARGE and self.before_large is not None:
                await self.before_large(size)
            data += await self._exactly(size, PACKET_S)
            if size < _CONTINUES:
                return data

    async def _exactly(self, size: int, most_s: float) -> bytes:
        try:
            async with asyncio.timeout(most_s):
                return await self.reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError) as error:
            raise ConnectionClosed(str(error)) from error

    @property
    def client_gone(self) -> bool:
        """True when the client has closed its side, which nobody reads while a statement runs."""
        return self.reader.at_eof() or self.writer.is_closing()

    @property
    def secure(self) -> bool:
        """True on TLS."""
        return self.writer.get_extra_info("ssl_object") is not None

    @property
    def cipher(self) -> tuple[str, str]:
        """The cipher and the version of TLS, both empty without TLS."""
        tls = self.writer.get_extra_info("ssl_object")
        cipher = tls.cipher() if tls is not None else None
        return (cipher[0], tls.version()) if cipher else ("", "")

    @property
    def peer(self) -> str:
        """The client's address."""
        name = self.writer.get_extra_info("peername")
        return str(name[0]) if isinstance(name, tuple) else "localhost"

    async def start_tls(self, context: SSLContext) -> None:
        """Upgrade to TLS; bytes of the ClientHello that were already read are handed to the handshake."""
        loop = asyncio.get_running_loop()
        transport = self.writer.transport
        transport.pause_reading()  # type: ignore[attr-defined]
        buffer: bytearray = self.reader._buffer  # type: ignore[attr-defined]
        early = bytes(buffer)
        buffer.clear()
        handshake = loop.create_future()
        protocol = sslproto.SSLProtocol(
            loop,
            transport.get_protocol(),
            context,
            handshake,
            server_side=True,
            call_connection_made=False,
            ssl_handshake_timeout=TLS_HANDSHAKE_S,
        )
        transport.get_protocol()._over_ssl = True  # type: ignore[attr-defined]
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        _feed(protocol, early)
        transport.resume_reading()  # type: ignore[attr-defined]
        try:
            await handshake
        except OSError as error:  # also ssl.SSLError
            raise ConnectionClosed(f"TLS handshake: {error}") from error
        secured = protocol._app_transport
        if secured is None:
            raise ConnectionClosed("the client went away during the TLS handshake")
        self.writer._transport = secured  # type: ignore[attr-defined]
        self.reader._transport = secured  # type: ignore[attr-defined]


def _feed(protocol: asyncio.BufferedProtocol, data: bytes) -> None:
    view = memoryview(data)
    while view:
        room = protocol.get_buffer(len(view))
        size = min(len(room), len(view))  # type: ignore[arg-type]
        room[:size] = view[:size]  # type: ignore[index]
        protocol.buffer_updated(size)
        view = view[size:]
