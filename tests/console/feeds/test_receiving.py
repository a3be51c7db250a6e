"""Requests to webhooks: who is answered what, and what is stored then."""

from __future__ import annotations

import base64
import json
import logging
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from analytics.inflow.webhook import MOST_BODY_BYTES, signed
from console.accounts.models import Tenant
from console.feeds import receiving, services
from console.feeds.models import Arrival, Feed, Kind, Receipt, Waiting
from console.feeds.queries import hash_of
from tests.console.feeds.conftest import hook_of
from tests.support.browser import browser
from tests.support.cast import Cast


def send(token: str, body: bytes = b'{"n": 1}', *, rest: str = "", method: str = "post", **more: Any) -> Any:
    kind = more.pop("content_type", "application/json")
    return getattr(browser(), method)(f"/hooks/{token}{rest}", body, content_type=kind, **more)


def stored(feed: Feed) -> list[dict[str, Any]]:
    return [json.loads(bytes(row.event)) for row in Arrival.objects.filter(feed=feed)]


def waiting(tenant: Tenant) -> tuple[int, int]:
    row = Waiting.objects.get(tenant=tenant)
    return row.events, row.bytes


def test_a_request_is_stored_and_answered_with_the_id_of_its_event(cast: Cast, hook: Feed, token: str) -> None:
    answer = send(token, rest="/orders/new?dry=1&tag=a&tag=b", headers={"x-own": "1", "authorization": "Bearer s3cret"})
    assert answer.status_code == 200
    (event,) = stored(hook)
    assert answer.json() == {"id": event["id"]}
    data = event["data"]
    assert (data["method"], data["path"], data["body"]) == ("POST", "/orders/new", {"n": 1})
    assert data["query"] == {"dry": "1", "tag": ["a", "b"]}
    assert data["headers"]["x-own"] == "1"
    assert "s3cret" not in json.dumps(event)
    assert token not in json.dumps(event)
    assert waiting(cast.acme) == (1, Arrival.objects.get().size)


def test_no_session_and_no_token_of_a_form_is_asked_for(hook: Feed, token: str) -> None:
    strict = Client(enforce_csrf_checks=True)
    answer = strict.post(f"/hooks/{token}", b"{}", content_type="application/json")
    assert answer.status_code == 200
    assert not answer.cookies


def test_a_session_that_is_sent_along_is_not_looked_at(
    cast: Cast, hook: Feed, token: str, django_assert_num_queries: Any
) -> None:
    client = cast.client("alice")
    with django_assert_num_queries(1):
        answer = client.post("/hooks/unknown", b"{}", content_type="application/json")
    assert answer.status_code == 404
    assert client.post(f"/hooks/{token}", b"{}", content_type="application/json").status_code == 200
    assert "cookie" not in stored(hook)[0]["data"]["headers"]


@pytest.mark.parametrize("token", ["", "x", "x" * 5000, "%00", "%F0%9F%98%80", "..%2f..", "\ud800"])
def test_an_unknown_token_is_no_webhook(cast: Cast, hook: Feed, token: str) -> None:
    answer = send(token.encode("utf-8", "replace").decode())
    assert answer.status_code == 404
    assert answer.json() == {"error": "There is no such webhook."}
    assert Arrival.objects.count() == 0


def test_an_unknown_token_costs_what_a_known_one_of_nobody_costs(
    cast: Cast, hook: Feed, token: str, django_assert_num_queries: Any
) -> None:
    Tenant.objects.filter(pk=cast.acme.pk).update(enabled=False)
    for one in (token, "unknown"):
        with django_assert_num_queries(1):
            assert send(one).status_code == 404


def test_a_token_that_was_renewed_or_deleted_is_nobodys(cast: Cast, hook: Feed, token: str) -> None:
    other = services.renew_token(hook)
    assert send(token).status_code == 404
    assert send(other).status_code == 200
    services.delete(hook)
    assert send(other).status_code == 404
    assert waiting(cast.acme) == (0, 0)


def test_a_schedule_has_no_address(nightly: Feed) -> None:
    Feed.objects.filter(pk=nightly.pk).update(token_hash=hash_of("token"))
    assert send("token").status_code == 404


def test_a_token_is_kept_as_its_hash_and_never_logged(
    hook: Feed, token: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert token not in json.dumps(list(Feed.objects.values()), default=str)

    def broken(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    caplog.set_level(logging.DEBUG)
    send("wrong-token")
    send(token, b"{")
    send(token, method="delete")
    send(f"{token}/%0a/x")
    monkeypatch.setattr("console.feeds.queries.feed_of_token", broken)
    client = Client(raise_request_exception=False)
    assert client.post(f"/hooks/{token}/x", b"{}", content_type="application/json").status_code == 500
    assert "/hooks/x" in caplog.text
    assert "wrong-token" not in caplog.text
    assert token not in caplog.text


@pytest.mark.parametrize(
    ("told", "sent", "status"),
    [
        ({}, {"method": "get"}, 405),
        ({"methods": ["GET"]}, {"method": "get"}, 200),
        ({"methods": ["GET"]}, {}, 405),
        ({"networks": ["127.0.0.0/8"]}, {}, 200),
        ({"networks": ["203.0.113.0/24"]}, {}, 403),
        ({}, {"body": b"{"}, 400),
        ({}, {"headers": {"idempotency-key": "x" * 600}}, 400),
        ({}, {"body": b"x" * MOST_BODY_BYTES, "content_type": "text/plain"}, 200),
        ({}, {"body": b"x" * (MOST_BODY_BYTES + 1), "content_type": "text/plain"}, 413),
    ],
)
def test_a_webhook_takes_what_it_is_told_to(
    cast: Cast, told: dict[str, Any], sent: dict[str, Any], status: int
) -> None:
    feed = hook_of(cast, **told)
    answer = (
        send(services.renew_token(feed), **sent)
        if sent.get("method") != "get"
        else browser().get(f"/hooks/{services.renew_token(feed)}")
    )
    assert answer.status_code == status
    assert Arrival.objects.count() == (status == 200)
    assert (answer.get("Allow") is not None) == (status == 405)


def test_a_signature_is_asked_for_where_it_is_wanted(cast: Cast) -> None:
    feed = hook_of(cast, signature="X-Hub-Signature-256")
    token = services.renew_token(feed)
    assert send(token).status_code == 401  # there is no key yet
    key = services.renew_key(feed)
    assert key not in Feed.objects.get(pk=feed.pk).key_encrypted
    right = signed(b'{"n": 1}', key)
    assert send(token, headers={"x-hub-signature-256": right}).status_code == 200
    assert send(token, b'{"n": 2}', headers={"x-hub-signature-256": right}).status_code == 401
    assert send(token, headers={"x-gantry-signature": right}).status_code == 401
    assert "x-hub-signature-256" not in stored(feed)[0]["data"]["headers"]


def test_what_is_sent_again_has_the_same_id_and_is_one_event(cast: Cast, hook: Feed, token: str) -> None:
    first, again, other = (send(token, headers={"idempotency-key": key}).json()["id"] for key in ("a", "a", "b"))
    assert first == again != other
    events = [{"ce-id": "1", "ce-source": "x"}, {"ce-id": "1", "ce-source": "x"}, {"ce-id": "1", "ce-source": "y"}]
    one, same, third = (send(token, headers=headers).json()["id"] for headers in events)
    assert one == same != third
    assert len(stored(hook)) == waiting(cast.acme)[0] == 4
    assert "idempotency-key" in stored(hook)[0]["data"]["headers"]
    Receipt.objects.update(at=timezone.now() - receiving.WINDOW - timedelta(seconds=1))
    assert send(token, headers={"idempotency-key": "a"}).json()["id"] != first


def test_one_that_comes_twice_at_once_is_one_event(
    cast: Cast, hook: Feed, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both look before either has stored: the second finds it once the account's row is its own."""
    first = send(token, headers={"idempotency-key": "a"}).json()["id"]
    known, looks = receiving._known, []

    def blind_at_first(feed: Feed, key: str) -> str | None:
        looks.append(key)
        return None if len(looks) == 1 else known(feed, key)

    monkeypatch.setattr(receiving, "_known", blind_at_first)
    assert send(token, headers={"idempotency-key": "a"}).json()["id"] == first
    assert len(looks) == 2
    assert waiting(cast.acme) == (1, Arrival.objects.get().size)


def test_what_waits_is_bounded_by_account(cast: Cast, hook: Feed, token: str, settings: Settings) -> None:
    settings.WEBHOOK_WAITING_EVENTS = 2
    key = {"idempotency-key": "a"}
    first = send(token, headers=key).json()["id"]
    assert send(token).status_code == 200
    answer = send(services.renew_token(hook_of(cast, "other")))
    assert (answer.status_code, answer["Retry-After"]) == (429, "5")
    assert send(token, headers=key).json()["id"] == first
    umbrella = services.keep(
        tenant=cast.charlies.tenant, name="orders", holder="task orders", kind=Kind.WEBHOOK, told={}, retention_days=7
    )
    assert send(services.renew_token(umbrella)).status_code == 200
    settings.WEBHOOK_WAITING_EVENTS, settings.WEBHOOK_WAITING_BYTES = 100, waiting(cast.acme)[1] + 50
    assert send(token).status_code == 429
    assert waiting(cast.acme)[0] == 2


def test_a_database_that_is_away_is_told_as_such(hook: Feed, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object, **__: object) -> None:
        raise OperationalError("no connection")

    monkeypatch.setattr("console.feeds.receiving.store", away)
    answer = send(token)
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert "no connection" not in answer.content.decode()


MULTIPART = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nb\0\r\n--x--\r\n'


@pytest.mark.parametrize(
    ("kind", "body", "told"),
    [
        ("multipart/form-data; boundary=x", MULTIPART, base64.b64encode(MULTIPART).decode()),
        ("application/x-www-form-urlencoded", b"&".join([b"a=1"] * 3000), "&".join(["a=1"] * 3000)),
        ("application/x-www-form-urlencoded", b"a=%00", "a=%00"),
    ],
    ids=["multipart", "many fields", "nul"],
)
def test_a_form_is_a_body_like_any_other(hook: Feed, token: str, kind: str, body: bytes, told: str) -> None:
    assert send(token, body, content_type=kind).status_code == 200
    (event,) = stored(hook)
    assert event["data"]["body"] == told


@pytest.mark.parametrize(
    ("body", "rest", "status"),
    [(b"x" * (17 << 20), "", 413), (b"", "?" + "&".join(["a=1"] * 3000), 400)],
    ids=["body", "query"],
)
def test_what_is_too_much_is_a_sentence_and_no_fault_of_ours(  # noqa: PLR0917
    hook: Feed, token: str, caplog: pytest.LogCaptureFixture, body: bytes, rest: str, status: int
) -> None:
    for key, expected in ((token, status), ("nobodys", 404)):
        answer = send(key, body, rest=rest, content_type="text/plain")
        assert (answer.status_code, list(answer.json())) == (expected, ["error"])
    assert not Arrival.objects.exists()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
