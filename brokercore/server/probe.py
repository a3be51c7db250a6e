"""Whether a broker at an address lives: it is asked something that no broker knows, and says so."""

from __future__ import annotations

import asyncio
import ssl
from enum import Enum, auto

from brokercore.protocol.command import Command
from brokercore.server.tls_mode import TlsMode

_UNKNOWN = 0
"""A request code that there is not: answered before anything is looked at, and by no log line."""


class Probe(Enum):
    """What came of it: any answer, nobody listens there, or neither."""

    ANSWERED = auto()
    REFUSED = auto()
    SILENT = auto()


async def ask(address: str, tls_mode: TlsMode, seconds: float) -> Probe:
    """Ask the broker at `address` (`host:port`), and wait at most so long."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(host, int(port), ssl=_context(tls_mode))
            try:
                writer.write(Command(_UNKNOWN, 1).encode())
                return Probe.ANSWERED if await reader.read(4) else Probe.SILENT
            finally:
                writer.close()
    except ConnectionRefusedError:
        return Probe.REFUSED
    except (OSError, TimeoutError):
        return Probe.SILENT


def _context(tls_mode: TlsMode) -> ssl.SSLContext | None:
    """Plain wherever that is taken. No certificate is checked: nothing secret is said or believed here."""
    if tls_mode is not TlsMode.ENFORCING:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
