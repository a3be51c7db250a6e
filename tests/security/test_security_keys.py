"""Who has the password and has copied a security key, or seen what one answered."""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from django.test import Client
from fido2.cose import ES256
from fido2.utils import websafe_encode
from fido2.webauthn import Aaguid, AttestationObject, AttestedCredentialData, AuthenticatorData, CollectedClientData

from console.accounts.models import User
from tests.support.cast import PASSWORD, Cast

HOST = "localhost"
AUTHENTICATE = "/account/mfa/authenticate/"


class Key:
    """A security key in software: what it signs is real, and its counter is what a test says."""

    def __init__(self) -> None:
        self._secret = ec.generate_private_key(ec.SECP256R1())
        self.credential_id = secrets.token_bytes(16)

    def register(self, counter: int) -> dict[str, Any]:
        """What it answered when it was bound."""
        public = ES256.from_cryptography_key(self._secret.public_key())  # type: ignore[no-untyped-call]
        credential = AttestedCredentialData.create(Aaguid.NONE, self.credential_id, public)
        data = AuthenticatorData.create(_of_host(), _PRESENT | _ATTESTED, counter, credential)
        return self._answer(
            attestationObject=websafe_encode(AttestationObject.create("none", data, {})),
            clientDataJSON=websafe_encode(_client_data("webauthn.create", b"x" * 32)),
        )

    def sign(self, challenge: str, counter: int) -> str:
        """Its answer to a challenge, as a browser sends it."""
        data = AuthenticatorData.create(_of_host(), _PRESENT, counter)
        client_data = _client_data("webauthn.get", challenge)
        signed = bytes(data) + hashlib.sha256(client_data).digest()
        signature = self._secret.sign(signed, ec.ECDSA(hashes.SHA256()))
        answer = self._answer(
            authenticatorData=websafe_encode(data),
            clientDataJSON=websafe_encode(client_data),
            signature=websafe_encode(signature),
        )
        return json.dumps(answer)

    def _answer(self, **response: str) -> dict[str, Any]:
        name = websafe_encode(self.credential_id)
        return {
            "id": name, "rawId": name, "type": "public-key", "response": response, "clientExtensionResults": {},
        }  # fmt: skip


_PRESENT, _ATTESTED = AuthenticatorData.FLAG.UP, AuthenticatorData.FLAG.AT


def _of_host() -> bytes:
    return hashlib.sha256(HOST.encode()).digest()


def _client_data(kind: str, challenge: str | bytes) -> bytes:
    return bytes(CollectedClientData.create(kind, challenge, f"http://{HOST}"))


def bind(user: User, key: Key, counter: int) -> None:
    data = {"name": "Key", "credential": key.register(counter)}
    Authenticator.objects.create(user=user, type=Authenticator.Type.WEBAUTHN, data=data)


def begin() -> tuple[Client, str]:
    """A browser in which Bob's password was given, and the challenge that his key is to sign."""
    client = Client(SERVER_NAME=HOST)
    client.post("/account/login/", {"login": "bob@acme", "password": PASSWORD})
    client.get(AUTHENTICATE)
    return client, client.session["mfa.webauthn.state"]["challenge"]


def is_in(client: Client) -> bool:
    return client.get("/").status_code == 200


@pytest.fixture
def key(cast: Cast) -> Key:
    found = Key()
    bind(cast.bob, found, 5)
    return found


def test_a_key_that_has_signed_more_often_opens(key: Key) -> None:
    for counter in (6, 9):
        client, challenge = begin()
        client.post(AUTHENTICATE, {"credential": key.sign(challenge, counter)})
        assert is_in(client)


@pytest.mark.parametrize("counter", [0, 3, 5], ids=["none", "fewer", "as many"])
def test_a_copy_of_a_key_is_known_by_its_counter(key: Key, counter: int) -> None:
    client, challenge = begin()
    client.post(AUTHENTICATE, {"credential": key.sign(challenge, counter)})
    assert not is_in(client)


def test_a_copy_that_counts_on_shuts_neither_itself_nor_the_key_in(key: Key) -> None:
    for counter, opens in ((8, True), (6, False), (8, False), (9, True)):
        client, challenge = begin()
        client.post(AUTHENTICATE, {"credential": key.sign(challenge, counter)})
        assert is_in(client) is opens


def test_a_key_that_does_not_count_opens_again_and_again(cast: Cast) -> None:
    key = Key()
    bind(cast.bob, key, 0)
    for _ in range(2):
        client, challenge = begin()
        client.post(AUTHENTICATE, {"credential": key.sign(challenge, 0)})
        assert is_in(client)


def test_an_answer_that_was_seen_opens_nothing_a_second_time(key: Key) -> None:
    client, challenge = begin()
    answer = key.sign(challenge, 6)
    client.post(AUTHENTICATE, {"credential": answer})
    assert is_in(client)
    for other in (begin()[0], Client(SERVER_NAME=HOST)):
        other.post(AUTHENTICATE, {"credential": answer})
        assert not is_in(other)
    client.post("/account/logout/")
    client.post("/account/login/", {"login": "bob@acme", "password": PASSWORD})
    client.post(AUTHENTICATE, {"credential": answer})
    assert not is_in(client)


def test_the_answer_of_one_users_key_opens_no_other_user(key: Key, cast: Cast) -> None:
    other = Key()
    bind(cast.rita, other, 0)
    client, challenge = begin()
    client.post(AUTHENTICATE, {"credential": other.sign(challenge, 1)})
    assert not is_in(client)
    client.post(AUTHENTICATE, {"credential": other.sign(challenge, 1).replace('"localhost"', '"evil"')})
    assert not is_in(client)


def test_an_answer_for_another_host_opens_nothing(key: Key) -> None:
    client, challenge = begin()
    answer = json.loads(key.sign(challenge, 6))
    forged = _client_data("webauthn.get", challenge).replace(b"http://localhost", b"http://evil.test")
    answer["response"]["clientDataJSON"] = websafe_encode(forged)
    client.post(AUTHENTICATE, {"credential": json.dumps(answer)})
    assert not is_in(client)
