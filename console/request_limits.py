"""What comes in over HTTP is bounded before Django sees it: requests a peer, bytes and time of bodies.

See docs/operate/limits.md.

What has come in whole waits for its turn, which goes by account (`console/web/fair_queue.py`).

A request costs nothing but memory of a few KiB until its body is there: no thread, no database, no file. Bodies are
small unless a signed-in person sends them, and large only where that person may upload. `/healthz` is answered whatever
else goes on. Refusals are one sentence; callers of the management API get it in the form of their API.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from importlib import import_module
from typing import Any
from urllib.parse import parse_qs

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest, HttpResponse
from django.http.cookie import parse_cookie
from django.urls import Resolver404, resolve
from django.utils.translation import gettext as _

from analytics.inflow.webhook import MOST_BODY_BYTES as HOOK_BYTES
from console.accounts import mfa
from console.accounts.models import User
from console.accounts.visits import actor_of
from console.catalog import buckets
from console.feeds.middleware import PREFIX as HOOKS
from console.openapi import envelope
from console.openapi.calls import MAX_BODY_BYTES
from console.openapi.mcp.protocol import REFUSED, RpcError
from console.openapi.rpc.middleware import MCP_PATH, RPC_PATH
from console.openapi.rpc.responses import answer
from console.web import streams
from console.web.connections import Connections, client_of, is_trusted, network_of, peer_of
from console.web.fair_queue import TooManyWaiting, Turn, Turns
from console.web.figures import TURNED_AWAY
from console.web.request_owners import LOOKED_AT, Holder, Holders, claimed_key, key_digest, listen, session_digest

log = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Scope = MutableMapping[str, Any]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

HEALTH = "/healthz"
#: Forms that are open to everybody (sign-in, second factor) have a few KiB.
STRANGERS_BYTES = 64 * 1024
#: A body must keep up this many bytes a second once the first seconds are over (GANTRY_WEB_BODY_SECONDS).
SLOWEST_BYTES_PER_S = 16 * 1024
#: A client that does not take a piece of its answer within this time is given up, seconds.
WRITE_S = 60.0
#: Bodies beyond DATA_UPLOAD_MAX_MEMORY_SIZE, which lie on the disk, that come in at a time: of one person, and in all.
UPLOADS_OF_A_PERSON, UPLOADS = 2, 8
#: How long a request waits for its turn, s.
_LONGEST_WAIT_S = 60.0
#: Requests for HEALTH that are looked at together; the others wait their turn.
_HEALTH_TOGETHER = 8
#: Looks at who sends a larger body, together: each takes a thread and the database.
_LOOKS_TOGETHER = 8
_WAITING = "Too many requests of this account, or of this address, are waiting; try again."
_UPLOAD_VIEW = "sql.bucket_upload"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The request is refused with an HTTP status and a sentence."""

    status: HTTPStatus
    sentence: str


class _RefusedError(Exception):
    """The body must not go on."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.refusal = Refusal(status, sentence)


class _UnreadError(Exception):
    """The client does not take its answer."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """How large a body may be, bytes, and of whom it is where it may be large enough for the disk."""

    most: int
    uploader: int | None = None


class RequestLimits:
    """An ASGI application that bounds what comes in, in front of Django's."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._open: Counter[str] = Counter()
        self._streams: Counter[str] = Counter()
        self._uploads: Counter[int] = Counter()
        self._health = asyncio.Semaphore(_HEALTH_TOGETHER)
        self._looks = asyncio.Semaphore(_LOOKS_TOGETHER)
        self._holders = Holders()
        self._turns = Turns(settings.WEB_PLACES, settings.WEB_WAITING)
        self.connections = Connections()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._application(scope, receive, send)
        client = _connection(scope)
        self.connections.begin(client, (scope.get("server") or (None, None))[1])
        try:
            with Turn(self._turns, _LONGEST_WAIT_S) as turn:
                await self._serve(scope, receive, _Answer(send, turn).send, turn)
        except _UnreadError:
            log.info("a client from %s did not take its answer within %g s", client[0], WRITE_S)
            self.connections.cut(client)
        finally:
            self.connections.end(client)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, turn: Turn) -> None:
        if scope["path"] == HEALTH:
            async with self._health:
                return await self._application(scope, _without_body(receive), send)
        peer = _peer(scope)
        # The pages that people behind one address have open take nothing from their requests.
        opened = self._streams if scope["path"] == streams.PATH else self._open
        if opened[peer] >= settings.WEB_PEER_REQUESTS:
            return await _refuse(scope, send, _too_many(peer))
        opened[peer] += 1
        uploading = _Uploading(self._uploads)
        listen(scope, self._holders, peer)
        # Nothing may refer to it in a circle: the server ends the connection only once nobody can ask for more of it.
        body = _Body(scope, receive, self._allowance, uploading.count, partial(self._turn_comes, scope, turn))
        try:
            with uploading:
                if await body.may_begin():
                    await self._application(scope, body.receive, send)
            if body.refusal is not None:
                await _refuse(scope, send, body.refusal)
        finally:
            body.end()
            opened[peer] -= 1
            if not opened[peer]:
                del opened[peer]

    async def _turn_comes(
        self, scope: Scope, turn: Turn, beginning: bytes, leaves: Callable[[], asyncio.Future[Message]]
    ) -> bool:
        """Wait for it, with the whole body there; False when the client leaves before. Raises _RefusedError."""
        try:
            return await turn.acquire(self._holder(scope, beginning), leaves)
        except TooManyWaiting:
            raise _RefusedError(HTTPStatus.TOO_MANY_REQUESTS, _WAITING) from None

    def _holder(self, scope: Scope, beginning: bytes) -> Holder:
        """Who a request is counted for, by its head and the beginning of its body."""
        peer = _peer(scope)
        if is_api(scope) or scope["path"] == "/":  # where calls are sent too
            query = scope.get("query_string", b"").decode("latin-1")
            key = claimed_key(_header(scope, b"authorization"), query, beginning.decode("latin-1"))
            if key or is_api(scope):
                return self._holders.of(peer, key_digest(peer, key) if key else None)
        if is_hook(scope):
            return self._holders.of(peer, None)
        session = _cookies(scope).get(settings.SESSION_COOKIE_NAME)
        return self._holders.of(peer, session_digest(session) if session else None)

    async def _allowance(self, scope: Scope) -> Allowance:
        if is_api(scope):
            return Allowance(MAX_BODY_BYTES)
        if is_hook(scope):
            return Allowance(HOOK_BYTES)
        if settings.SESSION_COOKIE_NAME not in _cookies(scope):
            return Allowance(STRANGERS_BYTES)
        async with self._looks:
            return await sync_to_async(allowance_of, thread_sensitive=False)(scope)


class _Uploading:
    """Counts the bodies that come in and may lie on the disk, while they do."""

    def __init__(self, uploads: Counter[int]) -> None:
        self._uploads = uploads
        self._counted: int | None = None

    def __enter__(self) -> None:
        """Nothing is counted yet: only a body that is announced, or turns out, to be large is."""

    def __exit__(self, *_unused: object) -> None:
        if self._counted is not None:
            self._uploads[self._counted] -= 1
            if not self._uploads[self._counted]:
                del self._uploads[self._counted]

    def count(self, person: int) -> None:
        """A body of this person is so large that it lies on the disk. Raises _RefusedError."""
        if self._counted is not None:
            return
        if self._uploads[person] >= UPLOADS_OF_A_PERSON or self._uploads.total() >= UPLOADS:
            raise _RefusedError(
                HTTPStatus.TOO_MANY_REQUESTS, _("Other uploads are still in progress; try again when they have ended.")
            )
        self._counted = person
        self._uploads[person] += 1


class _Body:
    """The body of one request on its way to Django, which is told that the client has left when it must not go on."""

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        ask_allowance: Callable[[Scope], Awaitable[Allowance]],
        on_disk: Callable[[int], None],
        turn_comes: Callable[[bytes, Callable[[], asyncio.Future[Message]]], Awaitable[bool]],
    ) -> None:
        self._scope = scope
        self._receive = receive
        self._ask = ask_allowance
        self._allowed = Allowance(STRANGERS_BYTES)
        self._asked = False
        self._bytes = 0
        self._began = time.monotonic()
        self._ended = False
        self._on_disk = on_disk
        self._turn_comes = turn_comes
        self._beginning = b""
        self._following: asyncio.Task[Message] | None = None
        self.refusal: Refusal | None = None

    async def may_begin(self) -> bool:
        """Look at what is announced, before a byte is read; False when that is refused already."""
        announced = _header(self._scope, b"content-length")
        try:
            if announced.isdecimal():
                await self._check(int(announced))
        except _RefusedError as refused:
            self.refusal = refused.refusal
        return self.refusal is None

    async def receive(self) -> Message:
        """The next piece for Django; the last one once it is this request's turn."""
        if self._ended:
            return await self._after()
        try:
            message = await self._in_time()
            body = message.get("body", b"")
            self._bytes += len(body)
            if len(self._beginning) < LOOKED_AT:
                self._beginning += body[:LOOKED_AT]
            await self._check(self._bytes)
            self._ended = not message.get("more_body", False)
            whole = self._ended and message["type"] == "http.request"
            if whole and not await self._turn_comes(self._beginning, self._leaves):
                return await self._after()
        except _RefusedError as refused:
            self.refusal = refused.refusal
            self._ended = True
            return {"type": "http.disconnect"}
        return message

    def _leaves(self) -> asyncio.Task[Message]:
        if self._following is None:
            self._following = asyncio.ensure_future(_next(self._receive))
        return self._following

    async def _after(self) -> Message:
        """What comes behind the body: that the client has left."""
        return await (self._receive() if self._following is None else asyncio.shield(self._following))

    def end(self) -> None:
        """Nobody asks any more."""
        if self._following is not None:
            self._following.cancel()
            self._following = None

    async def _in_time(self) -> Message:
        allowed_s = settings.WEB_BODY_SECONDS + self._bytes / SLOWEST_BYTES_PER_S
        try:
            async with asyncio.timeout(self._began + allowed_s - time.monotonic()):
                return await self._receive()
        except TimeoutError:
            raise _RefusedError(
                HTTPStatus.REQUEST_TIMEOUT,
                _(
                    "The body of the request arrives too slowly: %(web_body_seconds)s s are allowed, and one "
                    "second more for each %(slowest_bytes_per_s)s KiB."
                )
                % {"web_body_seconds": settings.WEB_BODY_SECONDS, "slowest_bytes_per_s": SLOWEST_BYTES_PER_S // 1024},
            ) from None

    async def _check(self, size: int) -> None:
        if size > self._allowed.most and not self._asked:
            self._asked = True
            self._allowed = await self._ask(self._scope)
        if size > self._allowed.most:
            raise _RefusedError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                _("The body is larger than %(most)s KiB.") % {"most": self._allowed.most // 1024},
            )
        if size > settings.DATA_UPLOAD_MAX_MEMORY_SIZE and self._allowed.uploader is not None:
            self._on_disk(self._allowed.uploader)


class _Answer:
    """What Django answers; a client that does not take it holds nothing for long, and no place at all."""

    def __init__(self, send: Send, turn: Turn) -> None:
        self._send = send
        self._turn = turn

    async def send(self, message: Message) -> None:
        """Hand a piece to the server. Raises _UnreadError."""
        if message["type"] == "http.response.body":
            self._turn.release()
        try:
            async with asyncio.timeout(WRITE_S):
                await self._send(message)
        except TimeoutError:
            raise _UnreadError from None
        if message.get("more_body", False):
            await self._turn.reacquire()


def is_api(scope: Scope) -> bool:
    """True for the addresses of the management API, which no session speaks for."""
    path: str = "/" + scope["path"].lstrip("/")
    return path.startswith("/json/") or path in (RPC_PATH, MCP_PATH) or (path == "/" and scope["method"] == "POST")


def is_hook(scope: Scope) -> bool:
    """True for the addresses of webhooks, for which no session speaks either."""
    path: str = scope["path"]
    return path.startswith(HOOKS)


def allowance_of(scope: Scope) -> Allowance:
    """What whoever this session is may send to this address. Looks at the database."""
    request = HttpRequest()
    request.COOKIES = _cookies(scope)
    request.META["REMOTE_ADDR"] = _client(scope)
    request.META["HTTP_HOST"] = _header(scope, b"host")
    engine = import_module(settings.SESSION_ENGINE)
    request.session = engine.SessionStore(request.COOKIES.get(settings.SESSION_COOKIE_NAME))
    user = get_user(request)
    if not isinstance(user, User) or not user.is_active or not mfa.is_at_home(user):
        return Allowance(STRANGERS_BYTES)
    if user.must_change_password or not mfa.is_satisfied(request, user):
        return Allowance(STRANGERS_BYTES)
    ordinary = Allowance(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
    try:
        match = resolve(scope["path"])
    except Resolver404:
        return Allowance(STRANGERS_BYTES)
    if match.view_name != _UPLOAD_VIEW or user.tenant is None:
        return ordinary
    folder = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("folder", [""])[0]
    if not buckets.may_upload(actor_of(request, user), match.kwargs["name"], folder):
        return ordinary
    return Allowance(settings.LAKE_UPLOAD_BYTES + settings.DATA_UPLOAD_MAX_MEMORY_SIZE, user.pk)


async def _refuse(scope: Scope, send: Send, refusal: Refusal) -> None:
    """Answer without Django, and end the connection: what is left of the body is not read."""
    TURNED_AWAY.labels(int(refusal.status)).inc()
    response = _in_words(scope, refusal)
    headers = [
        (b"content-type", response["Content-Type"].encode("latin-1")),
        (b"content-length", str(len(response.content)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        (b"connection", b"close"),
    ]
    if refusal.status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        headers.append((b"retry-after", b"5"))
    await send({"type": "http.response.start", "status": int(refusal.status), "headers": headers})
    await send({"type": "http.response.body", "body": response.content})


def _in_words(scope: Scope, refusal: Refusal) -> HttpResponse:
    status, sentence, request_id = int(refusal.status), refusal.sentence, str(uuid.uuid4())
    path = "/" + scope["path"].lstrip("/")
    busy = refusal.status is HTTPStatus.TOO_MANY_REQUESTS
    if path.startswith("/json/"):
        symbol = envelope.THROTTLED if busy else envelope.FIELD
        return envelope.failure(symbol, sentence, request_id, status=status)
    if path == MCP_PATH:
        return RpcError(REFUSED, sentence, status=status).response()
    if is_api(scope):
        slow = refusal.status is HTTPStatus.REQUEST_TIMEOUT
        code = "Throttling.User" if busy else "RequestTimeout" if slow else "RequestEntityTooLarge"
        host = _header(scope, b"host")[:255]
        body = {"RequestId": request_id, "HostId": host, "Code": code, "Message": sentence}
        return answer(body, root="Error", xml=False, status=status)
    return HttpResponse(sentence + "\n", status=status, content_type="text/plain; charset=utf-8")


def _too_many(peer: str) -> Refusal:
    return Refusal(
        HTTPStatus.TOO_MANY_REQUESTS,
        f"{settings.WEB_PEER_REQUESTS} requests from {peer} are open; more are answered when one of them has ended.",
    )


async def _next(receive: Receive) -> Message:
    return await receive()


def _without_body(receive: Receive) -> Receive:
    """A request for HEALTH has no body, whatever it says."""
    told = False

    async def nothing() -> Message:
        nonlocal told
        if told:
            return await asyncio.Future()
        told = True
        return {"type": "http.request", "body": b"", "more_body": False}

    return nothing


def _connection(scope: Scope) -> tuple[str, int]:
    host, port = scope.get("client") or ("", 0)
    return str(peer_of(host) or host), port


def _client(scope: Scope) -> str:
    """The client's address, behind a trusted proxy too."""
    host = _connection(scope)[0]
    peer = peer_of(host)
    if peer is None or not is_trusted(peer):
        return host
    return str(client_of(peer, ",".join(_headers(scope, b"x-forwarded-for"))))


def _peer(scope: Scope) -> str:
    """Who requests are counted for: an address, or the network of an IPv6 client."""
    return network_of(_client(scope))


def _cookies(scope: Scope) -> dict[str, str]:
    return dict(parse_cookie("; ".join(_headers(scope, b"cookie"))))


def _header(scope: Scope, name: bytes) -> str:
    return next(iter(_headers(scope, name)), "")


def _headers(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]
