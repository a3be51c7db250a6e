"""What differs between two texts of a pipeline, line by line. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher

_AROUND = 3


@dataclass(frozen=True, slots=True)
class Line:
    """A line of either text; `sign` is +, - or nothing, and ⋯ where equal lines are left out."""

    sign: str
    text: str
    before: int | None = None
    """Its number in the one text, from 1."""
    after: int | None = None


def changes(before: str, after: str) -> list[Line]:
    """Lines that differ with three equal ones around them; empty for equal texts."""
    old, new = before.splitlines(), after.splitlines()
    found: list[Line] = []
    end = 0
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_AROUND):
        if group[0][1] > end:
            found.append(Line("⋯", ""))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                pairs = zip(range(i1, i2), range(j1, j2), strict=True)
                found += [Line("", old[i], i + 1, j + 1) for i, j in pairs]
                continue
            found += [Line("-", old[i], before=i + 1) for i in range(i1, i2)]
            found += [Line("+", new[j], after=j + 1) for j in range(j1, j2)]
        end = group[-1][2]
    if found and end < len(old):
        found.append(Line("⋯", ""))
    return found
