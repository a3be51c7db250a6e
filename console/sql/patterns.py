"""Patterns of LIKE."""

from __future__ import annotations

import re


def like_pattern(like: str) -> re.Pattern[str]:
    """The pattern of a SQL LIKE: `%` any run, `_` one character, backslash escapes; case does not count."""
    pieces = re.findall(r"\\.|.", like, re.DOTALL)
    wild = {"%": ".*", "_": "."}
    return re.compile("".join(wild.get(p) or re.escape(p[-1]) for p in pieces), re.IGNORECASE | re.DOTALL)


def is_like(name: str, like: str | None) -> bool:
    """Whether the whole name matches; None matches all."""
    return like is None or like_pattern(like).fullmatch(name) is not None
