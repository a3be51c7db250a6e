"""The second factor: binding, signing in, codes that are good once, lock-out, recovery codes, what is required."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import TOTP, format_hotp_value, generate_totp_secret, hotp_value
from django.test import Client
from django.urls import reverse

from console.accounts.models import User
from console.accounts.services.second_factor import remove_devices
from console.audit.models import Entry
from tests.support.cast import PASSWORD, Cast

LOGIN = "/account/login/"
BIND = "/account/mfa/app/bind/"
AUTHENTICATE = "/account/mfa/authenticate/"


def code(secret: str, step: int = 0) -> str:
    """The app's code, so many steps of 30 seconds from now."""
    return str(format_hotp_value(hotp_value(secret, int(time.time()) // 30 + step)))


def give_app(user: User) -> str:
    """Bind an app by hand; returns its secret."""
    secret: str = generate_totp_secret()
    TOTP.activate(user, secret)
    return secret


def enter_password(name: str = "bob@acme") -> tuple[Client, Any]:
    client = Client()
    return client, client.post(LOGIN, {"login": name, "password": PASSWORD})


def bind(client: Client) -> tuple[str, Any]:
    """Bind an app through the page; returns its secret and the answer."""
    page = client.get(BIND)
    secret = re.search(r"[A-Z2-7]{32}", page.content.decode())
    assert secret is not None
    return secret[0], client.post(BIND, {"code": code(secret[0])})


def test_the_page_shows_the_secret_as_picture_and_text_and_binds(cast: Cast) -> None:
    client, _ = enter_password()
    page = client.get(BIND).content.decode()
    assert "Bind a virtual MFA device" in page
    assert 'src="data:image/svg+xml;base64,' in page
    assert "style=" not in page.partition("<main")[2]
    secret, answer = bind(client)
    assert answer["Location"] == reverse("mfa_view_recovery_codes")
    row = Authenticator.objects.get(type="totp")
    assert row.user == cast.bob
    assert secret not in str(row.data)


def test_a_wrong_code_binds_nothing(cast: Cast) -> None:
    client, _ = enter_password()
    client.get(BIND)
    answer = client.post(BIND, {"code": "000000"})
    assert "wrong or too old" in answer.content.decode()
    assert not Authenticator.objects.exists()


def test_after_the_password_the_code_is_asked(cast: Cast) -> None:
    secret = give_app(cast.bob)
    client, answer = enter_password()
    assert answer["Location"] == AUTHENTICATE
    assert client.get("/")["Location"].startswith(LOGIN)
    assert ">Authenticate<" in client.get(AUTHENTICATE).content.decode()
    assert client.post(AUTHENTICATE, {"code": code(secret)})["Location"] == "/"
    assert client.get("/").status_code == 200
    assert Entry.objects.get(action="accounts.session.sign_in").detail == {"by": ["password", "totp"]}


@pytest.mark.parametrize(("step", "accepted"), [(-2, False), (-1, True), (0, True), (1, True), (2, False)])
def test_one_step_before_and_after_is_accepted(cast: Cast, step: int, accepted: bool) -> None:
    secret = give_app(cast.bob)
    client, _ = enter_password()
    start = int(time.time()) // 30
    answer = client.post(AUTHENTICATE, {"code": code(secret, step)})
    if int(time.time()) // 30 == start:  # at the border of two steps the answer may be either
        assert (answer.status_code == 302) is accepted


def test_a_code_is_valid_once_however_it_is_written(cast: Cast) -> None:
    secret = give_app(cast.bob)
    once = code(secret, 1)
    client, _ = enter_password()
    assert client.post(AUTHENTICATE, {"code": once}).status_code == 302
    for written in (once, f"{once[:3]} {once[3:]}"):
        other, _ = enter_password()
        answer = other.post(AUTHENTICATE, {"code": written})
        assert "used already" in answer.content.decode() or "wrong or too old" in answer.content.decode()
        assert other.get("/").status_code == 302


def test_a_code_stays_used_for_as_long_as_it_would_be_accepted(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = give_app(cast.bob)
    # A code of the step after this one is accepted for up to 90 seconds, longer than django-allauth remembers it.
    once = code(secret, 1)
    client, _ = enter_password()
    assert client.post(AUTHENTICATE, {"code": once}).status_code == 302
    monkeypatch.setattr(TOTP, "_mark_code_used", lambda *_: True)
    other, _ = enter_password()
    assert "used already" in other.post(AUTHENTICATE, {"code": once}).content.decode()


def test_five_wrong_codes_lock_even_the_right_one_and_are_on_record(cast: Cast) -> None:
    secret = give_app(cast.bob)
    client, _ = enter_password()
    for _ in range(5):
        client.post(AUTHENTICATE, {"code": "000000"}, REMOTE_ADDR="198.51.100.7")
    client, _ = enter_password()
    answer = client.post(AUTHENTICATE, {"code": code(secret)})
    assert "Too many failed login attempts" in answer.content.decode()
    assert Entry.objects.filter(action="accounts.mfa.authenticate", result="refused", actor="bob@acme").count() == 5


def test_recovery_codes_are_shown_once_and_each_opens_once(cast: Cast) -> None:
    client, _ = enter_password()
    bind(client)
    shown = client.get(reverse("mfa_view_recovery_codes")).content.decode()
    codes = re.findall(r"<li>(\d{8})</li>", shown)
    assert len(codes) == 10
    assert 'download="gantry-recovery-codes.txt"' in shown
    again = client.get(reverse("mfa_view_recovery_codes")).content.decode()
    assert codes[0] not in again
    for status in (302, 200):
        other, _ = enter_password()
        assert other.post(AUTHENTICATE, {"code": codes[0]}).status_code == status
    assert "9 left" in client.get("/security/").content.decode()


def test_new_recovery_codes_replace_the_old_ones(cast: Cast, django_capture_on_commit_callbacks: Any) -> None:
    client, _ = enter_password()
    with django_capture_on_commit_callbacks(execute=True):
        bind(client)
    assert Entry.objects.filter(action="accounts.mfa.add", actor="bob@acme").count() == 2
    old = re.findall(r"<li>(\d{8})</li>", client.get(reverse("mfa_view_recovery_codes")).content.decode())
    with django_capture_on_commit_callbacks(execute=True):
        client.post(reverse("mfa_generate_recovery_codes"))
    new = re.findall(r"<li>(\d{8})</li>", client.get(reverse("mfa_view_recovery_codes")).content.decode())
    assert len(new) == 10
    assert not set(old) & set(new)
    assert Entry.objects.filter(action="accounts.mfa.regenerate", actor="bob@acme").exists()


def test_who_must_have_a_device_gets_only_the_page_that_binds_one(cast: Cast) -> None:
    User.objects.filter(pk=cast.bob.pk).update(mfa_required=True)
    client, _ = enter_password()
    for path in ("/", "/keys/", "/security/", "/account/password/", "/account/mfa/keys/add/", "/audit/"):
        assert client.get(path)["Location"] == BIND, path
        assert client.get(path, headers={"HX-Request": "true"})["HX-Redirect"] == BIND, path
        assert client.post(path)["Location"] == BIND, path
    assert client.get(BIND).status_code == 200


def test_after_binding_a_required_device_the_sign_in_starts_again_with_its_code(cast: Cast) -> None:
    User.objects.filter(pk=cast.bob.pk).update(mfa_required=True)
    client, _ = enter_password()
    secret, _ = bind(client)
    assert client.get(reverse("mfa_view_recovery_codes")).status_code == 200
    assert client.get("/")["Location"] == LOGIN
    assert "Sign in again with its code" in client.get(LOGIN).content.decode()
    answer = client.post(LOGIN, {"login": "bob@acme", "password": PASSWORD})
    assert answer["Location"] == AUTHENTICATE
    client.post(AUTHENTICATE, {"code": code(secret, 1)})
    assert client.get("/").status_code == 200


def test_the_first_password_is_changed_before_a_device_is_bound(cast: Cast) -> None:
    User.objects.filter(pk=cast.bob.pk).update(mfa_required=True, must_change_password=True)
    client, _ = enter_password()
    assert client.get("/")["Location"] == "/account/password/"
    new = {"oldpassword": PASSWORD, "password1": "Brand-new-horse-9", "password2": "Brand-new-horse-9"}
    client.post("/account/password/", new)
    assert client.get("/")["Location"] == BIND


def test_a_session_from_before_the_requirement_must_bind_too(cast: Cast) -> None:
    client, _ = enter_password()
    assert client.get("/").status_code == 200
    User.objects.filter(pk=cast.bob.pk).update(mfa_required=True)
    assert client.get("/")["Location"] == BIND


def test_the_last_required_device_cannot_be_removed(cast: Cast) -> None:
    secret = give_app(cast.bob)
    User.objects.filter(pk=cast.bob.pk).update(mfa_required=True)
    client, _ = enter_password()
    client.post(AUTHENTICATE, {"code": code(secret)})
    answer = client.post(reverse("mfa_deactivate_totp"))
    assert "your administrator requires one" in answer.content.decode()
    assert Authenticator.objects.filter(user=cast.bob, type="totp").exists()


def test_a_device_that_is_not_required_can_be_removed(cast: Cast, django_capture_on_commit_callbacks: Any) -> None:
    secret = give_app(cast.bob)
    client, _ = enter_password()
    client.post(AUTHENTICATE, {"code": code(secret)})
    with django_capture_on_commit_callbacks(execute=True):
        assert client.post(reverse("mfa_deactivate_totp")).status_code == 302
    assert not Authenticator.objects.filter(user=cast.bob).exists()
    assert Entry.objects.filter(action="accounts.mfa.remove", actor="bob@acme").exists()


def test_an_old_sign_in_must_be_confirmed_before_devices_change(cast: Cast) -> None:
    client, _ = enter_password()
    session = client.session
    records = session["account_authentication_methods"]
    session["account_authentication_methods"] = [record | {"at": time.time() - 600} for record in records]
    session.save()
    assert client.get(BIND)["Location"].startswith("/account/reauthenticate/")
    assert "bob@acme" in client.get("/account/reauthenticate/").content.decode()


def test_an_administrator_removes_the_devices_of_who_lost_them_and_ends_the_sessions(cast: Cast) -> None:
    secret = give_app(cast.bob)
    client, _ = enter_password()
    client.post(AUTHENTICATE, {"code": code(secret)})
    assert remove_devices(actor=cast.actor("alice"), user=cast.bob) == 1
    assert client.get("/")["Location"].startswith(LOGIN)
    client, answer = enter_password()
    assert answer["Location"] == "/"
    assert Entry.objects.get(action="accounts.mfa.reset").resource == "bob@acme"
