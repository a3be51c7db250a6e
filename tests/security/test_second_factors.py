"""Who has the password and not the device: codes that were seen, guessed, or sent twice at the same moment."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from django.db import connection
from django.test import Client

from tests.console.accounts.test_mfa import AUTHENTICATE, code, enter_password, give_app
from tests.support.cast import Cast


def at_once(calls: list[Any]) -> list[Any]:
    """What the calls answer, all begun together, each in a thread."""
    barrier, answers = threading.Barrier(len(calls)), []

    def run(call: Any) -> None:
        barrier.wait(20)
        try:
            answers.append(call())
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return answers


def is_in(client: Client) -> bool:
    return client.get("/").status_code == 200


def test_a_code_that_is_sent_twice_at_the_same_moment_opens_once(transactional_db: None, cast: Cast) -> None:
    once = code(give_app(cast.bob))
    clients = [enter_password()[0] for _ in range(4)]
    at_once([lambda client=client: client.post(AUTHENTICATE, {"code": once}) for client in clients])
    assert sum(map(is_in, clients)) == 1


def test_a_recovery_code_that_is_sent_twice_at_the_same_moment_opens_once(transactional_db: None, cast: Cast) -> None:
    give_app(cast.bob)
    once = RecoveryCodes.activate(cast.bob).get_unused_codes()[0]
    clients = [enter_password()[0] for _ in range(4)]
    at_once([lambda client=client: client.post(AUTHENTICATE, {"code": once}) for client in clients])
    assert sum(map(is_in, clients)) == 1
    other, _ = enter_password()
    other.post(AUTHENTICATE, {"code": once})
    assert not is_in(other)


@pytest.mark.parametrize("guess", ["000000", "00000000"], ids=["of the app", "for recovery"])
def test_wrong_codes_are_counted_for_the_user_over_all_sessions_and_addresses(cast: Cast, guess: str) -> None:
    secret = give_app(cast.bob)
    codes = RecoveryCodes.activate(cast.bob).get_unused_codes()
    clients = [enter_password()[0] for _ in range(7)]
    for number, client in enumerate(clients[:5]):
        client.post(AUTHENTICATE, {"code": guess}, REMOTE_ADDR=f"198.51.100.{number}")
    for client, right in ((clients[5], code(secret)), (clients[6], codes[0])):
        client.post(AUTHENTICATE, {"code": right}, REMOTE_ADDR="203.0.113.9")
        assert not is_in(client)


def test_one_session_has_no_more_guesses_than_many(cast: Cast) -> None:
    secret = give_app(cast.bob)
    client, _ = enter_password()
    for _ in range(5):
        client.post(AUTHENTICATE, {"code": "000000"})
    client.post(AUTHENTICATE, {"code": code(secret)})
    assert not is_in(client)


def test_wrong_codes_of_one_user_lock_no_other(cast: Cast) -> None:
    give_app(cast.bob)
    client, _ = enter_password()
    for _ in range(6):
        client.post(AUTHENTICATE, {"code": "000000"})
    other, _ = enter_password("rita@acme")
    assert is_in(other)


def test_a_code_of_somebody_else_opens_nothing(cast: Cast) -> None:
    give_app(cast.bob)
    of_rita = code(give_app(cast.rita))
    client, _ = enter_password()
    client.post(AUTHENTICATE, {"code": of_rita})
    assert not is_in(client)


def test_the_password_alone_opens_no_page_at_all(cast: Cast) -> None:
    give_app(cast.bob)
    client, _ = enter_password()
    for path in ("/", "/keys/", "/security/", "/account/mfa/app/bind/", "/account/password/", "/account/mfa/recovery/"):
        assert client.get(path).status_code in (302, 404), path
    assert Authenticator.objects.filter(user=cast.bob).count() == 1


@pytest.mark.parametrize(
    "credential",
    ["", "{}", "null", "[]", "7", '{"id": "x"}', '{"type": "public-key", "rawId": "AA", "response": {}}', "{"],
)
def test_a_forged_answer_of_a_key_is_refused_and_no_error_of_ours(cast: Cast, credential: str) -> None:
    give_app(cast.bob)
    client, _ = enter_password()
    answer = client.post(AUTHENTICATE, {"credential": credential})
    assert answer.status_code < 500
    assert not is_in(client)
