"""Requests to receivers of notifications: only to public addresses and to networks that the administrator lists.

A name is resolved here, each of its addresses is judged, and the connection goes to one that passed: a name that
resolves differently the next time gains nothing. Redirects are not followed, proxies of the environment are not used,
and of an answer little more than its status is read.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from ipaddress import ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit

import httpcore

from brokercore.addresses import Network, Resolve, may_reach, resolve
from brokercore.server.errors import SettingsError
from brokercore.smq.wire.notifications import push_target

logger = logging.getLogger(__name__)

#: How long a receiver has for its answer, with the resolving of its name and the connecting, s.
ATTEMPT_SECONDS = 5.0
#: One of several addresses is tried for so long before the next one, s.
_CONNECT_SECONDS = 1.5
#: Bytes that are read of a receiver, heads and what frames a body included: its status is all that counts. And bytes
#: at a time: a receiver of many small pieces keeps the process busy for as long as it takes to read these.
MAX_ANSWER, _PIECE, _MOST_PIECES = 32 << 10, 2 << 10, 64
_FAILURES = (TimeoutError, OSError, httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException)
_LOOPBACK = "127.0.0.0/8,::1/128"
#: Names that are looked up at a time, and of these for one account: name servers may take their time, as receivers may.
_NAME_THREADS, _NAMES_OF_ONE = 256, 16
#: Addresses of one name that are tried.
_MOST_ADDRESSES = 8

#: Whose push it is that a connection is opened for.
_owner: ContextVar[str] = ContextVar("owner")


class PushError(Exception):
    """A push that got no answer; the text is a sentence for the subscriber."""


def read_allowed(environ: Mapping[str, str], host: str) -> tuple[Network, ...]:
    """Networks of GANTRY_SMQ_PUSH_ALLOW. Unset, it is the loopback where nothing else listens. Raises SettingsError."""
    text = environ.get("GANTRY_SMQ_PUSH_ALLOW")
    if text is None:
        text = _LOOPBACK if host == "localhost" or _is_loopback(host) else ""
    try:
        return tuple(ip_network(one.strip()) for one in text.split(",") if one.strip())
    except ValueError as error:
        raise SettingsError(
            f"GANTRY_SMQ_PUSH_ALLOW is no list of networks such as 127.0.0.1,10.0.0.0/8: {error}."
        ) from error


class Receivers:
    """Posts to receivers. `allowed` are networks that notifications may go to beside public addresses."""

    def __init__(self, allowed: Iterable[Network], resolver: Resolve = resolve) -> None:
        self._guard = _Guard(tuple(allowed), resolver)
        # No connection is kept: one that the receiver closes at the same moment would be a failed push.
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl.create_default_context(),
            max_connections=None,
            max_keepalive_connections=0,
            network_backend=self._guard,
        )

    async def close(self) -> None:
        """Close what is open."""
        await self._pool.aclose()
        self._guard.close()

    async def require_reachable(self, owner: str, url: str) -> None:
        """Refuse an account's URL of which every address is one that no push may go to. Raises PushError.

        A name that has no address now may have one when something is pushed.
        """
        host = urlsplit(url).hostname or ""
        _owner.set(owner)
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS):
                await self._guard.addresses(host)
        except (OSError, TimeoutError) as error:
            logger.info("the receiver's name %s is not known now: %s", host, error)

    async def post(self, owner: str, url: str, headers: Mapping[str, str], content: bytes) -> int:
        """The status of the receiver's answer to a push of this account. Raises PushError when there is none."""
        parts = urlsplit(url)
        _owner.set(owner)
        target = httpcore.URL(
            scheme=parts.scheme.encode(),
            host=(parts.hostname or "").encode(),
            port=parts.port,
            target=push_target(url).encode(),
        )
        words = {"host": parts.netloc, "content-length": str(len(content)), **headers}
        pairs = [(name.encode(), value.encode("latin-1")) for name, value in words.items()]
        status = 0
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS):
                async with self._pool.stream("POST", target, headers=pairs, content=content) as answer:
                    status = answer.status
                    pieces = answer.aiter_stream()  # what is short is read, so that its sender is not cut off
                    for _ in range(_MOST_PIECES):
                        if not await anext(pieces, b""):
                            break
        except _FAILURES as error:
            if not status:
                raise PushError(_sentence(parts.hostname or "", error)) from error
        return status


def _sentence(host: str, error: Exception) -> str:
    match error:
        case TimeoutError() | httpcore.TimeoutException():
            return f"{host} did not answer within {ATTEMPT_SECONDS:g} s."
        case socket.gaierror():
            return f"The name {host} has no address."
        case httpcore.ConnectError():
            return f"{host} could not be connected to: {str(error)[:200] or 'the connection was refused'}."
        case httpcore.ProtocolError():
            return f"The answer of {host} is not valid HTTP."
        case _:
            return f"The connection to {host} broke before its answer."


class _Guard(httpcore.AsyncNetworkBackend):
    """Connects to an address of a name only if notifications may go there."""

    def __init__(self, allowed: tuple[Network, ...], resolver: Resolve) -> None:
        self._allowed, self._resolver = allowed, resolver
        self._inner = httpcore.AnyIOBackend()
        self._threads = ThreadPoolExecutor(_NAME_THREADS, "names of receivers")
        self._asked: dict[tuple[str, str], asyncio.Future[list[str]]] = {}
        self._busy: Counter[str] = Counter()

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def addresses(self, host: str) -> list[str]:
        """The addresses of a name that notifications may go to. Raises PushError when it has others only, OSError."""
        found = await self._resolve(host)
        opened = [address for address in found if may_reach(address, self._allowed)]
        if not opened:
            # What a name stands for within the platform's network is not told.
            raise PushError(f"{host} has no public address, nor one that the platform's administrator allows.")
        return opened[:_MOST_ADDRESSES]

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        *others, last = await self.addresses(host)
        for address in others:
            with suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                return _Bounded(
                    await self._inner.connect_tcp(address, port, _CONNECT_SECONDS, local_address, socket_options)
                )
        return _Bounded(await self._inner.connect_tcp(last, port, timeout, local_address, socket_options))

    async def _resolve(self, host: str) -> list[str]:
        """Names are looked up in threads, one a name: who waits no longer leaves the thread there for the next one."""
        with suppress(ValueError):
            return [str(ip_address(host))]
        owner = _owner.get()
        asked = self._asked.get((owner, host))
        if asked is None:
            if self._busy[owner] >= _NAMES_OF_ONE:
                raise PushError(f"{host} was not looked up: the account's other names take too long.")
            self._busy[owner] += 1
            asked = asyncio.get_running_loop().run_in_executor(self._threads, self._resolver, host)
            self._asked[owner, host] = asked
            asked.add_done_callback(lambda done: self._known(owner, host, done))
        return await asyncio.shield(asked)

    def _known(self, owner: str, host: str, done: asyncio.Future[list[str]]) -> None:
        del self._asked[owner, host]
        self._busy[owner] -= 1
        if not self._busy[owner]:
            del self._busy[owner]
        if not done.cancelled():
            done.exception()  # nobody may be left who asks for it


class _Bounded(httpcore.AsyncNetworkStream):
    """A connection to a receiver that ends, as if the receiver had closed it, when enough of it was read."""

    def __init__(self, inner: httpcore.AsyncNetworkStream) -> None:
        self._inner, self._left = inner, MAX_ANSWER

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109  httpcore's signature
        if self._left <= 0:
            return b""
        found = await self._inner.read(min(max_bytes, self._left, _PIECE), timeout)
        self._left -= len(found)
        return found

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore.AsyncNetworkStream:
        return _Bounded(await self._inner.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
