"""The signature of a request: HMAC-SHA1 over its line and some of its headers, sent as `MNS <key id>:<signature>`."""

from __future__ import annotations

import hmac
from binascii import b2a_base64
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache

from brokercore.smq.wire.errors import Code, SmqError

SCHEME = "MNS"
#: How far the client's clock may be off, s.
CLOCK_SECONDS = 15 * 60
_SIGNED_PREFIX = "x-mns-"
_REMEMBERED = 64


def text_to_sign(method: str, target: str, headers: Mapping[str, str]) -> str:
    """What the signature is made of; `target` is the path with its query as sent, header names are lower-case."""
    own = sorted([name for name in headers if name.startswith(_SIGNED_PREFIX)])
    return "\n".join(
        (
            method,
            headers.get("content-md5", ""),
            headers.get("content-type", ""),
            headers.get("date", ""),
            *[f"{name}:{headers[name]}" for name in own],
            target,
        )
    )


def sign(secret: str, text: str) -> str:
    """The signature of a text, in Base64."""
    return b2a_base64(hmac.digest(secret.encode(), text.encode(), "sha1"), newline=False).decode()


def is_signed(secret: str, text: str, signature: str) -> bool:
    """True when the signature was made with the secret; takes as long whichever it is."""
    return hmac.compare_digest(sign(secret, text).encode(), signature.encode())


def credentials(headers: Mapping[str, str]) -> tuple[str, str]:
    """The AccessKey ID and the signature of a request. Raises SmqError."""
    given = headers.get("authorization")
    if not given:
        raise SmqError(Code.MISSING_AUTHORIZATION_HEADER, "The header Authorization is missing.")
    scheme, _, rest = given.partition(" ")
    key_id, colon, signature = rest.strip().partition(":")
    if scheme != SCHEME or not key_id or not colon or not signature:
        raise SmqError(
            Code.INVALID_AUTHORIZATION_HEADER, f"The header Authorization must be `{SCHEME} AccessKeyId:Signature`."
        )
    return key_id, signature


def require_fresh(headers: Mapping[str, str], now: datetime) -> None:
    """Refuse a request whose Date is missing, no HTTP date, or too far from `now` (UTC). Raises SmqError."""
    given = headers.get("x-mns-date") or headers.get("date")
    if not given:
        raise SmqError(Code.MISSING_DATE_HEADER, "The header Date is missing.")
    try:
        date = _read_date(given)
    except (ValueError, OverflowError):
        raise SmqError(
            Code.INVALID_DATE_HEADER, "The header Date must be a GMT time such as `Mon, 23 Nov 2026 15:00:00 GMT`."
        ) from None
    if abs((now - date).total_seconds()) > CLOCK_SECONDS:
        raise SmqError(
            Code.TIME_EXPIRED, f"The header Date is more than {CLOCK_SECONDS // 60} minutes away from the time here."
        )


@lru_cache(_REMEMBERED)
def _read_date(text: str) -> datetime:
    """An HTTP date; many requests have that of the same second. Raises ValueError and OverflowError."""
    date = parsedate_to_datetime(text)
    return date if date.tzinfo else date.replace(tzinfo=UTC)
