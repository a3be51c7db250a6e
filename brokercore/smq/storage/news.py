"""What happens to queues, told by Redis to every process in which somebody waits (PUBLISH and SUBSCRIBE)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

import hiredis

from brokercore.server.errors import StoreUnavailable
from brokercore.server.storage.redis_connection import credentials, dial, pack

logger = logging.getLogger(__name__)

_AGAIN_SECONDS = 0.5
#: How long a channel is listened to after the last one left: who polls comes again.
_LINGER_SECONDS = 10.0
_ANSWER_SECONDS = 5.0


class RedisNews(asyncio.Protocol):
    """One connection that listens: `told` gets channel and text of all news, `missed` when some may be lost."""

    def __init__(self, url: str, told: Callable[[str, str], None], missed: Callable[[], None]) -> None:
        self._url, self._told, self._missed = url, told, missed
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader = hiredis.Reader()
        self._wanted: dict[str, asyncio.TimerHandle | None] = {}
        self._subscribing: dict[str, asyncio.Future[None]] = {}
        self._subscribed: set[str] = set()
        self._lost = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect, and connect again whenever the connection breaks. Raises StoreUnavailable at the first try."""
        await self._connect()
        self._keeper = self._loop.create_task(self._keep(), name="news of queues")

    async def close(self) -> None:
        """Close the connection."""
        if self._keeper is not None:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeper
        for timer in self._wanted.values():
            if timer is not None:
                timer.cancel()
        if self._transport is not None:
            self._transport.close()

    async def listen(self, channel: str) -> None:
        """Be told of everything on the channel that is said after this returns. Raises StoreUnavailable."""
        timer = self._wanted.get(channel)
        if timer is not None:
            timer.cancel()
        self._wanted[channel] = None
        if channel in self._subscribed:
            return
        if self._transport is None:
            raise StoreUnavailable("Redis cannot be reached")
        waiting = self._subscribing.get(channel)
        if waiting is None:
            waiting = self._subscribing[channel] = self._loop.create_future()
            self._transport.write(pack(("SUBSCRIBE", channel)))
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await asyncio.shield(waiting)
        except TimeoutError:
            raise StoreUnavailable("Redis does not answer") from None

    def leave(self, channel: str) -> None:
        """Nobody waits there any more."""
        self._wanted[channel] = self._loop.call_later(_LINGER_SECONDS, self._unsubscribe, channel)

    def _unsubscribe(self, channel: str) -> None:
        del self._wanted[channel]
        self._subscribed.discard(channel)
        if self._transport is not None:
            self._transport.write(pack(("UNSUBSCRIBE", channel)))

    # Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._reader = hiredis.Reader()

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not False:
            if isinstance(reply, list):
                self._take(reply)
            elif isinstance(reply, hiredis.ReplyError):
                logger.error("redis, news of queues: %s", reply)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._subscribed.clear()
        lost = StoreUnavailable("the connection to Redis broke")
        for waiting in self._subscribing.values():
            if not waiting.done():
                waiting.set_exception(lost)
                waiting.exception()  # nobody may be left who asks for it
        self._subscribing.clear()
        self._lost.set()

    def _take(self, reply: list[Any]) -> None:
        kind, channel, rest = reply
        name = channel.decode()
        if kind == b"message":
            self._told(name, rest.decode())
        elif kind == b"subscribe":
            self._subscribed.add(name)
            waiting = self._subscribing.pop(name, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(None)
            elif waiting is None:
                self._told(name, "1")  # listened to once more: what was said since the connection broke is lost

    async def _keep(self) -> None:
        while True:
            await self._lost.wait()
            await asyncio.sleep(_AGAIN_SECONDS)
            try:
                await self._connect()
            except StoreUnavailable as error:
                logger.error("news of queues: %s", error)
            else:
                self._missed()

    async def _connect(self) -> None:
        self._lost.clear()
        try:
            await dial(self._loop, self._url, self)
        except OSError as error:
            self._lost.set()
            raise StoreUnavailable(f"Redis cannot be reached: {error}") from error
        if self._transport is None:
            return
        if words := credentials(self._url):
            self._transport.write(pack(("AUTH", *words)))
        for channel in self._wanted:
            self._transport.write(pack(("SUBSCRIBE", channel)))
