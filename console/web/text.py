"""Text that a stranger chose, made harmless to the eye: what is invisible or turns the reading order is shown."""

from __future__ import annotations

import re

from console.web.languages import gettext_lazy

#: Why a request is refused whose address or fields have such a character.
NUL = gettext_lazy("Its address or one of its fields contains a NUL character.")
#: From the largest to the smallest.
UNITS = {"TiB": 1 << 40, "GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "B": 1}

#: Control characters that a page shows as their pictures (␀); line ends and tabs stay.
CONTROLS = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\r\t"} | {0x7F: 0x2421}
_DECEPTIVE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
#: Characters that turn the reading order of what follows (Unicode's bidirectional controls), and control characters.
_DISORDERLY = re.compile("[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f\u202a-\u202e\u2066-\u2069]")


def largest_unit(size: int) -> tuple[str, int]:
    """The name and the bytes of the largest unit of which `size` has at least one; else B."""
    return next(((name, unit) for name, unit in UNITS.items() if size >= unit), ("B", 1))


def in_words(size: int) -> str:
    """A size in a sentence, to four digits: 1.5 GiB, 512 bytes."""
    name, unit = largest_unit(size)
    return f"{size / unit:.4g} {name}" if unit > 1 else f"{size} bytes"


def visible(text: str) -> str:
    """Text with control characters as their pictures (␀) and deceptive invisible ones as their code (⟨U+202E⟩)."""
    return _DECEPTIVE.sub(_code, text.translate(CONTROLS))


def orderly(page: str) -> str:
    """A page in which nothing can turn the reading order or end a line for others; emoji stay whole."""
    return _DISORDERLY.sub(_code, page)


def _code(found: re.Match[str]) -> str:
    return f"⟨U+{ord(found[0]):04X}⟩"
