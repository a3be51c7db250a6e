"""Patterns with `*` and `?` that people write, as regular expressions that none of them can make slow."""

from __future__ import annotations

import re

STARS = re.compile(r"\*+")


def expression(pattern: str, any_character: str = ".", one: str = "") -> str:
    """The regular expression of a pattern: `*` matches any run of `any_character`, `?` one (or `one`); the rest itself.

    Every run but the last is atomic: the first place where the following literal fits is as good as any other, so
    there is nothing to go back for, and `*a*a*a*a*b` cannot keep a process busy.
    """
    pieces = [
        "".join((one or any_character) if c == "?" else re.escape(c) for c in piece) for piece in STARS.split(pattern)
    ]
    if len(pieces) == 1:
        return pieces[0]
    first, *middle, last = pieces
    return first + "".join(f"(?>{any_character}*?{piece})" for piece in middle) + f"{any_character}*{last}"
