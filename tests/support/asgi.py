"""A request as a server hands it to an ASGI application, and what it is answered."""

from __future__ import annotations

import asyncio
from typing import Any

from console.request_limits import Message, RequestLimits


class Caller:
    """The server's side of one request without a body."""

    def __init__(self, path: str, *, query: str = "", peer: str = "127.0.0.1", headers: dict[str, str]) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        """Names in lower case."""
        self.body = b""
        #: Set while what comes is taken.
        self.taken = asyncio.Event()
        self.taken.set()
        self._left = asyncio.Event()
        self._asked = False
        self.scope: dict[str, Any] = {
            "type": "http", "http_version": "1.1", "method": "GET", "path": path, "scheme": "http",
            "raw_path": path.encode(), "root_path": "", "query_string": query.encode(),
            "client": (peer, 4711), "server": ("127.0.0.1", 80), "asgi": {"version": "3.0"},
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        }  # fmt: skip

    async def serve(self, front: RequestLimits) -> None:
        """Hand it over, and wait until it is answered."""
        await front(self.scope, self._receive, self._send)

    def leave(self) -> None:
        """The client closes the connection. On the loop."""
        self._left.set()

    def came(self, body: bytes) -> None:
        """A piece of the answer's body has come."""
        self.body += body

    async def _receive(self) -> Message:
        if self._asked:
            await self._left.wait()
            return {"type": "http.disconnect"}
        self._asked = True
        return {"type": "http.request", "body": b"", "more_body": False}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode().lower(): value.decode() for name, value in message["headers"]}
            return
        self.came(message.get("body", b""))
        await self.taken.wait()
