"""Requests to addresses that an account typed in go nowhere inside, however the address is written."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Any

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from console.accounts import outgoing_requests

INSIDE = ("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1")
OUTSIDE = "93.184.216.34"


def written(inner: str) -> dict[str, str]:
    """An IPv4 address in every form that a gateway, a tunnel or a resolver takes back apart."""
    number = int(IPv4Address(inner))
    obfuscated = number ^ 0xFFFFFFFF
    forms = {
        "IPv4-mapped": 0xFFFF << 32 | number,
        "IPv4-compatible": number,
        "IPv4-translated": 0xFFFF << 48 | number,
        "NAT64": 0x64FF9B << 96 | number,
        "NAT64 of one's own": 0x64FF9B0001 << 80 | number,
        "NAT64 of one's own, 48 bits": 0x64FF9B0001 << 80 | (number >> 16) << 64 | (number & 0xFFFF) << 40,
        "6to4": 0x2002 << 112 | number << 80 | 1,
        "Teredo, its client": 0x20010000 << 96 | int(IPv4Address(OUTSIDE)) << 64 | obfuscated,
        "Teredo, its server": 0x20010000 << 96 | number << 64 | (int(IPv4Address(OUTSIDE)) ^ 0xFFFFFFFF),
        "ISATAP": 0x2606470000000000 << 64 | 0x5EFE << 32 | number,
        "ISATAP, global": 0x2606470000000000 << 64 | 0x02005EFE << 32 | number,
    }
    return {name: str(IPv6Address(value)) for name, value in forms.items()}


@pytest.mark.parametrize("inner", INSIDE)
def test_no_way_to_write_an_inner_address_makes_it_an_outer_one(inner: str) -> None:
    opened = [f"{name}: {address}" for name, address in written(inner).items() if outgoing_requests.may_reach(address)]
    assert opened == []


def test_an_outer_address_stays_one_where_only_the_writing_differs() -> None:
    forms = written(OUTSIDE)
    assert outgoing_requests.may_reach(forms["IPv4-mapped"])
    assert outgoing_requests.may_reach(forms["NAT64"])  # how a network without IPv4 reaches every provider
    assert outgoing_requests.may_reach("2606:4700:4700::1111")


@given(st.integers(0, 2**128 - 1))
def test_every_address_is_judged_and_none_with_an_inner_one_behind_it_passes(number: int) -> None:
    address = IPv6Address(number)
    if outgoing_requests.may_reach(str(address)):
        for inner in (address.ipv4_mapped, address.sixtofour, *(address.teredo or ())):
            assert inner is None or inner.is_global


def test_an_allowed_network_is_allowed_in_the_forms_that_only_write_it_otherwise(settings: Any) -> None:
    settings.SSO_NETWORKS = [ip_network("10.20.0.0/16")]
    assert outgoing_requests.may_reach(written("10.20.1.2")["NAT64"])
    assert outgoing_requests.may_reach(written("10.20.1.2")["IPv4-mapped"])
    assert not outgoing_requests.may_reach(written("10.21.1.2")["NAT64"])
    settings.SSO_NETWORKS = [ip_network("::1/128")]
    assert outgoing_requests.may_reach("::1")


@contextmanager
def server(status: int = 200, **headers: str) -> Iterator[tuple[int, list[str]]]:
    """An HTTP server on the loopback interface; what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    try:
        yield listening.server_port, asked
    finally:
        listening.shutdown()
        listening.server_close()


def test_a_name_that_resolves_differently_the_second_time_gains_nothing(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is judged is the peer of the open connection: whatever a resolver said before is of no weight."""
    settings.SSO_ALLOW_HTTP = True
    answers = iter([OUTSIDE, "127.0.0.1", "127.0.0.1", "127.0.0.1"])
    seen = []

    def rebinding(host: str, port: int, *_: object, **__: object) -> list[Any]:
        seen.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

    with server() as (port, asked):
        monkeypatch.setattr(socket, "getaddrinfo", rebinding)
        assert rebinding("rebound.example", port)[0][4][0] == OUTSIDE  # what a check before would have seen
        with pytest.raises(requests.RequestException):
            outgoing_requests.GuardedSession().get(f"http://rebound.example:{port}/secret")
        assert asked == []
    assert len(seen) >= 2  # the session did ask the resolver itself


@pytest.mark.parametrize(
    "to", ["http://127.0.0.1:1/", "http://[::ffff:127.0.0.1]:1/", "//169.254.169.254/", "/elsewhere"]
)
def test_a_redirect_is_followed_nowhere(settings: Any, to: str) -> None:
    settings.SSO_ALLOW_HTTP, settings.SSO_NETWORKS = True, [ip_network("127.0.0.0/8")]
    with server(302, Location=to) as (port, asked):
        with pytest.raises(outgoing_requests.Unreachable, match="redirects"):
            outgoing_requests.GuardedSession().get(f"http://127.0.0.1:{port}/begin", allow_redirects=True)
        assert asked == ["/begin"]


def test_a_proxy_of_the_environment_is_not_asked(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.SSO_ALLOW_HTTP = True
    with server() as (port, asked):
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
        with pytest.raises(requests.RequestException):
            outgoing_requests.GuardedSession().get(f"http://127.0.0.1:{port}/")
        assert asked == []
