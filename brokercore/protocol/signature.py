"""The AccessKey signature: Base64(HMAC-SHA1(secret, values of the ext fields ordered by key, then the body)).

Java clients disagree on which fields are signed; `verify` accepts each of them (docs/develop/wire.md, "Signature").

Three doors take an HMAC-SHA1 by the same secret, and nothing in what the vendors sign says which door it is for. So
each takes only texts of a form that no other takes: remoting those that begin with the AccessKey ID, gRPC a date, and
the management API (`/json/…`) longer ones that begin otherwise. The RPC style has another key, ACS3 another digest.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from typing import Any

ACCESS_KEY = "AccessKey"
SIGNATURE = "Signature"
SECURITY_TOKEN = "SecurityToken"  # noqa: S105 (the name of a header field)

DATE_LENGTH = len("20260131T120000Z")
_DATE = re.compile("[0-9]{8}T[0-9]{6}Z")

_UNSIGNED_BY_SOME = frozenset({"_UNIQUE_KEY_QUERY", "__ZONE_NAME", "__ZONE_MODE"})
_ROUTE_CODE = 105
_BLOCK = 64
_ROUTE_SPLIT = ("split", "\x01")
"""ons-client signs this static field of its route request class, and never sends it."""


def is_date(text: str) -> bool:
    """True for the one form that gRPC clients sign: a second, in UTC, as `20260131T120000Z`."""
    return len(text) == DATE_LENGTH and _DATE.fullmatch(text) is not None


def is_of_remoting(fields: str, body: bytes, key_id: str) -> bool:
    """True when the signed values may be a remoting request's: they begin with the AccessKey ID, as no other door's do.

    Field `AccessKey` stands before all others in the order of keys: no client sends one that would come earlier.
    """
    if not key_id or not fields.startswith(key_id):
        return False
    return len(fields) + len(body) != DATE_LENGTH or not is_date(fields + body.decode("latin-1"))


def sign(ext: Mapping[str, str], body: bytes, secret: str) -> str:
    """The signature of a request: every ext field but `Signature` itself, then the body as it goes on the wire."""
    return _digest([item for item in ext.items() if item[0] != SIGNATURE], body, secret)


def verify(code: int, ext: Mapping[str, str], body: bytes, secret: str) -> bool:
    """True when `ext["Signature"]` is right by the rule of any client generation, and of no other protocol.

    Tried in turn: all fields; without the fields some clients add after signing; for a route request
    (code 105) both again with the invisible field of ons-client.
    """
    given = ext.get(SIGNATURE)
    if not given:
        return False
    expected = given.encode()
    fields = _ordered(item for item in ext.items() if item[0] != SIGNATURE)
    # What is left out below comes after the AccessKey, so that the texts begin alike.
    if not is_of_remoting(_joined(fields), body, ext.get(ACCESS_KEY, "")):
        return False
    if _same(_digest(fields, body, secret), expected):
        return True
    reduced = [item for item in fields if item[0] not in _UNSIGNED_BY_SOME]
    candidates = [reduced] if len(reduced) != len(fields) else []
    if code == _ROUTE_CODE and not body:  # a route request has none
        candidates += [[*fields, _ROUTE_SPLIT], [*reduced, _ROUTE_SPLIT]]
    return any(_same(_digest(candidate, body, secret), expected) for candidate in candidates)


def _same(computed: str, given: bytes) -> bool:
    return hmac.compare_digest(computed.encode(), given)


def _digest(fields: Iterable[tuple[str, str]], body: bytes, secret: str) -> str:
    data = _joined(_ordered(fields)).encode()
    state = hmac.new(secret.encode(), data, "sha1")
    state.update(body)  # apart: a body of megabytes is not copied
    return base64.b64encode(state.digest()).decode()


def _ordered(fields: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    items = list(fields)
    if all(key.isascii() for key, _ in items):
        items.sort()
    else:
        items.sort(key=_utf16_units)
    return items


def _joined(fields: Iterable[tuple[str, str]]) -> str:
    return "".join([value for _, value in fields])


def _utf16_units(item: tuple[str, str]) -> bytes:
    """Java compares strings by UTF-16 code units; for ASCII that is Python's own order."""
    return item[0].encode("utf-16-be", "surrogatepass")


def hmac_states(secret: str) -> tuple[Any, Any]:
    """SHA-1 states after the two key blocks of HMAC: copying them is cheaper than starting an HMAC anew."""
    key = secret.encode()
    if len(key) > _BLOCK:
        key = hashlib.sha1(key, usedforsecurity=False).digest()
    key = key.ljust(_BLOCK, b"\0")
    inner = hashlib.sha1(bytes(byte ^ 0x36 for byte in key), usedforsecurity=False)
    outer = hashlib.sha1(bytes(byte ^ 0x5C for byte in key), usedforsecurity=False)
    return inner, outer
