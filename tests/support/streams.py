"""Streams of pages without a server: Django's handler behind the intake, on a loop of its own."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast
from urllib.parse import urlencode

from django.core.handlers.asgi import ASGIHandler
from django.test import Client

from console.request_limits import Application, Message, RequestLimits
from console.web import streams


class Listener:
    """A browser's side of one stream."""

    def __init__(self, site: Site, client: Client, query: list[tuple[str, str]], *, gzip: bool, takes: bool) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.size = 0
        self.begun, self.ended = threading.Event(), threading.Event()
        self._told: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
        self._unpack = zlib.decompressobj(31) if gzip else None
        self._text = b""
        self._takes = takes
        self._asked = False
        self._loop = site.loop
        self._left = asyncio.Event()
        cookies = "; ".join(f"{name}={one.value}" for name, one in client.cookies.items())
        headers = {"host": "testserver", "cookie": cookies, "hx-request": "true"}
        headers |= {"accept-encoding": "gzip, br"} if gzip else {}
        scope: dict[str, Any] = {
            "type": "http", "http_version": "1.1", "method": "GET", "path": streams.PATH, "scheme": "http",
            "raw_path": streams.PATH.encode(), "root_path": "", "query_string": urlencode(query).encode(),
            "client": ("127.0.0.1", 4711), "server": ("127.0.0.1", 80), "asgi": {"version": "3.0"},
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }  # fmt: skip
        self._task = asyncio.run_coroutine_threadsafe(self._serve(site.front, scope), site.loop)

    async def _serve(self, front: RequestLimits, scope: dict[str, Any]) -> None:
        try:
            await front(scope, self._receive, self._send)
        finally:
            self.begun.set()
            self.ended.set()

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
        body = message.get("body", b"")
        self.size += len(body)
        self._text += self._unpack.decompress(body) if self._unpack and self.status == 200 else body
        *events, self._text = self._text.split(b"\n\n")
        for event in events:
            lines = dict(line.split(b": ", 1) for line in event.split(b"\n") if b": " in line)
            self._told.put((lines.get(b"event", b"rest").decode(), json.loads(lines.get(b"data", b"{}"))))
        self.begun.set()
        if not self._takes:
            await asyncio.Event().wait()

    def begins(self) -> int:
        """The status of the answer, once there is one."""
        assert self.begun.wait(30)
        return self.status

    def next(self, seconds: float = 30.0) -> tuple[str, dict[str, Any]]:
        """What is told next; fails when nothing is."""
        return self._told.get(timeout=seconds)

    def hears(self, kind: str) -> dict[str, Any]:
        """What the next event says, which is of this kind."""
        told, data = self.next()
        assert told == kind, (told, data)
        return data

    def is_told_nothing(self, seconds: float) -> bool:
        """True when nothing comes for so long."""
        try:
            told = self.next(seconds)
        except queue.Empty:
            return True
        raise AssertionError(told)

    def leave(self) -> None:
        """Close the connection."""
        self._loop.call_soon_threadsafe(self._left.set)
        assert self.ended.wait(30)


class Site:
    """The intake and Django, on a loop in a thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.front = RequestLimits(cast("Application", ASGIHandler()))
        self.listeners: list[Listener] = []

    def listen(
        self, client: Client, *paths: str, every: int = 1, now: bool = True, gzip: bool = False, takes: bool = True
    ) -> Listener:
        """Ask for a stream of live parts; with `takes` False nothing that is sent is ever taken."""
        query = [("part", f"{every} - {path}") for path in paths] + ([("now", "")] if now else [])
        listener = Listener(self, client, query, gzip=gzip, takes=takes)
        self.listeners.append(listener)
        return listener

    def held(self) -> int:
        """How many places of the fair queue are taken."""
        return self.front._turns._all


@contextmanager
def site() -> Iterator[Site]:
    """A site whose streams have all ended afterwards."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    running = Site(loop)
    try:
        yield running
        for listener in running.listeners:
            listener.leave()
        assert running.held() == 0
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()
