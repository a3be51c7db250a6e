"""Where requests may go whose address a customer typed in: to public addresses, and to networks that are listed."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
#: Finds the addresses of a name, as `resolve` does.
Resolve = Callable[[str], list[str]]
_NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052
_ISATAP = (0x00005EFE, 0x02005EFE)  # RFC 5214: the interface part is this, then the IPv4 address
#: What `ipaddress` of some releases calls global, and is the business of one network: NAT64 of one's own (RFC 8215),
#: IPv4-compatible and translated addresses (RFC 4291, 2765), site-local ones, segment routing, and those for documents.
_NOT_PUBLIC = tuple(
    IPv6Network(text) for text in ("64:ff9b:1::/48", "::/96", "::ffff:0:0:0/96", "fec0::/10", "5f00::/16", "3fff::/20")
)


def resolve(name: str) -> list[str]:
    """All addresses of a name, each once. Raises OSError."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # such as a name with two dots in a row
        raise socket.gaierror(socket.EAI_NONAME, "it is no name") from error
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def may_reach(address: str, allowed: Iterable[Network]) -> bool:
    """True for a public address, and for one in a network of `allowed`. Raises ValueError for what is no address.

    What is judged is where a packet ends: of an IPv6 address that carries an IPv4 address, both.
    """
    networks = tuple(allowed)
    return all(_is_open(found, networks) for found in _ends(ip_address(address.partition("%")[0])))


def _is_open(address: Address, allowed: tuple[Network, ...]) -> bool:
    if any(address in network for network in allowed):
        return True
    return address.is_global and not address.is_multicast and not any(address in network for network in _NOT_PUBLIC)


def _ends(address: Address) -> list[Address]:
    """The address, and the IPv4 addresses to which a gateway or a tunnel would take what is sent to it."""
    if isinstance(address, IPv4Address):
        return [address]
    last = IPv4Address(int(address) & 0xFFFFFFFF)
    if address.ipv4_mapped is not None or address in _NAT64:
        return [last]  # nothing but another way to write it
    found: list[Address] = [address]
    if int(address) >> 32 & 0xFFFFFFFF in _ISATAP:
        found.append(last)
    if address.sixtofour is not None:
        found.append(address.sixtofour)
    return [*found, *(address.teredo or ())]
