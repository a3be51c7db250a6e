"""The signature of the management API (docs/management-api.md): HMAC-SHA1 over the values in the order of names."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Any

SIGNATURE = "_signature"


def sign(parameters: Mapping[str, str], secret: str) -> str:
    """Base64 signature over all parameters but `_signature`, names in byte order."""
    return _sign(parameters, secret, lambda name: name)


def verify(parameters: Mapping[str, str], secret: str, *, any_case: bool = False) -> bool:
    """Compare in constant time.

    With `any_case` (the dead-letter operations, whose names are of mixed case) an order of names that ignores case
    is taken too: "alphabetical" does not say which one is meant, and callers of both kinds exist.
    """
    given = parameters.get(SIGNATURE, "").encode()
    in_byte_order = hmac.compare_digest(sign(parameters, secret).encode(), given)
    return in_byte_order or (any_case and hmac.compare_digest(_sign(parameters, secret, _without_case).encode(), given))


def _without_case(name: str) -> tuple[str, str]:
    """Names that differ in case alone stay in byte order, whatever order the request had."""
    return name.lower(), name


def _sign(parameters: Mapping[str, str], secret: str, order: Callable[[str], Any]) -> str:
    names = sorted((name for name in parameters if name != SIGNATURE), key=order)
    text = "".join(parameters[name] for name in names)
    return base64.b64encode(hmac.new(secret.encode(), text.encode(), hashlib.sha1).digest()).decode()
