"""The signature of the management API: HMAC-SHA1 over the values in the byte order of their names."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping


def sign(parameters: Mapping[str, str], secret: str) -> str:
    """The value of `_signature`."""
    text = "".join(parameters[name] for name in sorted(parameters))
    return base64.b64encode(hmac.new(secret.encode(), text.encode(), hashlib.sha1).digest()).decode()
