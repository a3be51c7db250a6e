"""Whom to believe about the client's address: a proxy that GANTRY_TRUSTED_PROXIES names, and nobody else."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from django.conf import settings
from django.http import HttpRequest, HttpResponse

Address = IPv4Address | IPv6Address
GetResponse = Callable[[HttpRequest], HttpResponse]
#: IPv6 networks are handed out by this many bits: one client has as many addresses as it likes.
_CLIENT_BITS = 64
_FORWARDED = ("HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO", "HTTP_X_FORWARDED_HOST", "HTTP_X_FORWARDED_PORT")


class TrustedProxyMiddleware:
    """Behind a trusted proxy REMOTE_ADDR becomes the client's; X-Forwarded-… of anybody else never existed.

    The client is the rightmost address of X-Forwarded-For that is no trusted proxy: what stands left of it was
    written by the client itself.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        peer = peer_of(request.META.get("REMOTE_ADDR", ""))
        if peer is not None and is_trusted(peer):
            request.META["REMOTE_ADDR"] = str(client_of(peer, request.META.get("HTTP_X_FORWARDED_FOR", "")))
        else:
            for header in _FORWARDED:
                request.META.pop(header, None)
        return self.get_response(request)


def client_of(peer: Address, forwarded_for: str) -> Address:
    """The client behind a trusted proxy, by X-Forwarded-For."""
    client = peer
    for text in reversed(forwarded_for.split(",")):
        address = peer_of(text.strip())
        if address is None:
            break
        client = address
        if not is_trusted(address):
            break
    return client


def is_trusted(address: Address) -> bool:
    """True for a proxy of GANTRY_TRUSTED_PROXIES."""
    return any(address in network for network in settings.TRUSTED_PROXIES)


def network_of(text: str) -> str:
    """What a client is counted by: its address, or its network when that is of IPv6."""
    address = peer_of(text)
    if isinstance(address, IPv6Address) and not address.is_loopback:
        return str(ip_network((address, _CLIENT_BITS), strict=False))
    return str(address) if address else text


def peer_of(text: str) -> Address | None:
    """An address, also with a port behind it or written as IPv6; None for anything else."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address
