"""The process: listens on the service's port, and closes in order."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from brokercore.server.connections.gate import most_connections
from brokercore.server.errors import RedisError, SettingsError, StoreUnavailable
from brokercore.server.rights.authentication import Security
from brokercore.server.rights.refusals import Refusals
from brokercore.server.settings import Settings, configure_logs, read_settings, whole
from brokercore.server.storage.redis_connection import RedisConnection, check_url
from brokercore.server.watching import Watching
from brokercore.smq.server.figures import QueueFigures
from brokercore.smq.server.held import Held
from brokercore.smq.server.http import HttpConnection
from brokercore.smq.server.limits import QueueLimits
from brokercore.smq.server.outgoing import Receivers, read_allowed
from brokercore.smq.server.pushing import Pushing
from brokercore.smq.server.rights import Rights
from brokercore.smq.server.room import Room
from brokercore.smq.server.service import QueueService
from brokercore.smq.server.signing import PATH as CERTIFICATES
from brokercore.smq.server.signing import Signer
from brokercore.smq.server.topics import TopicService
from brokercore.smq.server.waiting import Waiting
from brokercore.smq.storage.news import RedisNews
from brokercore.smq.storage.pushes import Pushes
from brokercore.smq.storage.queues import Queues
from brokercore.smq.storage.topics import Topics

logger = logging.getLogger(__name__)

PORT = 8071
STORE_MAX_BYTES = 1 << 30
_BACKLOG = 1024
_STORE_SECONDS = 30.0
_CLOSE_SECONDS = 5.0
#: So long answers of the last requests are waited for: who sends half of one holds nobody up.
_LAST_ANSWERS_SECONDS = 2.0
_GARBAGE_THRESHOLD = 50_000
#: After so long a thread that reads a large body lets the event loop go on, s. Python's own 5 ms would be a wait at
#: each turn of the loop, and a request takes a few.
_SWITCH_SECONDS = 0.0005
#: Between two looks at every queue for messages that are too old, s; and names of queues that are read at once.
_SWEEP_SECONDS, _SWEPT_AT_ONCE = 60.0, 500


class Server:
    """The service with its listening socket and its connections to Redis."""

    def __init__(self, settings: Settings, port: int, most_bytes: int) -> None:
        check_url(settings.redis_url)
        self._settings = settings
        self._socket = _listen(settings.host, port)
        self.port = int(self._socket.getsockname()[1])
        self.address = f"http://{settings.host}:{self.port}"
        self._redis = RedisConnection(settings.redis_url, "queues")
        self._news = RedisNews(settings.redis_url, self._told, self._missed)
        self._waiting = Waiting(self._news)
        limits = QueueLimits()
        self._security = Security(settings, self._redis, limits, "queues")
        self._refusals = Refusals(self._security, self._redis, "queues")
        self._queues = Queues(self._redis, most_bytes=most_bytes)
        self._held = Held(self._queues)
        rights = Rights(self._security, self._refusals)
        url = _advertised(os.environ) or self.address
        signer = Signer(self._redis, settings.master_key, url)
        receivers = Receivers(read_allowed(os.environ, settings.host))
        self._pushing = Pushing(Pushes(self._redis), receivers, signer)
        topics = TopicService(rights, limits, Topics(self._redis, most_bytes=most_bytes), self._pushing, url)
        self._service = QueueService(rights, limits, self._queues, self._waiting, url)
        self._service.offer(topics.handlers, {CERTIFICATES: signer.page})
        self._metrics_socket = None if settings.metrics_port is None else _listen(settings.host, settings.metrics_port)
        figures = QueueFigures(self._service, self._waiting, self._pushing, self._refusals, self._held)
        self._watching = Watching(figures, lambda: self._service.trouble)
        self._tasks: set[asyncio.Task[None]] = set()
        self._answering: set[asyncio.Task[None]] = set()
        self._room = Room(most_connections())
        self._listener: asyncio.Server | None = None

    async def start(self) -> None:
        """Connect to Redis, then accept connections. Raises StoreUnavailable."""
        await self._redis.start()
        await self._news.start()
        await self._security.refresh()
        await self._held.count()
        self._run(self._security.watch())
        self._run(self._refusals.run())
        self._run(_sweep(self._queues))
        self._run(self._held.watch())
        self._run(self._pushing.run())
        if self._metrics_socket is not None:
            await self._watching.start(self._metrics_socket)
            logger.info("figures and health on port %d", self._metrics_socket.getsockname()[1])
        self._listener = await asyncio.get_running_loop().create_server(
            lambda: HttpConnection(self._service, self.address, self._serve, self._room),
            sock=self._socket,
            backlog=_BACKLOG,
        )

    async def close(self) -> None:
        """Stop listening, answer what is under way, receives that wait too, and close the connections to Redis."""
        if self._listener is not None:
            self._listener.close()
        await self._watching.close()
        self._waiting.end()
        self._room.finish()
        if self._answering:
            await asyncio.wait(self._answering, timeout=_LAST_ANSWERS_SECONDS)
        for task in self._tasks:
            task.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._pushing.close()
        await self._news.close()
        await self._redis.close()
        logger.info("closed")

    def _run(self, work: Awaitable[None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _serve(self, work: Awaitable[None]) -> asyncio.Task[None]:
        """The answering of one connection."""
        task = self._run(work)
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a task ended", exc_info=error)

    def _told(self, channel: str, text: str) -> None:
        visible, _, due = text.partition(" ")
        self._waiting.tell(channel, 0 if visible != "0" or not due else int(due))

    def _missed(self) -> None:
        self._waiting.tell_all()


async def _sweep(queues: Queues) -> None:
    """Drop what is too old from the queues that nobody asks, until cancelled. Several processes may do it at once."""
    while True:
        await asyncio.sleep(_SWEEP_SECONDS)
        try:
            for account in await queues.accounts():
                after = ""
                while True:
                    names, after = await queues.names(account, "", after, _SWEPT_AT_ONCE)
                    for name in names:
                        await queues.sweep(account, name)
                    if not after:
                        break
        except (StoreUnavailable, RedisError) as error:
            logger.warning("old messages are not dropped now: %s", error)


async def serve(settings: Settings, port: int, most_bytes: int) -> None:
    """Run the service until SIGTERM or SIGINT. Raises SettingsError and StoreUnavailable."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))
    server = Server(settings, port, most_bytes)
    deadline = loop.time() + _STORE_SECONDS
    while not stop.is_set():
        try:
            await server.start()
            break
        except StoreUnavailable:
            if loop.time() > deadline:
                raise
            await asyncio.sleep(0.5)
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE_THRESHOLD, 20, 50)
    sys.setswitchinterval(_SWITCH_SECONDS)
    sys.stdout.write(f"ready smq={server.address}\n")
    sys.stdout.flush()
    await stop.wait()
    await server.close()


def _advertised(environ: Mapping[str, str]) -> str:
    """The URL that clients and receivers know the service by; empty when it is the one it listens on."""
    url = environ.get("GANTRY_SMQ_ADVERTISE") or ""
    parts = urlsplit(url)
    if url and (parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment):
        raise SettingsError(f"GANTRY_SMQ_ADVERTISE is {url!r}; it is a URL such as https://smq.example.com.")
    return url.rstrip("/")


def _listen(host: str, port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise SettingsError(f"Port {port} on {host} is in use; set GANTRY_SMQ_PORT to a free one.") from error
        raise SettingsError(f"Cannot listen on {host}:{port}: {error.strerror}.") from error
    listening.setblocking(False)
    return listening


def main() -> int:
    """Entry of `python -m brokercore.smq`; returns the exit code."""
    import uvloop

    try:
        configure_logs(os.environ)
        port = whole(os.environ, "GANTRY_SMQ_PORT", PORT, 0, 65535)
        told = whole(os.environ, "GANTRY_SMQ_METRICS_PORT", 0, 0, 65535)
        most_bytes = whole(os.environ, "GANTRY_SMQ_STORE_MAX_BYTES", STORE_MAX_BYTES, 0, 1 << 50)
        settings = replace(read_settings(), metrics_port=told or None)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(settings, port, most_bytes))
    except (SettingsError, StoreUnavailable) as error:
        sys.stderr.write(f"brokercore.smq: {error}\n")
        return 1
    return 0
