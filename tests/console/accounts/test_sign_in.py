"""Signing in: the pages that are open, the lock-out, the forced change, what is on record."""

from __future__ import annotations

import re
from typing import Any

from django.test import Client
from django.urls import reverse

from console.accounts.models import User
from console.audit.models import Entry
from tests.support.cast import PASSWORD, Cast

LOGIN = "/account/login/"


def _sign_in(client: Client, name: str, password: str) -> object:
    return client.post(LOGIN, {"login": name, "password": password})


def test_the_right_password_leads_to_the_overview(cast: Cast) -> None:
    client = Client()
    response = client.post(LOGIN, {"login": "bob@acme", "password": PASSWORD})
    assert response["Location"] == "/"
    assert client.get("/").status_code == 200
    entry = Entry.objects.get(action="accounts.session.sign_in")
    assert (entry.actor, entry.result, entry.source_ip) == ("bob@acme", "success", "127.0.0.1")


def test_a_wrong_password_is_refused_and_on_record(cast: Cast) -> None:
    response = Client().post(LOGIN, {"login": "bob@acme", "password": "wrong"})
    assert response.status_code == 200
    assert response.context["form"].errors
    entry = Entry.objects.get(action="accounts.session.sign_in")
    assert (entry.actor, entry.result) == ("bob@acme", "refused")


def test_the_trail_is_in_english_whatever_the_visitor_reads(cast: Cast) -> None:
    client = Client(headers={"accept-language": "zh-TW"})
    for _ in range(6):
        _sign_in(client, "bob@acme", "wrong")
    kept = {entry.detail["reason"] for entry in Entry.objects.filter(action="accounts.session.sign_in")}
    assert kept == {"wrong name or password", "locked after too many wrong passwords"}


def test_five_wrong_passwords_lock_the_name_out_even_for_the_right_one(cast: Cast) -> None:
    client = Client()
    for _ in range(5):
        _sign_in(client, "bob@acme", "wrong")
    response = client.post(LOGIN, {"login": "bob@acme", "password": PASSWORD})
    assert "Too many failed login attempts" in response.content.decode()
    assert client.get("/").status_code == 302


def test_the_lock_holds_from_every_address_and_host_name_and_however_the_name_is_written(
    cast: Cast, settings: Any
) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    for number, name in enumerate(("bob@acme", "BOB@acme", "Bob@ACME", "bob@acme", "bob@Acme")):
        client = Client(REMOTE_ADDR=f"203.0.113.{number}", headers={"Host": f"host{number}.example"})
        _sign_in(client, name, "wrong")
    client = Client(REMOTE_ADDR="198.51.100.1")
    response = client.post(LOGIN, {"login": "bob@acme", "password": PASSWORD})
    assert "Too many failed login attempts" in response.content.decode()


def test_fifty_wrong_passwords_for_many_names_lock_an_address_and_no_other(cast: Cast) -> None:
    for number in range(50):
        _sign_in(Client(REMOTE_ADDR="203.0.113.5"), f"user{number}@acme", "wrong")
    right = {"login": "bob@acme", "password": PASSWORD}
    assert "Too many" in Client(REMOTE_ADDR="203.0.113.5").post(LOGIN, right).content.decode()
    assert Client(REMOTE_ADDR="203.0.113.6").post(LOGIN, right)["Location"] == "/"


def test_a_lock_is_on_record_once(cast: Cast) -> None:
    for _ in range(8):
        _sign_in(Client(), "bob@acme", "wrong")
    reasons = [
        entry.detail["reason"] for entry in Entry.objects.filter(action="accounts.session.sign_in").order_by("pk")
    ]
    assert reasons == ["wrong name or password"] * 5 + ["locked after too many wrong passwords"]


def test_unknown_names_are_answered_like_known_ones_and_locked_like_them(cast: Cast) -> None:
    pages = {}
    for name in ("bob@acme", "nobody@acme", "nobody@nowhere"):
        texts = [Client().post(LOGIN, {"login": name, "password": "wrong"}).content.decode() for _ in range(6)]
        # Tokens against forgery are drawn anew each time.
        pages[name] = [re.sub(r'csrf[^>]*"[\w-]{20,}"', "", text.replace(name, "X")) for text in texts]
        pages[name] = [re.sub(r"[A-Za-z0-9]{64}", "", text) for text in pages[name]]
    assert pages["bob@acme"] == pages["nobody@acme"] == pages["nobody@nowhere"]
    assert "Too many failed login attempts" in pages["nobody@nowhere"][5]


def test_an_unknown_name_is_on_record_of_its_account_and_a_mistyped_password_nowhere(cast: Cast) -> None:
    _sign_in(Client(), "nobody@acme", "wrong")
    _sign_in(Client(), "My-secret-pass-1", "wrong")
    first, second = Entry.objects.filter(action="accounts.session.sign_in").order_by("pk")
    assert (first.actor, first.tenant) == ("nobody@acme", cast.acme)
    assert (second.actor, second.tenant) == ("unknown", None)


def test_the_new_password_is_another_one(cast: Cast) -> None:
    same = {"oldpassword": PASSWORD, "password1": PASSWORD, "password2": PASSWORD}
    response = cast.client("bob").post(reverse("account_change_password"), same)
    assert "must differ from the old one" in response.content.decode()


def test_the_platforms_administrator_begins_on_a_page_of_the_platform(cast: Cast) -> None:
    client = Client()
    response = client.post(LOGIN, {"login": cast.petra.username, "password": PASSWORD})
    assert response["Location"] == reverse("platform.accounts")
    assert client.get("/security/").status_code == 200


def test_a_disabled_user_is_not_let_in(cast: Cast) -> None:
    User.objects.filter(pk=cast.bob.pk).update(is_active=False)
    client = Client()
    _sign_in(client, "bob@acme", PASSWORD)
    assert client.get("/")["Location"].startswith(LOGIN)


def test_there_is_no_registration_and_no_reset_by_mail(cast: Cast) -> None:
    for path in ("signup/", "password/reset/", "email/", "confirm-email/", "password/set/"):
        assert cast.client("alice").get(f"/account/{path}").status_code == 404


def test_a_first_password_must_be_changed_before_anything_else(cast: Cast) -> None:
    User.objects.filter(pk=cast.bob.pk).update(must_change_password=True)
    client = Client()
    _sign_in(client, "bob@acme", PASSWORD)
    change = reverse("account_change_password")
    assert client.get("/")["Location"] == change
    assert client.get("/keys/", headers={"HX-Request": "true"})["HX-Redirect"] == change
    new = {"oldpassword": PASSWORD, "password1": "Brand-new-horse-9", "password2": "Brand-new-horse-9"}
    assert client.post(change, new)["Location"] == "/"
    assert client.get("/").status_code == 200
    assert Entry.objects.filter(action="accounts.user.change_password", actor="bob@acme").exists()


def test_a_new_password_follows_the_rule(cast: Cast) -> None:
    weak = {"oldpassword": PASSWORD, "password1": "weakweakweak", "password2": "weakweakweak"}
    response = cast.client("bob").post(reverse("account_change_password"), weak)
    assert "at least two of" in str(response.context["form"].errors)


def test_an_expired_session_never_puts_the_sign_in_page_into_a_fragment(cast: Cast) -> None:
    headers = {"HX-Request": "true", "HX-Current-URL": "http://testserver/audit/?page=2"}
    response = Client().get("/audit/", headers=headers)
    assert response["HX-Redirect"] == "/account/login/?next=%2Faudit%2F%3Fpage%3D2"
    assert response.content == b""
    no_address = Client().get("/audit/", headers=headers | {"HX-Current-URL": "http://["})
    assert no_address["HX-Redirect"] == "/account/login/?next=%2F"


def test_a_user_without_an_account_is_signed_out(cast: Cast) -> None:
    User.objects.filter(pk=cast.bob.pk).update(tenant=None)
    client = cast.client("bob")
    assert client.get("/")["Location"].startswith(LOGIN)
