"""From the signed parameters to the actor. Wrong key, wrong signature and a wrong clock give one answer."""

from __future__ import annotations

import time
from collections.abc import Mapping

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from console.accounts.actor import Actor
from console.accounts.crypto import decrypt
from console.accounts.models import AccessKey
from console.openapi import codes
from console.openapi.signature import SIGNATURE, verify
from console.web.errors import Refused
from console.web.http import Request

ACCESS_KEY = "_accesskey"
TIMESTAMP = "__preventCache"
REGION = "_regionId"
TOKEN = "_securityToken"  # noqa: S105 - the name of a parameter
_FAILED = "The access key, the signature or the time of the request is not valid."
_LAST_USED_SECONDS = 60


def authenticate(request: Request, parameters: Mapping[str, str]) -> Actor:
    """The actor of the AccessKey that signed `parameters`. Raises Refused with AUTH_SIGNATURE_INVALID."""
    for name in (ACCESS_KEY, TIMESTAMP, SIGNATURE):
        if not parameters.get(name):
            raise Refused(codes.SIGNATURE, f"The parameter {name} is missing.", name)
    key = _usable_key(parameters[ACCESS_KEY])
    secret = decrypt(key.secret_encrypted) if key else "unknown key, checked all the same for equal time"
    signed = verify(parameters, secret)
    if key is None or not signed or not _in_window(parameters[TIMESTAMP]) or not _token_fits(key, request, parameters):
        raise Refused(codes.SIGNATURE, _FAILED)
    assert key.user is not None  # noqa: S101 - _usable_key finds keys of users only
    _note_use(key)
    return Actor(
        user=key.user,
        channel="api",
        access_key_id=key.access_key_id,
        source_ip=request.META.get("REMOTE_ADDR", ""),
        secure=request.is_secure(),
        request_id=request.request_id,
    )


def _usable_key(access_key_id: str) -> AccessKey | None:
    return (
        AccessKey.objects.select_related("user__tenant")
        .filter(access_key_id=access_key_id, enabled=True, user__is_active=True, user__tenant__isnull=False)
        .filter(Q(expires_at=None) | Q(expires_at__gt=timezone.now()))
        .first()
    )


def _in_window(text: str) -> bool:
    """The caller's clock in ms may differ by the window of GANTRY_API_WINDOW_MINUTES; 0 switches the check off."""
    if not text.isascii() or not text.isdecimal() or int(text) == 0:
        return False
    window = settings.API_WINDOW_MINUTES * 60_000
    return window == 0 or abs(int(text) - time.time() * 1000) <= window


def _token_fits(key: AccessKey, request: Request, parameters: Mapping[str, str]) -> bool:
    given = parameters.get(TOKEN) or request.headers.get("x-acs-security-token", "")
    return key.security_token == given


def _note_use(key: AccessKey) -> None:
    """At most one write a minute a key: a caller in a loop must not turn reads into writes."""
    now = timezone.now()
    if key.last_used_at is None or (now - key.last_used_at).total_seconds() > _LAST_USED_SECONDS:
        AccessKey.objects.filter(pk=key.pk).update(last_used_at=now)
