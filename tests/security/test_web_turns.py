"""An account that keeps the web server busy: the pages of the others are answered all the same."""

from __future__ import annotations

import asyncio
import http.client
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from django.conf import settings

from console.asgi import application
from console.web.request_owners import account_name, key_digest, session_digest
from tests.console.openapi.caller import Caller
from tests.support.cast import Cast
from tests.support.redis_server import RedisServer
from tests.support.web_server import WebServer, web_server

pytestmark = pytest.mark.django_db(transaction=True)
HERE = "127.0.0.1"
#: Clients of the attacker, each of which asks again as soon as it is answered.
CLIENTS = 30
#: How much longer than in quiet a page may take: an account has six of twelve places, and the processor is shared with
#: those; with all thirty at work it is forty times.
AS_LONG = 20


def opened(web: WebServer, session: str) -> tuple[int, float]:
    """The status of a page, and how long it took, s."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=120)
    connection.request("GET", "/users/", headers={"Cookie": f"gantry_session_{web.port}={session}"})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status, time.perf_counter() - began


def left(web: WebServer, session: str) -> None:
    """Ask for a page, and do not wait for it."""
    head = f"GET /users/ HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: gantry_session_{web.port}={session}\r\n\r\n"
    with web.connect(head.encode()):
        time.sleep(0.1)


def typical(web: WebServer, session: str) -> float:
    """How long a page takes as a rule, s."""
    visits = [opened(web, session) for _ in range(15)]
    assert {status for status, _ in visits} == {200}
    return statistics.median(seconds for _, seconds in visits)


@contextmanager
def kept_busy(web: WebServer, session: str, told: Counter[int], *, leaves: bool = False) -> Iterator[None]:
    over = threading.Event()

    def go_on() -> None:
        while not over.is_set():
            if leaves:
                left(web, session)
            else:
                told[opened(web, session)[0]] += 1

    clients = [threading.Thread(target=go_on) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    try:
        time.sleep(2)
        yield
    finally:
        over.set()
        for client in clients:
            client.join()


def session_of(cast: Cast, name: str) -> str:
    return cast.client(name).cookies[settings.SESSION_COOKIE_NAME].value


@pytest.mark.parametrize("leaves", [False, True], ids=["wait", "leave"])
def test_thirty_clients_that_never_cease_leave_room_for_another_account(
    cast: Cast, redis: RedisServer, leaves: bool
) -> None:
    attacker, victim = session_of(cast, "alice"), session_of(cast, "charlie")
    told: Counter[int] = Counter()
    with web_server(redis, gantry_secret_key=settings.SECRET_KEY) as web:
        quiet = typical(web, victim)
        with kept_busy(web, attacker, told, leaves=leaves):
            busy = typical(web, victim)
        quiet = max(quiet, typical(web, victim))  # others may have begun to use the machine meanwhile
    assert set(told) <= {200}, "the attacker is served too, by turns"
    assert busy < AS_LONG * quiet, f"{busy:.3f} s instead of {quiet:.3f} s"


def test_beyond_its_line_an_account_is_refused_and_another_is_not(cast: Cast, redis: RedisServer) -> None:
    attacker, victim = session_of(cast, "alice"), session_of(cast, "charlie")
    told: Counter[int] = Counter()
    with web_server(redis, gantry_secret_key=settings.SECRET_KEY, gantry_web_waiting="2") as web:
        typical(web, victim)
        with kept_busy(web, attacker, told):
            typical(web, victim)
    assert told[429]
    assert set(told) == {200, 429}


# --- What Django tells of whose a request was -----------------------------------------------------------------------
def ask(path: str, parameters: dict[str, str], cookies: dict[str, str] | None = None) -> int:
    """The status of an answer of the application that the server runs, in a loop of its own."""

    async def get() -> int:
        transport = httpx.ASGITransport(application, client=(HERE, 4711))
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HERE}", cookies=cookies) as client:
            return (await client.get(path, params=parameters)).status_code

    told: list[int] = []
    thread = threading.Thread(target=lambda: told.append(asyncio.run(get())))
    thread.start()
    thread.join()
    return told[0]


def test_a_key_is_known_once_it_has_signed_and_not_after_a_wrong_signature(cast: Cast) -> None:
    caller = Caller.of(cast.alice)
    signed = caller.signed()
    digest = key_digest(HERE, signed["_accesskey"])
    assert not application._holders.of(HERE, digest).known
    assert ask("/json/instance/list", signed) == 200
    assert application._holders.of(HERE, digest).name == account_name(cast.alice.tenant_id)
    assert not application._holders.of(HERE, key_digest("192.0.2.1", signed["_accesskey"])).known
    ask("/json/instance/list", signed | {"_signature": "wrong"})
    assert not application._holders.of(HERE, digest).known
    assert ask("/json/instance/list", caller.signed()) == 200
    assert not application._holders.of(HERE, digest).known, "for a while it may be anybody who names it"


def test_a_session_is_known_once_it_has_opened_a_page_and_not_after_it_ended(cast: Cast) -> None:
    browser = cast.client("alice")
    session = session_of(cast, "alice")
    cookies = {settings.SESSION_COOKIE_NAME: session}
    assert not application._holders.of(HERE, session_digest(session)).known
    assert ask("/users/", {}, cookies) == 200
    assert application._holders.of(HERE, session_digest(session)).name == account_name(cast.alice.tenant_id)
    browser.post("/account/logout/")
    assert ask("/users/", {}, cookies) == 302
    assert not application._holders.of(HERE, session_digest(session)).known


def test_who_belongs_to_no_account_is_counted_alone(cast: Cast) -> None:
    session = session_of(cast, "petra")
    ask("/", {}, {settings.SESSION_COOKIE_NAME: session})
    found = application._holders.of(HERE, session_digest(session))
    assert found.name == account_name(None, cast.petra.pk)
