"""HTTP/1.1 connections: requests are answered one after the other, in order, each within bounds.

A request is judged when its head is there, so that nobody can make the service hold a body who may not send one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Generic, Protocol, TypeVar

import httptools

from brokercore.smq.server.room import Room
from brokercore.smq.wire.errors import Code, SmqError
from brokercore.smq.wire.messages import error_document

logger = logging.getLogger(__name__)

Admission = TypeVar("Admission")

VERSION = "2015-06-06"
#: Bytes of a request's line and headers.
MAX_HEAD = 16 << 10
MAX_HEADERS = 100
#: Bytes of a body: a batch of 16 messages of 64 KiB, in which every character is written as an entity.
MAX_BODY = 8 << 20
#: How long a request may take to come in whole, and a connection to be without one, s.
REQUEST_SECONDS, IDLE_SECONDS = 30.0, 120.0
#: How long a client may take to read an answer, and how long what it still sends is read after a refusal, s.
ANSWER_SECONDS, LINGER_SECONDS = 30.0, 2.0
#: Requests that a client may send before the first of them is answered.
AHEAD = 8
_NEVER = float("inf")
_REASONS = {status.value: status.phrase for status in HTTPStatus}


@dataclass(slots=True)
class Request(Generic[Admission]):
    """A request; header names are lower-case. `admitted` is what the judgement of its head gave.

    `account` is whose signature it has, empty without one; `held` are the bytes of its body that the room counts.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    peer: str
    id: str
    admitted: Admission | None = None
    refused: SmqError | None = None
    body: bytes = b""
    keeps_alive: bool = True
    account: str = ""
    held: int = 0


@dataclass(slots=True)
class Answer:
    """Status, body and headers of an answer; the body is XML unless Content-Type says something else."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class Service(Protocol[Admission]):
    """What judges heads and carries requests out."""

    def admit(self, request: Request[Admission]) -> Admission:
        """Judge a request by its head. Raises SmqError."""

    async def carry_out(self, request: Request[Admission]) -> Answer:
        """Do what an admitted request asks for. Raises SmqError."""

    def note(self, request: Request[Admission], code: Code | None) -> None:
        """A request is answered; `code` is that of an error."""


class HttpConnection(asyncio.Protocol, Generic[Admission]):
    """One client's connection; `run` starts the task that answers it, owned by the server."""

    def __init__(
        self,
        service: Service[Admission],
        host: str,
        run: Callable[[Awaitable[None]], asyncio.Task[None]],
        room: Room | None = None,
    ) -> None:
        self._service, self._host, self._run = service, host, run
        self._room = room or Room(1)
        self._parser = httptools.HttpRequestParser(self)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._peer = ""
        self._waiting: deque[Request[Admission]] = deque()
        self._wake: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = self._rings_at = _NEVER  # by the loop's time
        self._target, self._headers = b"", dict[str, str]()  # of the request that comes in
        self._idle_bytes = 0  # that came without the end of a head and without a piece of a body
        self._has_moved = self._comes = False  # the parser got on with these bytes; a request has begun
        self._body = bytearray()
        self._body_bytes = 0  # that came, also of a body that is not wanted
        self._is_known = self._has_entered = False
        self._request: Request[Admission] | None = None
        self._readable: asyncio.Future[None] | None = None  # set while the client does not read its answers
        self._paused = self._ended = self._closing = False
        self._answers = self._finishes = False  # a request is worked on; the server closes

    # Bytes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        peer = transport.get_extra_info("peername")
        self._peer = peer[0] if peer else ""
        self._has_entered = self._room.enter(self)
        if not self._has_entered:
            self.abort()
            return
        self._task = self._run(self._answer_all())
        self._expect(REQUEST_SECONDS)

    def data_received(self, data: bytes) -> None:
        while data and not self._ended and not self._closing:
            self._has_moved = False
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                # There is no other protocol here, and the request was complete: what follows is the next one.
                self._parser = httptools.HttpRequestParser(self)
                data = data[upgrade.args[0] :]
            except httptools.HttpParserError as error:
                self._refuse(str(error.__context__ or error))
            else:
                # A head, a line before a chunk, or what follows the last of them: the parser keeps it until its end.
                self._idle_bytes = 0 if self._has_moved else self._idle_bytes + len(data)
                if self._idle_bytes > MAX_HEAD:
                    self._refuse(f"the head of the request is larger than {MAX_HEAD} bytes")
                return

    def connection_lost(self, error: Exception | None) -> None:
        self._closing = True
        self._transport = None
        if self._has_entered:
            self._room.leave(self)
        for request in (*self._waiting, *((self._request,) if self._request else ())):
            self._free(request)
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def abort(self) -> None:
        """Close the connection at once; the room counts it no more."""
        self._closing, self._has_entered = True, False
        if self._transport is not None:
            self._transport.abort()

    def finish(self) -> None:
        """The server closes: answer what has come, and what is coming in, then close."""
        self._finishes = True
        if not self._answers and not self._waiting and not self._comes and self._transport is not None:
            self._closing = True
            self._transport.close()

    def _free(self, request: Request[Admission]) -> None:
        if request.held:
            self._room.bodies.free(request.account, request.held)
            request.held = 0

    def pause_writing(self) -> None:
        self._readable = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._readable is not None and not self._readable.done():
            self._readable.set_result(None)
        self._readable = None

    def _refuse(self, reason: str) -> None:
        """Answer, after all that came before, that this is no request that can be read; it is the last answer."""
        self._ended = True
        error = SmqError(Code.INVALID_ARGUMENT, f"This is not a valid HTTP request: {reason}.")
        request: Request[Admission] = Request("", "", {}, self._peer, _new_id(), refused=error, keeps_alive=False)
        if self._request is not None:
            self._free(self._request)
        self._body, self._request = bytearray(), None
        self._add(request)

    def _abort(self, reason: str) -> None:
        logger.info("connection of %s closed: %s", self._peer, reason)
        self._closing = True
        if self._transport is not None:
            self._transport.close()

    def _expect(self, seconds: float) -> None:
        """Close the connection unless something complete comes within so long."""
        self._deadline = self._loop.time() + seconds
        # A timer that rings too soon is wound up again: that costs less than one for each request.
        if self._timer is None or self._deadline < self._rings_at:
            self._wind_up()

    def _wind_up(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rings_at = self._deadline
        self._timer = self._loop.call_at(self._deadline, self._late)

    def _late(self) -> None:
        self._timer = None
        if self._deadline == _NEVER:
            return
        if self._deadline > self._loop.time():
            self._wind_up()
        elif self._paused:  # it may have come: nobody looked
            self._expect(REQUEST_SECONDS)
        else:
            self._abort("nothing came in time")

    # Requests, as the parser finds them

    def on_message_begin(self) -> None:
        self._target, self._headers = b"", {}
        self._body, self._body_bytes, self._request = bytearray(), 0, None
        self._comes = True
        self._expect(REQUEST_SECONDS)

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._request is not None:
            return  # it follows a body that came in chunks: nothing that is judged, or signed, may come so late
        if len(self._headers) >= MAX_HEADERS:
            raise ValueError(f"the request has more than {MAX_HEADERS} headers")
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        self._has_moved = True
        version = self._parser.get_http_version()
        if version not in ("1.0", "1.1"):
            raise ValueError(f"its version is {version}, and allowed are 1.0 and 1.1")
        has_body = self._headers.get("content-length", "0") != "0" or "transfer-encoding" in self._headers
        if has_body and self._parser.should_upgrade():  # the parser would take the body for the other protocol
            raise ValueError("it has a body and asks for another protocol (Upgrade)")
        if len(self._target) + sum(map(len, self._headers)) + sum(map(len, self._headers.values())) > MAX_HEAD:
            raise ValueError(f"the head of the request is larger than {MAX_HEAD} bytes")
        if int(self._headers.get("content-length") or 0) > MAX_BODY:
            raise ValueError(f"the body is larger than {MAX_BODY} bytes")
        request: Request[Admission] = Request(
            self._parser.get_method().decode("latin-1"),
            self._target.decode("latin-1"),
            self._headers,
            self._peer,
            _new_id(),
            keeps_alive=self._parser.should_keep_alive(),
        )
        self._request = request
        try:
            request.admitted = self._service.admit(request)
        except SmqError as error:
            request.refused = error
        if request.account and not self._is_known:
            self._is_known = True
            self._room.known(self)
        # A refusal comes when the body has been read and thrown away: who waits to send it would wait for seconds.
        waits = self._headers.get("expect", "").lower() == "100-continue"
        if waits and version == "1.1" and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._has_moved = True
        self._body_bytes += len(body)
        if self._body_bytes > MAX_BODY:
            raise ValueError(f"the body is larger than {MAX_BODY} bytes")
        request = self._request
        if request is None or request.refused is not None:
            return
        try:
            self._room.bodies.hold(request.account, len(body))
        except SmqError as error:
            request.refused, self._body = error, bytearray()
            self._free(request)
            return
        request.held += len(body)
        self._body += body

    def on_message_complete(self) -> None:
        request, self._request = self._request, None
        self._has_moved, self._comes = True, False
        if request is None:
            return
        request.body, self._body = bytes(self._body), bytearray()
        self._add(request)

    def _add(self, request: Request[Admission]) -> None:
        self._waiting.append(request)
        self._deadline = _NEVER
        if len(self._waiting) >= AHEAD and self._transport is not None and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    # Answers

    async def _answer_all(self) -> None:
        while not self._closing:
            if not self._waiting:
                self._wake = self._loop.create_future()
                await self._wake
            request, self._answers = self._waiting.popleft(), True
            if self._paused and self._transport is not None:
                self._paused = False
                self._transport.resume_reading()
            try:
                answer = await self._answer(request)
            finally:
                self._free(request)
            if self._finishes and not self._waiting and not self._comes:
                request.keeps_alive = False
            self._answers = False
            self._write(request, answer)
            if self._readable is not None:
                await self._until_read(self._readable, request.account, len(answer.body))
            if not request.keeps_alive:
                self._end()
                return

    async def _until_read(self, readable: asyncio.Future[None], account: str, size: int) -> None:
        held = self._room.answers
        try:
            held.hold(account, size)
        except SmqError:
            logger.info("connection of %s closed: the account has too many answers that are not read", self._peer)
            self._give_up()
            return
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await readable
        except TimeoutError:
            logger.info("connection of %s closed: the answer was not read", self._peer)
            self._give_up()
        finally:
            held.free(account, size)

    def _give_up(self) -> None:
        """Close the connection with all that is not sent yet."""
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    def _end(self) -> None:
        """There was the last answer. What the client still sends is read for a while, or the answer would be lost."""
        self._ended = True
        if self._transport is None or self._closing:
            return
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        self._transport.write_eof()
        self._expect(LINGER_SECONDS)

    async def _answer(self, request: Request[Admission]) -> Answer:
        try:
            if request.refused is not None:
                raise request.refused
            self._room.answers.require(request.account)
            answer = await self._service.carry_out(request)
        except SmqError as error:
            failed = error
        except Exception:
            logger.exception("request %s failed", request.id)
            failed = SmqError(
                Code.INTERNAL_ERROR, "Internal error; the service's log has the reason under this request ID."
            )
        else:
            self._service.note(request, None)
            return answer
        self._service.note(request, failed.code)
        return Answer(failed.code.status, error_document(failed, request.id, self._host))

    def _write(self, request: Request[Admission], answer: Answer) -> None:
        if self._transport is None or self._closing:
            return
        headers = "".join([f"{name}: {value}\r\n" for name, value in answer.headers.items()])
        if answer.status != HTTPStatus.NO_CONTENT:
            headers += f"Content-Length: {len(answer.body)}\r\n"
        if answer.body and "Content-Type" not in answer.headers:
            headers += "Content-Type: text/xml;charset=utf-8\r\n"
        head = (
            f"HTTP/1.1 {answer.status:d} {_REASONS[answer.status]}\r\nDate: {_date(int(time.time()))}\r\n"
            f"x-mns-request-id: {request.id}\r\nx-mns-version: {VERSION}\r\n{headers}"
            f"Connection: {'keep-alive' if request.keeps_alive else 'close'}\r\n\r\n"
        )
        self._transport.write(head.encode("latin-1") + (b"" if request.method == "HEAD" else answer.body))
        if not self._waiting and not self._comes:
            self._expect(IDLE_SECONDS)


def _new_id() -> str:
    return os.urandom(12).hex().upper()


@lru_cache(1)
def _date(second: int) -> str:
    """A time (epoch s) as HTTP writes it."""
    return formatdate(second, usegmt=True)
