"""What a webhook takes, and what a request becomes."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.inflow.webhook import (
    MOST_BODY_BYTES,
    BodyRefused,
    Request,
    Webhook,
    WebhookError,
    event_of,
    is_signed,
    signed,
)

AT = datetime(2026, 1, 15, 8, 30, 0, 120_000, UTC)


def request(body: bytes = b"", kind: str = "application/json", **more: Any) -> Request:
    headers = {"content-type": kind} | more.pop("headers", {})
    return Request("POST", more.pop("path", "/"), more.pop("query", []), headers, body)


def data(sent: Request, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(event_of(sent, identity="e1", task="hook", at=AT, **more))["data"]
    return found


def test_a_charset_whose_decoding_takes_minutes_is_none() -> None:
    """A megabyte of punycode takes Python seven minutes; the limit of the test is shorter."""
    body = b"a" * MOST_BODY_BYTES
    assert data(request(body, "text/plain; charset=punycode"))["bodyEncoding"] == "base64"


@pytest.mark.parametrize("body", [b'{"n": 1e999}', b'{"n": "\\ud800"}'])
def test_json_that_cannot_be_kept_is_refused_by_a_sentence(body: bytes) -> None:
    with pytest.raises(BodyRefused, match="a text that is none, or a number that is too large"):
        data(request(body))


def test_an_event_tells_the_request() -> None:
    event = json.loads(
        event_of(
            request(b'{"n": 1}', path="/orders", query=[("a", "1"), ("b", "2"), ("b", "3")]),
            identity="e1", task="hook", at=AT,
        )
    )  # fmt: skip
    assert event == {
        "specversion": "1.0", "id": "e1", "source": "webhook/hook", "type": "webhook:Request",
        "time": "2026-01-15T08:30:00.120Z", "datacontenttype": "application/json",
        "data": {
            "method": "POST", "path": "/orders", "query": {"a": "1", "b": ["2", "3"]},
            "headers": {"content-type": "application/json"}, "body": {"n": 1}, "bodyEncoding": "json",
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "body", "told", "encoding"),
    [
        ("application/json", b"[1]", [1], "json"),
        ("application/cloudevents+json; charset=utf-8", b'{"id": "x"}', {"id": "x"}, "json"),
        ("application/json", b"", None, "json"),
        ("text/plain", "grün".encode(), "grün", "text"),
        ("text/plain; charset=latin-1", "grün".encode("latin-1"), "grün", "text"),
        ("text/plain; charset=rot13", b"abc", "YWJj", "base64"),
        ("text/plain; charset=raw_unicode_escape", b"abc", "YWJj", "base64"),
        ("text/plain; charset=Unicode-Escape", b"abc", "YWJj", "base64"),
        ("text/plain; charset=undefined", b"abc", "YWJj", "base64"),
        ("text/plain; charset=IDNA", b"abc", "YWJj", "base64"),
        ("text/plain", b"\xff", "/w==", "base64"),
        ("application/x-www-form-urlencoded", b"a=1&b=2", "a=1&b=2", "text"),
        ("application/xml", b"<a/>", "<a/>", "text"),
        ("image/svg+xml", b"<svg/>", b64encode(b"<svg/>").decode(), "base64"),
        ("application/atom+xml", b"<a/>", "<a/>", "text"),
        ("application/octet-stream", b"\0\1", "AAE=", "base64"),
        ("", b"abc", "YWJj", "base64"),
        ("no content type at all", b"abc", "abc", "text"),
    ],
)
def test_a_body_is_what_its_content_type_says(kind: str, body: bytes, told: object, encoding: str) -> None:
    found = data(request(body, kind))
    assert (found["body"], found["bodyEncoding"]) == (told, encoding)


@pytest.mark.parametrize("body", [b"{", b"NaN", b"\xff", b"[" * 100_000, b'"\\ud800"', b"1e999"])
def test_a_body_that_is_no_json_where_it_should_be_is_refused(body: bytes) -> None:
    with pytest.raises(BodyRefused):
        data(request(body))


@given(body=st.binary(max_size=200), kind=st.text(max_size=60), headers=st.dictionaries(st.text(), st.text()))
def test_whatever_comes_is_an_event_or_refused(body: bytes, kind: str, headers: dict[str, str]) -> None:
    try:
        found = event_of(request(body, kind, headers=headers), identity="e1", task="hook", at=AT)
    except BodyRefused:
        return
    assert json.loads(found)["data"]["bodyEncoding"] in {"json", "text", "base64"}


def test_headers_that_tell_a_secret_are_left_out() -> None:
    sent = {
        "authorization": "Bearer s3cret",
        "cookie": "s3cret",
        "x-gitlab-token": "s3cret",
        "x-own": "s3cret",
        "x-a": "b",
    }
    assert data(request(headers=sent), hidden=["x-own"])["headers"] == {"content-type": "application/json", "x-a": "b"}


def test_a_signature_is_that_of_the_body_by_the_key() -> None:
    right = signed(b"body", "key")
    assert is_signed(b"body", "key", right)
    assert is_signed(b"body", "key", f" {right.upper()} ".replace("SHA256", "sha256"))
    for body, key, signature in (
        (b"bodY", "key", right),
        (b"body", "keY", right),
        (b"body", "key", ""),
        (b"body", "key", "ü"),
    ):
        assert not is_signed(body, key, signature)


@pytest.mark.parametrize(
    ("told", "part"),
    [
        ({"methods": ["TRACE"]}, "methods"),
        ({"methods": "POST"}, "methods"),
        ({"networks": ["10.0.0.0/33"]}, "networks"),
        ({"networks": [1]}, "networks"),
        ({"networks": ["10.0.0.1"] * 101}, "networks"),
        ({"signature": "x sig"}, "signature"),
        ({"signature": "Authorization"}, "signature"),
        ({"signature": 7}, "signature"),
    ],
)
def test_what_a_webhook_cannot_be_told_is_refused(told: dict[str, Any], part: str) -> None:
    with pytest.raises(WebhookError) as refused:
        Webhook.read(told)
    assert refused.value.part == part


def test_a_webhook_is_read_back_as_it_was_told() -> None:
    hook = Webhook.read(
        {"methods": ["PUT", "PUT"], "networks": ["203.0.113.9/24", "2001:db8::/32"], "signature": "X-Sig"}
    )
    assert Webhook.read(hook.to_document()) == hook
    assert Webhook.read({}).methods == ("POST",)


def test_networks_admit_their_addresses() -> None:
    hook = Webhook.read({"networks": ["203.0.113.0/24", "2001:db8::/32"]})
    assert all(hook.admits(one) for one in ("203.0.113.7", "::ffff:203.0.113.7", "2001:db8::1", "2001:db8::1%eth0"))
    assert not any(hook.admits(one) for one in ("203.0.114.7", "2001:db9::1", "", "nobody"))
    assert Webhook.read({}).admits("")


def test_what_is_sent_again_is_told_by_a_key_or_by_a_cloudevent() -> None:
    keyed = request(headers={"idempotency-key": "a", "ce-id": "1"})
    assert keyed.deduplication == "key a"
    one, two = (request(headers={"ce-id": "1", "ce-source": source}) for source in ("x", "y"))
    assert one.deduplication != two.deduplication
    assert request().deduplication == ""
