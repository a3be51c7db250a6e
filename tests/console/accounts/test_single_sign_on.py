"""Single sign-on against a real OpenID Connect provider: who gets in, and who must not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import ip_network
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import oidc_provider_mock
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from django.test import Client
from jwt.algorithms import RSAAlgorithm

from console.accounts import oidc, outgoing_requests
from console.accounts.models import SingleSignOn, Tenant, User
from console.accounts.services import single_sign_on as services
from console.audit.models import Entry
from console.web.errors import Refused
from tests.support.cast import PASSWORD, Cast

# The provider's own libraries are behind their times.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:authlib")
SECRET = "the-client-secret-of-acme"


@dataclass
class Provider:
    """A running provider, and the account that trusts it."""

    issuer: str

    def person(self, subject: str, **claims: Any) -> None:
        """Somebody the provider knows."""
        httpx.put(f"{self.issuer}/users/{subject}", json=claims).raise_for_status()

    def agree(self, url: str, subject: str) -> str:
        """Sign in at the provider as a person would; returns the address that the browser is sent back to."""
        response = httpx.post(url, data={"sub": subject})
        assert response.status_code == 302, response.text
        return str(response.headers["Location"])


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest) -> Iterator[Provider]:
    patch = pytest.MonkeyPatch()
    patch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")
    with oidc_provider_mock.run_server_in_thread(require_nonce=True) as server:
        yield Provider(f"http://localhost:{server.server_port}")
    patch.undo()


@pytest.fixture
def provider(running: Provider, cast: Cast, settings: Any) -> Provider:
    settings.SSO_ALLOW_HTTP = True
    settings.SSO_NETWORKS = [ip_network("127.0.0.0/8"), ip_network("::1")]
    trust(cast, running.issuer)
    running.person("7", preferred_username="bob")
    return running


def trust(cast: Cast, issuer: str, name: str = "alice", **changes: Any) -> SingleSignOn:
    values: dict[str, Any] = {"client_id": "gantry", "client_secret": SECRET, "user_claim": "preferred_username"}
    values |= {"create_users": False, "enabled": True} | changes
    return services.save_single_sign_on(actor=cast.actor(name), issuer=issuer, **values)


def begin(client: Client, account: str = "acme", **data: str) -> str:
    """Press the button; returns the provider's address."""
    answer = client.post(f"/login/{account}/", data)
    assert answer.status_code == 200, answer.content
    return str(answer.context["provider_url"])


def back(url: str) -> str:
    """The path and query of an address of this console."""
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}"


def sign_in(provider: Provider, subject: str = "7", account: str = "acme", **data: str) -> tuple[Client, Any]:
    client = Client()
    return client, client.get(back(provider.agree(begin(client, account, **data), subject)))


def is_in(client: Client) -> bool:
    return client.get("/").status_code == 200


def test_a_user_signs_in_by_the_provider_and_comes_to_the_page_that_was_asked_for(
    provider: Provider, cast: Cast
) -> None:
    client, answer = sign_in(provider, next="/keys/")
    assert answer["Location"] == "/keys/"
    assert "bob@acme" in client.get("/keys/").content.decode()
    entry = Entry.objects.get(action="accounts.session.sign_in")
    assert (entry.actor, entry.result, entry.detail) == ("bob@acme", "success", {"by": ["single sign-on"]})


def test_the_request_carries_state_nonce_and_pkce_and_leaves_by_no_form(provider: Provider) -> None:
    client = Client()
    page = client.post("/login/acme/").content.decode()
    assert 'http-equiv="refresh"' in page
    query = parse_qs(urlsplit(begin(client)).query)
    assert query["code_challenge_method"] == ["S256"]
    assert query["redirect_uri"] == ["http://testserver/login/acme/callback"]
    assert len(query["nonce"][0]) >= 32
    assert query["nonce"] != parse_qs(urlsplit(begin(client)).query)["nonce"]
    assert "openid" in query["scope"][0].split()


def test_looking_at_the_page_begins_nothing(provider: Provider) -> None:
    client = Client()
    assert "Sign in with acme" in client.get("/login/acme/").content.decode()
    assert not client.session.get("socialaccount_states")


def test_the_sign_in_page_leads_to_the_account(provider: Provider) -> None:
    client = Client()
    assert 'href="/login/"' in client.get("/account/login/").content.decode()
    assert client.post("/login/", {"account": "acme"})["Location"] == "/login/acme/"
    assert client.post("/login/", {"account": "no such"}).status_code == 422


def test_a_following_page_is_one_of_ours(provider: Provider) -> None:
    _, answer = sign_in(provider, next="https://evil.example/")
    assert answer["Location"] == "/"


def test_an_unknown_user_is_refused_and_on_record(provider: Provider) -> None:
    provider.person("8", preferred_username="nobody")
    client, answer = sign_in(provider, "8")
    assert answer.status_code == 403
    assert "There is no user nobody@acme." in answer.content.decode()
    assert not is_in(client)
    entry = Entry.objects.get(action="accounts.session.sign_in")
    assert (entry.result, entry.tenant and entry.tenant.name) == ("refused", "acme")


@pytest.mark.parametrize("name", ["nobody", "no body"])
def test_a_refusal_is_told_in_the_visitors_language_and_kept_in_english(provider: Provider, name: str) -> None:
    provider.person("8", preferred_username=name)
    client = Client(headers={"accept-language": "zh-CN"})
    answer = client.get(back(provider.agree(begin(client), "8")))
    assert 'lang="zh-hans"' in answer.content.decode()
    (entry,) = Entry.objects.filter(action="accounts.session.sign_in")
    kept = {
        "nobody": "There is no user nobody@acme.",
        "no body": "The provider's claim preferred_username is not a user name.",
    }
    assert entry.detail["reason"] == kept[name]
    assert kept[name] not in answer.content.decode()


def test_an_unknown_user_becomes_a_user_without_policies_when_the_account_wants_that(
    provider: Provider, cast: Cast
) -> None:
    trust(cast, provider.issuer, create_users=True)
    provider.person("9", preferred_username="newcomer")
    client, _ = sign_in(provider, "9")
    assert is_in(client)
    made = User.objects.get(username="newcomer@acme")
    assert (made.tenant, made.is_tenant_admin, made.has_usable_password()) == (cast.acme, False, False)
    assert not made.policies.exists()
    assert client.get("/i/" + cast.instance.instance_id + "/topics/").status_code == 403


@pytest.mark.parametrize(
    "claim",
    ["bob@acme", "bob@umbrella", "BOB", "bob ", "bob\n", "", "../bob", "b" * 33, 7, ["bob"], None, True],
    ids=repr,
)
def test_only_the_exact_name_counts(provider: Provider, cast: Cast, claim: Any) -> None:
    trust(cast, provider.issuer, create_users=False)
    provider.person("10", preferred_username=claim)
    client, answer = sign_in(provider, "10")
    assert answer.status_code == 403
    assert not is_in(client)


def test_a_name_that_differs_in_case_only_is_not_created(provider: Provider, cast: Cast) -> None:
    trust(cast, provider.issuer, create_users=True)
    provider.person("11", preferred_username="Bob")
    _, answer = sign_in(provider, "11")
    assert answer.status_code == 403
    assert User.objects.filter(username__iexact="bob@acme").count() == 1


def test_a_provider_never_signs_in_the_administrator(provider: Provider) -> None:
    provider.person("12", preferred_username="admin")
    client, answer = sign_in(provider, "12")
    assert "with a password only" in answer.content.decode()
    assert not is_in(client)


def test_a_provider_signs_in_users_of_its_own_account_only(provider: Provider, cast: Cast) -> None:
    trust(cast, provider.issuer, "charlie", create_users=True)
    client, _ = sign_in(provider, "7", "umbrella")
    assert User.objects.get(username="bob@umbrella").tenant == cast.charlie.tenant
    assert "bob@umbrella" in client.get("/keys/").content.decode()
    assert "bob@acme" not in client.get("/keys/").content.decode()


def test_an_answer_for_one_account_is_worth_nothing_at_another(provider: Provider, cast: Cast) -> None:
    trust(cast, provider.issuer, "charlie", create_users=True)
    client = Client()
    answer = provider.agree(begin(client, "umbrella"), "7")
    assert client.get(back(answer).replace("/umbrella/", "/acme/")).status_code == 403
    assert not is_in(client)


def test_a_state_is_good_once(provider: Provider) -> None:
    client = Client()
    answer = back(provider.agree(begin(client), "7"))
    assert client.get(answer).status_code == 302
    client.post("/account/logout/")
    assert "did not start here" in client.get(answer).content.decode()
    assert not is_in(client)


def test_an_answer_that_another_browser_began_is_refused(provider: Provider) -> None:
    answer = back(provider.agree(begin(Client()), "7"))
    victim = Client()
    assert "did not start here" in victim.get(answer).content.decode()
    assert not is_in(victim)


def test_what_the_provider_refuses_is_said(provider: Provider) -> None:
    client = Client()
    state = parse_qs(urlsplit(begin(client)).query)["state"][0]
    page = client.get("/login/acme/callback", {"state": state, "error": "access_denied"})
    assert "cancelled there" in page.content.decode()


def test_a_made_up_code_is_refused(provider: Provider) -> None:
    client = Client()
    state = parse_qs(urlsplit(begin(client)).query)["state"][0]
    page = client.get("/login/acme/callback", {"state": state, "code": "made-up"})
    assert page.status_code == 403
    assert "issues no tokens" in page.content.decode()


def test_single_sign_on_that_is_switched_off_meanwhile_is_off(provider: Provider) -> None:
    client = Client()
    answer = back(provider.agree(begin(client), "7"))
    SingleSignOn.objects.update(enabled=False)
    assert client.get(answer).status_code == 404
    assert client.post("/login/acme/").status_code == 404
    assert not is_in(client)


def test_accounts_without_it_and_accounts_that_do_not_exist_look_alike(provider: Provider) -> None:
    answers = [Client().post(f"/login/{name}/") for name in ("umbrella", "nosuch")]
    pages = [answer.content.decode().replace("umbrella", "X").replace("nosuch", "X") for answer in answers]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert pages[0].partition("<h1")[2].partition("<input")[0] == pages[1].partition("<h1")[2].partition("<input")[0]


def test_a_disabled_user_is_not_let_in(provider: Provider, cast: Cast) -> None:
    User.objects.filter(pk=cast.bob.pk).update(is_active=False)
    client, answer = sign_in(provider)
    assert answer["Location"] == "/account/inactive/"
    assert not is_in(client)


def test_nobody_of_a_disabled_account_is_let_in(provider: Provider) -> None:
    client = Client()
    answer = back(provider.agree(begin(client), "7"))
    Tenant.objects.filter(name="acme").update(enabled=False)
    assert client.get(answer).status_code == 404
    assert not is_in(client)


def test_a_required_device_is_required_here_too(provider: Provider, cast: Cast) -> None:
    User.objects.filter(pk=cast.bob.pk).update(mfa_required=True)
    client, _ = sign_in(provider)
    assert client.get("/")["Location"] == "/account/mfa/app/bind/"


def test_nobody_is_asked_for_a_first_password_that_the_provider_replaces(provider: Provider, cast: Cast) -> None:
    User.objects.filter(pk=cast.bob.pk).update(must_change_password=True)
    client, _ = sign_in(provider)
    assert is_in(client)
    other = Client()
    other.post("/account/login/", {"login": "bob@acme", "password": PASSWORD})
    assert other.get("/")["Location"] == "/account/password/"


# The ID token -------------------------------------------------------------------------------------------------------
ISSUER, NONCE = "https://provider.example", "n-once"
KEY, OTHER_KEY = (rsa.generate_private_key(65537, 2048) for _ in range(2))


def claims(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    right = {"iss": ISSUER, "aud": "gantry", "sub": "7", "nonce": NONCE, "iat": now, "exp": now + 60}
    return {name: value for name, value in (right | changes).items() if value is not None}


def check(token: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    keys = {"keys": [RSAAlgorithm.to_jwk(KEY.public_key(), as_dict=True) | {"kid": "one", "use": "sig"}]}
    monkeypatch.setattr(oidc, "_fetch", lambda *_: keys)
    document = {"issuer": ISSUER, "jwks_uri": "https://provider.example/keys"}
    return oidc.check_id_token(token, document=document, client_id="gantry", nonce=NONCE)


def signed(payload: dict[str, Any], key: Any = KEY, algorithm: str = "RS256", kid: str = "one") -> str:
    return jwt.encode(payload, key, algorithm=algorithm, headers={"kid": kid})


def test_a_right_token_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(signed(claims()), monkeypatch)["sub"] == "7"
    assert check(signed(claims(aud=["gantry", "other"], azp="gantry")), monkeypatch)["sub"] == "7"


@pytest.mark.parametrize(
    "wrong",
    [
        {"iss": "https://evil.example"}, {"iss": ISSUER + "/"}, {"aud": "other"}, {"aud": ["gantry", "other"]},
        {"aud": ["gantry", "other"], "azp": "other"}, {"nonce": "another"}, {"nonce": None}, {"nonce": ""},
        {"exp": 1}, {"exp": None}, {"iat": 9999999999}, {"sub": None},
    ],
    ids=str,
)  # fmt: skip
def test_a_token_with_a_wrong_claim_is_refused(wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(oidc.SignInError):
        check(signed(claims(**wrong)), monkeypatch)


@pytest.mark.parametrize(
    "forge",
    [
        lambda: signed(claims(), OTHER_KEY),
        lambda: signed(claims(), kid="two"),
        lambda: signed(claims(), None, "none"),
        lambda: signed(claims(), SECRET * 2, "HS256"),
        lambda: "no token at all",
        lambda: "",
    ],
    ids=["other key", "unknown key", "no signature", "client secret as key", "no token", "empty"],
)
def test_a_forged_token_is_refused(forge: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(oidc.SignInError):
        check(forge(), monkeypatch)


# Whom the console asks ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "::1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "fe80::1", "fe80::1%eth0",
        "0.0.0.0", "::", "224.0.0.1", "::ffff:127.0.0.1", "100.64.0.1", "fd00::1",
    ],
)  # fmt: skip
def test_no_address_inside_is_asked(address: str) -> None:
    assert not outgoing_requests.may_reach(address)


def test_public_addresses_and_allowed_networks_are_asked(settings: Any) -> None:
    assert outgoing_requests.may_reach("93.184.216.34")
    settings.SSO_NETWORKS = [ip_network("10.20.0.0/16")]
    assert outgoing_requests.may_reach("10.20.1.2")
    assert not outgoing_requests.may_reach("10.21.1.2")


def test_the_address_counts_not_the_name_and_nothing_is_sent(cast: Cast, settings: Any) -> None:
    settings.SSO_ALLOW_HTTP = True
    with http_server(lambda handler: handler.send_error(500)) as server:
        with pytest.raises(oidc.SignInError, match="does not return its discovery document"):
            oidc.discover(f"http://localhost:{server.server_port}")
        assert server.requests == []


@pytest.mark.parametrize(
    "url",
    ["http://provider.example", "file:///etc/passwd", "ftp://provider.example", "gopher://x", "javascript:alert(1)"],
)
def test_only_https_is_asked(cast: Cast, url: str) -> None:
    with pytest.raises(outgoing_requests.Unreachable):
        outgoing_requests.GuardedSession().get(url)
    with pytest.raises(Refused):
        trust(cast, url)


def test_a_redirect_is_not_followed(provider: Provider) -> None:
    with http_server(
        lambda handler: redirect(handler, f"{provider.issuer}/.well-known/openid-configuration")
    ) as server:
        with pytest.raises(oidc.SignInError, match="redirects to another address"):
            oidc.discover(f"http://localhost:{server.server_port}")
        assert len(server.requests) == 1


def test_an_answer_without_end_is_cut(provider: Provider) -> None:
    def flood(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(b" " * (outgoing_requests.MAX_ANSWER_BYTES + 2))

    with http_server(flood) as server, pytest.raises(oidc.SignInError, match="too large"):
        oidc.discover(f"http://localhost:{server.server_port}")


def test_a_document_of_another_issuer_is_refused(provider: Provider) -> None:
    with pytest.raises(oidc.SignInError, match="another issuer"):
        oidc.discover(provider.issuer.replace("localhost", "127.0.0.1") + "/.well-known/..")


# The page -----------------------------------------------------------------------------------------------------------
FORM = {"client_id": "gantry", "client_secret": SECRET, "user_claim": "sub", "enabled": "on"}


def test_the_page_saves_and_never_shows_the_secret_again(provider: Provider, cast: Cast) -> None:
    client = cast.client("alice")
    answer = client.post("/single-sign-on/", FORM | {"issuer": provider.issuer + "/"})
    assert answer.status_code == 302
    row = SingleSignOn.objects.get(tenant=cast.acme)
    assert (row.issuer, row.user_claim, row.create_users) == (provider.issuer, "sub", False)
    assert SECRET not in row.client_secret_encrypted
    assert SECRET not in client.get("/single-sign-on/").content.decode()
    assert SECRET not in str(list(Entry.objects.values_list("detail", flat=True)))
    client.post("/single-sign-on/", FORM | {"issuer": provider.issuer, "client_secret": ""})
    assert SingleSignOn.objects.get(tenant=cast.acme).client_secret_encrypted == row.client_secret_encrypted


def test_the_stored_secret_is_never_sent_to_another_issuer(provider: Provider, cast: Cast) -> None:
    answer = cast.client("alice").post(
        "/single-sign-on/", FORM | {"issuer": "https://evil.example", "client_secret": ""}
    )
    assert answer.status_code == 422
    assert "needs its own client secret" in answer.content.decode()
    assert SingleSignOn.objects.get(tenant=cast.acme).issuer == provider.issuer


def test_the_connection_is_tested(provider: Provider, cast: Cast) -> None:
    client = cast.client("alice")
    assert "users are sent to" in client.post("/single-sign-on/test", follow=True).content.decode()
    SingleSignOn.objects.update(issuer="http://localhost:9")
    assert "does not return its discovery document" in client.post("/single-sign-on/test", follow=True).content.decode()


def test_it_is_deleted_by_typing_the_accounts_name(provider: Provider, cast: Cast) -> None:
    client = cast.client("alice")
    assert client.post("/single-sign-on/delete/", {"name": "other"}).status_code == 422
    assert client.post("/single-sign-on/delete/", {"name": "acme"}).status_code == 302
    assert not SingleSignOn.objects.exists()
    assert Entry.objects.get(action="accounts.single_sign_on.delete").actor == "admin@acme"


class _Server(HTTPServer):
    requests: list[str]


class http_server:  # noqa: N801 - a context manager
    """A server of the test's own on a free port; remembers what it was asked."""

    def __init__(self, answer: Callable[[Any], None]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.requests.append(self.path)
                answer(self)

            def log_message(self, *_: Any) -> None:
                """Quiet."""

        server = self.server = _Server(("127.0.0.1", 0), Handler)
        server.requests = []

    def __enter__(self) -> _Server:
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self.server

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def redirect(handler: BaseHTTPRequestHandler, url: str) -> None:
    handler.send_response(302)
    handler.send_header("Location", url)
    handler.end_headers()
