"""The first bytes of a connection tell whether it speaks TLS: both kinds are taken on the same port."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable
from typing import Any, cast

from brokercore.protocol.tls import FIRST_BYTE, TlsError, TlsStream
from brokercore.server.connections.connection import Connection

HANDSHAKE_SECONDS = 10.0
"""A peer that has not said what it speaks, or not finished its handshake, is closed."""


class TlsDetection(asyncio.Protocol):
    """Looks at the first byte, then lets the connection talk to the socket itself or through TLS."""

    def __init__(self, make: Callable[[], Connection], context: ssl.SSLContext | None, *, tls_only: bool) -> None:
        self._make, self._context, self._tls_only = make, context, tls_only
        self._connection: Connection | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connection = self._make()
        self._connection.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        transport, connection = self._transport, self._connection
        if transport is None or connection is None:
            return
        protocol: asyncio.Protocol = connection
        if data[0] == FIRST_BYTE and self._context is not None:
            protocol = TlsLayer(self._context, transport, connection)
        elif self._tls_only:
            connection.complain(connection, "tls", "it does not speak TLS, which is required here")
            connection.abort()
            return
        transport.set_protocol(protocol)
        protocol.data_received(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self._connection is not None:
            self._connection.connection_lost(error)


class TlsLayer(asyncio.Protocol):
    """Between the socket and a connection: its protocol on one side, its transport on the other."""

    def __init__(self, context: ssl.SSLContext, transport: asyncio.Transport, connection: Connection) -> None:
        self._stream = TlsStream(context, server_side=True)
        self._transport, self._connection = transport, connection
        self._timer = asyncio.get_running_loop().call_later(HANDSHAKE_SECONDS, self._too_slow)
        connection.speak_through(cast(asyncio.Transport, self))

    # What the socket tells

    def data_received(self, data: bytes) -> None:
        try:
            plain = self._stream.receive(data)
        except TlsError as error:
            self._connection.complain(self._connection, "tls", str(error))
            self._flush()
            self.abort()
            return
        if self._stream.established:
            self._timer.cancel()
        self._flush()
        if plain:
            self._connection.data_received(plain)
        if self._stream.ended:
            self.close()

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._timer.cancel()
        self._connection.connection_lost(error)

    # What the connection asks for

    def writelines(self, parts: Iterable[bytes]) -> None:
        """Encrypt and send."""
        self._stream.send(b"".join(parts))
        self._flush()

    def close(self) -> None:
        """Say goodbye and close after everything was sent."""
        self._stream.end()
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def is_closing(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        """Take no more from the socket."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take from the socket again."""
        self._transport.resume_reading()

    def get_write_buffer_size(self) -> int:
        """Encrypted bytes that the socket has not taken yet."""
        return self._transport.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """As the socket's transport knows it."""
        return self._transport.get_extra_info(name, default)

    def _flush(self) -> None:
        data = self._stream.outgoing()
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def _too_slow(self) -> None:
        self._connection.complain(self._connection, "tls", f"no TLS in {HANDSHAKE_SECONDS:.0f} s")
        self.abort()
