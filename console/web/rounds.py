"""What the parts that streams ask for have in common is looked up, and rendered, once.

A stream asks the parts that are due in one round. The session and the user of a round are read with its first part, for
all streams of the session that ask in the same second. And what a view says to one stream is said to every other that
asks the same of it within a second: the same address, asked by the same person under the same circumstances. Each
question goes through all middleware before, so that a session that has ended, a person who was disabled, and a second
factor that is asked for, are seen by each stream itself; only the view and its template are left out. What was looked
up and decided is so old at most as FRESH_S.

Nothing here concerns a browser's own request.
"""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.utils import timezone, translation

from console.web.live import HEADER

#: How much older than the question an answer may be that is given to another stream, s; and a round's session and user.
FRESH_S = 1.0
#: How long who asks the same waits for the answer that is being made, s: afterwards it makes its own.
_PATIENCE_S = 5.0
#: Where the ASGI scope has the round; no request from outside has one.
_ROUND = "gantry.round"
#: Answers that are kept at a time, each for FRESH_S.
_MOST_KEPT = 1000
#: What of a session is about the session alone. All else of it counts: a view may have looked at it.
_OF_THE_SESSION = frozenset(
    {"_auth_user_id", "_auth_user_backend", "_auth_user_hash", "account_authentication_methods"}
    | {"accounts.started_at", "accounts.seen_at"}
)
_TOKEN = re.compile(rb'(name="csrfmiddlewaretoken" value=")[^"]*')


@dataclass(eq=False)
class Round:
    """The questions of one session in a second: whose they are is looked up with the first of them."""

    begun: float = field(default_factory=time.monotonic)
    session: dict[str, Any] | None = None
    user: Any = None

    @property
    def age_s(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self.begun

    def into(self, scope: dict[str, Any]) -> dict[str, Any]:
        """The ASGI scope of a question of this round."""
        return scope | {_ROUND: self}


def _round_of(request: HttpRequest) -> Round | None:
    found: Round | None = getattr(request, "scope", {}).get(_ROUND)
    return found


class RoundMiddleware:
    """Gives a question what its round has found: the session and the user. Behind the middleware of sessions."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        together = _round_of(request)
        if together is None:
            return self.get_response(request)
        session: Any = request.session
        if together.session is not None and together.age_s <= FRESH_S:
            session._session_cache = dict(together.session)
            request._cached_user = together.user  # type: ignore[attr-defined]  # where Django keeps it
            return self.get_response(request)
        response = self.get_response(request)
        # Whoever was signed out meanwhile has another user now, and no session.
        if getattr(request.user, "is_authenticated", False) and session.session_key:
            together.user = getattr(request, "_cached_user", None)
            together.session = dict(session._session_cache) if together.user is not None else None
        return response


@dataclass(slots=True)
class _Answer:
    """What a view has said: `begun` is when it was asked. `done` is set when there is something, or never will be."""

    begun: float
    done: threading.Event = field(default_factory=threading.Event)
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class SharingMiddleware:
    """Says what a view has just said to whoever asks the same under the same circumstances. The innermost."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response
        self._answers: OrderedDict[Any, _Answer] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if _round_of(request) is None:
            return self.get_response(request)
        try:
            response = self.get_response(request)
            mine: _Answer | None = getattr(request, "_gantry_answer", None)
            if mine is not None and _may_be_shared(response):
                mine.headers, mine.content = dict(response.items()), response.content
            return response
        finally:
            if mine := getattr(request, "_gantry_answer", None):
                mine.done.set()

    def process_view(
        self, request: HttpRequest, _view: object, _args: tuple[Any, ...], _kwargs: dict[str, Any]
    ) -> HttpResponse | None:
        """All that other middleware asks for is met by now: the view's own decision is what is shared."""
        together = _round_of(request)
        if together is None or not getattr(request.user, "is_authenticated", False):
            return None
        key, now = circumstances(request), time.monotonic()
        with self._lock:
            while self._answers and next(iter(self._answers.values())).begun < now - _PATIENCE_S:
                self._answers.popitem(last=False)
            found = self._answers.get(key)
            if found is None or now - found.begun > FRESH_S:
                request._gantry_answer = self._answers[key] = _Answer(now)  # type: ignore[attr-defined]
                self._answers.move_to_end(key)
                if len(self._answers) > _MOST_KEPT:
                    self._answers.popitem(last=False)
                return None
        if not found.done.wait(_PATIENCE_S) or found.content is None:
            return None
        # A token is masked anew, and is this visitor's own.
        content = _TOKEN.sub(lambda token: token[1] + get_token(request).encode(), found.content)
        return HttpResponse(content, headers=dict(found.headers))


def circumstances(request: HttpRequest) -> tuple[Any, ...]:
    """All that the answer of a live part may depend on, but for the state of things and the time.

    Two browsers of one person differ by their addresses, headers and cookies; the cookie of the session and the secret
    of forms do not count, which the answer does not show.
    """
    meta, own = request.META, (settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME)
    headers = {name: value for name, value in request.headers.items() if name not in ("Cookie", HEADER)}
    cookies = {name: value for name, value in request.COOKIES.items() if name not in own}
    session = {name: repr(value) for name, value in request.session.items() if name not in _OF_THE_SESSION}
    actor = getattr(request, "actor", None)
    return (
        request.user.pk,
        getattr(actor, "mfa", None),
        request.get_full_path(),
        request.scheme,
        meta.get("REMOTE_ADDR"),
        translation.get_language(),
        timezone.get_current_timezone_name(),
        *(tuple(sorted(found.items())) for found in (headers, cookies, session)),
    )


def _may_be_shared(response: HttpResponse) -> bool:
    return response.status_code == 200 and not response.streaming and not response.cookies
