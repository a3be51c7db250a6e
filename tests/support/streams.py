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

from console.request_limits import Application, RequestLimits
from console.web import streams
from tests.support.asgi import Caller


class Listener(Caller):
    """A browser's side of one stream."""

    def __init__(self, site: Site, client: Client, query: list[tuple[str, str]], *, gzip: bool, takes: bool) -> None:
        cookies = "; ".join(f"{name}={one.value}" for name, one in client.cookies.items())
        headers = {"host": "testserver", "cookie": cookies, "hx-request": "true"}
        headers |= {"accept-encoding": "gzip, br"} if gzip else {}
        super().__init__(streams.PATH, query=urlencode(query), headers=headers)
        self.size = 0
        self.begun, self.ended = threading.Event(), threading.Event()
        self._told: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
        self._unpack = zlib.decompressobj(31) if gzip else None
        if not takes:
            self.taken.clear()
        self._loop = site.loop
        asyncio.run_coroutine_threadsafe(self.serve(site.front), site.loop)

    async def serve(self, front: RequestLimits) -> None:
        """Ask for the stream, and wait until it ends."""
        try:
            await super().serve(front)
        finally:
            self.begun.set()
            self.ended.set()

    def came(self, body: bytes) -> None:
        """Take the events that are complete."""
        self.size += len(body)
        self.body += self._unpack.decompress(body) if self._unpack and self.status == 200 else body
        *events, self.body = self.body.split(b"\n\n")
        for event in events:
            lines = dict(line.split(b": ", 1) for line in event.split(b"\n") if b": " in line)
            self._told.put((lines.get(b"event", b"rest").decode(), json.loads(lines.get(b"data", b"{}"))))
        self.begun.set()

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
        """Close the connection. From another thread than the loop's."""
        self._loop.call_soon_threadsafe(super().leave)
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
