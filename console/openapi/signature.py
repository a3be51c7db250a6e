"""The signature of the management API (docs/management-api.md): HMAC-SHA1 over the values in the order of names."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping

SIGNATURE = "_signature"
ACCESS_KEY = "_accesskey"
_GRPC_DATE = len("20260131T120000Z")


def sign(parameters: Mapping[str, str], secret: str) -> str:
    """Base64 signature over all parameters but `_signature`, names in byte order."""
    return _digest(_text(parameters, _as_it_is), secret)


def verify(parameters: Mapping[str, str], secret: str, *, any_case: bool = False) -> bool:
    """Compare in constant time. A text that another door signs is refused, whatever its signature.

    With `any_case` (the dead-letter operations, whose names are of mixed case) an order of names that ignores case
    is taken too: "alphabetical" does not say which one is meant, and callers of both kinds exist.
    """
    given = parameters.get(SIGNATURE, "").encode()
    right = False
    for order in (_as_it_is, _without_case) if any_case else (_as_it_is,):
        text = _text(parameters, order)
        same = hmac.compare_digest(_digest(text, secret).encode(), given)
        right |= same and _is_ours(text, parameters.get(ACCESS_KEY, ""))
    return right


def _is_ours(text: str, access_key_id: str) -> bool:
    """Whether a call of this API is all that the signature of the text can be meant for.

    The same secret signs, by the same HMAC, the broker's remoting requests, which begin with the AccessKey ID
    (`brokercore.protocol.signature` holds them to it), and gRPC's dates, which are 16 characters long.
    """
    return not text.startswith(access_key_id) and len(text) > _GRPC_DATE


def _as_it_is(name: str) -> tuple[str, str]:
    return name, name


def _without_case(name: str) -> tuple[str, str]:
    """Names that differ in case alone stay in byte order, whatever order the request had."""
    return name.lower(), name


def _text(parameters: Mapping[str, str], order: Callable[[str], tuple[str, str]]) -> str:
    names = sorted((name for name in parameters if name != SIGNATURE), key=order)
    return "".join(parameters[name] for name in names)


def _digest(text: str, secret: str) -> str:
    return base64.b64encode(hmac.digest(secret.encode(), text.encode(), hashlib.sha1)).decode()
