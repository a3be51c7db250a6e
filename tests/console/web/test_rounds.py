"""What streams ask alike is rendered once, and never for anybody whom it is not for."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import connection
from django.middleware import csrf
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from console.accounts.models import Tenant
from console.overview import queries
from console.web import rounds, streams
from console.web.streams import Event, Part, Streams
from tests.support.asgi import Caller
from tests.support.browser import browser
from tests.support.cast import Cast, make_topic

pytestmark = pytest.mark.django_db(transaction=True)
TASKS, ATTENTION, FIGURES = "/overview/tasks", "/overview/attention", "/overview/figures"
Calls = list[str]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """The names of those for whom the view has looked for tasks; what it said is shared for as long as a test takes."""
    found: Calls = []
    real = queries.tasks

    def counted(actor: Any) -> Any:
        found.append(actor.name)
        return real(actor)

    monkeypatch.setattr(queries, "tasks", counted)
    monkeypatch.setattr(rounds, "FRESH_S", 600.0)
    monkeypatch.setattr(rounds, "_PATIENCE_S", 1200.0)
    streams._handler.cache_clear()
    return found


def said(client: Client, *paths: str, peer: str = "127.0.0.1", cookies: str = "", **headers: str) -> list[Event]:
    """What a stream of this browser is told when all these parts are due."""
    kept = "; ".join([*(f"{name}={one.value}" for name, one in client.cookies.items()), *filter(None, [cookies])])
    given = {"host": "testserver", "cookie": kept, "hx-request": "true"} | headers
    scope = Caller(streams.PATH, peer=peer, headers=given).scope
    parts = [Part(path, path, 15.0, "none", 0.0) for path in paths]
    ours = Streams()
    with ours.threads:
        return ours.threads.submit(streams._asked, scope, parts, 0.0, ours, "").result()


def kinds(events: list[Event]) -> list[str]:
    return [event.kind for event in events]


def test_two_browsers_of_one_person_cost_one_rendering(cast: Cast, calls: Calls) -> None:
    browsers = browser(), browser()
    for one in browsers:
        one.force_login(cast.users["alice"], "allauth.account.auth_backends.AuthenticationBackend")
    first, second = (said(one, TASKS) for one in browsers)
    assert kinds(first) == kinds(second) == ["part"]
    assert first[0].data == second[0].data
    assert len(calls) == 1


CHANGES: dict[str, Callable[[Cast], list[Event]]] = {
    "person": lambda cast: said(cast.client("bob"), TASKS),
    "account": lambda cast: said(cast.client("charlie"), TASKS),
    "address": lambda cast: said(cast.client("alice"), TASKS, peer="127.0.0.9"),
    "query": lambda cast: said(cast.client("alice"), f"{TASKS}?page=2"),
    "language": lambda cast: said(cast.client("alice"), TASKS, **{"accept-language": "zh-hans"}),
    "chosen language": lambda cast: said(
        cast.client("alice"), TASKS, cookies=f"{settings.LANGUAGE_COOKIE_NAME}=zh-hans"
    ),
    "zone": lambda cast: said(cast.client("alice"), TASKS, cookies="gantry_zone=Asia/Tokyo"),
    "any cookie": lambda cast: said(cast.client("alice"), TASKS, cookies="gantry_columns=x"),
    "page": lambda cast: said(cast.client("alice"), TASKS, **{"hx-current-url": "http://testserver/elsewhere"}),
}


@pytest.mark.parametrize("what", CHANGES)
def test_who_asks_under_other_circumstances_is_answered_anew(cast: Cast, calls: Calls, what: str) -> None:
    said(cast.client("alice"), TASKS)
    assert kinds(CHANGES[what](cast)) == ["part"]
    assert len(calls) == 2


def test_what_a_session_has_kept_is_one_of_the_circumstances(cast: Cast, calls: Calls) -> None:
    alice = cast.client("alice")
    said(alice, TASKS)
    session = alice.session
    session["instance"] = "another"
    session.save()
    said(alice, TASKS)
    assert len(calls) == 2


@pytest.mark.parametrize("how", ["session", "disabled", "password", "account"])
def test_who_may_not_come_in_any_more_is_not_told_what_others_were(cast: Cast, calls: Calls, how: str) -> None:
    """However fresh the answer is."""
    bob = cast.client("bob")
    assert kinds(said(bob, TASKS)) == ["part"]
    if how == "session":
        Session.objects.all().delete()
    elif how == "disabled":
        type(cast.bob).objects.filter(pk=cast.bob.pk).update(is_active=False)
    elif how == "password":
        type(cast.bob).objects.filter(pk=cast.bob.pk).update(must_change_password=True)
    else:
        Tenant.objects.filter(pk=cast.instance.tenant_id).update(enabled=False)
    assert kinds(said(bob, TASKS)) == ["redirect"]
    assert len(calls) == 1


def test_a_right_that_is_gone_counts_once_the_answer_is_a_second_old(
    cast: Cast, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(cast.alice, cast.instance, "secret")
    topics = reverse("topics.list", args=[cast.instance.instance_id])
    rita = cast.client("rita")
    assert kinds(said(rita, topics)) == ["part"]
    cast.rita.policies.clear()
    monkeypatch.setattr(rounds, "FRESH_S", -1.0)
    assert kinds(said(rita, topics)) == ["refused"]


def test_what_was_refused_or_failed_is_shared_with_nobody(
    cast: Cast, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = reverse("topics.list", args=[cast.instance.instance_id])
    assert kinds(said(cast.client("nora"), topics)) == ["refused"]
    cast.nora.policies.set(cast.rita.policies.all())
    assert kinds(said(cast.client("nora"), topics)) == ["part"]
    monkeypatch.setattr(queries, "tasks", lambda _: 1 / 0)
    assert kinds(said(cast.client("alice"), TASKS)) == ["yours"]
    monkeypatch.setattr(queries, "tasks", lambda _: [])
    assert kinds(said(cast.client("alice"), TASKS)) == ["part"]


def test_the_token_of_a_form_is_each_visitors_own_and_masked_anew(cast: Cast, calls: Calls) -> None:
    make_topic(cast.alice, cast.instance, "one")
    topics = reverse("topics.list", args=[cast.instance.instance_id])
    seen = set()
    for secret in ("a" * 32, "b" * 32):
        for _ in range(2):
            cookie = f"{settings.CSRF_COOKIE_NAME}={secret}"
            (event,) = said(cast.client("alice"), topics, cookies=cookie)
            tokens = re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', str(event.data["html"]))
            assert tokens
            secrets = {csrf._unmask_cipher_token(token) for token in tokens}  # type: ignore[attr-defined]
            assert secrets == {secret}
            seen |= {tokens[0]}
    assert len(seen) == 4


def test_a_browsers_own_request_is_always_answered_anew(cast: Cast, calls: Calls) -> None:
    said(cast.client("alice"), TASKS)
    for _ in range(2):
        assert cast.client("alice").get(TASKS, headers={"HX-Request": "true"}).status_code == 200
    assert len(calls) == 3


def test_a_round_looks_its_session_and_user_up_once(cast: Cast, calls: Calls) -> None:
    alice = cast.client("alice")
    said(alice, FIGURES)  # what is noted of a session once in a while is noted
    counts = {}
    for paths in ((TASKS,), (ATTENTION,), (TASKS, ATTENTION)):
        handler = streams._handler
        handler.cache_clear()  # nothing is shared with the round before
        scope = Caller(
            streams.PATH,
            headers={"host": "testserver", "cookie": "; ".join(f"{k}={v.value}" for k, v in alice.cookies.items())},
        ).scope
        parts = [Part(path, path, 15.0, "none", 0.0) for path in paths]
        with CaptureQueriesContext(connection) as captured:
            streams._asked(scope, parts, 0.0, Streams(), "")
        counts[paths] = [
            q["sql"] for q in captured if "django_session" in q["sql"] or '"accounts_user"."id" = ' in q["sql"]
        ]
    assert len(counts[TASKS,]) == len(counts[ATTENTION,]) == len(counts[TASKS, ATTENTION]) == 2, counts
