"""Whoever is shut out stays out: also by a sign-in that is under way, and after the door is opened again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth.signals import user_logged_in
from django.http import HttpRequest
from django.test import Client

from console.accounts import services
from console.accounts.adapter import AccountAdapter
from console.accounts.models import User
from tests.support.cast import PASSWORD, Cast


@contextmanager
def at_the_sign_in(act: Any, *, first: bool) -> Iterator[None]:
    """Have something happen while a session is stored: before all else that does, or behind it."""

    def happens(**_: Any) -> None:
        act()

    user_logged_in.connect(happens)
    if first:
        user_logged_in.receivers.insert(0, user_logged_in.receivers.pop())
        user_logged_in.sender_receivers_cache.clear()
    try:
        yield
    finally:
        user_logged_in.disconnect(happens)


@pytest.mark.parametrize("first", [True, False], ids=["before it is listed", "once it is listed"])
def test_a_session_that_is_stored_while_its_user_is_disabled_opens_nothing_ever(cast: Cast, first: bool) -> None:
    def switch(*, enabled: bool) -> None:
        services.set_user_enabled(actor=cast.actor("alice"), user=User.objects.get(pk=cast.bob.pk), enabled=enabled)

    browser = Client()
    with at_the_sign_in(lambda: switch(enabled=False), first=first):
        browser.post("/account/login/", {"login": "bob@acme", "password": PASSWORD})
    assert browser.get("/").status_code == 302
    switch(enabled=True)
    assert browser.get("/").status_code == 302, "the session of before is none of now"
    browser.post("/account/login/", {"login": "bob@acme", "password": PASSWORD})
    assert browser.get("/").status_code == 200


def test_a_name_in_other_letters_has_no_attempts_of_its_own() -> None:
    """Databases that compare names by upper case take a long s for an s, and a dotless i for an i."""
    adapter, request = AccountAdapter(), HttpRequest()
    names = ("Bossi@acme", "bo\u017fsi@acme", "boss\u0131@acme")
    written = {adapter._get_login_attempts_cache_key(request, username=name) for name in names}
    assert len(written) == 1


def test_a_path_of_60_kb_is_held_against_no_policy_and_told_in_one_sentence(cast: Cast) -> None:
    answer = cast.client("nora").get(f"/users/{'a' * 60_000}/")
    assert answer.status_code == 403
    assert len(answer.content) < 20_000
