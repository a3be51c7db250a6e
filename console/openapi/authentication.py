"""From the signed parameters to the actor. Wrong key, wrong signature and a wrong clock give one answer."""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import time
from collections.abc import Callable, Mapping

from django.conf import settings
from django.core.cache import cache
from redis.exceptions import RedisError

from console.accounts.actor import Actor
from console.accounts.credentials import actor_of, find_key, find_platform_key, note_use, secret_of, token_fits
from console.accounts.http import Request
from console.accounts.models import AccessKey
from console.audit import record as audit
from console.openapi import envelope, throttle
from console.openapi.registry import Operation
from console.web import full_disk, request_owners
from console.web.errors import Refused

log = logging.getLogger(__name__)

SIGNATURE = "_signature"
ACCESS_KEY = "_accesskey"
_GRPC_DATE = len("20260131T120000Z")

#: How long a use is kept where the window is switched off: as long as with the default window.
_DEFAULT_WINDOW_MINUTES = 15
#: Web processes on several machines do not have the same second.
_CLOCKS_APART_S = 60
#: Headers that say what a call works on; no signature covers them.
_DECISIVE = ("x-acs-regionid", "x-acs-organizationid", "x-acs-resourcegroupid", "x-acs-instanceid")

TIMESTAMP = "__preventCache"
REGION = "_regionId"
TOKEN = "_securityToken"  # noqa: S105 - the name of a parameter
TOKEN_HEADER = "x-acs-security-token"  # noqa: S105 - the name of a header
_FAILED = "The access key, the signature or the time of the request is not valid."


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


class UsedBeforeError(Exception):
    """The signature came with another call, or with this change already; the text is for the caller."""


def claim(request: Request, operation: Operation, parameters: Mapping[str, str], signed_at_ms: int) -> None:
    """Bind a signature that was found right to this call.

    It covers neither the operation nor the names of the parameters: a recorded `topic/get` is signed as a
    `topic/delete` of the same topic is (docs/use/management-api.md, "Signature").

    Raises UsedBeforeError, and Refused ONS_INVOKE_ERROR while Redis does not answer: then nobody can tell.
    """
    name = f"api-signature:{_digest_of([parameters[ACCESS_KEY], parameters[SIGNATURE]])}"
    this = _digest_of(_content(request, operation, parameters))
    try:
        if cache.add(name, this, _kept_s(signed_at_ms)):
            return
        first = None if operation.changes else cache.get(name)
    except RedisError as error:
        log.warning("uses of signatures cannot be checked: %s", error)
        outage = "Redis does not answer, so it cannot be told whether this signature was used before."
        raise Refused(envelope.INVOKE, full_disk.reason(error) or outage) from error
    if first != this:
        raise UsedBeforeError(
            "This signature was used before. A signature is valid for one change, or for repeats of one "
            "query. Sign every other call, and each retry of a change, with a new __preventCache."
        )


def _content(request: Request, operation: Operation, parameters: Mapping[str, str]) -> list[str]:
    given = [word for name in sorted(parameters) for word in (name, parameters[name])]
    return [operation.path, *(request.headers.get(name, "") for name in _DECISIVE), *given]


def _digest_of(words: list[str]) -> str:
    """One short text for a list, and another one for every other list."""
    framed = "".join(f"{len(word)}:{word}" for word in words)
    return hashlib.sha256(framed.encode()).hexdigest()[:32]


def _kept_s(signed_at_ms: int) -> int:
    """Seconds until the signature ends: up to two windows, since the caller's clock may be fast by one."""
    window_s = settings.API_WINDOW_MINUTES * 60
    if not window_s:
        return 2 * 60 * _DEFAULT_WINDOW_MINUTES
    return int(signed_at_ms / 1000 + window_s - time.time()) + _CLOCKS_APART_S


def check_common(parameters: Mapping[str, str]) -> None:
    """Raises Refused with AUTH_SIGNATURE_INVALID when something that belongs to every signed request is missing."""
    for name in (ACCESS_KEY, TIMESTAMP, SIGNATURE):
        if not parameters.get(name):
            raise Refused(envelope.SIGNATURE, f"The parameter {name} is missing.", name)


def authenticate(request: Request, parameters: Mapping[str, str], operation: Operation) -> Actor:
    """The actor of the AccessKey that signed `parameters` for this operation.

    Raises Refused: AUTH_SIGNATURE_INVALID, BIZ_THROTTLED after too many of these in a minute, and ONS_INVOKE_ERROR
    while it cannot be told whether the signature was used before.
    """
    check_common(parameters)
    throttle.check_address(request.META.get("REMOTE_ADDR", ""))
    key = find_key(parameters[ACCESS_KEY]) or find_platform_key(parameters[ACCESS_KEY])
    problem = _problem(request, parameters, key, any_case=operation.any_case)
    if key is None or problem:
        note_refusal(request, parameters[ACCESS_KEY], problem)
        raise Refused(envelope.SIGNATURE, _FAILED)
    try:
        # Only who holds the secret can make the server remember something.
        claim(request, operation, parameters, int(parameters[TIMESTAMP]))
    except UsedBeforeError as used:
        note_refusal(request, parameters[ACCESS_KEY], "the signature was used before")
        raise Refused(envelope.SIGNATURE, str(used)) from used
    return accepted(request, key)


def accepted(request: Request, key: AccessKey, channel: str = "api") -> Actor:
    """The actor of a key whose signature, or secret, was found right."""
    address = request.META.get("REMOTE_ADDR", "")
    note_use(key, channel, address)
    secure, request_id = request.is_secure(), request.request_id
    actor = actor_of(key, channel=channel, source_ip=address, secure=secure, request_id=request_id)
    request_owners.tell_key(request, key.access_key_id, _account_of(actor))
    return actor


def _account_of(actor: Actor) -> str:
    tenant, person = actor.own_tenant, actor.user
    return request_owners.account_name(tenant.pk if tenant else None, person.pk if person else None)


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


def note_refusal(request: Request, access_key_id: str, problem: str, channel: str = "api") -> None:
    """Count and record an attempt that is refused. Keys that nobody has leave no trace but the count.

    Raises Refused BIZ_THROTTLED after too many.
    """
    request_owners.tell_key(request, access_key_id, None)
    address = request.META.get("REMOTE_ADDR", "")
    if throttle.note_failure(address, access_key_id):
        raise Refused(envelope.THROTTLED, "Too many refused signatures with this access key; try again in a minute.")
    known = AccessKey.objects.select_related("user__tenant", "role__tenant", "organization", "tenant")
    key = known.filter(access_key_id=access_key_id).first()
    if key is not None:
        actor = actor_of(key, channel=channel, source_ip=address, request_id=request.request_id)
        audit.record_refused_key(actor, problem)


def _in_window(text: str) -> bool:
    """The caller's clock in ms may differ by the window of GANTRY_API_WINDOW_MINUTES; 0 switches the check off."""
    if not text.isascii() or not text.isdecimal() or len(text) > 19 or int(text) == 0:
        return False
    window = settings.API_WINDOW_MINUTES * 60_000
    return window == 0 or abs(int(text) - time.time() * 1000) <= window
