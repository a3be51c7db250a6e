"""Places of the web server go round the accounts: one that keeps it busy leaves room for the next."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings as django_settings
from django.core.handlers.asgi import ASGIRequest

from console import request_limits
from console.request_limits import Receive, RequestLimits, Scope, Send
from console.web import fair_queue, request_owners
from tests.support.asgi import Caller

PLACES, WAITING = 12, 40
HERE = "203.0.113.1"


@pytest.fixture(autouse=True)
def small(settings: Any) -> None:
    settings.WEB_PLACES, settings.WEB_WAITING = PLACES, WAITING


class Application:
    """Django's part: reads the body, finds out whose the request is, and works until it is let go."""

    def __init__(self) -> None:
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.order: list[str] = []
        self.goes_on = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        while (message := await receive()).get("more_body"):
            pass
        if message["type"] == "http.disconnect":
            return
        who = self._found(scope)
        self.running[who] += 1
        self.most[who] = max(self.most[who], self.running[who])
        self.order.append(who)
        try:
            if scope["path"] == "/aside":
                await sync_to_async(self._waits_aside, thread_sensitive=False)(asyncio.get_running_loop())
            elif scope["path"] != "/quick":
                await self.goes_on.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            if scope["path"] == "/long":
                await send({"type": "http.response.body", "body": b"more", "more_body": True})
            await send({"type": "http.response.body", "body": who.encode()})
        finally:
            self.running[who] -= 1

    def _waits_aside(self, loop: asyncio.AbstractEventLoop) -> None:
        with fair_queue.aside():
            asyncio.run_coroutine_threadsafe(self.goes_on.wait(), loop).result()

    @staticmethod
    def _found(scope: Scope) -> str:
        """Sessions are `account-anything`, and good unless they begin with `no`."""
        request = ASGIRequest(scope, BytesIO())
        peer = scope["client"][0]
        if key := request.headers.get("Authorization", "").removeprefix("Credential="):
            is_right = "x-right" in request.headers
            request_owners.tell_key(request, key, f"account {key}" if is_right else None)
            return key
        session = request.COOKIES.get(django_settings.SESSION_COOKIE_NAME, "")
        account = session.partition("-")[0]
        request_owners.tell_session(request, session, f"account {account}" if account not in ("", "no") else None)
        return account or peer


class Call(Caller):
    """One request and its answer."""

    def __init__(self, front: RequestLimits, path: str, session: str, peer: str, headers: dict[str, str]) -> None:
        given = headers | ({"cookie": f"{django_settings.SESSION_COOKIE_NAME}={session}"} if session else {})
        super().__init__(path, peer=peer, headers=given)
        self.task = asyncio.create_task(self.serve(front))


class Web:
    """The intake in front of the application."""

    def __init__(self) -> None:
        self.application = Application()
        self.front = RequestLimits(self.application)
        self.calls: list[Call] = []

    def call(self, path: str = "/", session: str = "", peer: str = HERE, **headers: str) -> Call:
        call = Call(self.front, path, session, peer, headers)
        self.calls.append(call)
        return call

    async def is_answered(self, *given: Any, **named: Any) -> bool:
        call = self.call("/quick", *given, **named)
        await asyncio.wait([call.task], timeout=20)
        return call.status == 200

    async def end(self) -> None:
        self.application.goes_on.set()
        for call in self.calls:
            call.taken.set()
        await asyncio.gather(*(call.task for call in self.calls))


@asynccontextmanager
async def web() -> AsyncIterator[Web]:
    server = Web()
    yield server
    await server.end()
    assert not server.front._turns._held
    assert not server.front._turns._lines


async def a_moment() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def test_an_account_with_thirty_slow_requests_leaves_places_for_the_next() -> None:
    async with web() as server:
        assert await server.is_answered("acme-1")
        assert await server.is_answered("umbrella-1")
        slow = [server.call("/", "acme-1") for _ in range(30)]
        await a_moment()
        assert server.application.running["acme"] == PLACES // 2
        for _ in range(10):
            assert await server.is_answered("umbrella-1")
    assert [call.status for call in slow] == [200] * 30, "those that waited had their turn"
    assert server.application.most["acme"] == PLACES // 2


async def test_several_accounts_and_strangers_leave_a_place_still() -> None:
    async with web() as server:
        for name in ("acme", "umbrella", "globex", "initech"):
            assert await server.is_answered(f"{name}-1")
        for name in ("acme", "umbrella", "globex"):
            for _ in range(30):
                server.call("/", f"{name}-1")
        await a_moment()
        assert sum(server.application.running.values()) == PLACES - 1
        assert await server.is_answered("initech-1")


async def test_strangers_of_many_addresses_have_half_of_the_places_together() -> None:
    async with web() as server:
        assert await server.is_answered("acme-1")
        for number in range(100):
            server.call("/", peer=f"198.51.100.{number}")
        await a_moment()
        assert sum(server.application.running.values()) == PLACES // 2
        assert await server.is_answered("acme-1")


async def test_what_waits_goes_round_the_accounts() -> None:
    async with web() as server:
        names = ("acme", "umbrella", "globex", "initech", "hooli")
        for name in names:
            assert await server.is_answered(f"{name}-1")
        for name in names:
            for _ in range(10):
                server.call("/", f"{name}-1")
        await a_moment()
        begun = len(server.application.order)
        await server.end()
        following = server.application.order[begun : begun + 10]
    assert max(Counter(following).values()) <= 4, following


async def test_a_line_has_an_end_and_says_so() -> None:
    async with web() as server:
        assert await server.is_answered("acme-1")
        calls = [server.call("/", "acme-1") for _ in range(PLACES // 2 + WAITING + 3)]
        await a_moment()
        refused = [call for call in calls if call.task.done()]
        assert [call.status for call in refused] == [429] * 3
        assert refused[0].body.decode() == f"{request_limits._WAITING}\n"
        assert refused[0].headers["retry-after"] == "5"


async def test_the_management_api_is_told_in_its_own_form() -> None:
    async with web() as server:
        key = {"Authorization": "Credential=acme", "x-right": "1"}
        assert await server.is_answered(**key)
        calls = [server.call("/json/topic/list", **key) for _ in range(PLACES + WAITING + 3)]
        await a_moment()
        refused = [call for call in calls if call.task.done()]
        assert refused
        assert {json.loads(call.body)["dynamicCode"] for call in refused} == {"BIZ_THROTTLED"}


async def test_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_limits, "_LONGEST_WAIT_S", 0.2)
    async with web() as server:
        calls = [server.call() for _ in range(20)]
        pending = {call.task for call in calls}
        while len(pending) > PLACES // 2:
            done, pending = await asyncio.wait(pending, timeout=20, return_when=asyncio.FIRST_COMPLETED)
            assert done, "some wait for ever"
        assert len(pending) == PLACES // 2
        assert {call.status for call in calls if call.task.done()} == {429}


async def test_who_leaves_while_waiting_takes_no_place_and_costs_nothing() -> None:
    async with web() as server:
        calls = [server.call() for _ in range(20)]
        await a_moment()
        for call in calls[PLACES // 2 :]:
            call.leave()
        await a_moment()
        assert [call.task.done() for call in calls] == [False] * (PLACES // 2) + [True] * (20 - PLACES // 2)
    assert len(server.application.order) == PLACES // 2


async def test_health_waits_for_nobody() -> None:
    async with web() as server:
        for number in range(200):
            server.call("/", peer=f"198.51.100.{number}")
        await a_moment()
        before = sum(server.application.running.values())
        server.call("/healthz")
        await a_moment()
        assert sum(server.application.running.values()) == before + 1


# --- Whose a request is ---------------------------------------------------------------------------------------------
async def test_sessions_that_nobody_has_count_for_the_address_and_not_for_an_account() -> None:
    async with web() as server:
        assert await server.is_answered("acme-1")
        for number in range(100):
            server.call("/", f"no-{number}")
        await a_moment()
        assert server.application.running["no"] == PLACES // 2
        assert await server.is_answered("acme-1"), "from the same address"
        assert server.front._turns._held.keys() == {request_owners.Holder(HERE, known=False)}


async def test_a_session_that_ended_is_nobodys_any_more() -> None:
    known = request_owners.Holders()
    session = request_owners.session_digest("acme-1")
    known.learn(session, "account 1")
    assert known.of(HERE, session) == request_owners.Holder("account 1", known=True)
    known.forget(session)
    assert known.of(HERE, session) == request_owners.Holder(HERE, known=False)


async def test_what_was_found_is_not_believed_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_owners, "BELIEVED_S", -1.0)
    known = request_owners.Holders()
    known.learn(b"x", "account 1")
    assert not known.of(HERE, b"x").known


async def test_few_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_owners, "MOST_REMEMBERED", 3)
    known = request_owners.Holders()
    for number in range(5):
        known.learn(bytes([number]), "account 1")
        known.forget(bytes([number + 100]), 60)
    assert [known.of(HERE, bytes([number])).known for number in range(5)] == [False, False, True, True, True]
    assert len(known._distrusted) == 3


async def test_calls_at_the_root_are_known_by_their_key_and_pages_there_by_their_session() -> None:
    async with web() as server:
        assert await server.is_answered("", HERE, **{"Authorization": "Credential=acme", "x-right": "1"})
        assert await server.is_answered("umbrella-1")
        server.call("/", "", Authorization="Credential=acme")
        server.call("/", "umbrella-1")
        await a_moment()
        accounts = {request_owners.Holder(f"account {name}", known=True) for name in ("acme", "umbrella")}
        assert server.front._turns._held.keys() == accounts


async def test_a_key_id_without_its_secret_takes_no_turn_of_its_account() -> None:
    async with web() as server:
        right = {"Authorization": "Credential=acme", "x-right": "1"}
        wrong = {"Authorization": "Credential=acme"}
        assert await server.is_answered("", HERE, **right)
        assert server.call("/json/topic/list", peer="198.51.100.1", **wrong)
        await a_moment()
        elsewhere = request_owners.Holder("198.51.100.1", known=False)
        assert server.front._turns._held.keys() == {elsewhere}, "from elsewhere it is a stranger's"
        for _ in range(30):
            server.call("/json/topic/list", **wrong)
            await a_moment()
        held = server.front._turns._held
        assert held[request_owners.Holder("account acme", known=True)] <= 1, "from here it was believed once"


@pytest.mark.parametrize(
    ("authorization", "query", "form", "key"),
    [
        ("ACS3-HMAC-SHA256 Credential=LTAI1,SignedHeaders=host,Signature=0", "", "", "LTAI1"),
        ("", "Action=X&AccessKeyId=LTAI2&Version=1", "", "LTAI2"),
        ("", "", "_accesskey=LTAI3&x=1", "LTAI3"),
        ("", "", "_accessKey=LTAI4", "LTAI4"),
        ("Bearer LTAI5:secret:token", "", "", "LTAI5"),
        ("bearer  LTAI6:secret", "", "", "LTAI6"),
        ("Basic TFRBSTc6c2VjcmV0", "", "", "LTAI7"),
        ("Bearer LTAI8", "", "", ""),
        ("Basic !", "", "", ""),
        ("Basic /w==", "", "", ""),
        ("Basic TFRBSQA6c2VjcmV0", "", "", ""),
        ("", "xAccessKeyId=1", "", ""),
        ("", "", "", ""),
    ],
)
def test_where_a_key_stands(authorization: str, query: str, form: str, key: str) -> None:
    assert request_owners.claimed_key(authorization, query, form) == key


# --- What holds no place --------------------------------------------------------------------------------------------
async def test_a_client_that_does_not_take_its_answer_holds_no_place() -> None:
    async with web() as server:
        server.application.goes_on.set()
        for _ in range(30):
            server.call("/long", "acme-1").taken.clear()
        await a_moment()
        assert not server.front._turns._held
        assert await server.is_answered("acme-1")


async def test_work_that_only_waits_holds_no_place() -> None:
    async with web() as server:
        assert await server.is_answered("acme-1")
        calls = [server.call("/aside", "acme-1") for _ in range(4)]
        for _ in range(100):
            await asyncio.sleep(0.02)
            if server.application.running["acme"] == 4 and not server.front._turns._held:
                break
        assert not server.front._turns._held
    assert [call.status for call in calls] == [200] * 4


def test_outside_of_a_request_there_is_nothing_to_lay_aside() -> None:
    with fair_queue.aside():
        pass
