"""TLS without I/O: bytes from the peer in, plain bytes out, and the bytes that are to go to the peer."""

from __future__ import annotations

import contextlib
import ssl

from brokercore.protocol.errors import ProtocolError

FIRST_BYTE = 0x16
"""A connection that begins with this byte begins with a TLS handshake; a frame begins with a zero byte."""

_READ_BYTES = 64 * 1024


class TlsError(ProtocolError):
    """The handshake failed or a record is broken; the connection cannot be used."""


class TlsStream:
    """One side of a TLS connection. What `outgoing` returns is to be sent after every other call, an error included."""

    def __init__(self, context: ssl.SSLContext, *, server_side: bool, hostname: str | None = None) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side, hostname)
        self._early: list[bytes] = []
        self.established = False
        self.ended = False
        """The peer said that nothing comes any more."""
        if not server_side:
            self._advance()

    def receive(self, data: bytes) -> bytes:
        """Plain bytes of what came from the peer, often none. Raises TlsError."""
        self._incoming.write(data)
        if not self.established and not self._advance():
            return b""
        plain = []
        try:
            while piece := self._tls.read(_READ_BYTES):
                plain.append(piece)
            self.ended = True
        except ssl.SSLWantReadError:
            pass  # all that is there has been read
        except ssl.SSLZeroReturnError:
            self.ended = True
        except ssl.SSLError as error:
            raise TlsError(_reason(error)) from error
        return b"".join(plain)

    def send(self, data: bytes) -> None:
        """Encrypt; before the handshake is over the bytes wait for it."""
        if not self.established:
            self._early.append(data)
            return
        view = memoryview(data)
        while view:
            view = view[self._tls.write(view) :]

    def end(self) -> None:
        """Say that nothing comes any more."""
        with contextlib.suppress(ssl.SSLError):  # the peer has not answered, or has never finished the handshake
            self._tls.unwrap()

    def outgoing(self) -> bytes:
        """What is to be sent to the peer now."""
        return self._outgoing.read()

    def _advance(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            raise TlsError(_reason(error)) from error
        self.established = True
        early, self._early = self._early, []
        for data in early:
            self.send(data)
        return True


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not trusted: {error.verify_message}"
    return f"TLS failed: {(error.reason or str(error)).replace('_', ' ').lower()}"
