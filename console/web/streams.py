"""One stream a page: the server asks the live parts of a page itself, and sends those that say something new.

See docs/develop/streams.md. A part is asked for as the browser would ask for it, through all middleware, with the
request's own cookies: so a session that has ended, and a right that is gone, are seen at the next question. What parts
that are due together have in common is looked up once, and what streams of one person ask alike is rendered once
(`console/web/rounds.py`). Only views that are marked with `part` are asked. A stream that rests between two questions
holds no thread and no place of the fair queue.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import secrets
import signal
import threading
import time
import zlib
from binascii import crc32
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from io import BytesIO
from types import FrameType
from typing import Any, TypeVar
from urllib.parse import unquote
from weakref import WeakSet, WeakValueDictionary

from asgiref.sync import SyncToAsync, sync_to_async
from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.core.handlers.base import BaseHandler
from django.db import close_old_connections, connections
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import Resolver404, resolve

from console.web import fair_queue
from console.web.live import FOLLOW, HEADER
from console.web.request_owners import account_name
from console.web.rounds import FRESH_S, Round

log = logging.getLogger(__name__)
_View = TypeVar("_View", bound=Callable[..., HttpResponseBase])

#: Where streams are asked for; `console/request_limits.py` counts them apart from other requests.
PATH = "/live"
#: Of one session. Browsers open six connections to a host at most, and need some for all else.
OF_A_SESSION = 4
#: Parts of one page, and characters of the address of each.
MOST_PARTS, MOST_PATH = 16, 8000
#: Seconds between two questions of a part.
SHORTEST_S, LONGEST_S = 1.0, 300.0
#: What is due so soon is asked for together, s.
TOGETHER_S = 0.5
#: Streams of an account that ask at the same time.
TOGETHER = 4
#: So long nothing is sent at most, s; the browser gives a stream up that is silent for three times as long.
HEARTBEAT_S = 15.0
#: A stream ends after so long, s, and the browser asks for another: its session's cookie is renewed thereby.
LIFE_S = 600.0
#: A part that is larger is left to the browser, bytes.
MOST_BYTES = 1 << 20
#: What a browser sends for its page and not for a part of it.
_NOT_OURS = frozenset(
    {b"accept-encoding", b"content-length", b"content-type", b"range", b"hx-request", HEADER.lower().encode()}
)
#: In the first tag of a part: it is live for as long as it says so.
_EVERY = re.compile(r'\s*<[^>]*\shx-trigger="every (\d+)s"')
#: Headers of a part that goes on where it ended (FOLLOW), which go along.
_TOLD = "X-Gantry-Tail-"
#: The mark of a part that shows an outage.
_AWAY = "outage"
_OUTAGES = (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE)


def _pool() -> ThreadPoolExecutor:
    """In which parts are asked for: never more than places of the fair queue."""
    return ThreadPoolExecutor(settings.WEB_PLACES, thread_name_prefix="live")


def part(view: _View) -> _View:
    """Mark a view as one whose answer to htmx is a live part of a page: a stream may ask it, and no other view."""
    view.is_live_part = True  # type: ignore[attr-defined]
    return view


@dataclass(slots=True)
class Part:
    """One live part of a page: how the browser calls it, its address, how often and when next it is asked for.

    `mark` is that of what it shows.
    """

    name: str
    path: str
    every_s: float
    mark: str
    due: float
    is_over: bool = False

    def asked(self, now: float, phase: float) -> None:
        """It was asked: from when it was, who is behind asks less often and does not hurry.

        The times of one person's parts fall together, those of one page for one round and those of several pages for
        one answer: `phase` is that person's.
        """
        self.due = _next(now, self.every_s, phase)


def _next(now: float, every_s: float, phase: float) -> float:
    """The next time of the grid of this interval that is not before half of it is over."""
    return phase + every_s * math.ceil((now + every_s / 2 - phase) / every_s)


def _phase(request: HttpRequest) -> float:
    """Not all people ask at the same time."""
    return crc32(str(request.user.pk).encode()) % 60_000 / 1000


def parts_of(request: HttpRequest) -> list[Part]:
    """The parts that a browser asks for, each as `seconds mark path`. Those that are no live part of ours are left out.

    `mark` is what the part shows, `-` where the browser cannot tell. With `now` all are asked for at once.
    """
    found: dict[str, Part] = {}
    now = time.monotonic()
    for text in request.GET.getlist("part")[:MOST_PARTS]:
        seconds, _, rest = text.partition(" ")
        mark, _, path = rest.partition(" ")
        if not seconds.isdecimal() or len(path) > MOST_PATH or not _is_live(path):
            continue
        every_s = _within(float(seconds))
        due = now if "now" in request.GET else _next(now, every_s, _phase(request))
        found[path] = Part(path, path, every_s, "none" if mark == "-" else mark[:64], due)
    return list(found.values())


def _is_live(path: str) -> bool:
    try:
        return getattr(resolve(unquote(path.partition("?")[0])).func, "is_live_part", False) is True
    except Resolver404:
        return False


def _within(seconds: float) -> float:
    return min(max(seconds, SHORTEST_S), LONGEST_S)


class Streams:
    """The open streams of this process."""

    def __init__(self) -> None:
        # What is dropped before it began counts no longer, whoever dropped it.
        self._open: WeakSet[Stream] = WeakSet()
        self._asking: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._rounds: OrderedDict[str, Round] = OrderedDict()
        self.threads = _pool()
        self._lock = threading.Lock()
        self._ending = asyncio.Event()
        self._watches = False

    def open(self, request: HttpRequest) -> Stream | None:
        """A stream for whoever asks: None where there are as many as may be, or it cannot be served."""
        if not isinstance(request, ASGIRequest) or self._ending.is_set():
            return None
        found = parts_of(request)
        if not found:
            return None
        session = request.session.session_key or ""
        account = account_name(getattr(request.user, "tenant_id", None), request.user.pk)
        with self._lock:
            others = list(self._open)
            of_account = sum(one.account == account for one in others)
            of_session = sum(one.session == session for one in others)
            if len(others) >= settings.WEB_STREAMS or of_session >= OF_A_SESSION:
                return None
            # An account leaves room for the others.
            if of_account >= max(1, settings.WEB_STREAMS // 2):
                return None
            stream = Stream(self, request, found, session, account)
            self._open.add(stream)
        return stream

    def asking(self, account: str) -> asyncio.Semaphore:
        """What streams of an account wait for before they ask: the others shall not stand before its requests."""
        return self._asking.setdefault(account, asyncio.Semaphore(TOGETHER))

    def __len__(self) -> int:
        return len(self._open)

    def drop(self, stream: Stream) -> None:
        """It has ended."""
        with self._lock:
            self._open.discard(stream)

    def end(self) -> None:
        """The server stops: all end, and none begins any more. On the loop."""
        self._ending.set()
        self.threads.shutdown(wait=False, cancel_futures=True)

    @property
    def is_ending(self) -> bool:
        """The server stops."""
        return self._ending.is_set()

    def round_of(self, session: str) -> Round:
        """The round that a session's streams are in, whose parts are due at the same times; a fresh one each second."""
        with self._lock:
            while self._rounds and next(iter(self._rounds.values())).age_s > FRESH_S:
                self._rounds.popitem(last=False)
            return self._rounds.setdefault(session, Round())

    async def ask(self, scope: Mapping[str, Any], parts: list[Part], phase: float, session: str) -> list[Event]:
        """What parts that are due have to say; nothing when the server stops meanwhile.

        What takes long is not waited for then: its answer would go nowhere.
        """
        if self.is_ending:
            return []
        asking = asyncio.ensure_future(ask(scope, parts, phase, self, session))
        asking.add_done_callback(_forget)
        ending = asyncio.ensure_future(self._ending.wait())
        try:
            await asyncio.wait((asking, ending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()
        return [] if self.is_ending else asking.result()

    def watch(self) -> None:
        """End all when the process is asked to stop: the server waits for what is open. On the loop, in its thread."""
        if self._watches or threading.current_thread() is not threading.main_thread():
            return
        self._watches = True
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            before = signal.getsignal(number)

            def asked(number: int, frame: FrameType | None, before: Any = before) -> None:
                # The loop has its own way to hear of signals, which this leaves alone.
                loop.call_soon_threadsafe(self.end)
                if callable(before):
                    before(number, frame)

            signal.signal(number, asked)

    async def rest(self, seconds: float) -> bool:
        """Wait; True when the server stops meanwhile."""
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._ending.wait()
        except TimeoutError:
            return self._ending.is_set()
        return True


@dataclass(frozen=True, slots=True)
class Event:
    """What the browser is told: `kind` is part, outage, refused, yours or redirect."""

    kind: str
    data: dict[str, object]

    def __bytes__(self) -> bytes:
        # Padding of random length, against guessing by size what stands beside what one can choose (BREACH).
        padding = secrets.token_hex(secrets.randbelow(16))
        data = json.dumps(self.data, ensure_ascii=False, separators=(",", ":"))
        return f": {padding}\nevent: {self.kind}\ndata: {data}\n\n".encode()


class Stream:
    """One open stream: asks its parts when they are due, and yields what changed, as server-sent events."""

    def __init__(self, streams: Streams, request: ASGIRequest, parts: list[Part], session: str, account: str) -> None:
        self.session = session
        self.account = account
        self._asking = streams.asking(account)
        self._streams = streams
        self._scope = request.scope
        self._parts = parts
        self._phase = _phase(request)
        self._takes_gzip = "gzip" in request.headers.get("Accept-Encoding", "")

    @property
    def headers(self) -> dict[str, str]:
        """Of the answer. No proxy may keep it, change it, or hold it back."""
        headers = {
            "Content-Type": "text/event-stream; charset=utf-8",
            "Cache-Control": "private, no-store, no-transform",
            "X-Accel-Buffering": "no",
            "Vary": "Accept-Encoding",
        }
        return headers | ({"Content-Encoding": "gzip"} if self._takes_gzip else {})

    async def content(self) -> AsyncGenerator[bytes, None]:
        """What is sent, until the session ends, no part is left, the server stops, or it has lasted long enough."""
        # One compression for all of it: what stays the same in a part costs next to nothing the second time.
        squeeze = zlib.compressobj(9, zlib.DEFLATED, 31, 7) if self._takes_gzip else None

        def packed(text: bytes) -> bytes:
            return text if squeeze is None else squeeze.compress(text) + squeeze.flush(zlib.Z_SYNC_FLUSH)

        _give_back_thread()
        self._streams.watch()
        try:
            yield packed(b"event: open\ndata: {}\n\n")
            # Closed with this one: a generator that is only left holds what it has until somebody collects it.
            async with aclosing(self._events()) as events:
                async for event in events:
                    yield packed(bytes(event) if event else b":\n\n")
            if squeeze is not None:
                yield squeeze.flush()
        finally:
            self._streams.drop(self)

    async def _events(self) -> AsyncGenerator[Event | None, None]:
        """What is to be told; None is a heartbeat."""
        begun = told = time.monotonic()
        while self._parts:
            fair_queue.rest()
            until = min(*(one.due for one in self._parts), told + HEARTBEAT_S, begun + LIFE_S)
            ends = await self._streams.rest(until - time.monotonic())
            if ends or time.monotonic() - begun >= LIFE_S:
                return
            async with self._asking:
                if self._streams.is_ending:
                    return
                await fair_queue.go_on()
                due = [part for part in self._parts if part.due <= time.monotonic() + TOGETHER_S]
                for event in await self._streams.ask(self._scope, due, self._phase, self.session):
                    told = time.monotonic()
                    yield event
                    if event.kind == "redirect":
                        return
                if time.monotonic() - told >= HEARTBEAT_S:
                    told = time.monotonic()
                    yield None
            self._parts = [part for part in self._parts if not part.is_over]


class StreamAnswer(StreamingHttpResponse):
    """The answer that is a stream, which ends with it: also when the client leaves, or takes nothing."""

    def __init__(self, stream: Stream) -> None:
        self._content = stream.content()
        super().__init__(self._content, headers=stream.headers)

    def __aiter__(self) -> AsyncGenerator[bytes, None]:
        # Django closes what this gives; its own would leave ours open.
        return self._content


def _give_back_thread() -> None:
    """Django keeps a thread for each request until it ends, which a stream would keep for nothing."""
    context = SyncToAsync.thread_sensitive_context.get(None)
    executor = SyncToAsync.context_to_thread_executor.pop(context, None) if context else None
    if executor is not None:
        executor.shutdown(wait=False)


async def ask(scope: Mapping[str, Any], parts: list[Part], phase: float, streams: Streams, session: str) -> list[Event]:
    """Ask parts as the browser would, each when it is due; those that say the same are not in the answer.

    What is not asked within a second stays due: the events of the others do not wait for it, and whose session it is
    is looked up anew.
    """
    asked = sync_to_async(_asked, thread_sensitive=False, executor=streams.threads)
    return await asked(scope, parts, phase, streams, session)


def _asked(scope: Mapping[str, Any], parts: list[Part], phase: float, streams: Streams, session: str) -> list[Event]:
    together, told, begun = streams.round_of(session), [], time.monotonic()
    close_old_connections()
    try:
        for one in parts:
            now = time.monotonic()
            if streams.is_ending or now - begun > FRESH_S:
                break
            response = _handler().get_response(ASGIRequest(together.into(_scope_of(scope, one)), BytesIO()))
            try:
                event = _told(one, response)
            finally:
                # Django closes what a request has opened with it; the next part goes on with it.
                _keep_connections(None)
                response.close()
                one.asked(now, phase)
            if event is not None:
                told.append(event)
                if event.kind == "redirect":
                    break
    finally:
        _keep_connections(0.0)
        close_old_connections()
    return told


def _keep_connections(until: float | None) -> None:
    for connection in connections.all(initialized_only=True):
        connection.close_at = until


def _forget(asking: asyncio.Future[Any]) -> None:
    """Nobody waits for it any more, whatever became of it."""
    if not asking.cancelled():
        asking.exception()


def _told(one: Part, response: HttpResponseBase) -> Event | None:
    """What an answer means for the browser; notes in the part what is asked next, and whether it is over."""
    if response.status_code == HTTPStatus.NO_CONTENT:
        return None
    if address := response.headers.get("HX-Redirect"):
        return Event("redirect", {"to": address})
    kind = _kind(response)
    text = response.content.decode() if isinstance(response, HttpResponse) and kind != "yours" else ""
    was_away = one.mark.startswith(_AWAY)
    if kind == "outage":
        one.mark = f"{_AWAY} {response.status_code}"
        return None if was_away else Event(kind, {"path": one.name, "html": text})
    if kind == "part":
        return _news(one, response, text, was_away)
    one.is_over = True
    return Event(kind, {"path": one.name, "reason": text[:500]})


def _news(one: Part, response: HttpResponseBase, html: str, was_away: bool) -> Event | None:
    follow = response.headers.get(FOLLOW)
    if follow is None:
        one.mark = response.headers[HEADER]
        every = _EVERY.match(html)
        one.every_s = _within(float(every[1])) if every else one.every_s
        one.is_over = every is None
        return Event("part", {"path": one.name, "mark": one.mark, "html": html})
    if follow == one.path and not was_away:
        return None
    one.path, one.mark = follow, "none"
    told = {name: value for name, value in response.headers.items() if name.startswith(_TOLD)}
    return Event("part", {"path": one.name, "html": html, "told": told})


def _kind(response: HttpResponseBase) -> str:
    """What is neither shown, nor an outage, nor refused is left to the browser, which asks for it by itself."""
    if not isinstance(response, HttpResponse) or len(response.content) > MOST_BYTES:
        return "yours"
    if response.status_code in (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND):
        return "refused"
    if FOLLOW not in response.headers and not response.headers.get("Content-Type", "").startswith("text/html"):
        return "yours"
    if response.status_code in _OUTAGES:
        return "outage"
    return "part" if response.status_code == HTTPStatus.OK and HEADER in response.headers else "yours"


def _scope_of(scope: Mapping[str, Any], one: Part) -> dict[str, Any]:
    """The request for a part, of the same connection and session as the stream's."""
    path, _, query = one.path.partition("?")
    headers: Iterable[tuple[bytes, bytes]] = (pair for pair in scope["headers"] if pair[0] not in _NOT_OURS)
    return {
        **scope,
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [*headers, (b"hx-request", b"true"), (HEADER.lower().encode(), one.mark.encode())],
    }


@cache
def _handler() -> BaseHandler:
    handler = BaseHandler()
    handler.load_middleware()
    return handler


streams = Streams()
