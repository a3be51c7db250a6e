"""Whose a request is, told before Django has looked at it: what it found out the last time is remembered.

Django tells which session, or which AccessKey, it has found to be whose. What a request only claims counts for nobody's
account: it is the client's network that such a request is of. An AccessKey's id is no secret, so what is known of it
holds for the network in which it was proven, and not for a while after a wrong signature came from there.
"""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections import OrderedDict
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar

from django.http import HttpRequest

T = TypeVar("T")
#: How many sessions and keys are remembered; those that were not seen for longest are forgotten.
MOST_REMEMBERED = 20_000
#: How long what Django has found is believed after it last did, s: a session may have ended since.
BELIEVED_S = 600.0
#: How long a key id counts for nobody in a network from which it came with a wrong signature, s.
DISTRUST_S = 60.0
#: Bytes of a form in which the id of a key is looked for.
LOOKED_AT = 16 * 1024
#: Where the ASGI scope has what Django tells to.
_TELL = "gantry.holder"
_CREDENTIAL = re.compile(r"\bCredential=([^,\s]{1,200})")
_PARAMETER = re.compile(r"(?:^|&)(?:_accesskey|AccessKeyId)=([^&]{1,200})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Holder:
    """Whose places are counted together: an account, or the network of those who are not known."""

    name: str
    known: bool


class Holders:
    """What Django has told. For every thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        #: The account, and until when it is believed.
        self._accounts: OrderedDict[bytes, tuple[str, float]] = OrderedDict()
        self._distrusted: OrderedDict[bytes, float] = OrderedDict()

    def of(self, peer: str, credential: bytes | None) -> Holder:
        """Whose a request is that comes from the network `peer` and claims a credential, by its digest."""
        now = time.monotonic()
        with self._lock:
            if credential is not None and self._distrusted.get(credential, 0.0) <= now:
                account, until = self._accounts.get(credential, ("", 0.0))
                if until > now:
                    return Holder(account, known=True)
        return Holder(peer, known=False)

    def learn(self, credential: bytes, account: str) -> None:
        """Django has found a credential to be an account's."""
        with self._lock:
            _remember(self._accounts, credential, (account, time.monotonic() + BELIEVED_S))

    def forget(self, credential: bytes, distrusted_s: float = 0.0) -> None:
        """Django has found it to be nobody's, or has refused it: then what it finds next is not believed so soon."""
        with self._lock:
            self._accounts.pop(credential, None)
            if distrusted_s:
                _remember(self._distrusted, credential, time.monotonic() + distrusted_s)


def _remember(what: OrderedDict[bytes, T], credential: bytes, value: T) -> None:
    what[credential] = value
    what.move_to_end(credential)
    if len(what) > MOST_REMEMBERED:
        what.popitem(last=False)


def listen(scope: MutableMapping[str, Any], holders: Holders, peer: str) -> None:
    """Let Django tell `holders` about the request of this ASGI scope, which comes from the network `peer`."""
    scope[_TELL] = holders, peer


def tell_session(request: HttpRequest, session: str | None, account: str | None) -> None:
    """The session of a request was found to be an account's, or nobody's."""
    holders, _ = _listening(request)
    if holders is None or not session:
        return
    if account is None:
        holders.forget(session_digest(session))
    else:
        holders.learn(session_digest(session), account)


def tell_key(request: HttpRequest, access_key_id: str, account: str | None) -> None:
    """The signature of a request was made with this key of an account, or was refused."""
    holders, peer = _listening(request)
    if holders is None:
        return
    if account is None:
        holders.forget(key_digest(peer, access_key_id), DISTRUST_S)
    else:
        holders.learn(key_digest(peer, access_key_id), account)


def _listening(request: HttpRequest) -> tuple[Holders | None, str]:
    scope: Mapping[str, Any] = getattr(request, "scope", {})  # only a request that came over ASGI has one
    holders, peer = scope.get(_TELL, (None, ""))
    return holders, peer


def account_name(tenant: int | None, person: int | None = None) -> str:
    """What an account is counted by; somebody who belongs to none is one of their own."""
    return f"account {tenant}" if tenant is not None else f"person {person}"


def session_digest(session: str) -> bytes:
    """What is remembered of a session: not what would let anybody in."""
    return hashlib.sha256(f"session\n{session}".encode()).digest()


def key_digest(peer: str, access_key_id: str) -> bytes:
    """What is remembered of an AccessKey in a network."""
    return hashlib.sha256(f"key\n{peer}\n{access_key_id}".encode()).digest()


def claimed_key(authorization: str, query: str, form: str) -> str:
    """The id of the AccessKey with which a call of the management API says it is signed; empty when none is found."""
    if access_key_id := presented(authorization)[0]:
        return access_key_id
    for pattern, text in ((_CREDENTIAL, authorization), (_PARAMETER, query), (_PARAMETER, form)):
        if found := pattern.search(text):
            return found[1]
    return ""


def presented(authorization: str) -> tuple[str, str]:
    """The id of an AccessKey and what follows it, in `Bearer <id>:<secret>` or in Basic; else two empty texts."""
    scheme, _, given = authorization.partition(" ")
    if scheme.lower() == "basic":
        try:
            given = base64.b64decode(given.strip(), validate=True).decode()
        except ValueError:
            return "", ""
    elif scheme.lower() != "bearer":
        return "", ""
    access_key_id, _, rest = given.strip().partition(":")
    return (access_key_id[:200], rest) if access_key_id.isprintable() and access_key_id and rest else ("", "")
