"""Attempts that did not succeed are recorded too, whatever transaction they died in.

Every way in has a boundary outside of all transactions: the middleware for pages, `attempt` for API calls and SQL
statements. What a service had recorded before its transaction was rolled back is written again, now with
its true result; where nothing had been recorded yet, the boundary records what it knows itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import DatabaseError
from django.http import Http404, HttpRequest, HttpResponse

from console.audit import record
from console.audit.record import Author
from console.audit.record import journal as journals
from console.audit.record.journal import Journal
from console.web import languages
from console.web.errors import Refused

log = logging.getLogger(__name__)
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_FORBIDDEN, _INVALID, _ERROR, _OUTAGE = 403, 422, 400, 500


@contextmanager
def attempt(actor: Author, action: str, resource: str = "", *, reads: bool = False) -> Iterator[Journal]:
    """Run an operation, a statement or a command: a refusal or failure that leaves it is recorded, and raised on.

    Of what only `reads`, a missing right alone is worth an entry.
    """
    with journals.opened() as journal:
        try:
            yield journal
        except Exception as error:
            journal.failure = error
            raise
        finally:
            failure = journal.failure
            failed = isinstance(failure, PermissionDenied) if reads else failure is not None
            conclude(journal, actor, action, resource, failed=failed)


def conclude(
    journal: Journal, actor: Author, action: str, resource: str, *, failed: bool, status: int = 0, reason: str = ""
) -> None:
    """Record what became of an attempt, unless that is in the trail already. Never raises: the answer comes first."""
    try:
        lost = journal.lost()
        if not failed and not lost:
            return
        result, detail = _outcome(journal, status, reason)
        for entry in lost:
            record.again(entry, result if entry.result == "success" else entry.result, detail)
        if not journal.entries:
            record.conclude(actor, action, resource, result, detail)
    except DatabaseError:
        log.exception("an attempt of %s at %s could not be recorded", actor.name, action)


def _outcome(journal: Journal, status: int, reason: str) -> tuple[str, dict[str, Any]]:
    """Refused by a rule, a right or because it does not exist; all else failed. With the reason in one sentence."""
    error: BaseException | None = journal.failure
    if error is None and journal.refusals:
        error = journal.refusals[-1]
    if isinstance(error, Refused):
        return "refused", {"reason": error.kept, "symbol": error.symbol}
    text = reason or languages.english(getattr(error, "user_message", "") or "")
    if isinstance(error, PermissionDenied | Http404) or (error is None and _ERROR <= status < _OUTAGE):
        return "refused", {"reason": text or languages.english(error or "") or f"answered {status}"}
    # Other exceptions may carry anything in their text, a secret too; their kind is enough, the log has the rest.
    return "failed", {"reason": text or (type(error).__name__ if error else f"answered {status}")}


class AttemptsMiddleware:
    """The boundary of pages; the innermost middleware, so that it sees what views raise."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with journals.opened() as journal:
            request.journal = journal  # type: ignore[attr-defined]
            response = self.get_response(request)
            self._conclude(request, response, journal)
            return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> None:
        request.journal.failure = exception  # type: ignore[attr-defined]

    def _conclude(self, request: HttpRequest, response: HttpResponse, journal: Journal) -> None:
        actor: Author | None = getattr(request, "actor", None)
        match = request.resolver_match
        # Views that no session opens know their caller by a signature: they have boundaries of their own.
        if actor is None or (match is not None and not getattr(match.func, "login_required", True)):
            return
        failed = response.status_code == _FORBIDDEN
        if request.method not in _SAFE:
            # 422 without a refusal is a form with a typo, which nothing was done for.
            broken = response.status_code >= _ERROR and response.status_code != _INVALID
            failed = failed or broken or bool(journal.refusals)
        name = (match.url_name if match else None) or "page"
        conclude(journal, actor, name, request.path, failed=failed, status=response.status_code)
