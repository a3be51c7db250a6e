"""From a signed request to the actor, with the gateway's own code for each reason to refuse."""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote

from django.conf import settings
from django.core.cache import cache
from redis.exceptions import RedisError

from console.accounts.actor import Actor
from console.accounts.credentials import key_of_claim, secret_of, token_fits
from console.accounts.http import Request
from console.accounts.models import AccessKey
from console.openapi import throttle
from console.openapi.authentication import accepted, note_refusal
from console.openapi.calls import merged
from console.openapi.rpc.responses import GatewayError
from console.web import full_disk

log = logging.getLogger(__name__)

ACS3 = "ACS3-HMAC-SHA256"
#: Parameters that belong to the call itself, not to the operation.
COMMON = frozenset(
    {
        "Action", "Version", "Format", "AccessKeyId", "Signature", "SignatureMethod", "SignatureVersion",
        "SignatureType", "SignatureNonce", "Timestamp", "SecurityToken", "RegionId",
    }
)  # fmt: skip
_AUTHORIZATION = re.compile(r"\S+\s+Credential=([^,\s]+),\s*SignedHeaders=([^,\s]+),\s*Signature=([0-9a-fA-F]+)\s*")

_LONGEST_NONCE = 256
_TIMESTAMP = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
#: How long a nonce is remembered where the window is switched off: as long as with the default window.
_DEFAULT_WINDOW_MINUTES = 15


@dataclass(frozen=True)
class Signed:
    """A request as its signature covers it; nothing in it is to be believed before `matches`."""

    access_key_id: str
    security_token: str
    timestamp: str
    nonce: str
    action: str
    version: str
    xml: bool
    """The answer is wanted as XML."""
    region: str
    """What it says as `RegionId`; empty for nothing."""
    parameters: Mapping[str, str]
    """Those of the operation."""
    signature: str
    text: str
    """What is signed."""

    def matches(self, secret: str) -> bool:
        """Compare the signature in constant time."""
        expected = _acs3(self.text, secret) if self.text.startswith(ACS3) else v1(self.text, secret)
        return hmac.compare_digest(expected.encode(), self.signature.encode())


def read(request: Request) -> Signed:
    """Take a request apart. Raises GatewayError when something that every request needs is missing, and Refused."""
    parameters = merged(request)
    authorization = request.headers.get("Authorization", "")
    return _read_acs3(request, parameters, authorization) if authorization else _read_v1(request, parameters)


def v1(text: str, secret: str) -> str:
    """Signature of version 1, in Base64."""
    return base64.b64encode(hmac.new(f"{secret}&".encode(), text.encode(), hashlib.sha1).digest()).decode()


def text_to_sign(method: str, parameters: Mapping[str, str]) -> str:
    """What version 1 signs: method, `/`, and all parameters but the signature, sorted and encoded, encoded again."""
    return f"{method}&%2F&{_encoded(_query({n: v for n, v in parameters.items() if n != 'Signature'}))}"


def _read_v1(request: Request, parameters: Mapping[str, str]) -> Signed:
    for name, code in (
        ("Action", "MissingAction"),
        ("Version", "MissingVersion"),
        ("AccessKeyId", "MissingAccessKeyId"),
        ("Signature", "MissingSignature"),
        ("SignatureNonce", "MissingSignatureNonce"),
        ("Timestamp", "MissingTimestamp"),
    ):
        if not parameters.get(name):
            raise GatewayError(code, f"The parameter {name} is missing; every request needs it.")
    method = parameters.get("SignatureMethod", "HMAC-SHA1")
    if method.upper() != "HMAC-SHA1":
        raise GatewayError("InvalidSignatureMethod", f"SignatureMethod is {method}; allowed is HMAC-SHA1.")
    return Signed(
        access_key_id=parameters["AccessKeyId"],
        security_token=parameters.get("SecurityToken", ""),
        timestamp=parameters["Timestamp"],
        nonce=parameters["SignatureNonce"],
        action=parameters["Action"],
        version=parameters["Version"],
        xml=parameters.get("Format", "XML").upper() != "JSON",
        region=parameters.get("RegionId", ""),
        parameters={name: value for name, value in parameters.items() if name not in COMMON},
        signature=parameters["Signature"],
        text=text_to_sign(str(request.method), parameters),
    )


def _read_acs3(request: Request, parameters: Mapping[str, str], authorization: str) -> Signed:
    if not authorization.startswith(f"{ACS3} "):
        scheme = authorization.split(" ", 1)[0]
        raise GatewayError("InvalidSignatureMethod", f"The request is signed with {scheme[:40]}; allowed is {ACS3}.")
    parts = _AUTHORIZATION.fullmatch(authorization)
    if parts is None:
        raise GatewayError("IncompleteSignature", "Authorization needs Credential, SignedHeaders and Signature.")
    for name, code in (
        ("x-acs-action", "MissingAction"),
        ("x-acs-version", "MissingVersion"),
        ("x-acs-date", "MissingTimestamp"),
        ("x-acs-signature-nonce", "MissingSignatureNonce"),
    ):
        if not request.headers.get(name):
            raise GatewayError(code, f"The header {name} is missing; every request needs it.")
    signed_headers = parts[2].lower().split(";")
    _refuse_unsigned(request, signed_headers)
    return Signed(
        access_key_id=parts[1],
        security_token=request.headers.get("x-acs-security-token", ""),
        timestamp=request.headers["x-acs-date"],
        nonce=request.headers["x-acs-signature-nonce"],
        action=request.headers["x-acs-action"],
        version=request.headers["x-acs-version"],
        xml="xml" in request.headers.get("Accept", "").lower() or parameters.get("Format", "").upper() == "XML",
        region=parameters.get("RegionId", ""),
        parameters={name: value for name, value in parameters.items() if name not in COMMON},
        signature=parts[3].lower(),
        text=_acs3_text(request, signed_headers),
    )


def _refuse_unsigned(request: Request, signed_headers: list[str]) -> None:
    """What decides the call must be signed: else a recorded request could be sent again with another action."""
    for name in request.headers:
        lower = name.lower()
        if (lower == "host" or lower.startswith("x-acs-")) and lower not in signed_headers:
            raise GatewayError("IncompleteSignature", f"The header {lower} is sent but not in SignedHeaders.")


def _acs3_text(request: Request, signed_headers: list[str]) -> str:
    payload = hashlib.sha256(request.body).hexdigest()
    headers = "".join(f"{name}:{request.headers.get(name, '').strip()}\n" for name in signed_headers)
    query = _query({name: str(values[0]) for name, values in request.GET.lists()})
    canonical = "\n".join([str(request.method), request.path, query, headers, ";".join(signed_headers), payload])
    return f"{ACS3}\n{hashlib.sha256(canonical.encode()).hexdigest()}"


def _acs3(text: str, secret: str) -> str:
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def _query(parameters: Mapping[str, str]) -> str:
    return "&".join(f"{_encoded(name)}={_encoded(parameters[name])}" for name in sorted(parameters))


def _encoded(text: str) -> str:
    return quote(text, safe="~")


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
