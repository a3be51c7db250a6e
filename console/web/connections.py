"""The open connections of the web server, held below what one peer, and all together, may have.

The server itself (granian) accepts whoever comes until it has as many as it may, and then nobody. Here a thread looks
at the process's own sockets once a second: of a peer with too many, and of all when little room is left, those go on
which no request is open, the longest open first. So whoever opens connections in silence only ever closes silent ones.
Where a process cannot see its own sockets (/proc), nothing is closed.
"""

from __future__ import annotations

import logging
import os
import resource
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from django.conf import settings
from django.http import HttpRequest, HttpResponse

log = logging.getLogger(__name__)

Address = IPv4Address | IPv6Address
GetResponse = Callable[[HttpRequest], HttpResponse]
#: IPv6 networks are handed out by this many bits: one client has as many addresses as it likes.
_CLIENT_BITS = 64
_FORWARDED = ("HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO", "HTTP_X_FORWARDED_HOST", "HTTP_X_FORWARDED_PORT")

LOOK_EVERY_S = 1.0
#: Files and sockets that the process needs besides its clients' connections.
_RESERVED_FILES = 256
#: The least that are closed at a time once all places are nearly taken, as a share of them.
_SHARE_KEPT_FREE = 0.1
_SOCKETS = "/proc/self/fd"

HostAndPort = tuple[str, int]


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


@dataclass(frozen=True, slots=True)
class Open:
    """One connection: its descriptor, the client's address and port, and the look that saw it first."""

    descriptor: int
    client: HostAndPort
    since: int


class Connections:
    """What is open on the ports that the console serves."""

    def __init__(self) -> None:
        self._ports = {settings.WEB_PORT}
        self._busy: Counter[HostAndPort] = Counter()
        self._since: dict[HostAndPort, int] = {}
        self._looks = 0
        self._lock = threading.Lock()

    def begin(self, client: HostAndPort, port: int | None) -> None:
        """A request of `client` has begun on our `port`."""
        with self._lock:
            self._busy[client] += 1
            if port:
                self._ports.add(port)

    def end(self, client: HostAndPort) -> None:
        """It has ended."""
        with self._lock:
            self._busy[client] -= 1
            if self._busy[client] <= 0:
                del self._busy[client]

    def watch(self) -> None:
        """Look for ever, in a thread of the process."""
        if os.path.isdir(_SOCKETS):
            threading.Thread(target=self._look_for_ever, name="connections", daemon=True).start()

    def look(self) -> int:
        """Close what is too much; returns how many connections that were."""
        self._looks += 1
        room = places()
        if len(os.listdir(_SOCKETS)) <= min(settings.WEB_PEER_CONNECTIONS, room // 2):
            self._since.clear()
            return 0
        found = list(self._found())
        self._since = {one.client: one.since for one in found}
        with self._lock:
            busy = set(self._busy)
        surplus = list(too_many(found, busy, of_a_peer=settings.WEB_PEER_CONNECTIONS, of_all=room))
        closed = sum(_close(one) for one in surplus)
        if closed:
            peers = Counter(one.client[0] for one in surplus).most_common(3)
            log.warning("closed %s silent connections of %s, most of %s", closed, len(found), peers)
        return closed

    def cut(self, client: HostAndPort) -> None:
        """Close the connection of a client that does not take its answer."""
        if os.path.isdir(_SOCKETS):
            for one in self._found():
                if one.client == client:
                    _close(one)

    def _look_for_ever(self) -> None:
        pause = threading.Event()
        while not pause.wait(LOOK_EVERY_S):
            try:
                self.look()
            except OSError as error:
                log.warning("the open connections cannot be looked at: %s", error)

    def _found(self) -> Iterator[Open]:
        for name in os.listdir(_SOCKETS):
            with suppress(OSError), _socket_of(int(name)) as ours:
                if ours.family in (socket.AF_INET, socket.AF_INET6) and ours.getsockname()[1] in self._ports:
                    host, port = ours.getpeername()[:2]
                    client = (str(peer_of(host) or host), port)
                    yield Open(int(name), client, self._since.get(client, self._looks))


def places() -> int:
    """How many connections the process may have: as set, and as many as it may open files."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most: int = settings.WEB_CONNECTIONS
    return most if files == resource.RLIM_INFINITY else max(64, min(most, files - _RESERVED_FILES))


def too_many(found: Iterable[Open], busy: set[HostAndPort], *, of_a_peer: int, of_all: int) -> Iterator[Open]:
    """Which connections to close: first what a peer has beyond its share, then the oldest until a tenth is free."""
    every = sorted(found, key=lambda one: one.since)
    counts = Counter(one.client[0] for one in every)
    excess = {peer: count - of_a_peer for peer, count in counts.items() if count > of_a_peer and not _is_proxy(peer)}
    left = len(every)
    kept: list[Open] = []
    for one in every:
        idle = one.client not in busy
        if idle and excess.get(one.client[0], 0) > 0:
            excess[one.client[0]] -= 1
            left -= 1
            yield one
        elif idle:
            kept.append(one)
    most = int(of_all * (1 - _SHARE_KEPT_FREE))
    yield from kept[: max(0, left - most)]


def _is_proxy(host: str) -> bool:
    address = peer_of(host)
    return address is not None and is_trusted(address)


@contextmanager
def _socket_of(descriptor: int) -> Iterator[socket.socket]:
    """The socket behind a descriptor, by one of our own. Raises OSError when it is gone, or no socket."""
    own = os.dup(descriptor)
    try:
        found = socket.socket(fileno=own)
    except OSError:
        os.close(own)  # each look would leave one for every file and pipe, and double those of the look before
        raise
    with found:
        yield found


def _close(one: Open) -> bool:
    """End a connection; the server notices and frees it. The descriptor may be another's by now: then it is left."""
    with suppress(OSError), _socket_of(one.descriptor) as ours:
        host, port = ours.getpeername()[:2]
        if (str(peer_of(host) or host), port) == one.client:
            ours.shutdown(socket.SHUT_RDWR)
            return True
    return False
