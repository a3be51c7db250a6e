"""Clients that begin a request and do not go on: they cost the others nothing, and are told so themselves."""

from __future__ import annotations

import json
import resource
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from tests.support.broker import eventually
from tests.support.redis_server import RedisServer
from tests.support.web_server import WebServer, web_server

pytestmark = pytest.mark.django_db  # the server begins with a copy of the tests' own database
HEAD = "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nContent-Length: 1000\r\n\r\n"
FORM = "application/x-www-form-urlencoded"
REQUESTS, CONNECTIONS = 40, 200
BODY_SECONDS = 2


@pytest.fixture(scope="module")
def web(redis: RedisServer, django_db_setup: None) -> Iterator[WebServer]:
    """As the launcher starts it, with short times and small shares."""
    with web_server(
        redis,
        gantry_web_body_seconds=str(BODY_SECONDS),
        gantry_web_header_seconds="2",
        gantry_web_peer_requests=str(REQUESTS),
        gantry_web_peer_connections=str(CONNECTIONS),
    ) as server:
        yield server


@contextmanager
def many_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], min(before[1], 8192)), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def slow(path: str, kind: str = FORM) -> bytes:
    """The head of a request, and one byte of its body."""
    return HEAD.format(path=path, kind=kind).encode() + b"x"


def rest(connection: socket.socket) -> bytes:
    """All that the server says until it ends the connection; nothing when it is cut off."""
    text = b""
    try:
        while piece := connection.recv(65536):
            text += piece
    except ConnectionError:
        return text
    return text


def status(answer: bytes) -> str:
    return answer[9:12].decode()


def test_thirteen_hundred_posts_of_one_byte_leave_the_health_answered_and_are_all_refused(web: WebServer) -> None:
    began = time.monotonic()
    with many_files(), ExitStack() as stack:
        first = [stack.enter_context(web.connect(slow("/account/login/"))) for _ in range(REQUESTS)]
        # Who is told that there are too many knows that all of the first ones have begun: they are no silent ones.
        with web.connect(slow("/account/login/")) as one_more:
            beyond = status(rest(one_more))
        others = [stack.enter_context(web.connect(slow("/account/login/"))) for _ in range(1300 - REQUESTS)]
        assert web.is_well()
        told_first = Counter(status(rest(client)) for client in first)
        told = told_first + Counter(status(rest(client)) for client in others)
    assert web.is_well()
    assert told_first["408"] >= REQUESTS - (beyond != "429"), "the first ones had their time"
    # The others were told at once that there are too many, or closed with the silent, or had the place of one before.
    assert set(told) <= {"408", "429", ""}
    assert told["408"] <= REQUESTS * ((time.monotonic() - began) // BODY_SECONDS), "so many have their time together"


def test_connections_that_never_say_a_word_are_closed_and_keep_nobody_out(web: WebServer) -> None:
    with many_files(), ExitStack() as stack:
        clients = [stack.enter_context(web.connect()) for _ in range(1300)]
        assert web.is_well()
        assert [rest(client) for client in clients] == [b""] * 1300
    assert web.is_well()
    eventually(lambda: "silent connections" in web.log.read_text())


@pytest.mark.parametrize(
    "beginning",
    [
        b"",
        b"P",
        b"PRI * HTTP/2.0\r\n",
        b"POST / HTTP/1.1\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"y" * 5000,
    ],
    ids=["nothing", "a letter", "half a preface of HTTP/2", "a line", "half a header"],
)
def test_a_head_that_never_ends_ends_the_connection(web: WebServer, beginning: bytes) -> None:
    with web.connect(beginning) as client:
        rest(client)


def test_a_head_without_bound_is_refused(web: WebServer) -> None:
    with web.connect(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n") as client, pytest.raises(OSError, match=r"reset|pipe"):
        for _ in range(3000):
            client.sendall(b"X-Filler: " + b"y" * 1000 + b"\r\n")


@pytest.mark.parametrize("more", [b"5\r\nabcde\r\n", b"1\r\na\r\n", b"ffff"], ids=["a piece", "a byte", "half a size"])
def test_a_body_in_pieces_that_stops_is_refused(web: WebServer, more: bytes) -> None:
    head = f"POST /account/login/ HTTP/1.1\r\nHost: x\r\nContent-Type: {FORM}\r\nTransfer-Encoding: chunked\r\n\r\n"
    with web.connect(head.encode() + more) as client:
        answer = rest(client)
    assert status(answer) == "408"
    assert b"arrives too slowly: 2 s are allowed" in answer


def test_a_body_that_drips_has_a_total_time_and_not_one_for_each_byte(web: WebServer) -> None:
    with web.connect(slow("/account/login/")) as client:
        client.settimeout(0.2)
        answer = b""
        for _ in range(200):  # 40 s of a byte now and then
            try:
                with suppress(ConnectionError):  # it was told just now
                    client.sendall(b"x")
                answer = client.recv(4096)
                break
            except TimeoutError:
                continue
    assert status(answer) == "408"


@pytest.mark.parametrize("path", ["/json/topic/list", "//json/topic/list"])
def test_the_management_api_is_told_in_its_own_form(web: WebServer, path: str) -> None:
    with web.connect(slow(path)) as client:
        answer = rest(client)
    told = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert (status(answer), told["success"], told["dynamicCode"]) == ("408", False, "BIZ_FIELD_CHECK_INVALID")


def test_the_rpc_style_is_told_in_its_own_form(web: WebServer) -> None:
    with web.connect(slow("/")) as client:
        answer = rest(client)
    told = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert set(told) == {"RequestId", "HostId", "Code", "Message"}
    assert (status(answer), told["Code"]) == ("408", "RequestTimeout")


def test_the_health_needs_no_body_and_waits_for_none(web: WebServer) -> None:
    with web.connect(slow("/healthz").replace(b"POST", b"GET", 1)) as client:
        client.settimeout(10)
        assert status(client.recv(4096)) == "200"
