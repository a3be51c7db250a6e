"""A provider of single sign-on that is an attacker: what it may say, how slowly, and to whom it may point."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from django.test import Client
from jwt.algorithms import RSAAlgorithm

from console.accounts import outgoing_requests
from console.accounts.models import User
from console.accounts.services import single_sign_on as services
from tests.support.cast import Cast

KEY, OTHER_KEY = (rsa.generate_private_key(65537, 2048) for _ in range(2))
SECRET = "the-client-secret-of-acme"


class Issuer:
    """Says what a test wants. `claims` and `sign` make the ID token, `document` and `keys` what it publishes."""

    def __init__(self) -> None:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked.append(self.path)
                issuer.answer(self)

            do_POST = do_GET  # noqa: N815

            def log_message(self, *_: Any) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.asked: list[str] = []
        self.nonce = ""
        self.document: dict[str, Any] = {
            "issuer": self.url, "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token", "jwks_uri": f"{self.url}/keys",
            "userinfo_endpoint": f"{self.url}/me",
        }  # fmt: skip
        self.keys: list[dict[str, Any]] = [public(KEY)]
        self.claims: dict[str, Any] = {}
        self.sign: Callable[[dict[str, Any]], str] = signed
        self.me: dict[str, Any] = {}
        self.special: dict[str, Callable[[Any], None]] = {}

    def answer(self, handler: Any) -> None:
        path = urlsplit(handler.path).path
        if path in self.special:
            return self.special[path](handler)
        now = int(time.time())
        claims = {"iss": self.url, "aud": "gantry", "sub": "7", "iat": now, "exp": now + 60, "nonce": self.nonce}
        claims = {n: v for n, v in ({"preferred_username": "bob"} | claims | self.claims).items() if v is not None}
        known: dict[str, Callable[[], Any]] = {
            "/.well-known/openid-configuration": lambda: self.document,
            "/keys": lambda: {"keys": self.keys},
            "/token": lambda: {"access_token": "a", "token_type": "Bearer", "id_token": self.sign(claims)},
            "/me": lambda: self.me,
        }
        send(handler, json.dumps(known[path]()).encode())


def public(key: rsa.RSAPrivateKey, kid: str = "one") -> dict[str, Any]:
    found: dict[str, Any] = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return found | {"kid": kid, "use": "sig", "alg": "RS256"}


def signed(claims: dict[str, Any], key: Any = KEY, algorithm: str = "RS256", **header: Any) -> str:
    return jwt.encode(claims, key, algorithm=algorithm, headers={"kid": "one"} | header)


def forged_by_hash(claims: dict[str, Any]) -> str:
    """HS256 with the public key as the secret, which PyJWT itself refuses to sign."""
    import base64
    import hashlib
    import hmac

    pem = KEY.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    parts = [{"alg": "HS256", "typ": "JWT", "kid": "one"}, claims]
    text = b".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    return (text + b"." + base64.urlsafe_b64encode(hmac.digest(pem, text, hashlib.sha256)).rstrip(b"=")).decode()


def send(handler: Any, body: bytes, status: int = 200, **headers: str) -> None:
    handler.send_response(status)
    for name, value in ({"Content-Type": "application/json", "Content-Length": str(len(body))} | headers).items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


@pytest.fixture
def issuer(cast: Cast, settings: Any) -> Iterator[Issuer]:
    settings.SSO_ALLOW_HTTP = True
    settings.SSO_NETWORKS = [ip_network("127.0.0.1")]
    found = Issuer()
    threading.Thread(target=found.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    services.save_single_sign_on(
        actor=cast.actor("alice"), issuer=found.url, client_id="gantry", client_secret=SECRET,
        user_claim="preferred_username", create_users=False, enabled=True,
    )  # fmt: skip
    yield found
    found.server.shutdown()
    found.server.server_close()


def sign_in(issuer: Issuer, **more: str) -> tuple[Client, Any]:
    """Begin at the console, and come back with a code as from the issuer."""
    client = Client()
    begun = client.post("/login/acme/")
    query = parse_qs(urlsplit(str(begun.context["provider_url"])).query)
    issuer.nonce = query["nonce"][0]
    return client, client.get("/login/acme/callback", {"state": query["state"][0], "code": "code"} | more)


def is_in(client: Client) -> bool:
    return client.get("/").status_code == 200


def test_a_right_answer_signs_in(issuer: Issuer) -> None:
    client, _ = sign_in(issuer)
    assert is_in(client)


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://honest.example"}, {"aud": "another"}, {"aud": ["gantry", "another"]},
        {"azp": "another"}, {"aud": ["gantry"], "azp": "another"}, {"aud": []}, {"aud": None}, {"exp": 1},
        {"exp": None}, {"exp": "soon"}, {"iat": 9_999_999_999}, {"iat": None}, {"nbf": 9_999_999_999},
        {"nonce": "of another sign-in"}, {"nonce": None}, {"nonce": ""}, {"nonce": ["x"]}, {"sub": None}, {"sub": 7},
    ],
    ids=str,
)  # fmt: skip
def test_a_token_with_one_wrong_claim_signs_nobody_in(issuer: Issuer, claims: dict[str, Any]) -> None:
    issuer.claims = claims
    client, answer = sign_in(issuer)
    assert answer.status_code == 403
    assert not is_in(client)


@pytest.mark.parametrize(
    "sign",
    [
        lambda claims: signed(claims, None, "none"),
        lambda claims: signed(claims, SECRET * 2, "HS256"),
        forged_by_hash,
        lambda claims: signed(claims, OTHER_KEY),
        lambda claims: signed(claims, OTHER_KEY, jwk=public(OTHER_KEY)),
        lambda claims: signed(claims, OTHER_KEY, jku="http://127.0.0.1:1/keys", x5u="http://127.0.0.1:1/cert"),
        lambda claims: signed(claims, kid="../one"),
        lambda claims: signed(claims, crit=["exp2"], exp2=1),
        lambda claims: signed(claims).rpartition(".")[0] + ".",
    ],
    ids=["none", "client secret", "public key as secret", "other key", "own key in it", "own address in it",
         "other name", "critical", "no signature"],
)  # fmt: skip
def test_a_token_that_is_not_signed_by_a_published_key_signs_nobody_in(
    issuer: Issuer, sign: Callable[[dict[str, Any]], str]
) -> None:
    issuer.sign = sign
    client, answer = sign_in(issuer)
    assert answer.status_code == 403
    assert not is_in(client)
    assert set(issuer.asked) <= {"/.well-known/openid-configuration", "/token", "/keys"}


def test_a_hash_is_refused_even_when_the_keys_publish_its_secret(issuer: Issuer) -> None:
    issuer.keys = [{"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3I", "kid": "one", "alg": "HS256"}]
    issuer.sign = lambda claims: signed(claims, b"secret-secret-secret-secret-secr", "HS256")
    assert not is_in(sign_in(issuer)[0])


def test_a_key_that_came_late_is_known_and_one_that_was_withdrawn_is_not(issuer: Issuer) -> None:
    assert is_in(sign_in(issuer)[0])
    issuer.keys.append(public(OTHER_KEY, "two"))
    issuer.sign = lambda claims: signed(claims, OTHER_KEY, kid="two")
    assert is_in(sign_in(issuer)[0])
    issuer.keys.pop()
    assert not is_in(sign_in(issuer)[0])


def test_an_answer_that_names_another_provider_is_refused_before_the_code_leaves(issuer: Issuer) -> None:
    client, answer = sign_in(issuer, iss="https://honest.example")
    assert (answer.status_code, is_in(client)) == (403, False)
    assert "/token" not in issuer.asked
    issuer.document["authorization_response_iss_parameter_supported"] = True
    assert not is_in(sign_in(issuer)[0])
    assert "/token" not in issuer.asked
    assert is_in(sign_in(issuer, iss=issuer.url)[0])


def test_a_token_of_one_sign_in_is_worth_nothing_in_another(issuer: Issuer) -> None:
    kept: list[str] = []

    def keep(claims: dict[str, Any]) -> str:
        kept.append(signed(claims))
        return kept[0]

    issuer.sign = keep
    assert is_in(sign_in(issuer)[0])
    assert not is_in(sign_in(issuer)[0])


@pytest.mark.parametrize(
    "claim", [{"email": "bob@acme", "email_verified": True}, {"sub": "bob"}, {"name": "bob"}], ids=str
)
def test_no_other_claim_makes_somebody_a_user(issuer: Issuer, claim: dict[str, Any]) -> None:
    issuer.claims = claim | {"preferred_username": None}
    assert not is_in(sign_in(issuer)[0])


def test_information_about_another_subject_is_not_taken(issuer: Issuer) -> None:
    issuer.claims = {"preferred_username": None}
    issuer.me = {"sub": "8", "preferred_username": "bob"}
    assert not is_in(sign_in(issuer)[0])
    issuer.me["sub"] = "7"
    assert is_in(sign_in(issuer)[0])


def test_it_never_becomes_the_administrator_or_a_user_of_another_account(issuer: Issuer, cast: Cast) -> None:
    before = User.objects.count()
    for name in ("admin", "admin@acme", "admin@umbrella", "bob@umbrella", "platform", "petra"):
        issuer.claims = {"preferred_username": name}
        assert not is_in(sign_in(issuer)[0])
    assert User.objects.count() == before


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/token", "/keys", "/me"])
@pytest.mark.parametrize("inside", ["http://127.0.0.2:80/", "http://169.254.169.254/latest/", "file:///etc/passwd"])
def test_no_answer_leads_to_an_address_inside(issuer: Issuer, path: str, inside: str) -> None:
    issuer.claims = {"preferred_username": None}
    issuer.special[path] = lambda handler: send(handler, b"", 302, Location=inside)
    answers = _in_any_way(issuer)
    assert answers["in"] is False
    assert "root:" not in answers["page"]


@pytest.mark.parametrize("name", ["token_endpoint", "jwks_uri", "userinfo_endpoint"])
@pytest.mark.parametrize(
    "inside", ["http://127.0.0.2:80/", "http://[::1]:80/", "http://169.254.169.254/", "file:///etc/x"]
)
def test_no_document_leads_to_an_address_inside(issuer: Issuer, name: str, inside: str) -> None:
    issuer.claims = {"preferred_username": None}
    issuer.document[name] = inside
    assert _in_any_way(issuer)["in"] is False


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/token", "/keys", "/me"])
@pytest.mark.parametrize("where", ["head", "body"])
def test_an_answer_that_drips_has_a_total_time(
    issuer: Issuer, path: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        outgoing_requests, "TIMEOUT_S", 2.0
    )  # the answers before the one that drips have to come within it
    issuer.claims = {"preferred_username": None}
    gone = threading.Event()

    def drip(handler: Any) -> None:
        try:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\n" + (b"\r\n" if where == "body" else b"X: "))
            while not gone.wait(0.1):
                handler.wfile.write(b" ")
        except OSError:
            gone.set()

    issuer.special[path] = drip
    try:
        assert _in_any_way(issuer)["in"] is False
        assert gone.wait(20), "the console still listens"
    finally:
        gone.set()


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/token", "/keys", "/me"])
@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nno gzip",
    ],
    ids=["reset", "no chunk", "no gzip"],
)
def test_an_answer_that_breaks_off_is_refused_and_no_error_of_ours(issuer: Issuer, path: str, answer: bytes) -> None:
    issuer.claims = {"preferred_username": None}

    def break_off(handler: Any) -> None:
        handler.wfile.write(answer)
        handler.wfile.flush()
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        handler.connection.close()

    issuer.special[path] = break_off
    found = _in_any_way(issuer)
    assert found["in"] is False
    assert found["status"] < 500


@pytest.mark.parametrize(
    "body", [b"[]", b"null", b"7", b"{", b"\xff\xfe", b'{"keys": 7}', b'{"keys": [7]}', b"[" * 50_000]
)
@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/token", "/keys", "/me"])
def test_nonsense_is_refused_and_no_error_of_ours(issuer: Issuer, path: str, body: bytes) -> None:
    issuer.claims = {"preferred_username": None}
    issuer.special[path] = lambda handler: send(handler, body)
    found = _in_any_way(issuer)
    assert found["in"] is False
    assert found["status"] < 500


def _in_any_way(issuer: Issuer) -> dict[str, Any]:
    """Try to sign in; the console may refuse at the beginning already."""
    client = Client()
    begun = client.post("/login/acme/")
    if not (begun.context and "provider_url" in begun.context):
        return {"in": is_in(client), "page": begun.content.decode(), "status": begun.status_code}
    query = parse_qs(urlsplit(str(begun.context["provider_url"])).query)
    issuer.nonce = query["nonce"][0]
    answer = client.get("/login/acme/callback", {"state": query["state"][0], "code": "code"})
    return {"in": is_in(client), "page": answer.content.decode(), "status": answer.status_code}
