"""The HTTP connection over a real socket: what it takes, what it refuses, and how both end."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Iterator
from typing import NamedTuple

import pytest
import uvloop

from brokercore.smq.server import http
from brokercore.smq.server.http import AHEAD, MAX_BODY, MAX_HEAD, MAX_HEADERS, Answer, HttpConnection, Request
from brokercore.smq.wire.errors import Code, SmqError
from tests.support.broker import eventually

pytestmark = pytest.mark.process
PATIENCE_SECONDS = 40.0
LARGE = 1 << 20


class Desk:
    """Answers by the path: `/hold` when the test lets it, `/refused` never, `/broken` fails, all else at once."""

    def __init__(self) -> None:
        self.noted: list[tuple[str, Code | None]] = []
        self.taken: list[Request[str]] = []
        self.left: list[str] = []
        self.released = asyncio.Event()

    def admit(self, request: Request[str]) -> str:
        if request.target == "/refused":
            raise SmqError(Code.ACCESS_DENIED, "You have no right.")
        return request.target

    def note(self, request: Request[str], code: Code | None) -> None:
        self.noted.append((request.target, code))

    async def carry_out(self, request: Request[str]) -> Answer:
        self.taken.append(request)
        if request.target.startswith("/hold"):
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                self.left.append(request.target)
                raise
        if request.target == "/broken":
            raise ValueError("a secret of the inside")
        if request.target == "/large":
            return Answer(200, b"x" * LARGE)
        if request.target == "/nothing":
            return Answer(204)
        return Answer(200, f"<a>{request.method} {request.target} {len(request.body)}</a>".encode())


class Door:
    """A listening server on a loop of its own, as the process has it."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self.desk: Desk
        self._loop: asyncio.AbstractEventLoop
        self._ready = threading.Event()
        self._stop: asyncio.Event
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE_SECONDS)

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._run())

    async def _run(self) -> None:
        self.desk, self._stop, self._loop = Desk(), asyncio.Event(), asyncio.get_running_loop()

        def run(work: Awaitable[None]) -> asyncio.Task[None]:
            return asyncio.ensure_future(work)

        server = await self._loop.create_server(
            lambda: HttpConnection(self.desk, "http://host", run), sock=self._socket
        )
        self._ready.set()
        await self._stop.wait()
        server.close()

    def release(self) -> None:
        """Let what holds be answered."""
        self._loop.call_soon_threadsafe(self.desk.released.set)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE_SECONDS)


class Seen(NamedTuple):
    """An answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes


class Client:
    """A connection of bytes."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
        self._bytes = b""

    def send(self, data: bytes) -> Client:
        self.socket.sendall(data)
        return self

    def get(self, target: str = "/x", version: str = "1.1", more: str = "") -> Client:
        return self.send(f"GET {target} HTTP/{version}\r\nHost: h\r\n{more}\r\n".encode())

    def answer(self, *, bodyless: bool = False) -> Seen:
        """The next answer. Raises EOFError when the connection ended before it."""
        head = self._until(b"\r\n\r\n").decode("latin-1")
        line, *lines = head.rstrip().split("\r\n")
        headers = dict(one.split(": ", 1) for one in lines)
        size = 0 if bodyless else int(headers.get("Content-Length", 0))
        while len(self._bytes) < size:
            self._read()
        body, self._bytes = self._bytes[:size], self._bytes[size:]
        return Seen(int(line.split(" ")[1]), headers, body)

    def has_ended(self) -> bool:
        """Wait for the end; False when something came instead."""
        try:
            return self._bytes == b"" and self.socket.recv(1000) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self.socket.close()

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._bytes:
            self._read()
        found, _, self._bytes = self._bytes.partition(mark)
        return found + mark

    def _read(self) -> None:
        data = self.socket.recv(1 << 16)
        if not data:
            raise EOFError
        self._bytes += data


@pytest.fixture
def door() -> Iterator[Door]:
    found = Door()
    yield found
    found.close()


@pytest.fixture
def client(door: Door) -> Iterator[Client]:
    found = Client(door.port)
    yield found
    found.close()


def is_refusal(seen: Seen, words: str) -> bool:
    """True for the last answer of a connection, whose sentence has these words."""
    assert b"<Code>InvalidArgument</Code>" in seen.body, seen
    assert words.encode() in seen.body, seen
    return (seen.status, seen.headers["Connection"]) == (400, "close")


# --- What is taken


def test_a_connection_is_kept_and_answers_one_after_the_other(client: Client) -> None:
    for number in range(5):
        seen = client.get(f"/{number}").answer()
        assert (seen.status, seen.body) == (200, f"<a>GET /{number} 0</a>".encode())
        assert seen.headers["Connection"] == "keep-alive"


def test_headers_are_spelled_as_the_sdks_look_them_up(client: Client) -> None:
    headers = client.get().answer().headers
    assert {"x-mns-request-id", "x-mns-version", "Content-Type", "Content-Length", "Date"} <= set(headers)
    assert headers["Content-Type"] == "text/xml;charset=utf-8"
    assert client.get("/nothing").answer().headers.keys().isdisjoint({"Content-Type", "Content-Length"})


def test_each_request_has_an_id_of_its_own(client: Client) -> None:
    assert client.get().answer().headers["x-mns-request-id"] != client.get().answer().headers["x-mns-request-id"]


def test_a_request_may_come_byte_by_byte(client: Client) -> None:
    client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc":
        client.send(bytes((byte,)))
    assert client.answer().body == b"<a>POST /x 3</a>"


def test_bodies_come_whole_in_chunks_and_on_deletes(client: Client, door: Door) -> None:
    client.send(b"PUT /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;note=1\r\ndefg\r\n0\r\n\r\n")
    assert client.answer().body == b"<a>PUT /x 7</a>"
    client.send(b"DELETE /y HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi")
    assert client.answer().body == b"<a>DELETE /y 2</a>"
    assert [request.body for request in door.desk.taken] == [b"abcdefg", b"hi"]


def test_headers_after_a_body_in_chunks_change_nothing_of_what_was_judged(client: Client, door: Door) -> None:
    client.send(b"PUT /x HTTP/1.1\r\nx-mns-account: mine\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n")
    client.send(b"x-mns-account: other\r\ncontent-md5: x\r\n\r\n")
    assert client.answer().status == 200
    assert door.desk.taken[0].headers == {"x-mns-account": "mine", "transfer-encoding": "chunked"}


def test_a_body_as_large_as_any_may_be_is_taken(client: Client) -> None:
    client.send(b"POST /x HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % MAX_BODY + b"x" * MAX_BODY)
    assert client.answer().body == f"<a>POST /x {MAX_BODY}</a>".encode()


@pytest.mark.parametrize("target", ["/x", "/refused"])
def test_who_waits_to_send_a_body_is_told_to_go_on(client: Client, target: str) -> None:
    client.send(f"POST {target} HTTP/1.1\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n".encode())
    assert client.answer(bodyless=True).status == 100
    assert client.send(b"ab").answer().status == (403 if target == "/refused" else 200)
    assert client.get().answer().status == 200


def test_http_1_0_gets_one_answer_unless_it_asks_for_more(door: Door) -> None:
    once = Client(door.port)
    assert once.get(version="1.0").answer().headers["Connection"] == "close"
    assert once.has_ended()
    kept = Client(door.port)
    for _ in range(2):
        seen = kept.get(version="1.0", more="Connection: keep-alive\r\n").answer()
        assert (seen.status, seen.headers["Connection"]) == (200, "keep-alive")


def test_a_client_that_wants_one_answer_gets_one(client: Client) -> None:
    assert client.get(more="Connection: close\r\n").get("/y").answer().body == b"<a>GET /x 0</a>"
    assert client.has_ended()


def test_an_offer_to_change_the_protocol_is_passed_over(client: Client) -> None:
    """Java's own HTTP client makes it with its first request."""
    offer = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\n"
    client.get("/1", more=offer).get("/2", more=offer).get("/3")
    assert [client.answer().body for _ in range(3)] == [f"<a>GET /{number} 0</a>".encode() for number in (1, 2, 3)]
    client.send(f"POST /4 HTTP/1.1\r\n{offer}Content-Length: 3\r\n\r\nabc".encode()).get("/5")
    assert is_refusal(client.answer(), "has a body and asks for another protocol")
    assert client.has_ended()


def test_an_answer_to_head_has_no_body(client: Client) -> None:
    client.send(b"HEAD /x HTTP/1.1\r\n\r\n")
    assert int(client.answer(bodyless=True).headers["Content-Length"]) > 0
    assert client.get("/next").answer().body == b"<a>GET /next 0</a>"


# --- Several at once


def test_requests_sent_ahead_are_answered_in_order(client: Client, door: Door) -> None:
    client.get("/hold")
    for number in range(3 * AHEAD):
        client.get(f"/{number}")
    eventually(lambda: door.desk.taken, PATIENCE_SECONDS)
    door.release()
    assert client.answer().body == b"<a>GET /hold 0</a>"
    assert [client.answer().body for _ in range(3 * AHEAD)] == [
        f"<a>GET /{number} 0</a>".encode() for number in range(3 * AHEAD)
    ]


def test_who_sends_ahead_without_end_is_not_read_any_further(client: Client, door: Door) -> None:
    request = b"POST /x HTTP/1.1\r\nContent-Length: 50000\r\n\r\n" + b"x" * 50_000
    client.get("/hold")
    eventually(lambda: door.desk.taken, PATIENCE_SECONDS)
    client.socket.settimeout(1)
    sent = 0
    with pytest.raises(TimeoutError):
        while sent < 2000:  # 100 MB, where sockets hold some
            client.send(request)
            sent += 1
    assert sent < 2000
    client.socket.settimeout(PATIENCE_SECONDS)
    door.release()
    assert [client.answer().status for _ in range(1 + AHEAD)] == [200] * (1 + AHEAD)


def test_who_does_not_read_the_answers_gets_no_more_of_them(
    client: Client, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "ANSWER_SECONDS", 1.0)
    client.socket.settimeout(5)
    request = b"POST /large HTTP/1.1\r\nContent-Length: 50000\r\n\r\n" + b"x" * 50_000
    with pytest.raises((TimeoutError, ConnectionError)):
        for _ in range(2000):
            client.send(request)
    assert len(door.desk.taken) < 200
    client.socket.settimeout(PATIENCE_SECONDS)
    with pytest.raises((EOFError, ConnectionError)):
        for _ in range(200):
            client.answer()


# --- What is refused


def test_a_refused_request_leaves_its_connection_as_it_was(client: Client, door: Door) -> None:
    client.send(b"POST /refused HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc").get("/next")
    refused = client.answer()
    assert (refused.status, refused.headers["Connection"]) == (403, "keep-alive")
    assert b'<Error xmlns="http://mns.aliyuncs.com/doc/v1"><Code>AccessDenied</Code>' in refused.body
    assert f"<RequestId>{refused.headers['x-mns-request-id']}</RequestId>".encode() in refused.body
    assert client.answer().body == b"<a>GET /next 0</a>"
    assert [request.target for request in door.desk.taken] == ["/next"]


def test_what_fails_inside_is_not_told(client: Client) -> None:
    seen = client.get("/broken").answer()
    assert seen.status == 500
    assert b"InternalError" in seen.body
    assert b"secret" not in seen.body
    assert client.get().answer().status == 200


GARBAGE = {
    "not HTTP": b"hello\r\n\r\n",
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
    "a length that is no number": b"POST /x HTTP/1.1\r\nContent-Length: ten\r\n\r\n",
    "two lengths": b"POST /x HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "a length and chunks": b"POST /x HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a chunk without a size": b"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n\r\n",
    "a header without a colon": b"GET /x HTTP/1.1\r\nnonsense\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no version": b"GET /x\r\nHost: h\r\n\r\n",
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_answered_once_and_ends_the_connection(client: Client, door: Door, name: str) -> None:
    client.get("/before").send(GARBAGE[name]).send(b"GET /after HTTP/1.1\r\n\r\n")
    assert client.answer().body == b"<a>GET /before 0</a>"
    assert is_refusal(client.answer(), "This is not a valid HTTP request")
    assert client.has_ended()
    assert [request.target for request in door.desk.taken] == ["/before"]


@pytest.mark.parametrize(
    "head",
    [
        "GET /" + "x" * MAX_HEAD + " HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\na: " + "x" * MAX_HEAD + "\r\n\r\n",
        "GET / HTTP/1.1\r\n" + "x" * MAX_HEAD + ": a\r\n\r\n",
        "GET / HTTP/1.1\r\n" + "".join(f"a{number}: {'x' * 999}\r\n" for number in range(20)) + "\r\n",
        "GET /" + "x" * 2 * MAX_HEAD,
        "GET / HTTP/1.1\r\na: " + "x" * 2 * MAX_HEAD,
    ],
)
def test_a_head_that_is_too_large_is_refused_also_without_an_end(client: Client, door: Door, head: str) -> None:
    client.send(head.encode())
    assert is_refusal(client.answer(), f"larger than {MAX_HEAD} bytes")
    assert client.has_ended()
    assert door.desk.taken == []


def test_too_many_headers_are_refused_and_as_many_as_may_be_are_not(client: Client) -> None:
    most = "".join(f"a{number}: b\r\n" for number in range(MAX_HEADERS))
    client.send(f"GET /x HTTP/1.1\r\n{most}\r\n".encode())
    assert client.answer().status == 200
    client.send(f"GET /x HTTP/1.1\r\n{most}one: more\r\n\r\n".encode())
    assert is_refusal(client.answer(), f"more than {MAX_HEADERS} headers")


@pytest.mark.parametrize("expects", ["", "Expect: 100-continue\r\n"])
def test_a_body_that_is_too_large_is_refused_by_its_length(client: Client, expects: str) -> None:
    client.send(f"POST /x HTTP/1.1\r\n{expects}Content-Length: {MAX_BODY + 1}\r\n\r\n".encode())
    assert is_refusal(client.answer(), f"larger than {MAX_BODY} bytes")
    assert client.has_ended()


def test_a_body_without_a_length_is_refused_when_it_is_too_large_and_the_answer_arrives(client: Client) -> None:
    client.send(b"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
    chunk = b"%x\r\n" % LARGE + b"x" * LARGE + b"\r\n"
    for _ in range(MAX_BODY // LARGE + 1):
        client.send(chunk)
    assert is_refusal(client.answer(), f"larger than {MAX_BODY} bytes")


@pytest.mark.parametrize("start", [b"1;", b"0\r\na: ", b"0\r\n"])
def test_lines_around_chunks_have_an_end(client: Client, start: bytes) -> None:
    client.send(b"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + start)
    line = b"a: b\r\n" if start.endswith(b"\n") else b"x"
    client.send(line * (LARGE // len(line)))
    assert is_refusal(client.answer(), f"larger than {MAX_HEAD} bytes")
    assert client.has_ended()


# --- Time, and clients that go


@pytest.mark.parametrize("sent", [b"", b"GET /x HTT", b"POST /x HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc"])
def test_a_request_that_does_not_come_in_time_ends_the_connection(
    door: Door, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(http, "REQUEST_SECONDS", 0.3)
    client = Client(door.port)
    client.send(sent)
    assert client.has_ended()
    assert door.desk.taken == []


def test_a_request_that_comes_drop_by_drop_has_no_more_time(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "REQUEST_SECONDS", 0.5)
    client = Client(door.port)
    client.send(b"GET /x HTTP/1.1\r\n")
    with pytest.raises(ConnectionError):
        for number in range(10_000):
            client.send(b"a%d: b\r\n" % number)
            threading.Event().wait(0.05)
            if number > MAX_HEADERS - 10:
                raise AssertionError("it goes on and on")


def test_a_connection_without_requests_is_ended(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "IDLE_SECONDS", 0.3)
    client = Client(door.port)
    assert client.get().answer().status == 200
    assert client.has_ended()


def test_a_connection_that_waits_for_its_answer_is_not_ended(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "REQUEST_SECONDS", 0.2)
    monkeypatch.setattr(http, "IDLE_SECONDS", 0.2)
    client = Client(door.port)
    client.get("/hold")
    eventually(lambda: door.desk.taken, PATIENCE_SECONDS)
    threading.Event().wait(1)
    door.release()
    assert client.answer().status == 200


def test_what_is_answered_ends_when_its_client_goes(client: Client, door: Door) -> None:
    client.get("/hold/1").get("/hold/2")
    eventually(lambda: door.desk.taken, PATIENCE_SECONDS)
    client.close()
    assert eventually(lambda: door.desk.left, PATIENCE_SECONDS) == ["/hold/1"]
    assert [request.target for request in door.desk.taken] == ["/hold/1"]


def test_a_client_that_is_cut_off_while_it_sends_leaves_nothing_behind(client: Client, door: Door) -> None:
    client.send(b"POST /x HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc")
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.close()
    other = Client(door.port)
    assert other.get().answer().status == 200
    assert [request.target for request in door.desk.taken] == ["/x"]
    assert [request.method for request in door.desk.taken] == ["GET"]
