"""Transforms by a function that the task's owner runs: a request with the batch, an answer with what it becomes.

    POST <url>
    content-type: application/json
    x-gantry-request-id: the same for all tries of a batch
    x-gantry-signature: sha256=<HMAC-SHA256 over the body with the function's key, hexadecimal>

    [{"specversion": "1.0", "id": …}, …]

It answers 200 and a JSON array of events, of as many as it likes. What it answers else, or how, is told as a sentence;
where it may be another time, it is asked again after a pause. So a function may get a batch twice.

A request goes to public addresses and to networks that the administrator lists: the name is resolved here, each of its
addresses is judged, and the connection goes to one that passed. Redirects are not followed, proxies of the environment
are not used, and no more is read than what is allowed.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import queue
import random
import re
import select
import socket
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection, IncompleteRead, RemoteDisconnected
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from analytics.inflow.transform import Event, Transformed, TransformFailed, pieces
from brokercore.addresses import Network, may_reach, resolve

Resolve = Callable[[str], list[str]]

#: How long a function has for its answer, with the resolving of its name and the connecting, s.
ANSWER_S = 30.0
#: Between two tries, s; up to half of it is added, so that tasks do not come together.
PAUSES_S = (0.5, 1.0, 2.0)
#: What a function may ask for by Retry-After, s.
_LONGEST_PAUSE_S = 30.0
#: Bytes of a request, of which a batch makes several if it has more; and of an answer.
MOST_REQUEST, MOST_ANSWER = 6 << 20, 8 << 20
_LONGEST_URL = 2048
_VISIBLE = re.compile(r"[\x21-\x7e]+")
#: One of several addresses is tried for so long before the next one, s; so many of a name are tried.
_CONNECT_S, _MOST_ADDRESSES = 1.5, 8
#: How long a connection may have rested to be used again, s: most servers keep one for longer.
_REST_S = 4.0
#: Statuses that may be another one later: 408, 425, 429, and those of servers.
_PASSING = frozenset({408, 425, 429})


def sign(key: bytes, body: bytes) -> str:
    """What the header `x-gantry-signature` has for a body."""
    return f"sha256={hmac.new(key, body, hashlib.sha256).hexdigest()}"


class HttpFunction:
    """A transform by a function. It keeps a connection between batches; safe in threads, which take turns."""

    def __init__(
        self,
        url: str,
        key: bytes,
        *,
        networks: Collection[Network] = (),
        answer_s: float = ANSWER_S,
        pauses_s: Sequence[float] = PAUSES_S,
        given_up: threading.Event | None = None,
        resolver: Resolve = resolve,
    ) -> None:
        """`key` signs the requests. `networks` may be reached beside public addresses.

        Who sets `given_up` ends the pauses between two tries. Raises TransformFailed for what is no URL of a function.
        """
        self._parts = _checked(url)
        self.host = self._parts.hostname or ""
        self._key, self._answer_s, self._pauses_s = key, answer_s, pauses_s
        self._given_up = given_up or threading.Event()
        self._lock = threading.Lock()
        self._line = _Line(self._parts, tuple(networks), resolver)

    def require_reachable(self) -> None:
        """Raises TransformFailed for a name that has no address now, or none that a request may go to."""
        with self._lock:
            try:
                self._line.addresses(self._answer_s)
            except OSError as error:
                raise self._failed(error, is_late=False) from error

    def apply(self, events: Sequence[Event]) -> Transformed:
        """What the function makes of a batch; of which event it made what is not known. Raises TransformFailed."""
        done = Transformed()
        with self._lock:
            for begin, piece in pieces(events, MOST_REQUEST):
                if len(piece[0]) > MOST_REQUEST:
                    done.failed[begin] = f"The event has more than {MOST_REQUEST >> 20} MiB, which no function gets."
                    continue
                answer = self._asked(b"[" + b",".join(piece) + b"]")
                done.add(answer, None, f"the function at {self.host}")
        return done

    def close(self) -> None:
        """Close the connection; the next batch opens another."""
        with self._lock:
            self._line.close()

    def _asked(self, body: bytes) -> bytes:
        headers = {
            "accept": "application/json",
            "accept-encoding": "identity",
            "content-type": "application/json",
            "user-agent": "Gantry",
            "x-gantry-request-id": str(uuid.uuid4()),
            "x-gantry-signature": sign(self._key, body),
        }
        for pause_s in (*self._pauses_s, None):
            try:
                return self._asked_once(body, headers)
            except _Passing as failed:
                if pause_s is None or self._given_up.wait(max(failed.pause_s, pause_s * random.uniform(1, 1.5))):
                    raise
        raise AssertionError("the last try has no pause behind it")

    def _asked_once(self, body: bytes, headers: dict[str, str]) -> bytes:
        deadline = _Deadline(self._answer_s)
        try:
            answer = self._line.ask(body, headers, deadline)
        except (OSError, HTTPException) as error:
            raise self._failed(error, is_late=deadline.is_over) from error
        finally:
            deadline.end()
        where = f"The function at {self.host}"
        if answer.status in _PASSING or answer.status >= 500:
            raise _Passing(f"{where} answers with status {answer.status}.", answer.pause_s)
        if 300 <= answer.status < 400:
            raise TransformFailed(
                f"{where} redirects to another address (status {answer.status}), which is not followed."
            )
        if not 200 <= answer.status < 300:
            raise TransformFailed(f"{where} answers with status {answer.status}; 200 is allowed.")
        if answer.encoding not in ("", "identity"):
            raise TransformFailed(f"{where} packs its answer as {answer.encoding[:20]}, which it was not asked for.")
        if len(answer.content) > MOST_ANSWER:
            raise TransformFailed(f"{where} answers with more than {MOST_ANSWER >> 20} MiB.")
        return answer.content

    def _failed(self, error: OSError | HTTPException, *, is_late: bool) -> TransformFailed:
        if isinstance(error, _ForbiddenError):
            # What a name stands for within the platform's network is not told.
            return TransformFailed(
                f"The function at {self.host} has no public address, nor one that the platform's administrator allows."
            )
        return _Passing(self._sentence(TimeoutError() if is_late else error))

    def _sentence(self, error: OSError | HTTPException) -> str:
        where = f"The function at {self.host}"
        match error:
            case TimeoutError():
                return f"{where} did not answer within {self._answer_s:g} s."
            case socket.gaierror():
                return f"The name {self.host} has no address."
            case ssl.SSLError():
                return f"{where} shows no certificate that can be trusted: {_reason(error)}."
            case _RefusedError():
                return f"{where} could not be connected to: {_reason(error)}."
            case RemoteDisconnected() | IncompleteRead() | OSError():
                return f"The connection to {self.host} broke before the whole answer was there."
            case _:
                return f"What {self.host} answered is no HTTP: {_reason(error)}."


class _Passing(TransformFailed):
    """It may be different later, and is worth no try within so many seconds."""

    def __init__(self, message: str, pause_s: float = 0.0) -> None:
        super().__init__(message, retryable=True)
        self.pause_s = pause_s


class _ForbiddenError(OSError):
    """No address that a request may go to."""


class _RefusedError(OSError):
    """No connection to any of the addresses."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """Of the body a byte more than is allowed is read. `pause_s` is what the function asks for by Retry-After."""

    status: int
    encoding: str
    pause_s: float
    content: bytes


class _Deadline:
    """When an answer has to be there: then the connection is cut, also under one who gets a byte now and then."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._has_ended = False
        self.is_over = False
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True
        self._timer.start()

    def left_s(self) -> float:
        """Seconds until then. Raises TimeoutError when there are none."""
        left = self._at - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def watch(self, opened: socket.socket) -> None:
        """Cut this one."""
        with self._lock:
            self._socket = opened

    def end(self) -> None:
        """Cut nothing more."""
        with self._lock:
            self._has_ended = True
        self._timer.cancel()

    def _cut(self) -> None:
        with self._lock:
            if not self._has_ended:
                self.is_over = True
                if self._socket is not None:
                    with contextlib.suppress(OSError):
                        self._socket.shutdown(socket.SHUT_RDWR)


class _Line:
    """The connection to one function, opened when it is needed."""

    def __init__(self, parts: SplitResult, networks: tuple[Network, ...], resolver: Resolve) -> None:
        self._is_https = parts.scheme == "https"
        self._host, self._port = parts.hostname or "", parts.port
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._networks, self._resolver = networks, resolver
        self._context = ssl.create_default_context() if self._is_https else None
        self._connection: HTTPConnection | None = None
        #: The same socket below TLS.
        self._plain: socket.socket | None = None
        self._used = 0.0

    def close(self) -> None:
        """Close it, if it is open."""
        for one in (self._connection, self._plain):
            if one is not None:
                with contextlib.suppress(OSError):
                    one.close()
        self._connection = self._plain = None

    def ask(self, body: bytes, headers: dict[str, str], deadline: _Deadline) -> _Answer:
        """Ask once; again where a connection that was kept turns out to be closed. Raises OSError, HTTPException."""
        try:
            if self._is_kept():
                try:
                    return self._exchange(body, headers, deadline)
                except (RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                    deadline.left_s()
            self.close()
            return self._exchange(body, headers, deadline)
        except BaseException:
            self.close()
            raise

    def _is_kept(self) -> bool:
        if self._connection is None or self._plain is None or time.monotonic() - self._used >= _REST_S:
            return False
        poll = select.poll()  # not select(), which knows no file beyond 1023
        poll.register(self._plain, select.POLLIN)
        return not poll.poll(0)  # nothing but its end could be there to read

    def _exchange(self, body: bytes, headers: dict[str, str], deadline: _Deadline) -> _Answer:
        connection = self._connection
        if connection is None:
            connection = self._connection = self._new(deadline)
        elif connection.sock is not None and self._plain is not None:
            connection.sock.settimeout(deadline.left_s())
            deadline.watch(self._plain)
        connection.request("POST", self._target, body, headers)
        response = connection.getresponse()
        content = b""
        if 200 <= response.status < 300:
            content = response.read(MOST_ANSWER + 1)
            if response.length and len(content) <= MOST_ANSWER:  # http.client takes an early end for the end
                raise IncompleteRead(content, response.length)
        deadline.left_s()  # what ended because it was cut is no answer
        if response.will_close or not response.isclosed():
            self.close()
        self._used = time.monotonic()
        pause = response.getheader("retry-after", "")
        pause_s = min(float(pause), _LONGEST_PAUSE_S) if pause.isascii() and pause.isdecimal() else 0.0
        return _Answer(response.status, (response.getheader("content-encoding") or "").lower(), pause_s, content)

    def _new(self, deadline: _Deadline) -> HTTPConnection:
        wait_s = deadline.left_s()
        if self._is_https:
            made: HTTPConnection = HTTPSConnection(self._host, self._port, timeout=wait_s, context=self._context)
        else:
            made = HTTPConnection(self._host, self._port, timeout=wait_s)
        made._create_connection = lambda *_: self._open(deadline)  # type: ignore[attr-defined]  # before TLS begins
        return made

    def _open(self, deadline: _Deadline) -> socket.socket:
        *others, last = self.addresses(deadline.left_s())
        port = self._port or (443 if self._is_https else 80)
        for address in others:
            with contextlib.suppress(OSError):
                return self._watched(
                    socket.create_connection((address, port), min(_CONNECT_S, deadline.left_s())), deadline
                )
        try:
            return self._watched(socket.create_connection((last, port), deadline.left_s()), deadline)
        except TimeoutError:
            raise
        except OSError as error:
            raise _RefusedError(error.strerror or str(error)) from error

    def _watched(self, opened: socket.socket, deadline: _Deadline) -> socket.socket:
        opened.settimeout(deadline.left_s())
        self._plain = opened.dup()
        deadline.watch(self._plain)
        return opened

    def addresses(self, wait_s: float) -> list[str]:
        """The addresses of the function that a request may go to. Raises _ForbiddenError, OSError."""
        found = [address for address in self._resolved(wait_s) if may_reach(address, self._networks)]
        if not found:
            raise _ForbiddenError
        return found[:_MOST_ADDRESSES]

    def _resolved(self, wait_s: float) -> list[str]:
        """Name servers may take their time: who waits no longer leaves the thread to itself."""
        with contextlib.suppress(ValueError):
            return [str(ip_address(self._host))]
        told: queue.SimpleQueue[list[str] | OSError] = queue.SimpleQueue()

        def ask() -> None:
            try:
                told.put(self._resolver(self._host))
            except OSError as error:
                told.put(error)

        threading.Thread(target=ask, name="the name of a function", daemon=True).start()
        try:
            found = told.get(timeout=wait_s)
        except queue.Empty:
            raise TimeoutError from None
        if isinstance(found, OSError):
            raise found
        return found


def _checked(url: str) -> SplitResult:
    """The parts of a URL. Raises TransformFailed for what is no URL of a function."""
    wrong = TransformFailed(
        f"A function's URL begins with http:// or https://, has a host, no user, and up to {_LONGEST_URL:,} visible"
        " ASCII characters."
    )
    if len(url) > _LONGEST_URL or not _VISIBLE.fullmatch(url):
        raise wrong
    try:
        parts = urlsplit(url)
        is_wrong = parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0
    except ValueError as error:  # a port that is no number, an address in brackets that is none
        raise wrong from error
    if is_wrong or "@" in parts.netloc:
        raise wrong
    return parts


def _reason(error: Exception) -> str:
    words = getattr(error, "verify_message", "") or getattr(error, "strerror", "") or str(error)
    return " ".join(str(words).split())[:120].rstrip(".") or type(error).__name__
