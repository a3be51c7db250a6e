"""What log lines of requests say: the request id, drawn once per request and on every error page too, and refusals.

Apart from the middleware, which draws the id: Django imports the filters for every command, with all that this file
imports.
"""

from __future__ import annotations

import contextvars
import logging

from django.core.exceptions import PermissionDenied

request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="-")


class RequestIdFilter(logging.Filter):
    """Puts the current request id on each record."""

    def filter(self, record: logging.LogRecord) -> bool:
        drawn = request_id.get()
        # Django logs answers of 400 and more when the middleware has left already.
        record.request_id = drawn if drawn != "-" else getattr(getattr(record, "request", None), "request_id", "-")
        return True


class RefusalFilter(logging.Filter):
    """Says a refusal in one line: who was refused what, and why. Django would write the traceback of the decision."""

    def filter(self, record: logging.LogRecord) -> bool:
        refusal = record.exc_info[1] if record.exc_info else None
        request = getattr(record, "request", None)
        if isinstance(refusal, PermissionDenied) and request is not None:
            actor = getattr(request, "actor", None)
            record.msg, record.args = (
                "refused: %s %s to %s: %s",
                tuple(
                    str(part).encode("unicode_escape").decode("ascii")
                    for part in (request.method, request.path, getattr(actor, "name", "somebody"), refusal)
                ),
            )
            record.exc_info = record.exc_text = None
        return True
