"""Patterns of statements, held against names: cheap to make, and in steps that no pattern can make many.

A statement's patterns come from people, thousands of characters of them, and are asked on the loop that all clients
share. As regular expressions they take longer to compile than to ask, and a hostile one takes as many steps as pattern
and name have characters, multiplied. Here a piece between two `*` is looked for at all places of the name at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_STARS = re.compile(r"\*+")
_SIGNS = frozenset("*?")


class Glob:
    """One pattern: `*` stands for any run of characters, `?` for one, everything else for itself."""

    __slots__ = ("_first", "_has_mark", "_has_star", "_last", "_least", "_letters", "_middle", "_spread")

    def __init__(self, pattern: str) -> None:
        pieces = _STARS.split(pattern)
        self._has_star = len(pieces) > 1
        self._first, self._last = pieces[0], pieces[-1] if self._has_star else ""
        self._middle = tuple(piece for piece in pieces[1:-1] if piece)
        self._has_mark = "?" in pattern
        self._least = sum(map(len, pieces))
        self._letters = frozenset(pattern) - _SIGNS if self._has_mark else frozenset()
        self._spread = tuple(map(_spread, self._middle)) if self._has_mark else ()

    def matches(self, text: str) -> bool:
        """True when the whole text is of the pattern."""
        size = len(text)
        if size < self._least or (size > self._least and not self._has_star):
            return False
        if self._has_mark:
            return self._matches_at_places(text)
        if not text.startswith(self._first) or not text.endswith(self._last):
            return False
        at, end = len(self._first), size - len(self._last)
        for piece in self._middle:
            at = text.find(piece, at, end) + len(piece)
            if at < len(piece):
                return False
        return True

    def _matches_at_places(self, text: str) -> bool:
        places = _places(text)
        if not self._letters <= places.keys():
            return False
        first, last = self._first, self._last
        at, end = len(first), len(text) - len(last)
        if (first and not _fits(first, text[:at])) or (last and not _fits(last, text[end:])):
            return False
        for size, letters, offsets in self._spread:
            # The first place where the piece fits is as good as any other: there is nothing to go back for.
            found = (1 << max(at, end - size + 1)) - (1 << at)
            for letter, offset in zip(letters, offsets, strict=True):
                found &= places[letter] >> offset
                if not found:
                    return False
            if not found:
                return False
            at = (found & -found).bit_length() - 1 + size
        return True


def any_matches(globs: Iterable[Glob], text: str) -> bool:
    """True when the whole text is of one of the patterns."""
    for glob in globs:  # no generator: there may be thousands  # noqa: SIM110
        if glob.matches(text):
            return True
    return False


def _spread(piece: str) -> tuple[int, str, tuple[int, ...]]:
    """The size of a piece, its characters without `?`, and where in the piece each of them stands."""
    return len(piece), piece.replace("?", ""), tuple(at for at, letter in enumerate(piece) if letter != "?")


def _fits(piece: str, there: str) -> bool:
    """Whether a piece, which may have `?`, is this text of its length."""
    return there == piece or all(a in ("?", b) for a, b in zip(piece, there, strict=True))


@lru_cache(maxsize=64)
def _places(text: str) -> dict[str, int]:
    """Where each character stands in a text: bit 0 is the first place."""
    found: dict[str, int] = {}
    for place, letter in enumerate(text):
        found[letter] = found.get(letter, 0) | 1 << place
    return found
