"""What stands between a stranger and the tools, request by request; and JSON-RPC as no client of ours would send it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from django.core.cache import cache as django_cache

from console.accounts.models import AccessKey
from console.accounts.services import IssuedKey
from console.audit.models import Entry
from console.openapi.calls import MAX_BODY_BYTES
from console.openapi.mcp.protocol import VERSIONS, WITHOUT_HANDSHAKE
from tests.console.openapi.mcp.conftest import PING, authorization, post, request
from tests.support.browser import browser
from tests.support.cast import Cast

pytestmark = pytest.mark.django_db

Keys = Callable[[str], IssuedKey]


@pytest.fixture
def rita(cast: Cast, keys: Keys) -> dict[str, str]:
    """The headers of who may look."""
    django_cache.clear()
    return authorization(keys("rita"))


def sentence(response: Any) -> str:
    """What an error says."""
    told = json.loads(response.content)
    assert told["jsonrpc"] == "2.0" and "id" in told and "result" not in told
    return str(told["error"]["message"])


# --- Who may speak --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "given",
    [
        "",
        "Bearer",
        "Bearer LTAI",
        "Bearer LTAI:",
        "Bearer :secret",
        "Basic ///",
        "Basic TFRBSQ==",
        "Basic TFRBSQA6c2VjcmV0",
        "Digest a:b",
    ],
)
def test_without_an_access_key_it_says_how_to_sign_in(cast: Cast, given: str) -> None:
    django_cache.clear()
    response = post(PING, {"Authorization": given} if given else {})
    assert response.status_code == 401
    assert response["WWW-Authenticate"].startswith('Bearer realm="gantry", Basic realm="gantry"')
    assert sentence(response).startswith(
        "Sign in with the header Authorization: Bearer <AccessKey ID>:<AccessKey secret>"
    )


def test_a_session_is_worth_nothing(cast: Cast) -> None:
    response = cast.client("alice").post("/mcp", json.dumps(PING).encode(), content_type="application/json")
    assert response.status_code == 401


def test_a_wrong_secret_is_recorded_and_a_key_that_nobody_has_is_not(cast: Cast, keys: Keys) -> None:
    django_cache.clear()
    key = keys("bob")
    before = Entry.objects.count()
    for access_key_id in (key.access_key_id, "LTAInobody"):
        response = post(PING, {"Authorization": f"Bearer {access_key_id}:{'x' * 30}"})
        assert (response.status_code, sentence(response)) == (
            401, "The AccessKey ID, its secret or its security token is not valid.",
        )  # fmt: skip
    entry = Entry.objects.get(action="accounts.access_key.use", result="refused")
    assert Entry.objects.count() == before + 1
    assert (entry.actor, entry.channel, entry.detail) == ("bob@acme", "mcp", {"reason": "the secret is wrong"})


@pytest.mark.parametrize("change", ["disabled key", "disabled user", "disabled account"])
def test_what_was_disabled_opens_nothing(cast: Cast, keys: Keys, change: str) -> None:
    django_cache.clear()
    key = keys("bob")
    assert post(PING, authorization(key)).status_code == 200
    if change == "disabled key":
        AccessKey.objects.filter(access_key_id=key.access_key_id).update(enabled=False)
    elif change == "disabled user":
        type(cast.bob).objects.filter(pk=cast.bob.pk).update(is_active=False)
    else:
        type(cast.acme).objects.filter(pk=cast.acme.pk).update(enabled=False)
    assert post(PING, authorization(key)).status_code == 401


def test_wrong_secrets_are_limited_by_address_and_a_right_one_of_another_address_passes(
    cast: Cast, keys: Keys, settings: Any
) -> None:
    django_cache.clear()
    settings.API_FAILURES_PER_MINUTE = 3
    key = keys("bob")
    wrong = {"Authorization": f"Bearer {key.access_key_id}:wrong"}
    answers = [post(PING, wrong, REMOTE_ADDR="192.0.2.7").status_code for _ in range(5)]
    assert answers[:3] == [401, 401, 401] and answers[-1] == 429
    assert post(PING, authorization(key), REMOTE_ADDR="192.0.2.7").status_code == 429
    assert post(PING, authorization(key), REMOTE_ADDR="192.0.2.8").status_code == 200


def test_a_use_is_noted_as_one_of_this_server(cast: Cast, keys: Keys) -> None:
    key = keys("bob")
    post(PING, authorization(key))
    page = cast.client("bob").get("/keys/").content.decode()
    assert "MCP server · 127.0.0.1" in page


# --- Pages of somebody else -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://testserver", 200),
        ("https://console.example.com", 200),
        ("https://a.example.org", 200),
        ("https://attacker.example.com", 403),
        ("http://console.example.com", 403),
        ("https://a.example.org.attacker.com", 403),
        ("http://testserver:81", 403),
        ("null", 403),
        ("http://[", 403),
        ("", 403),
    ],
)
def test_a_page_of_somebody_else_is_refused(rita: dict[str, str], settings: Any, origin: str, status: int) -> None:
    settings.CONSOLE_URL = "https://console.example.com/"
    settings.CSRF_TRUSTED_ORIGINS = ["https://*.example.org"]
    response = post(PING, rita | {"Origin": origin})
    assert response.status_code == status
    if status == 403:
        assert "GANTRY_TRUSTED_ORIGINS" in sentence(response)


def test_a_name_that_leads_here_by_rebinding_is_refused(rita: dict[str, str], settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["testserver"]
    headers = rita | {"Origin": "http://rebound.example.com", "Host": "rebound.example.com"}
    assert post(PING, headers).status_code == 400


# --- Requests -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["get", "delete", "put", "head", "options"])
def test_there_is_no_stream_and_no_session(rita: dict[str, str], method: str) -> None:
    response = getattr(browser(), method)("/mcp", headers=rita)
    assert (response.status_code, response["Allow"]) == (405, "POST")


def test_a_body_that_is_too_large_is_refused(rita: dict[str, str]) -> None:
    filler = "x" * MAX_BODY_BYTES
    response = post(request("ping", _meta={"filler": filler}), rita)
    assert (response.status_code, sentence(response)) == (413, "The body is larger than 1024 KiB.")
    response = post(request("ping", _meta={"filler": filler[:-200]}), rita)
    assert response.status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/jsonx"])
def test_another_content_type_is_refused(rita: dict[str, str], kind: str) -> None:
    assert post(PING, rita, content_type=kind).status_code == 415


@pytest.mark.parametrize(
    ("version", "status"),
    [("2025-03-26", 200), ("2025-06-18", 200), ("2025-11-25", 200), ("2024-11-05", 400), ("x", 400)],
)
def test_a_revision_that_is_not_spoken_is_told_which_are(rita: dict[str, str], version: str, status: int) -> None:
    response = post(PING, rita | {"MCP-Protocol-Version": version})
    assert response.status_code == status
    if status == 400:
        error = json.loads(response.content)["error"]
        assert error["data"] == {"supported": [*VERSIONS], "requested": version}


@pytest.mark.parametrize(
    ("asked", "answered"),
    [("2025-03-26", "2025-03-26"), ("2025-06-18", "2025-06-18"), ("2024-11-05", "2025-11-25"), ("x", "2025-11-25")],
)
def test_the_handshake_agrees_on_a_revision(rita: dict[str, str], asked: str, answered: str) -> None:
    client = {"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    result = json.loads(post(request("initialize", **client), rita).content)["result"]
    assert result["protocolVersion"] == answered
    assert result["capabilities"] == {"tools": {}}
    assert set(result) == {"protocolVersion", "capabilities", "serverInfo", "instructions"}
    assert set(json.loads(post(request("tools/list"), rita).content)["result"]) == {"tools"}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, -32700),
        (b"\xff", 400, -32700),
        (b"[" * 100_000, 400, -32700),
        ([PING], 400, -32600),
        ("ping", 400, -32600),
        ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, 400, -32600),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, 400, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": 5}, 400, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}, 400, -32600),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, 400, -32600),
        ({"jsonrpc": "2.0", "result": {}}, 400, -32600),
        (request("resources/list"), 200, -32601),
        (request("initialize"), 200, -32602),
        (request("tools/call"), 200, -32602),
        (request("tools/call", name="topic_get", arguments=[]), 200, -32602),
        (request("tools/call", name="no_such"), 200, -32602),
        (request("tools/list", cursor="2"), 200, -32602),
    ],
)
def test_what_is_no_request_is_told_so(rita: dict[str, str], body: object, status: int, code: int) -> None:
    response = post(body, rita)
    assert response.status_code == status
    told = json.loads(response.content)
    assert told["error"]["code"] == code
    assert told["id"] == (7 if status == 200 else None)


# --- Without a handshake --------------------------------------------------------------------------------------------
META = {
    "io.modelcontextprotocol/protocolVersion": WITHOUT_HANDSHAKE,
    "io.modelcontextprotocol/clientCapabilities": {},
}


def told(method: str, **more: str) -> dict[str, str]:
    """The headers that say what the body says."""
    return {"MCP-Protocol-Version": WITHOUT_HANDSHAKE, "Mcp-Method": method, **more}


@pytest.mark.parametrize(
    ("message", "headers", "status", "code"),
    [
        (request("server/discover", _meta=META), told("server/discover"), 200, 0),
        (request("tools/list", _meta=META), told("tools/list"), 200, 0),
        (
            request("tools/call", _meta=META, name="region_list"),
            told("tools/call", **{"Mcp-Name": "region_list"}),
            200,
            0,
        ),
        (request("tools/call", _meta=META, name="region_list"), told("tools/call"), 400, -32020),
        (request("tools/call", _meta=META, name="region_list"), told("tools/call", **{"Mcp-Name": "x"}), 400, -32020),
        (request("tools/call", _meta=META, name="x"), told("tools/call", **{"Mcp-Name": "x"}), 400, -32602),
        (request("tools/list", _meta=META), told("tools/call"), 400, -32020),
        (request("tools/list", _meta=META), {"MCP-Protocol-Version": WITHOUT_HANDSHAKE}, 400, -32020),
        (request("tools/list", _meta=META | {next(iter(META)): "2025-11-25"}), told("tools/list"), 400, -32020),
        (request("tools/list"), told("tools/list"), 400, -32602),
        (request("tools/list", _meta={next(iter(META)): WITHOUT_HANDSHAKE}), told("tools/list"), 400, -32602),
        (request("ping", _meta=META), told("ping"), 404, -32601),
        (request("initialize", _meta=META), told("initialize"), 404, -32601),
    ],
)
def test_each_request_says_what_it_is(
    rita: dict[str, str], message: dict[str, Any], headers: dict[str, str], status: int, code: int
) -> None:
    response = post(message, rita | headers)
    assert response.status_code == status
    answered = json.loads(response.content)
    assert answered["id"] == 7
    if code:
        assert answered["error"]["code"] == code
        return
    result = answered["result"]
    assert result["resultType"] == "complete"
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "gantry"
    if message["method"] != "tools/call":
        assert (result["ttlMs"], result["cacheScope"]) == (0, "private")


# --- Answers --------------------------------------------------------------------------------------------------------
def test_a_notification_is_taken_and_not_answered(rita: dict[str, str]) -> None:
    response = post({"jsonrpc": "2.0", "method": "notifications/initialized"}, rita)
    assert (response.status_code, response.content) == (202, b"")


def test_an_answer_is_kept_by_nobody(rita: dict[str, str]) -> None:
    response = post(PING, rita)
    assert json.loads(response.content) == {"jsonrpc": "2.0", "id": 7, "result": {}}
    assert "no-store" in response["Cache-Control"]
    assert response["X-Request-Id"]
    assert "Mcp-Session-Id" not in response and "Set-Cookie" not in response


def test_it_can_be_turned_off(rita: dict[str, str], settings: Any) -> None:
    settings.MCP = False
    assert post(PING, rita).status_code == 404


# --- Secrets --------------------------------------------------------------------------------------------------------
def test_no_secret_reaches_the_trail_or_the_log(cast: Cast, keys: Keys, caplog: pytest.LogCaptureFixture) -> None:
    django_cache.clear()
    caplog.set_level(logging.DEBUG)
    bob, given = keys("bob"), "a-secret-that-is-told-once"
    headers = authorization(bob)
    for arguments in (
        {"value": given},
        {"value": [given]},
        {"value": given, "unknown": given},
        {"value": given * 99_999},
    ):
        call = request("tools/call", name="job_putSecret", arguments={"secret": "password_of_it", **arguments})
        post(call, headers)
    post(PING, {"Authorization": headers["Authorization"] + "wrong"})
    entries = Entry.objects.filter(channel="mcp")
    assert entries.count() == 4
    kept = str([*entries.values()]) + caplog.text
    assert bob.access_key_secret not in kept and given not in kept


def test_a_scope_narrows_a_call_as_it_does_one_of_the_api(cast: Cast, keys: Keys) -> None:
    django_cache.clear()
    call = request("tools/call", name="instance_list", arguments={})
    headers = authorization(keys("alice")) | {"x-acs-resourcegroupid": "1"}
    result = json.loads(post(call, headers).content)["result"]
    assert result["structuredContent"]["message"].startswith("The header x-acs-resourcegroupid needs")
