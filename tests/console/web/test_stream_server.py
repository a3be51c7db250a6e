"""The web server with many streams open, as the launcher starts it: told to stop, it ends them all in good order."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Coroutine, Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from django.conf import settings
from django.urls import reverse

from console.web import streams
from tests.support.browser import browser
from tests.support.cast import Cast
from tests.support.redis_server import RedisServer
from tests.support.web_server import WebServer, web_server

pytestmark = pytest.mark.django_db(transaction=True)
STREAMS = 200
#: Long enough for the slowest machine: who does not end is killed then, and not before.
KILL_S = 120


class Listener:
    """One open stream: what it has brought as it came over the wire."""

    def __init__(self, web: WebServer, session: str, paths: list[str]) -> None:
        query = urlencode([("part", f"1 - {path}") for path in paths] + [("now", "")])
        cookie = f"gantry_session_{web.port}={session}"
        self._head = (
            f"GET {streams.PATH}?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {cookie}\r\n"
            "HX-Request: true\r\nAccept-Encoding: gzip\r\n\r\n"
        ).encode()
        self._port = web.port
        self.came = b""

    async def begin(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writer.write(self._head)
        self.came = await self._reader.readuntil(b"\r\n\r\n")

    async def end(self) -> None:
        """Until the server closes the connection."""
        self.came += await self._reader.read()
        self._writer.close()


async def together(*what: Coroutine[Any, Any, None]) -> None:
    async with asyncio.timeout(300):
        await asyncio.gather(*what)


def batched(listeners: list[Listener], number: int) -> Iterator[list[Listener]]:
    for start in range(0, len(listeners), number):
        yield listeners[start : start + number]


async def stopped(web: WebServer, listeners: list[Listener]) -> float:
    """Open all, tell the server to stop, and wait until all have ended. Returns when it was told, monotonic seconds."""
    # Not all at once: so many requests of one account would not be let wait.
    for some in batched(listeners, 20):
        await together(*(one.begin() for one in some))
    # Some ask just now, some wait for their turn, and some rest.
    ends = [asyncio.ensure_future(one.end()) for one in listeners]
    await asyncio.sleep(2)
    told_at = time.monotonic()
    web.process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(KILL_S + 60):
        await asyncio.gather(*ends)
    return told_at


def test_told_to_stop_it_ends_two_hundred_streams_in_good_order(cast: Cast, redis: RedisServer) -> None:
    sessions = []
    for user in (cast.users["alice"], cast.users["charlie"]):
        for _ in range(STREAMS // 2 // streams.OF_A_SESSION):
            client = browser()
            client.force_login(user, "allauth.account.auth_backends.AuthenticationBackend")
            sessions.append(client.cookies[settings.SESSION_COOKIE_NAME].value)
    topics = reverse("topics.list", args=[cast.instance.instance_id])
    own = {"gantry_secret_key": settings.SECRET_KEY, "gantry_web_peer_requests": str(STREAMS + 50)}
    with web_server(redis, KILL_S, **own) as web:
        listeners = [
            Listener(web, session, ["/overview/tasks", "/overview/attention", topics])
            for session in sessions
            for _ in range(streams.OF_A_SESSION)
        ]
        told_at = asyncio.run(stopped(web, listeners))
        assert web.process.wait(KILL_S + 60) == 0
        took_s = time.monotonic() - told_at
        log = web.log.read_text()
    assert {one.came.split(b"\r\n")[0] for one in listeners} == {b"HTTP/1.1 200 OK"}
    broken = [one.came[-60:] for one in listeners if not one.came.endswith(b"\r\n0\r\n\r\n")]
    assert not broken, f"{len(broken)} of {len(listeners)} were broken off, such as {broken[:3]}"
    # Not by what granian logs: it says that it kills a worker which has ended and is still in the list of processes.
    assert took_s < KILL_S, log[-2000:]
    assert "Traceback" not in log, log[-3000:]
