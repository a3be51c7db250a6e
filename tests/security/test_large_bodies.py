"""Bodies that are larger than anybody needs: refused by their address, before they cost memory or disk."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from django.test import Client

from console import request_limits
from console.asgi import application
from console.catalog.models import Bucket
from tests.support.cast import Cast
from tests.support.redis_server import RedisServer
from tests.support.web_server import WebServer, web_server

pytestmark = pytest.mark.django_db
FORM = "application/x-www-form-urlencoded"
MIB = 1024**2


@pytest.fixture(scope="module")
def web(redis: RedisServer, django_db_setup: None) -> Iterator[WebServer]:
    with web_server(redis) as server:
        yield server


def announced(path: str, size: int, kind: str = FORM, cookie: str = "none=1") -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nCookie: {cookie}\r\n"
        f"Content-Length: {size}\r\n\r\n"
    ).encode()


def chunked(path: str, kind: str = FORM) -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
    ).encode()


def pour(client: socket.socket, piece: bytes, times: int) -> int:
    """Send as long as the server takes it; returns the bytes that were sent."""
    sent = 0
    try:
        for _ in range(times):
            client.sendall(piece)
            sent += len(piece)
    except OSError:
        return sent
    return sent


def first_line(client: socket.socket) -> bytes:
    """What the server says; nothing when it has cut the connection off, as it may with much unread."""
    try:
        return client.recv(65536)
    except ConnectionError:
        return b""


@pytest.mark.parametrize(
    "path", ["/account/login/", "/account/mfa/authenticate/", "/login/acme/", "/sql/lake/x/upload", "/"]
)
@pytest.mark.parametrize("cookie", ["none=1", "gantry_session_{port}=made-up"])
def test_four_hundred_mebibytes_of_a_stranger_are_refused_before_the_first(
    web: WebServer, path: str, cookie: str
) -> None:
    with web.connect(announced(path, 400 * MIB, cookie=cookie.format(port=web.port))) as client:
        assert first_line(client).startswith(b"HTTP/1.1 413 ")


def test_nothing_of_a_body_in_pieces_without_end_comes_to_the_disk(web: WebServer) -> None:
    before = web.held_files()
    with web.connect(chunked("/account/login/")) as client:
        sent = pour(client, b"10000\r\n" + b"x" * 65536 + b"\r\n", 6400)
        assert sent < 100 * MIB
        assert web.held_files() == before
        assert first_line(client)[:13] in (b"", b"HTTP/1.1 413 ")
    assert web.is_well()


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=b", "text/plain", "application/json", ""])
def test_no_content_type_makes_a_strangers_body_larger(web: WebServer, kind: str) -> None:
    with web.connect(announced("/account/login/", request_limits.STRANGERS_BYTES + 1, kind)) as client:
        assert first_line(client).startswith(b"HTTP/1.1 413 ")


def test_a_form_of_a_stranger_that_is_small_is_read(web: WebServer) -> None:
    with web.connect(
        announced("/account/login/", request_limits.STRANGERS_BYTES) + b"x" * request_limits.STRANGERS_BYTES
    ) as client:
        assert not first_line(client).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    ("path", "form"), [("/json/topic/list", "dynamicCode"), ("/rpc/", "Code"), ("/mcp", "jsonrpc")]
)
def test_the_management_api_takes_a_mebibyte_and_says_so_in_its_own_form(web: WebServer, path: str, form: str) -> None:
    with web.connect(announced(path, MIB + 1)) as client:
        answer = first_line(client)
    assert answer.startswith(b"HTTP/1.1 413 ")
    told = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert form in told
    assert "larger than 1024 KiB" in str(told)


@pytest.mark.parametrize(
    "lengths",
    [
        "Content-Length: 5\r\nContent-Length: 500000000\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 99999999999999999999999\r\n",
        "Content-Length: 5, 500000000\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: gzip\r\n",
    ],
)
def test_a_length_that_lies_is_refused(web: WebServer, lengths: str) -> None:
    head = f"POST /account/login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {FORM}\r\n{lengths}\r\n"
    with web.connect(head.encode()) as client:
        assert first_line(client)[:10] in (b"", b"HTTP/1.1 4")


def test_a_length_beside_pieces_begins_no_second_request(web: WebServer) -> None:
    smuggled = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    head = (
        f"POST /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {FORM}\r\n"
        f"Content-Length: {5 + len(smuggled)}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n"
    )
    with web.connect(head.encode() + smuggled) as client:
        answer = b""
        while piece := first_line(client):
            answer += piece
    assert answer.count(b"HTTP/1.1 ") <= 1


# --- Those who may send more ----------------------------------------------------------------------------------------
def session(client: Client) -> dict[str, str]:
    return {name: morsel.value for name, morsel in client.cookies.items()}


async def pieces(size: int) -> AsyncIterator[bytes]:
    for _ in range(size // MIB):
        yield b"x" * MIB


def post(path: str, size: int, cookies: dict[str, str], *, announce: bool = True) -> httpx.Response:
    """POST so many bytes through the application that the server runs, in a loop of its own."""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", cookies=cookies) as client:
            headers = {"Content-Type": "application/octet-stream"} | ({"Content-Length": str(size)} if announce else {})
            return await client.post(path, content=pieces(size), headers=headers)

    answers: list[httpx.Response] = []
    thread = threading.Thread(target=lambda: answers.append(asyncio.run(ask())))
    thread.start()
    thread.join()
    return answers[0]


@pytest.fixture
def bucket(transactional_db: None, cast: Cast, settings: Any) -> str:
    settings.LAKE_UPLOAD_BYTES = 4 * MIB
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * MIB
    Bucket.objects.create(tenant=cast.acme, name="acme-files")
    return "/sql/lake/acme-files/upload"


@pytest.mark.parametrize("announce", [True, False])
def test_only_who_may_write_to_a_bucket_may_send_it_a_file(cast: Cast, bucket: str, announce: bool) -> None:
    asked = {name: session(cast.client(name)) for name in ("alice", "nora", "charlie")}
    told = {name: post(bucket, 5 * MIB, cookies, announce=announce).status_code for name, cookies in asked.items()}
    # Alice's comes through to Django, which misses the CSRF token; a RAM user without rights and another account's
    # administrator may send what any page takes.
    assert told == {"alice": 403, "nora": 413, "charlie": 413}
    assert post(bucket, 7 * MIB, asked["alice"], announce=announce).status_code == 413


def test_other_pages_take_less_of_the_same_person(cast: Cast, bucket: str) -> None:
    alice = session(cast.client("alice"))
    assert post("/sql/run", 3 * MIB, alice).status_code == 413
    assert post("/no/such/page", MIB, alice).status_code == 413


@pytest.mark.parametrize(
    "change", [{"is_active": False}, {"must_change_password": True}, {"mfa_required": True}], ids=str
)
def test_a_session_that_opens_no_page_sends_no_more_than_a_stranger(
    cast: Cast, bucket: str, change: dict[str, bool]
) -> None:
    alice = session(cast.client("alice"))
    type(cast.alice).objects.filter(pk=cast.alice.pk).update(**change)
    assert post(bucket, MIB, alice).status_code == 413


def test_a_session_that_has_ended_sends_no_more_than_a_stranger(cast: Cast, bucket: str) -> None:
    client = cast.client("alice")
    alice = session(client)
    client.post("/account/logout/")
    assert post(bucket, MIB, alice).status_code == 413


def test_uploads_of_one_person_are_counted(cast: Cast, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    alice = session(cast.client("alice"))
    monkeypatch.setattr(request_limits, "UPLOADS_OF_A_PERSON", 0)
    assert post(bucket, 3 * MIB, alice).status_code == 429
    assert post(bucket, MIB, alice).status_code == 403
