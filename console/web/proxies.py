"""Whom to believe about the client's address: a proxy that GANTRY_TRUSTED_PROXIES names, and nobody else."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address

from django.conf import settings
from django.http import HttpRequest, HttpResponse

GetResponse = Callable[[HttpRequest], HttpResponse]
_FORWARDED = ("HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO", "HTTP_X_FORWARDED_HOST", "HTTP_X_FORWARDED_PORT")


class TrustedProxyMiddleware:
    """Behind a trusted proxy REMOTE_ADDR becomes the client's; X-Forwarded-… of anybody else never existed.

    The client is the rightmost address of X-Forwarded-For that is no trusted proxy: what stands left of it was
    written by the client itself.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        peer = _address(request.META.get("REMOTE_ADDR", ""))
        if peer is not None and _is_trusted(peer):
            request.META["REMOTE_ADDR"] = str(_client(peer, request.META.get("HTTP_X_FORWARDED_FOR", "")))
        else:
            for header in _FORWARDED:
                request.META.pop(header, None)
        return self.get_response(request)


def _client(peer: IPv4Address | IPv6Address, forwarded_for: str) -> IPv4Address | IPv6Address:
    client = peer
    for text in reversed(forwarded_for.split(",")):
        address = _address(text.strip())
        if address is None:
            break
        client = address
        if not _is_trusted(address):
            break
    return client


def _is_trusted(address: IPv4Address | IPv6Address) -> bool:
    return any(address in network for network in settings.TRUSTED_PROXIES)


def _address(text: str) -> IPv4Address | IPv6Address | None:
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
