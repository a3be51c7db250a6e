"""Security keys in a real browser with a virtual key: added, used to sign in, renamed, removed; no inline script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from playwright.sync_api import Page, expect, sync_playwright

from console.accounts.models import User
from console.audit.models import Entry
from tests.support.cast import PASSWORD, Cast
from tests.support.chromium import ARGUMENTS
from tests.support.needs import need_tool

pytestmark = pytest.mark.django_db(transaction=True)


class Browser:
    """A page with a security key that always agrees, and what went wrong in it."""

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.address = page, address
        page.set_default_timeout(60_000)
        self.troubles: list[str] = []
        page.on("console", lambda message: self.troubles.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        session = page.context.new_cdp_session(page)
        session.send("WebAuthn.enable")
        options = {"protocol": "ctap2", "transport": "usb", "hasUserVerification": True, "isUserVerified": True}
        session.send("WebAuthn.addVirtualAuthenticator", {"options": options | {"automaticPresenceSimulation": True}})

    def go(self, path: str) -> Page:
        self.page.goto(self.address + path)
        return self.page

    def enter_password(self) -> None:
        page = self.go("/account/login/")
        page.get_by_label("User name").fill("bob@acme")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name).click()


@pytest.fixture
def people(cast: Cast, live_server: Any, settings: Any) -> Cast:
    """The cast, behind a server that hands out the static files."""
    settings.STATICFILES_DIRS = [settings.STATIC_ROOT]
    return cast


@pytest.fixture
def browser(people: Cast, live_server: Any) -> Iterator[Browser]:
    chromium = need_tool("chromium")
    expect.set_options(timeout=60_000)
    with sync_playwright() as playwright:
        chrome = playwright.chromium.launch(executable_path=str(chromium), args=ARGUMENTS)
        # Keys are bound to host names; an address has none.
        yield Browser(chrome.new_page(), live_server.url.replace("127.0.0.1", "localhost"))
        chrome.close()


def test_a_key_is_added_opens_the_account_gets_a_name_and_goes(browser: Browser) -> None:
    browser.enter_password()
    page = browser.go("/security/")
    page.get_by_role("link", name="Add a security key").click()
    browser.press("Add")
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    assert len(re.findall(r"<li>\d{8}</li>", page.content())) == 10
    page.get_by_role("link", name="I have stored them").click()
    expect(page.get_by_role("cell", name="Security key", exact=True)).to_be_visible()

    browser.go("/account/logout/")
    browser.press("Sign out")
    browser.enter_password()
    expect(page.get_by_role("heading", name="One more step")).to_be_visible()
    browser.press("Use a security key")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()

    page = browser.go("/security/")
    page.get_by_role("link", name="Rename Security key").click()
    page.get_by_label("Name").fill("Blue <b>key</b>")
    browser.press("Rename")
    expect(page.get_by_role("cell", name="Blue <b>key</b>", exact=True)).to_be_visible()
    page.get_by_role("link", name="Remove Blue").click()
    browser.press("Remove")
    expect(page.get_by_text("No device yet")).to_be_visible()
    assert browser.troubles == []


def test_a_key_that_is_not_there_is_said(browser: Browser) -> None:
    browser.enter_password()
    page = browser.go("/account/mfa/keys/add/")
    page.evaluate(
        "() => { navigator.credentials.create = () => Promise.reject(new DOMException('', 'NotAllowedError')) }"
    )
    browser.press("Add")
    expect(page.get_by_text("it was refused or took too long")).to_be_visible()


def test_a_forged_answer_of_a_key_is_refused_and_on_record(people: Cast, client: Any) -> None:
    credential = {"name": "Key", "credential": {}}
    Authenticator.objects.create(user=people.bob, type=Authenticator.Type.WEBAUTHN, data=credential)
    Authenticator.objects.create(user=people.bob, type=Authenticator.Type.TOTP, data={"secret": "x"})
    Authenticator.objects.filter(type=Authenticator.Type.WEBAUTHN).delete()
    client.post("/account/login/", {"login": "bob@acme", "password": PASSWORD})
    forged = '{"id": "x", "rawId": "eA", "type": "public-key", "response": {}, "clientExtensionResults": {}}'
    for answer in (forged, "{}", "[]", "7", "no json"):
        assert client.post("/account/mfa/authenticate/", {"credential": answer}).status_code == 200
    assert client.get("/").status_code == 302
    assert Entry.objects.filter(action="accounts.mfa.authenticate", result="refused").count() >= 1


def test_the_last_required_key_stays(people: Cast, client: Any) -> None:
    User.objects.filter(pk=people.bob.pk).update(mfa_required=True)
    data = {"name": "Key", "credential": {}}
    key = Authenticator.objects.create(user=people.bob, type=Authenticator.Type.WEBAUTHN, data=data)
    client.force_login(people.bob, "allauth.account.auth_backends.AuthenticationBackend")
    session = client.session
    record = {"method": "mfa", "at": 9_999_999_999, "reauthenticated": True}
    session["account_authentication_methods"] = [record]
    session["account_authentication_methods_user"] = str(people.bob.pk)
    session.save()
    page = client.post(f"/account/mfa/keys/{key.pk}/remove/", follow=True).content.decode()
    assert "your administrator requires one" in page
    assert Authenticator.objects.filter(pk=key.pk).exists()
