"""Patterns of LIKE."""

from __future__ import annotations

import re
from functools import lru_cache


@lru_cache(maxsize=256)
def like_pattern(like: str) -> re.Pattern[str]:
    """The pattern of a SQL LIKE: `%` any run, `_` one character, backslash escapes; case does not count.

    Between two `%` the first place that fits is as good as any later one, so it is taken for good (an atomic group):
    no pattern takes longer than its length times that of the name.
    """
    runs: list[list[str]] = [[]]
    for piece in re.findall(r"\\.|.", like, re.DOTALL):
        if piece == "%":
            runs.append([])
        else:
            runs[-1].append("." if piece == "_" else re.escape(piece[-1]))
    first, *others = ["".join(run) for run in runs]
    middle = "".join(f"(?>.*?{run})" for run in others[:-1] if run)
    end = f".*{others[-1]}" if others else ""
    return re.compile(f"{first}{middle}{end}", re.IGNORECASE | re.DOTALL)


def is_like(name: str, like: str | None) -> bool:
    """Whether the whole name matches; None matches all."""
    return like is None or like_pattern(like).fullmatch(name) is not None
