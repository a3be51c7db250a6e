"""A small HTTP server beside the broker: `/metrics` for Prometheus, `/healthz` for whoever restarts it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import orjson
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from brokercore.server.figures import Figures

if TYPE_CHECKING:
    import socket

    from brokercore.server.broker import Broker

logger = logging.getLogger(__name__)

REQUEST_SECONDS = 5.0
_LONGEST_REQUEST = 8 * 1024
MOST_AT_ONCE = 64
"""Connections that are open at a time; further ones are closed at once."""

_REASONS = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}
_TEXT = "text/plain; charset=utf-8"


class Watching:
    """Answers GET and HEAD, one request a connection. Nothing of a request but its path is looked at."""

    def __init__(self, broker: Broker) -> None:
        self._broker, self._figures = broker, Figures(broker)
        self._server: asyncio.Server | None = None
        self._open = 0

    async def start(self, listening: socket.socket) -> None:
        """Accept connections."""
        self._server = await asyncio.start_server(self._serve, sock=listening, limit=_LONGEST_REQUEST)

    async def close(self) -> None:
        """Accept none any more."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._open >= MOST_AT_ONCE:
            writer.close()
            return
        self._open += 1
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                method, path = head.split(b"\r\n", 1)[0].split(b" ")[:2]
                writer.write(await self._answer(method, path.partition(b"?")[0]))
                await writer.drain()
        except (ValueError, OSError, EOFError, asyncio.LimitOverrunError) as error:
            logger.info("a request for figures was not understood: %s", type(error).__name__)
        finally:
            self._open -= 1
            writer.close()

    async def _answer(self, method: bytes, path: bytes) -> bytes:
        if method not in (b"GET", b"HEAD"):
            return _response(405, _TEXT, b"GET and HEAD are answered\n", method)
        if path == b"/metrics":
            return _response(200, CONTENT_TYPE_LATEST, await self._figures.text(), method)
        if path == b"/healthz":
            trouble = self._broker.trouble()
            state = {"status": "trouble", "reason": trouble} if trouble else {"status": "ok"}
            return _response(503 if trouble else 200, "application/json", orjson.dumps(state), method)
        return _response(404, _TEXT, b"there is /metrics and /healthz\n", method)


def _response(status: int, content_type: str, body: bytes, method: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + (b"" if method == b"HEAD" else body)
