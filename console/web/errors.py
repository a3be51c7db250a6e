"""The one exception for input that a service refuses. Forms and the management API both show it."""

from __future__ import annotations

from contextvars import ContextVar

from console.web import languages


class Refused(Exception):  # noqa: N818 - a refusal is an answer, not a fault
    """A rule was broken by the caller's input.

    `symbol` is the management API's error symbol (docs/use/management-api.md), `message` one clear sentence in the
    visitor's language, which is `kept` in English, `field` the name of the service's argument that is wrong, or empty.
    """

    def __init__(self, symbol: str, message: str, field: str = "") -> None:
        self.kept = languages.english(message)
        # A text that is translated when it is shown would be another one for who reads it later.
        message = str(message)
        super().__init__(message)
        self.symbol = symbol
        self.message = message
        self.field = field
        # Views show a refusal in their own way, so it is noted where it is made: no one can forget to.
        noted = refusals.get()
        if noted is not None:
            noted.append(self)


refusals: ContextVar[list[Refused] | None] = ContextVar("refusals", default=None)
"""The refusals of the current request, for the audit trail; None while nobody asks."""
