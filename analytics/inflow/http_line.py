"""A line to an address that a task's owner typed in: requests by POST, and what is told of them that fail.

A request goes to public addresses and to networks that the administrator lists: the name is resolved here, each of its
addresses is judged, and the connection goes to one that passed. Redirects are not followed, proxies of the environment
are not used, no more is read than what is allowed, and an answer has its time, whoever drips it.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import queue
import re
import select
import socket
import ssl
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead, RemoteDisconnected
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from analytics.errors import AnalyticsError
from brokercore.addresses import Network, Resolve, may_reach, resolve

_LONGEST_URL = 2048
_VISIBLE = re.compile(r"[\x21-\x7e]+")
#: One of several addresses is tried for so long before the next one, s; so many of a name are tried.
_CONNECT_S, _MOST_ADDRESSES = 1.5, 8
#: How long a connection may have rested to be used again, s: most servers keep one for longer.
_REST_S = 4.0
#: Bytes of an answer whose content nobody needs, and seconds, as far as it is read: for a sentence, and to use the
#: connection again.
_MOST_REST, _REST_READ_S = 16 << 10, 1.0
#: Statuses that may be another one later, beside those of servers: Request Timeout, Too Early, Too Many Requests.
_PASSING = frozenset({408, 425, 429})


def sign(key: bytes, body: bytes) -> str:
    """What the header `x-gantry-signature` has for a body."""
    return f"sha256={hmac.new(key, body, hashlib.sha256).hexdigest()}"


def checked(url: str, what: str) -> SplitResult:
    """The parts of the URL of `what`, such as "a function". Raises ValueError with a sentence for what is no URL."""
    wrong = ValueError(
        f"{what[:1].upper()}{what[1:]}'s URL begins with http:// or https://, has a host, no user, and up to"
        f" {_LONGEST_URL:,} visible ASCII characters."
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


def port_of(parts: SplitResult) -> int:
    """The port that a URL which `checked` lets pass is connected to: its own, else that of its scheme."""
    return parts.port or (443 if parts.scheme == "https" else 80)


class Unanswered(AnalyticsError):  # noqa: N818
    """There was no answer; the message is a sentence.

    `is_forbidden` tells that no request may go there, until somebody allows it.
    """

    def __init__(self, message: str, *, is_forbidden: bool = False) -> None:
        super().__init__(message)
        self.is_forbidden = is_forbidden


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer. Of the content a byte more than is allowed is read; of one that nobody needs the beginning."""

    status: int
    encoding: str
    #: Seconds that are to pass before another request, as Retry-After says.
    pause_s: float
    content: bytes

    @property
    def is_taken(self) -> bool:
        """Whether the request was taken: 2xx."""
        return 200 <= self.status < 300

    @property
    def is_elsewhere(self) -> bool:
        """Whether it tells another address."""
        return 300 <= self.status < 400

    @property
    def may_pass(self) -> bool:
        """Whether the same request may be taken another time."""
        return self.status in _PASSING or self.status >= 500


class Line:
    """The connection to one address, opened when it is needed. For one thread at a time."""

    def __init__(
        self, url: str, what: str = "endpoint", networks: Collection[Network] = (), resolver: Resolve = resolve
    ) -> None:
        """`networks` may be reached beside public addresses. Raises ValueError for what is no URL."""
        article = "an" if what[0] in "aeiou" else "a"
        parts = checked(url, f"{article} {what}")
        self.host = parts.hostname or ""
        #: What sentences call the other end.
        self.where = f"The {what} at {self.host}"
        self._line = _Connection(parts, tuple(networks), resolver)

    def ask(self, body: bytes, headers: Mapping[str, str], answer_s: float, most: int | None = None) -> Answer:
        """The answer to a request. With `most`, so many bytes of one that was taken are needed, and all it has.

        Raises Unanswered.
        """
        deadline = _Deadline(answer_s)
        try:
            return self._line.ask(body, dict(headers), deadline, most)
        except (OSError, HTTPException) as error:
            raise self._unanswered(TimeoutError() if deadline.is_over else error, answer_s) from error
        finally:
            deadline.end()

    def require_reachable(self, wait_s: float) -> None:
        """Raises Unanswered for a name that has no address now, or none that a request may go to."""
        try:
            self._line.addresses(wait_s)
        except OSError as error:
            raise self._unanswered(error, wait_s) from error

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        self._line.close()

    def _unanswered(self, error: OSError | HTTPException, answer_s: float) -> Unanswered:
        if isinstance(error, _ForbiddenError):
            # What a name stands for within the platform's network is not told.
            return Unanswered(
                f"{self.where} has no public address, nor one that the platform's administrator allows.",
                is_forbidden=True,
            )
        if isinstance(error, _ClosedError):
            return Unanswered(
                f"{self.where} cannot be reached: the engine may not connect to its port {error.port}, which the"
                " platform's administrator opens by GANTRY_ENGINE_PORTS.",
                is_forbidden=True,
            )
        if isinstance(error, socket.gaierror) and _asks_no_name_server():
            return Unanswered(
                f"The name {self.host} cannot be looked up: the engine asks name servers only where the platform's"
                " administrator has opened ports by GANTRY_ENGINE_PORTS.",
                is_forbidden=True,
            )
        return Unanswered(self._sentence(error, answer_s))

    def _sentence(self, error: OSError | HTTPException, answer_s: float) -> str:
        match error:
            case TimeoutError():
                return f"{self.where} did not answer within {answer_s:g} s."
            case socket.gaierror():
                return f"The name {self.host} has no address."
            case ssl.SSLError():
                return f"{self.where} shows no certificate that can be trusted: {_reason(error)}."
            case _RefusedError():
                return f"{self.where} could not be connected to: {_reason(error)}."
            case RemoteDisconnected() | IncompleteRead() | OSError():
                return f"The connection to {self.host} broke before the whole answer was there."
            case _:
                return f"What {self.host} answered is no HTTP: {_reason(error)}."


def _asks_no_name_server() -> bool:
    """Whether this process may not use UDP, as behind the wall around the engine."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM):
            return False
    except OSError:
        return True


class _ForbiddenError(OSError):
    """No address that a request may go to."""


class _ClosedError(OSError):
    """A port that the wall around the engine does not open."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.port = port


class _RefusedError(OSError):
    """No connection to any of the addresses."""


class _Deadline:
    """When an answer has to be there: then the connection is cut, also under one who gets a byte now and then."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._has_ended = False
        self.is_over = False
        self._timer = self._started(seconds)

    def left_s(self) -> float:
        """Seconds until then. Raises TimeoutError when there are none."""
        left = self._at - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def hurry(self, seconds: float) -> None:
        """From now on no longer than this."""
        self._timer.cancel()
        self._timer = self._started(max(0.0, min(seconds, self._at - time.monotonic())))

    def watch(self, opened: socket.socket) -> None:
        """Cut this one."""
        with self._lock:
            self._socket = opened

    def end(self) -> None:
        """Cut nothing more."""
        with self._lock:
            self._has_ended = True
        self._timer.cancel()

    def _started(self, seconds: float) -> threading.Timer:
        timer = threading.Timer(seconds, self._cut)
        timer.daemon = True
        timer.start()
        return timer

    def _cut(self) -> None:
        with self._lock:
            if not self._has_ended:
                self.is_over = True
                if self._socket is not None:
                    with contextlib.suppress(OSError):
                        self._socket.shutdown(socket.SHUT_RDWR)


class _Connection:
    """The connection, and what is known of it."""

    def __init__(self, parts: SplitResult, networks: tuple[Network, ...], resolver: Resolve) -> None:
        self._is_https = parts.scheme == "https"
        self._host, self._port = parts.hostname or "", port_of(parts)
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

    def ask(self, body: bytes, headers: dict[str, str], deadline: _Deadline, most: int | None) -> Answer:
        """Ask once; again where a connection that was kept turns out to be closed. Raises OSError, HTTPException."""
        try:
            if self._is_kept():
                try:
                    return self._exchange(body, headers, deadline, most)
                except (RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                    deadline.left_s()
            self.close()
            return self._exchange(body, headers, deadline, most)
        except BaseException:
            self.close()
            raise

    def _is_kept(self) -> bool:
        if self._connection is None or self._plain is None or time.monotonic() - self._used >= _REST_S:
            return False
        poll = select.poll()  # not select(), which knows no file beyond 1023
        poll.register(self._plain, select.POLLIN)
        return not poll.poll(0)  # nothing but its end could be there to read

    def _exchange(self, body: bytes, headers: dict[str, str], deadline: _Deadline, most: int | None) -> Answer:
        connection = self._connection
        if connection is None:
            connection = self._connection = self._new(deadline)
        elif connection.sock is not None and self._plain is not None:
            connection.sock.settimeout(deadline.left_s())
            deadline.watch(self._plain)
        connection.request("POST", self._target, body, headers)
        response = connection.getresponse()
        deadline.left_s()  # a head that was cut looks like a whole one
        is_needed = most is not None and 200 <= response.status < 300
        content = self._read(response, deadline, most or 0) if is_needed else _rest(response, deadline)
        if response.will_close or not response.isclosed() or deadline.is_over:
            self.close()
        self._used = time.monotonic()
        encoding = (response.getheader("content-encoding") or "").lower()
        return Answer(response.status, encoding, _pause_s(response.getheader("retry-after", "")), content)

    def _read(self, response: HTTPResponse, deadline: _Deadline, most: int) -> bytes:
        content = response.read(most + 1)
        if response.length and len(content) <= most:  # http.client takes an early end for the end
            raise IncompleteRead(content, response.length)
        deadline.left_s()  # what ended because it was cut is no answer
        return content

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
        for address in others:
            with contextlib.suppress(OSError):
                return self._watched(
                    socket.create_connection((address, self._port), min(_CONNECT_S, deadline.left_s())), deadline
                )
        try:
            return self._watched(socket.create_connection((last, self._port), deadline.left_s()), deadline)
        except TimeoutError:
            raise
        except PermissionError as error:
            raise _ClosedError(self._port) from error
        except OSError as error:
            raise _RefusedError(error.strerror or str(error)) from error

    def _watched(self, opened: socket.socket, deadline: _Deadline) -> socket.socket:
        opened.settimeout(deadline.left_s())
        self._plain = opened.dup()
        deadline.watch(self._plain)
        return opened

    def addresses(self, wait_s: float) -> list[str]:
        """The addresses that a request may go to. Raises _ForbiddenError, OSError."""
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

        threading.Thread(target=ask, name="the name of an address", daemon=True).start()
        try:
            found = told.get(timeout=wait_s)
        except queue.Empty:
            raise TimeoutError from None
        if isinstance(found, OSError):
            raise found
        return found


def _rest(response: HTTPResponse, deadline: _Deadline) -> bytes:
    """The beginning of what nobody needs: that it does not come, or breaks, is no matter once the status is there."""
    deadline.hurry(_REST_READ_S)
    try:
        return response.read(_MOST_REST)
    except (OSError, HTTPException):
        return b""


def _pause_s(text: str) -> float:
    """Seconds of a header Retry-After: a number of them, or a time (RFC 9110, 10.2.3); 0 for anything else."""
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return 0.0


def _reason(error: Exception) -> str:
    words = getattr(error, "verify_message", "") or getattr(error, "strerror", "") or str(error)
    return " ".join(str(words).split())[:120].rstrip(".") or type(error).__name__
