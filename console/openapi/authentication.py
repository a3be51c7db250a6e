"""From the signed parameters to the actor. Wrong key, wrong signature and a wrong clock give one answer."""

from __future__ import annotations

import time
from collections.abc import Mapping

from django.conf import settings

from console.accounts.actor import Actor
from console.accounts.credentials import actor_of, find_key, note_use, token_fits
from console.accounts.crypto import decrypt
from console.openapi import codes
from console.openapi.signature import SIGNATURE, verify
from console.web.errors import Refused
from console.web.http import Request

ACCESS_KEY = "_accesskey"
TIMESTAMP = "__preventCache"
REGION = "_regionId"
TOKEN = "_securityToken"  # noqa: S105 - the name of a parameter
_FAILED = "The access key, the signature or the time of the request is not valid."


def authenticate(request: Request, parameters: Mapping[str, str]) -> Actor:
    """The actor of the AccessKey that signed `parameters`. Raises Refused with AUTH_SIGNATURE_INVALID."""
    for name in (ACCESS_KEY, TIMESTAMP, SIGNATURE):
        if not parameters.get(name):
            raise Refused(codes.SIGNATURE, f"The parameter {name} is missing.", name)
    key = find_key(parameters[ACCESS_KEY])
    secret = decrypt(key.secret_encrypted) if key else "unknown key, checked all the same for equal time"
    signed = verify(parameters, secret)
    token = parameters.get(TOKEN) or request.headers.get("x-acs-security-token", "")
    if key is None or not signed or not _in_window(parameters[TIMESTAMP]) or not token_fits(key, token):
        raise Refused(codes.SIGNATURE, _FAILED)
    note_use(key)
    return actor_of(
        key,
        channel="api",
        source_ip=request.META.get("REMOTE_ADDR", ""),
        secure=request.is_secure(),
        request_id=request.request_id,
    )


def _in_window(text: str) -> bool:
    """The caller's clock in ms may differ by the window of GANTRY_API_WINDOW_MINUTES; 0 switches the check off."""
    if not text.isascii() or not text.isdecimal() or int(text) == 0:
        return False
    window = settings.API_WINDOW_MINUTES * 60_000
    return window == 0 or abs(int(text) - time.time() * 1000) <= window
