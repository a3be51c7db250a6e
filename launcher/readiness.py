"""How a child shows that it is ready. A probe returns when it is; the supervisor sets the deadline."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from launcher.process import Child

Probe = Callable[[Child], Coroutine[Any, Any, None]]

#: Seconds between two looks at what another process does.
INTERVAL = 0.05


def line(prefix: str) -> Probe:
    """Ready with the first line of output that begins with `prefix`."""

    async def wait(child: Child) -> None:
        await child.line_starting(prefix).wait()

    return wait


def touched(file: Path) -> Probe:
    """Ready when `file` exists (the supervisor removes an old one before each start)."""

    async def made() -> bool:
        return await asyncio.to_thread(file.exists)

    return _polled(made)


def http_ok(host: str, port: int, path: str, *, named: str) -> Probe:
    """Ready when GET `path` is answered with 200 to one who asks for the host `named`, as if through the TLS proxy."""
    headers = (f"GET {path} HTTP/1.1", f"Host: {named}", "X-Forwarded-Proto: https", "Connection: close", "", "")
    request = "\r\n".join(headers).encode()

    async def answered() -> bool:
        return (await _ask(asyncio.open_connection(host, port), request)).startswith(b"HTTP/1.1 200 ")

    return _polled(answered)


def redis_answers(path: Path) -> Probe:
    """Ready when PING is answered with PONG, which Redis does once it has loaded its append-only file.

    It is the child itself that must answer: a Redis that an earlier start left may listen on the same socket.
    """

    async def wait(child: Child) -> None:
        async def opened() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await asyncio.open_unix_connection(path)
            if _listener(writer.get_extra_info("socket")) != child.pid:
                writer.close()
                raise ConnectionError
            return reader, writer

        while not (await _ask(opened(), b"PING\r\n")).startswith(b"+PONG"):  # noqa: ASYNC110 - as below
            await asyncio.sleep(INTERVAL)

    return wait


def _listener(connection: socket.socket) -> int:
    """Process id of who listens at the other end of a unix socket."""
    credentials = struct.Struct("3i")
    pid, _, _ = credentials.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size))
    return int(pid)


def _polled(condition: Callable[[], Awaitable[bool]]) -> Probe:
    async def wait(_: Child) -> None:
        while not await condition():  # noqa: ASYNC110 - another process makes it true
            await asyncio.sleep(INTERVAL)

    return wait


async def _ask(opening: Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]], request: bytes) -> bytes:
    """Return the first line of the answer, nothing when there is none yet."""
    with contextlib.suppress(OSError):
        reader, writer = await opening
        try:
            writer.write(request)
            return await reader.readline()
        finally:
            writer.close()
    return b""
