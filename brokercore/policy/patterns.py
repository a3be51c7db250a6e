"""Patterns with `*` and `?` as regular expressions, in time linear in the text however hostile the pattern is."""

from __future__ import annotations

import re
from functools import lru_cache

_STARS = re.compile(r"\*+")


def has_wildcard(pattern: str) -> bool:
    """True when the text is a pattern and not a literal."""
    return "*" in pattern or "?" in pattern


def expression(pattern: str, any_character: str = ".", one: str = "") -> str:
    """The regular expression of a pattern: `*` matches any run of `any_character`, `?` one (or `one`); the rest itself.

    Every run but the last is atomic: the first place where the following literal fits is as good as any other, so
    there is nothing to go back for, and `*a*a*a*a*b` cannot keep a broker busy.
    """
    pieces = [
        "".join((one or any_character) if c == "?" else re.escape(c) for c in piece) for piece in _STARS.split(pattern)
    ]
    if len(pieces) == 1:
        return pieces[0]
    first, *middle, last = pieces
    return first + "".join(f"(?>{any_character}*?{piece})" for piece in middle) + f"{any_character}*{last}"


@lru_cache(maxsize=4096)
def compiled(pattern: str) -> re.Pattern[str]:
    """One pattern, to be asked with `fullmatch`."""
    return re.compile(expression(pattern), re.DOTALL)
