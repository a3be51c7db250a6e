"""Requests to addresses that an account's administrator typed in: only where anybody may go, and never further.

The address is checked on the open connection, before a byte is sent, so a name that resolves differently the second
time gains nothing. Redirects are not followed, proxies of the environment are not used, and answers are small.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Any

import requests
from django.conf import settings
from django.utils.translation import gettext as _
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, NewConnectionError

from brokercore import addresses

TIMEOUT_S = 10
#: A discovery document or a set of keys has a few KiB.
MAX_ANSWER_BYTES = 512 * 1024


class Unreachable(requests.RequestException):
    """An address that may not be asked, or an answer that may not be read. The text is for the user."""


def may_reach(address: str) -> bool:
    """True for a public address, and for one in GANTRY_SSO_NETWORKS."""
    return addresses.may_reach(address, settings.SSO_NETWORKS)


def _cut_in_time(connection: socket.socket) -> None:
    """End a connection TIMEOUT_S after it was opened: a byte now and then would hold its thread for days.

    The duplicate stays what it is while TLS takes the socket over.
    """
    ours = connection.dup()

    def cut() -> None:
        with ours, suppress(OSError):
            ours.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(TIMEOUT_S, cut)
    timer.daemon = True
    timer.start()


class _Guarded:
    def _new_conn(self) -> socket.socket:
        connection: socket.socket = super()._new_conn()  # type: ignore[misc]  # of urllib3's connection
        if not may_reach(connection.getpeername()[0]):
            connection.close()
            raise NewConnectionError(self, "not a public address")  # type: ignore[arg-type]
        _cut_in_time(connection)
        return connection


class _GuardedHTTPConnection(_Guarded, HTTPConnection):
    pass


class _GuardedHTTPSConnection(_Guarded, HTTPSConnection):
    pass


class _GuardedHTTPPool(HTTPConnectionPool):
    ConnectionCls = _GuardedHTTPConnection


class _GuardedHTTPSPool(HTTPSConnectionPool):
    ConnectionCls = _GuardedHTTPSConnection


class _GuardedAdapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _GuardedHTTPPool, "https": _GuardedHTTPSPool}


class GuardedSession(requests.Session):
    """A `requests` session that goes nowhere else."""

    def __init__(self) -> None:
        super().__init__()
        self.trust_env = False
        for scheme in ("http://", "https://"):
            self.mount(scheme, _GuardedAdapter())

    def request(  # type: ignore[override]  # its twenty named options are passed on
        self, method: str, url: str, *args: Any, **options: Any
    ) -> requests.Response:
        """Ask once. Raises Unreachable for an address or an answer that is not allowed, and RequestException."""
        require_safe_scheme(url)
        options |= {"allow_redirects": False, "timeout": TIMEOUT_S, "stream": True}
        response = super().request(method, url, *args, **options)
        if response.is_redirect:
            raise Unreachable(_("The provider redirects to another address, which is not followed."))
        try:
            body = response.raw.read(MAX_ANSWER_BYTES + 1, decode_content=True)
        except HTTPError as error:  # where the library reads by itself it makes one of its own of it
            raise requests.ConnectionError(error, response=response) from error
        if len(body) > MAX_ANSWER_BYTES:
            raise Unreachable(_("The provider's answer is too large."))
        response._content = body
        response._content_consumed = True
        return response


def require_safe_scheme(url: str) -> None:
    """Raises Unreachable unless the address is https, or http where GANTRY_SSO_ALLOW_HTTP says so."""
    if url.startswith("https://") or (settings.SSO_ALLOW_HTTP and url.startswith("http://")):
        return
    raise Unreachable(_("The address of a provider begins with https://."))
