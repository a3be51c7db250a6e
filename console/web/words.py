"""Words that follow a number."""

from __future__ import annotations

from django.utils.translation import ngettext_lazy

_NOUNS = {
    "AccessKey": ngettext_lazy("%(shown)s AccessKey", "%(shown)s AccessKeys", "number"),
    "SQL statement": ngettext_lazy("%(shown)s SQL statement", "%(shown)s SQL statements", "number"),
    "broker": ngettext_lazy("%(shown)s broker", "%(shown)s brokers", "number"),
    "dead letter": ngettext_lazy("%(shown)s dead letter", "%(shown)s dead letters", "number"),
    "message": ngettext_lazy("%(shown)s message", "%(shown)s messages", "number"),
    "notification": ngettext_lazy("%(shown)s notification", "%(shown)s notifications", "number"),
    "statement": ngettext_lazy("%(shown)s statement", "%(shown)s statements", "number"),
    "table": ngettext_lazy("%(shown)s table", "%(shown)s tables", "number"),
}


def counted(number: int, what: str) -> str:
    """A number of things, in the visitor's language: `1 message`, `1,604 messages`. `what` is one of `_NOUNS`."""
    return _NOUNS[what] % {"number": number, "shown": f"{number:,}"}
