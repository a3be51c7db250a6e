"""Signing in: the pages that are open, the lock-out, the forced change, what is on record."""

from __future__ import annotations

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


def test_five_wrong_passwords_lock_the_name_out_even_for_the_right_one(cast: Cast) -> None:
    client = Client()
    for _ in range(5):
        _sign_in(client, "bob@acme", "wrong")
    response = client.post(LOGIN, {"login": "bob@acme", "password": PASSWORD})
    assert "Too many failed login attempts" in response.content.decode()
    assert client.get("/").status_code == 302


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


def test_a_user_without_an_account_is_signed_out(cast: Cast) -> None:
    User.objects.filter(pk=cast.bob.pk).update(tenant=None)
    client = cast.client("bob")
    assert client.get("/")["Location"].startswith(LOGIN)
