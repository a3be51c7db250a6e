"""Numbers of bytes, written for people: in the units that count by 1,024 (IEC 80000-13)."""

from __future__ import annotations

#: From the largest to the smallest.
UNITS = {"TiB": 1 << 40, "GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "B": 1}


def largest_unit(size: int) -> tuple[str, int]:
    """The name and the bytes of the largest unit of which `size` has at least one; else B."""
    return next(((name, unit) for name, unit in UNITS.items() if size >= unit), ("B", 1))


def in_words(size: int) -> str:
    """A size in a sentence, to four digits: 1.5 GiB, 512 bytes."""
    name, unit = largest_unit(size)
    return f"{size / unit:.4g} {name}" if unit > 1 else f"{size} bytes"
