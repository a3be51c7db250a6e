"""Sessions: rotated, listed, ended by their user, by age, and by who administers the user."""

from __future__ import annotations

import time
from typing import Any

from allauth.usersessions.models import UserSession
from django.conf import settings as configured
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from console.accounts import services as accounts
from console.accounts.services import sessions
from console.audit.models import Entry
from tests.support.cast import PASSWORD, Cast

LOGIN = "/account/login/"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
PHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 Version/17.0 Safari/604.1"


def sign_in(agent: str = FIREFOX, address: str = "203.0.113.5", name: str = "bob@acme") -> Client:
    client = Client(REMOTE_ADDR=address, headers={"User-Agent": agent})
    assert client.post(LOGIN, {"login": name, "password": PASSWORD})["Location"] == "/"
    return client


def key_of(client: Client) -> str:
    return str(client.session.session_key)


def test_the_cookies_are_out_of_reach_of_scripts_and_of_other_sites(cast: Cast) -> None:
    client = sign_in()
    for name in (configured.SESSION_COOKIE_NAME, configured.CSRF_COOKIE_NAME):
        cookie = client.cookies[name]
        assert cookie["httponly"], name
        assert cookie["samesite"] == "Lax", name


def test_the_session_id_changes_at_the_sign_in(cast: Cast) -> None:
    client = Client()
    client.get("/login/acme/")
    session = client.session
    session["planted"] = True
    session.save()
    client.cookies[configured.SESSION_COOKIE_NAME] = planted = str(session.session_key)
    client.post(LOGIN, {"login": "bob@acme", "password": PASSWORD})
    assert key_of(client) != planted
    assert not Session.objects.filter(session_key=planted).exists()


def test_the_page_lists_the_browsers_that_are_signed_in(cast: Cast) -> None:
    sign_in(PHONE, "198.51.100.9")
    client = sign_in()
    page = client.get("/security/").content.decode()
    assert "Firefox on Linux" in page
    assert "Safari on iPhone" in page
    assert "198.51.100.9" in page
    assert page.count("this one") == 1


def test_one_browser_is_signed_out_and_the_others_stay(cast: Cast) -> None:
    phone, client = sign_in(PHONE), sign_in()
    row = UserSession.objects.get(session_key=key_of(phone))
    client.post(f"/security/sessions/{row.pk}/end")
    assert phone.get("/")["Location"].startswith(LOGIN)
    assert client.get("/").status_code == 200
    assert Entry.objects.get(action="accounts.session.end").actor == "bob@acme"


def test_nobody_ends_the_session_of_somebody_else(cast: Cast) -> None:
    alice, bob = sign_in(name="admin@acme"), sign_in()
    row = UserSession.objects.get(session_key=key_of(alice))
    assert "had already ended" in bob.post(f"/security/sessions/{row.pk}/end", follow=True).content.decode()
    assert alice.get("/").status_code == 200


def test_signing_out_everywhere_includes_this_browser(cast: Cast) -> None:
    phone, client = sign_in(PHONE), sign_in()
    assert client.post("/security/sessions/end-all")["Location"] == LOGIN
    assert client.get("/").status_code == 302
    assert phone.get("/").status_code == 302


def test_a_new_password_signs_out_the_other_browsers(cast: Cast) -> None:
    phone, client = sign_in(PHONE), sign_in()
    new = {"oldpassword": PASSWORD, "password1": "Brand-new-horse-9", "password2": "Brand-new-horse-9"}
    client.post("/account/password/", new)
    assert client.get("/").status_code == 200
    assert phone.get("/").status_code == 302
    assert client.get("/security/").content.decode().count("Firefox on Linux") >= 1


def test_ending_all_sessions_can_keep_one(cast: Cast) -> None:
    phone, client = sign_in(PHONE), sign_in()
    assert sessions.end_sessions(actor=cast.actor("bob"), user=cast.bob, keep=key_of(client)) == 1
    assert (client.get("/").status_code, phone.get("/").status_code) == (200, 302)


def test_disabling_the_user_ends_the_sessions_at_once(cast: Cast) -> None:
    client = sign_in()
    accounts.set_user_enabled(actor=cast.actor("alice"), user=cast.bob, enabled=False)
    assert client.get("/")["Location"].startswith(LOGIN)


def test_disabling_the_account_ends_the_sessions_and_lets_nobody_in(cast: Cast) -> None:
    client = sign_in()
    cast.acme.enabled = False
    cast.acme.save()
    assert client.get("/")["Location"].startswith(LOGIN)
    assert Client().post(LOGIN, {"login": "bob@acme", "password": PASSWORD})["Location"] == "/account/inactive/"


def test_use_moves_the_idle_limit_but_not_at_every_request(cast: Cast) -> None:
    client = sign_in()
    client.get("/security/")
    expiry = Session.objects.get(pk=key_of(client)).expire_date
    client.get("/security/")
    assert Session.objects.get(pk=key_of(client)).expire_date == expiry
    session = client.session
    session["accounts.seen_at"] = time.time() - sessions.SEEN_EVERY_S - 1
    session.save()
    before = UserSession.objects.get(session_key=key_of(client)).last_seen_at
    client.get("/security/")
    assert UserSession.objects.get(session_key=key_of(client)).last_seen_at > before
    assert Session.objects.get(pk=key_of(client)).expire_date > expiry


def test_a_session_ends_when_it_is_old_however_much_it_is_used(cast: Cast, settings: Any) -> None:
    client = sign_in()
    assert client.get("/").status_code == 200
    session = client.session
    began = session["accounts.started_at"] = time.time() - settings.SESSION_MAX_AGE_S + 3600
    session["accounts.seen_at"] = 0
    session.save()
    assert client.get("/").status_code == 200
    session = client.session
    assert session["accounts.seen_at"] > 0
    assert session["accounts.started_at"] == began, "use makes it no younger"
    session["accounts.started_at"] -= 3601
    session.save()
    assert client.get("/")["Location"].startswith(LOGIN)


def test_an_idle_session_is_over_and_swept_away(cast: Cast) -> None:
    client = sign_in()
    key = key_of(client)
    past = Session.objects.get(pk=key)
    past.expire_date = past.expire_date.replace(year=2020)
    past.save()
    UserSession.objects.update(last_seen_at=past.expire_date)
    assert client.get("/").status_code == 302
    assert sessions.clear_ended_sessions() >= 1
    assert not Session.objects.filter(pk=key).exists()
    assert not UserSession.objects.filter(session_key=key).exists()


def test_signing_out_is_on_record(cast: Cast) -> None:
    sign_in().post("/account/logout/")
    assert Entry.objects.get(action="accounts.session.sign_out").actor == "bob@acme"


def test_the_page_costs_the_same_queries_for_many_sessions(cast: Cast) -> None:
    client = sign_in()
    client.get("/security/")
    costs = []
    for known, count in ((0, 10), (10, 50)):
        for number in range(known, count):
            key = f"key-{number}"
            Session.objects.create(session_key=key, session_data="", expire_date="2099-01-01T00:00Z")
            UserSession.objects.create(session_key=key, user=cast.bob, ip="192.0.2.1", user_agent=FIREFOX)
        with CaptureQueriesContext(connection) as queries:
            client.get("/security/")
        costs.append(len(queries))
    assert costs[0] == costs[1]
