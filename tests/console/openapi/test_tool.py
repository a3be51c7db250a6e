"""The API Tool: directory, operation page, and calls that the console signs for a user."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache as django_cache
from django.test import Client

from console.accounts import services as accounts
from console.accounts.crypto import decrypt
from console.accounts.models import AccessKey
from console.audit.models import Entry
from console.openapi.operations import OPERATIONS
from console.openapi.reference import references
from console.topics.models import Topic
from tests.support.cast import Cast, make_group, make_topic

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def fresh_limits(cast: Cast) -> Iterator[None]:
    django_cache.clear()
    yield


@pytest.fixture
def alices(cast: Cast) -> AccessKey:
    issued = accounts.create_access_key(actor=cast.actor("alice"), user=cast.alice)
    return AccessKey.objects.get(access_key_id=issued.access_key_id)


def _try(client: Client, path: str, key: str, **given: str) -> Any:
    form = {"key": key} | {f"p-{n}" if n != "consent" else n: v for n, v in given.items()}
    return client.post(f"/api-tool/try/{path}", form, headers={"HX-Request": "true"})


def _listed(client: Client, **query: str) -> list[str]:
    text = client.get("/api-tool/", query, headers={"HX-Request": "true"}).content.decode()
    return re.findall(r'class="name" href="/api-tool/([^"]+)"', text)


def test_the_directory_lists_every_operation(cast: Cast) -> None:
    assert set(_listed(cast.client("nora"))) == set(OPERATIONS)


def test_a_keyword_finds_parts_of_names_in_any_case(cast: Cast) -> None:
    found = _listed(cast.client("alice"), q="LISTIN")
    assert set(found) == {"topic/listInPage", "empower/listInInstance"}
    assert _listed(cast.client("alice"), q="no such thing") == []


def test_a_service_narrows_the_directory_and_no_keyword_lists_all_of_it(cast: Cast) -> None:
    services = {r.service for r in references()}
    for service in services:
        wanted = {path for path, o in OPERATIONS.items() if o.service == service}
        assert set(_listed(cast.client("alice"), service=service, q="")) == wanted


@pytest.mark.parametrize("path", sorted(OPERATIONS))
def test_the_page_of_an_operation_names_every_parameter_and_error(cast: Cast, path: str) -> None:
    text = cast.client("alice").get(f"/api-tool/{path}").content.decode()
    operation = OPERATIONS[path]
    for name in (*operation.parameters.model_fields, *operation.errors, operation.rpc or path):
        assert f"<code>{name}</code>" in text or name in text


def test_a_call_goes_through_and_shows_the_envelope(cast: Cast, alices: AccessKey) -> None:
    make_topic(cast.alice, cast.instance, "flights")
    response = _try(cast.client("alice"), "topic/get", alices.access_key_id,
                    instanceId=cast.instance.instance_id, topic="flights")  # fmt: skip
    text = response.content.decode()
    assert response.status_code == 200 and "SUCCESS" in text
    assert '<span class="json-key">&quot;topic&quot;</span>' in text and " ms</span>" in text


def test_the_secret_never_reaches_the_browser(cast: Cast, alices: AccessKey) -> None:
    secret = decrypt(alices.secret_encrypted)
    client = cast.client("alice")
    page = client.get("/api-tool/topic/listInPage").content.decode()
    answer = _try(client, "topic/listInPage", alices.access_key_id, instanceId=cast.instance.instance_id)
    assert alices.access_key_id in page
    assert secret not in page and secret not in answer.content.decode()


def test_a_call_is_judged_and_recorded_as_one_of_the_key_from_the_visitors_address(cast: Cast) -> None:
    issued = accounts.create_access_key(actor=cast.actor("rita"), user=cast.rita)
    response = cast.client("rita").post(
        "/api-tool/try/topic/create",
        {
            "key": issued.access_key_id, "consent": "on", "p-topic": "hers", "p-orderType": "0",
            "p-instanceId": cast.instance.instance_id,
        },
        REMOTE_ADDR="192.0.2.7",
    )  # fmt: skip
    assert "AUTH_PERMISSION_DENIED" in response.content.decode()
    entry = Entry.objects.filter(result="refused").latest("pk")
    assert (entry.channel, entry.source_ip, entry.access_key_id) == ("api", "192.0.2.7", issued.access_key_id)


def test_a_disabled_key_is_not_offered_and_not_accepted(cast: Cast, alices: AccessKey) -> None:
    AccessKey.objects.filter(pk=alices.pk).update(enabled=False)
    client = cast.client("alice")
    assert alices.access_key_id not in client.get("/api-tool/region/list").content.decode()
    assert _try(client, "region/list", alices.access_key_id).status_code == 422


def test_nobody_signs_with_a_key_of_another_user(cast: Cast, alices: AccessKey) -> None:
    for name in ("bob", "charlie"):
        response = _try(cast.client(name), "region/list", alices.access_key_id)
        assert response.status_code == 422


def test_a_change_needs_the_consent(cast: Cast, alices: AccessKey) -> None:
    given = {"topic": "made-by-tool", "orderType": "0", "instanceId": cast.instance.instance_id}
    refused = _try(cast.client("alice"), "topic/create", alices.access_key_id, **given)
    assert refused.status_code == 422 and "tick the box" in refused.content.decode()
    assert not Topic.objects.filter(name="made-by-tool").exists()
    assert _try(cast.client("alice"), "topic/create", alices.access_key_id, consent="on", **given).status_code == 200
    assert Topic.objects.filter(name="made-by-tool").exists()


def test_a_change_by_get_or_without_the_token_is_not_made(cast: Cast, alices: AccessKey) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(cast.alice, "allauth.account.auth_backends.AuthenticationBackend")
    assert client.get("/api-tool/try/region/list").status_code == 405
    assert client.post("/api-tool/try/region/list", {"key": alices.access_key_id}).status_code == 403


def test_suggestions_are_what_the_visitor_may_see(cast: Cast) -> None:
    make_topic(cast.alice, cast.instance, "visible-to-some")
    make_group(cast.alice, cast.instance, "GID_visible")
    path = f"/api-tool/consumer/resetoffset?p-instanceId={cast.instance.instance_id}"
    rita = cast.client("rita").get(path).content.decode()
    assert '<option value="visible-to-some"' in rita and '<option value="GID_visible"' in rita
    for name in ("nora", "charlie"):
        assert "visible-to-some" not in cast.client(name).get(path).content.decode()


def test_the_samples_hold_what_the_form_holds(cast: Cast, alices: AccessKey) -> None:
    hostile = """<script>'"$(id)`\\"""
    response = cast.client("alice").get(
        "/api-tool/topic/create",
        {"key": alices.access_key_id, "p-topic": "from-form", "p-remark": hostile, "p-orderType": "2"},
        headers={"HX-Request": "true"},
    )
    text = response.content.decode()
    assert text.count("from-form") >= 3 and "<script>" not in text and "Try it" not in text


def test_a_time_of_the_viewers_zone_becomes_milliseconds(cast: Cast, alices: AccessKey) -> None:
    client = cast.client("alice")
    client.cookies["gantry_zone"] = "Europe/Berlin"
    response = client.get(
        "/api-tool/trend/topicInputTps",
        {"key": alices.access_key_id, "p-beginTime": "2026-03-01T12:00:00"},
        headers={"HX-Request": "true"},
    )
    assert "1772362800000" in response.content.decode()


def test_the_envelope_is_marked_and_escaped() -> None:
    from console.openapi.tool.views import highlighted

    text = highlighted(json.dumps({"a<b": '</pre>"x', "n": -1.5, "t": None}))
    assert '<span class="json-key">&quot;a&lt;b&quot;</span>' in text and "</pre>" not in text
    assert '<span class="json-number">-1.5</span>' in text and '<span class="json-word">null</span>' in text
