"""What a request has recorded so far, so that what a rollback took back can be recorded again.

An entry about a change is written in the change's transaction: when that is rolled back, the entry goes with it. The
journal of the request remembers it, and `console.audit.record.attempts` writes it again with what became of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from console.audit.models import Entry
from console.web import errors


@dataclass
class Journal:
    """One attempt: a request, a statement or a command."""

    entries: list[Entry] = field(default_factory=list)
    refusals: list[errors.Refused] = field(default_factory=list)
    failure: BaseException | None = None
    """What ended the attempt, when an exception did."""

    def lost(self) -> list[Entry]:
        """The entries that a rollback took back."""
        if not self.entries:
            return []
        kept = set(Entry.objects.filter(pk__in=[e.pk for e in self.entries]).values_list("pk", "at", "action"))
        return [e for e in self.entries if (e.pk, e.at, e.action) not in kept]


_current: ContextVar[Journal | None] = ContextVar("audit_journal", default=None)


@contextmanager
def opened() -> Iterator[Journal]:
    """A journal for everything that is recorded inside."""
    journal = Journal()
    token = _current.set(journal)
    noted = errors.refusals.set(journal.refusals)
    try:
        yield journal
    finally:
        errors.refusals.reset(noted)
        _current.reset(token)


def note(entry: Entry) -> None:
    """Remember an entry, if anybody keeps a journal."""
    journal = _current.get()
    if journal is not None:
        journal.entries.append(entry)
