"""What ends a command: one line on stderr and one of these statuses (docs/use/cli.md)."""

from __future__ import annotations

from gantry_cli.texts import _

REFUSED = 1
"""The server refused the call: a rule was broken, or something does not exist."""
USAGE = 2
"""The command line, a configuration or a file is wrong; nothing was sent."""
DENIED = 3
"""The key, the signature or the permissions do not suffice."""
UNREACHABLE = 4
"""The server did not answer, or not as Gantry does."""
HALFWAY = 5
"""`gantry apply` stopped after it had changed something."""


class CliError(Exception):
    """One sentence for stderr, and the exit status."""

    def __init__(self, message: str, status: int = USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


class ApiError(CliError):
    """The server's envelope said no; `symbol` is that of docs/use/management-api.md."""

    def __init__(self, symbol: str, message: str, request_id: str) -> None:
        status = DENIED if symbol.startswith("AUTH_") else REFUSED
        said = {"symbol": symbol, "message": message, "request": request_id}
        super().__init__(_("%(symbol)s: %(message)s (request %(request)s)") % said, status)
        self.symbol = symbol
