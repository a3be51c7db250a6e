"""The request id: drawn once per request, on every log line and on every error page.

Apart from the middleware, which draws it: Django imports the filter for every command, with all that this file imports.
"""

from __future__ import annotations

import contextvars
import logging

request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="-")


class RequestIdFilter(logging.Filter):
    """Puts the current request id on each record."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = request_id.get()
        return True
