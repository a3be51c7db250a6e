"""Tells a full disk from other failures, whoever met it: the system, SQLite, PostgreSQL, or Redis on behalf of us."""

from __future__ import annotations

import errno

_NUMBERS = frozenset({errno.ENOSPC, errno.EDQUOT})
_WORDS = (
    "no space left on device",  # the system; Redis and PostgreSQL quote it
    "disk quota exceeded",
    "database or disk is full",  # SQLite
)


def is_full(error: BaseException | None) -> bool:
    """True when the error, or one that it was raised from, says that a disk is full."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if (isinstance(error, OSError) and error.errno in _NUMBERS) or says_full(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def says_full(text: str) -> bool:
    """True when the text of an error says that a disk is full."""
    lowered = text.lower()
    return any(words in lowered for words in _WORDS)


def sentence(place: str) -> str:
    """The one sentence for a full disk; `place` is the folder or the service whose disk it is."""
    return f"The disk of {place} is full: nothing can be saved. Make room there, then try again."
