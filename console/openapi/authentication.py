"""From the signed parameters to the actor. Wrong key, wrong signature and a wrong clock give one answer."""

from __future__ import annotations

import time
from collections.abc import Mapping

from django.conf import settings

from console.accounts.actor import Actor
from console.accounts.credentials import actor_of, find_key, note_use, secret_of, token_fits
from console.accounts.models import AccessKey
from console.audit import services as audit
from console.openapi import codes, reuse, throttle
from console.openapi.registry import Operation
from console.openapi.signature import ACCESS_KEY, SIGNATURE, verify
from console.web import holders
from console.web.errors import Refused
from console.web.http import Request

TIMESTAMP = "__preventCache"
REGION = "_regionId"
TOKEN = "_securityToken"  # noqa: S105 - the name of a parameter
TOKEN_HEADER = "x-acs-security-token"  # noqa: S105 - the name of a header
_FAILED = "The access key, the signature or the time of the request is not valid."


def check_common(parameters: Mapping[str, str]) -> None:
    """Raises Refused with AUTH_SIGNATURE_INVALID when something that belongs to every signed request is missing."""
    for name in (ACCESS_KEY, TIMESTAMP, SIGNATURE):
        if not parameters.get(name):
            raise Refused(codes.SIGNATURE, f"The parameter {name} is missing.", name)


def authenticate(request: Request, parameters: Mapping[str, str], operation: Operation) -> Actor:
    """The actor of the AccessKey that signed `parameters` for this operation.

    Raises Refused: AUTH_SIGNATURE_INVALID, BIZ_THROTTLED after too many of these in a minute, and ONS_INVOKE_ERROR
    while it cannot be told whether the signature was used before.
    """
    check_common(parameters)
    throttle.check_address(request.META.get("REMOTE_ADDR", ""))
    key = find_key(parameters[ACCESS_KEY])
    problem = _problem(request, parameters, key, any_case=operation.any_case)
    if key is None or problem:
        note_refusal(request, parameters[ACCESS_KEY], problem)
        raise Refused(codes.SIGNATURE, _FAILED)
    try:
        # Only who holds the secret can make the server remember something.
        reuse.claim(request, operation, parameters, int(parameters[TIMESTAMP]))
    except reuse.UsedBeforeError as used:
        note_refusal(request, parameters[ACCESS_KEY], "the signature was used before")
        raise Refused(codes.SIGNATURE, str(used)) from used
    return accepted(request, key)


def accepted(request: Request, key: AccessKey) -> Actor:
    """The actor of a key whose signature was found right."""
    address = request.META.get("REMOTE_ADDR", "")
    note_use(key, "api", address)
    secure, request_id = request.is_secure(), request.request_id
    actor = actor_of(key, channel="api", source_ip=address, secure=secure, request_id=request_id)
    holders.tell_key(request, key.access_key_id, _account_of(actor))
    return actor


def _account_of(actor: Actor) -> str:
    tenant, person = actor.own_tenant, actor.user
    return holders.account_name(tenant.pk if tenant else None, person.pk if person else None)


def _problem(request: Request, parameters: Mapping[str, str], key: AccessKey | None, *, any_case: bool) -> str:
    """Why the request is not authentic, for the audit trail; empty when it is."""
    signed = verify(parameters, secret_of(key), any_case=any_case)
    if key is None:
        return "the key is unknown, disabled or expired"
    if not signed:
        return "the signature is wrong"
    if not _in_window(parameters[TIMESTAMP]):
        return "the time of the request is outside the window"
    token = parameters.get(TOKEN) or request.headers.get(TOKEN_HEADER, "")
    return "" if token_fits(key, token) else "the security token is missing or wrong"


def note_refusal(request: Request, access_key_id: str, problem: str) -> None:
    """Count and record an attempt that is refused. Keys that nobody has leave no trace but the count.

    Raises Refused BIZ_THROTTLED after too many.
    """
    holders.tell_key(request, access_key_id, None)
    address = request.META.get("REMOTE_ADDR", "")
    if throttle.note_failure(address, access_key_id):
        raise Refused(codes.THROTTLED, "Too many refused signatures with this access key; try again in a minute.")
    known = AccessKey.objects.select_related("user__tenant", "role__tenant", "organization", "tenant")
    key = known.filter(access_key_id=access_key_id).first()
    if key is not None:
        audit.record_refused_key(key, problem, channel="api", source_ip=address, request_id=request.request_id)


def _in_window(text: str) -> bool:
    """The caller's clock in ms may differ by the window of GANTRY_API_WINDOW_MINUTES; 0 switches the check off."""
    if not text.isascii() or not text.isdecimal() or len(text) > 19 or int(text) == 0:
        return False
    window = settings.API_WINDOW_MINUTES * 60_000
    return window == 0 or abs(int(text) - time.time() * 1000) <= window
