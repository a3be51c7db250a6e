"""From a signed request to the actor, with the gateway's own code for each reason to refuse."""

from __future__ import annotations

import hashlib
import logging
import re
from datetime import UTC, datetime

from django.conf import settings
from django.core.cache import cache
from redis.exceptions import RedisError

from console.accounts.actor import Actor
from console.accounts.credentials import key_of_claim, secret_of, token_fits
from console.accounts.models import AccessKey
from console.openapi import throttle
from console.openapi.authentication import accepted, note_refusal
from console.openapi.rpc.errors import GatewayError
from console.openapi.rpc.signatures import ACS3, Signed
from console.web import full_disk
from console.web.http import Request

log = logging.getLogger(__name__)
_LONGEST_NONCE = 256
_TIMESTAMP = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
#: How long a nonce is remembered where the window is switched off: as long as with the default window.
_DEFAULT_WINDOW_MINUTES = 15


def authenticate(request: Request, signed: Signed) -> Actor:
    """The actor of the AccessKey that signed the request.

    Raises GatewayError, and Refused BIZ_THROTTLED after too many refusals: limits and audit are those of `/json/…`.
    """
    throttle.check_address(request.META.get("REMOTE_ADDR", ""))
    key, is_usable = key_of_claim(signed.access_key_id)
    try:
        key = _proven(signed, key)
        if not is_usable:
            raise GatewayError("InvalidAccessKeyId.NotFound", "Specified access key is not enabled, or has expired.")
        _check(signed, key)
    except GatewayError as error:
        note_refusal(request, signed.access_key_id, error.code)
        raise
    # Only who holds the secret can make the server remember something.
    refuse_replay(signed)
    return accepted(request, key)


def _proven(signed: Signed, key: AccessKey | None) -> AccessKey:
    """The key whose secret signed. A key that does not exist is refused like one with another secret."""
    if not signed.matches(secret_of(key)) or key is None:
        raise GatewayError("SignatureDoesNotMatch", _mismatch(signed))
    return key


def _check(signed: Signed, key: AccessKey) -> None:
    if not token_fits(key, signed.security_token):
        message = "The SecurityToken is not that of the access key; a temporary key needs its own, others need none."
        raise GatewayError("InvalidSecurityToken.MismatchWithAccessKey", message)
    check_window(signed.timestamp)


def check_window(timestamp: str) -> None:
    """Refuse a request whose clock is further off than GANTRY_API_WINDOW_MINUTES; 0 switches the check off."""
    made = _moment(timestamp)
    if made is None:
        message = f"The time of the request is {timestamp[:40]}; it needs the form 2026-01-31T12:00:00Z, in UTC."
        raise GatewayError("InvalidTimeStamp.Format", message)
    window = settings.API_WINDOW_MINUTES * 60
    off = (datetime.now(UTC) - made).total_seconds()
    if window and abs(off) > window:
        message = f"The time of the request is {off:.0f} seconds behind the server's; at most {window} are allowed."
        raise GatewayError("InvalidTimeStamp.Expired", message)


def _moment(timestamp: str) -> datetime | None:
    """The time that the one documented form tells; `strptime` alone would take others too."""
    if _TIMESTAMP.fullmatch(timestamp) is None:
        return None
    try:
        return datetime.strptime(timestamp, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:  # the 31st of February
        return None


def refuse_replay(signed: Signed) -> None:
    """Refuse a nonce that this key has used within the window. Without Redis nobody can tell, so all are refused."""
    if len(signed.nonce) > _LONGEST_NONCE:
        raise GatewayError("InvalidParameter", f"SignatureNonce has more than {_LONGEST_NONCE} characters.")
    name = hashlib.sha256(f"{signed.access_key_id}\n{signed.nonce}".encode()).hexdigest()
    # A clock that is fast by one window makes requests that stay valid for two.
    keep_s = 2 * 60 * (settings.API_WINDOW_MINUTES or _DEFAULT_WINDOW_MINUTES)
    try:
        new = cache.add(f"rpc-nonce:{name}", 1, keep_s)
    except RedisError as error:
        log.warning("nonces cannot be checked: %s", error)
        outage = "Redis does not answer, so it cannot be told whether this request was sent before."
        raise GatewayError("ServiceUnavailable", full_disk.reason(error) or outage) from error
    if not new:
        raise GatewayError("SignatureNonceUsed", "Specified signature nonce was used already.")


def _mismatch(signed: Signed) -> str:
    """What was signed here. The SDK of version 1 compares what follows the colon: if it is equal, the secret is wrong.

    For ACS3 it is a digest. Neither tells more than the caller sent.
    """
    name = "server StringToSign is" if signed.text.startswith(ACS3) else "server string to sign is"
    return f"Specified signature is not matched with our calculation. {name}:{signed.text.replace(chr(10), ' ')}"
