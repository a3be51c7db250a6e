"""A signature of `/json/…` works for the call that it first came with, and a change takes it only once.

The vendor's guide has the values signed and nothing else: neither the operation nor the names of the parameters. So a
recorded `topic/get` is signed as a `topic/delete` of the same topic is. What a signature was first used for is kept in
Redis, shared by all web processes, until its time is over. A caller who tries again signs again.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Mapping

from django.conf import settings
from django.core.cache import cache
from redis.exceptions import RedisError

from console.openapi import codes
from console.openapi.registry import Operation
from console.openapi.signature import ACCESS_KEY, SIGNATURE
from console.web import full_disk
from console.web.errors import Refused
from console.web.http import Request

log = logging.getLogger(__name__)
#: How long a use is kept where the window is switched off: as long as with the default window.
_DEFAULT_WINDOW_MINUTES = 15
#: Web processes on several machines do not have the same second.
_CLOCKS_APART_S = 60
#: Headers that say what a call works on; no signature covers them.
_DECISIVE = ("x-acs-regionid", "x-acs-organizationid", "x-acs-resourcegroupid", "x-acs-instanceid")


class UsedBeforeError(Exception):
    """The signature came with another call, or with this change already; the text is for the caller."""


def claim(request: Request, operation: Operation, parameters: Mapping[str, str], signed_at_ms: int) -> None:
    """Bind a signature that was found right to this call.

    Raises UsedBeforeError, and Refused ONS_INVOKE_ERROR while Redis does not answer: then nobody can tell.
    """
    name = f"api-signature:{_digest([parameters[ACCESS_KEY], parameters[SIGNATURE]])}"
    this = _digest(_content(request, operation, parameters))
    try:
        if cache.add(name, this, _kept_s(signed_at_ms)):
            return
        first = None if operation.changes else cache.get(name)
    except RedisError as error:
        log.warning("uses of signatures cannot be checked: %s", error)
        outage = "Redis does not answer, so it cannot be told whether this signature was used before."
        raise Refused(codes.INVOKE, full_disk.reason(error) or outage) from error
    if first != this:
        raise UsedBeforeError(
            "This signature was used before. It is good for one change, or for one query as often as wanted; sign "
            "every other call, and every further try of a change, with a new __preventCache."
        )


def _content(request: Request, operation: Operation, parameters: Mapping[str, str]) -> list[str]:
    given = [word for name in sorted(parameters) for word in (name, parameters[name])]
    return [operation.path, *(request.headers.get(name, "") for name in _DECISIVE), *given]


def _digest(words: list[str]) -> str:
    """One short text for a list, and another one for every other list."""
    framed = "".join(f"{len(word)}:{word}" for word in words)
    return hashlib.sha256(framed.encode()).hexdigest()[:32]


def _kept_s(signed_at_ms: int) -> int:
    """Seconds until the signature ends: up to two windows, since the caller's clock may be fast by one."""
    window_s = settings.API_WINDOW_MINUTES * 60
    if not window_s:
        return 2 * 60 * _DEFAULT_WINDOW_MINUTES
    return int(signed_at_ms / 1000 + window_s - time.time()) + _CLOCKS_APART_S
