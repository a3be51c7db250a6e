"""X-Forwarded-…: believed from the proxies of GANTRY_TRUSTED_PROXIES, ignored from everybody else."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory

from console.audit.models import Entry
from console.env import env_networks
from console.web.connections import TrustedProxyMiddleware
from tests.support.cast import PASSWORD, Cast

PROXY, CLIENT = "10.0.0.2", "203.0.113.9"


@pytest.fixture(autouse=True)
def _proxies(settings: Any) -> None:
    settings.TRUSTED_PROXIES = [ip_network("10.0.0.0/8"), ip_network("::1")]


def seen(peer: str, **headers: str) -> HttpRequest:
    """The request as the views behind the middleware see it."""
    requests: list[HttpRequest] = []

    def view(request: HttpRequest) -> HttpResponse:
        requests.append(request)
        return HttpResponse()

    TrustedProxyMiddleware(view)(RequestFactory().get("/", REMOTE_ADDR=peer, headers=headers))
    return requests[0]


def test_a_trusted_proxy_tells_the_clients_address_and_transport() -> None:
    request = seen(PROXY, **{"X-Forwarded-For": CLIENT, "X-Forwarded-Proto": "https"})
    assert request.META["REMOTE_ADDR"] == CLIENT
    assert request.is_secure()


def test_anybody_else_tells_nothing() -> None:
    request = seen("198.51.100.1", **{"X-Forwarded-For": CLIENT, "X-Forwarded-Proto": "https"})
    assert request.META["REMOTE_ADDR"] == "198.51.100.1"
    assert not request.is_secure()
    assert "X-Forwarded-For" not in request.headers


@pytest.mark.parametrize(
    ("forwarded", "client"),
    [
        (f"1.2.3.4, {CLIENT}", CLIENT),
        (f"1.2.3.4, {CLIENT}, 10.0.0.3", CLIENT),
        (f"{CLIENT}:51234", CLIENT),
        ("[2001:db8::7]:443", "2001:db8::7"),
        ("2001:db8::7", "2001:db8::7"),
        (f"::ffff:{CLIENT}", CLIENT),
        ("10.0.0.9", "10.0.0.9"),
        (f"{CLIENT}, <script>", PROXY),
        ("unknown", PROXY),
        ("", PROXY),
    ],
)
def test_the_rightmost_address_that_is_no_proxy_counts(forwarded: str, client: str) -> None:
    assert seen(PROXY, **{"X-Forwarded-For": forwarded}).META["REMOTE_ADDR"] == client


def test_without_proxies_nobody_is_believed(settings: Any) -> None:
    settings.TRUSTED_PROXIES = []
    assert seen("127.0.0.1", **{"X-Forwarded-For": CLIENT}).META["REMOTE_ADDR"] == "127.0.0.1"


def test_the_audit_trail_has_the_clients_address(cast: Cast) -> None:
    data = {"login": "bob@acme", "password": PASSWORD}
    Client(REMOTE_ADDR=PROXY, headers={"X-Forwarded-For": CLIENT}).post("/account/login/", data)
    Client(REMOTE_ADDR="198.51.100.1", headers={"X-Forwarded-For": CLIENT}).post("/account/login/", data)
    entries = Entry.objects.filter(action="accounts.session.sign_in").order_by("pk")
    assert [entry.source_ip for entry in entries] == [CLIENT, "198.51.100.1"]


def test_a_list_that_makes_no_sense_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANTRY_TRUSTED_PROXIES", "10.0.0.0/8, proxy.example")
    with pytest.raises(ImproperlyConfigured, match="GANTRY_TRUSTED_PROXIES is not a list of networks"):
        env_networks("GANTRY_TRUSTED_PROXIES")
    monkeypatch.setenv("GANTRY_TRUSTED_PROXIES", " 10.0.0.0/8, ::1 ,")
    assert env_networks("GANTRY_TRUSTED_PROXIES") == [ip_network("10.0.0.0/8"), ip_network("::1")]
