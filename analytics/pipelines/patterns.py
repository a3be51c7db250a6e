"""Patterns that users write, of times and of paths: Java's, as far as the engine reads them. Pure.

Whether a pattern can be used is told here, so that a text is refused before it runs.
"""

from __future__ import annotations

import re

#: A text in quotes, a letter as often as it follows itself, or another character.
_PIECES = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|.", re.DOTALL)
#: Parts of patterns of times → what Python calls them.
_PYTHON = {
    **{"yy": "%y", "yyyy": "%Y", "M": "%m", "MM": "%m", "MMM": "%b", "MMMM": "%B", "d": "%d", "dd": "%d"},
    **{"H": "%H", "HH": "%H", "h": "%I", "hh": "%I", "m": "%M", "mm": "%M", "s": "%S", "ss": "%S", "a": "%p"},
    **{"S" * count: "%f" for count in range(1, 7)},
    **{"EEE": "%a", "EEEE": "%A", "X": "%z", "XX": "%z", "XXX": "%z", "Z": "%z"},
}
#: Letters of patterns of times that Spark knows → how often each may stand in a row, when it reads and when it writes.
_SPARK_READS = {
    **dict.fromkeys("dhHKkms", range(1, 3)),
    **dict.fromkeys("GMLz", range(1, 5)),
    **dict.fromkeys("XxZ", range(1, 6)),
    **{"y": range(1, 7), "D": range(1, 4), "S": range(1, 10), "a": range(1, 2), "V": range(2, 3), "O": (1, 4)},
}
_SPARK_WRITES = _SPARK_READS | {"E": range(1, 5), "F": range(1, 2), "Q": range(1, 5), "q": range(1, 5)}
_HEX = r"[0-9A-Fa-f]"
#: What may stand behind a backslash, beside any character that is no letter of ASCII.
_ESCAPE = re.compile(
    rf"[tnrfaedDhHsSvVwWbBAGZzRX1-9]|0[0-7]{{1,3}}|x(?:{_HEX}{{2}}|\{{{_HEX}+\}})|u{_HEX}{{4}}|c.|k<\w+>"
    r"|[pP](?:\{[^}]+\}|[A-Za-z])|N\{[^}]+\}|[^A-Za-z0-9]",
    re.DOTALL,
)
_GROUP = re.compile(r"\?(?:[:=!>]|<[=!]|<([A-Za-z][A-Za-z0-9]*)>|[idmsuxU]*(?:-[idmsuxU]*)?[:)])")
_TIMES = re.compile(r"\{(\d+)(?:,(\d*))?\}")


def python_layout(pattern: str) -> str:
    """Java's pattern of times as Python's. Raises ValueError for what Python has nothing for."""
    layout, seen = "", set[str]()
    for piece in _PIECES.finditer(pattern):
        written = piece[0]
        if written == "'" or written in "[]{}#":
            raise ValueError(f"the pattern {pattern!r} has a {written}, which is not known here")
        if not written[0].isalpha() or not written.isascii():
            layout += _literal(written).replace("%", "%%")
            continue
        part = _PYTHON.get(written)
        if part is None:
            raise ValueError(f"the pattern {pattern!r} has {written!r}, which is not known here")
        if part in seen:
            raise ValueError(f"the pattern {pattern!r} has {written!r} beside another part of the same meaning")
        seen.add(part)
        layout += part
    return layout


def _literal(written: str) -> str:
    inside = written[1:-1].replace("''", "'") if len(written) > 1 else written
    return inside or "'"


def require_spark_times(pattern: str, *, is_read: bool) -> None:
    """Raise ValueError, which says why, for a pattern of times by which Spark neither reads nor writes."""
    known = _SPARK_READS if is_read else _SPARK_WRITES
    optional = 0
    for piece in _PIECES.finditer(pattern):
        written = piece[0]
        if written == "'":
            raise ValueError(f"the pattern {pattern!r} has a quote that is not closed")
        if written in "{}#":
            raise ValueError(f"the pattern {pattern!r} has a {written}, which stands within quotes alone")
        optional += (written == "[") - (written == "]")
        if optional < 0:
            raise ValueError(f"the pattern {pattern!r} has a ] that closes nothing")
        if not written[0].isalpha() or not written.isascii():
            continue
        if written[0] not in known:
            purpose = "reads" if is_read else "writes"
            raise ValueError(
                f"the pattern {pattern!r} has {written!r}; letters by which Spark {purpose} times are {''.join(known)}"
            )
        if len(written) not in known[written[0]]:
            counts = known[written[0]]
            raise ValueError(f"the pattern {pattern!r} has {written!r}; allowed are {counts[0]} to {counts[-1]} of it")


def require_regex(pattern: str) -> None:
    """Raise ValueError, which says what is wrong and where, for what is no regular expression of Java's.

    It finds what is not closed, repeats nothing, or is an unknown escape or group. What it does not know passes.
    """
    try:
        _Regex(pattern).read()
    except _Anything:
        return


class _Anything(Exception):  # noqa: N818
    """From here on the syntax is another one."""


class _Regex:
    def __init__(self, pattern: str) -> None:
        self._pattern, self._at = pattern, 0
        self._open: list[int] = []
        self._names: set[str] = set()

    def read(self) -> None:
        is_repeatable = False
        while self._at < len(self._pattern):
            is_repeatable = self._step(self._pattern[self._at], is_repeatable)
        if self._open:
            raise self._wrong(self._open[-1], "a ( that is not closed")

    def _step(self, sign: str, is_repeatable: bool) -> bool:
        """Go over one piece; returns whether it may be repeated."""
        if sign == "\\":
            return self._escape()
        if sign == "[":
            self._set()
            return True
        if sign == "(":
            return self._group()
        if sign in "*+?{":
            return self._repetition(sign, is_repeatable)
        if sign == ")":
            if not self._open:
                raise self._wrong(self._at, "a ) that closes nothing")
            self._open.pop()
        self._at += 1
        return sign != "|"

    def _wrong(self, at: int, what: str) -> ValueError:
        return ValueError(f"it has {what}, at its character {at + 1}")

    def _escape(self) -> bool:
        start = self._at
        if self._pattern.startswith("\\Q", start):
            end = self._pattern.find("\\E", start + 2)
            if end < 0:
                raise self._wrong(start, "a \\Q that no \\E ends")
            self._at = end + 2
            return end > start + 2
        found = _ESCAPE.match(self._pattern, start + 1)
        if found is None:
            raise self._wrong(start, f"the escape {self._pattern[start : start + 2]}, which Java does not know")
        self._at = found.end()
        return True

    def _group(self) -> bool:
        start = self._at
        self._at += 1
        if self._pattern.startswith("?", self._at):
            found = _GROUP.match(self._pattern, self._at)
            if found is None:
                raise self._wrong(start, "a group of a kind that Java does not know")
            if found[1] in self._names:
                raise self._wrong(start, f"two groups named {found[1]}")
            if found[1]:
                self._names.add(found[1])
            elif "x" in found[0]:  # blanks and comments mean nothing from here on
                raise _Anything
            self._at = found.end()
            if found[0].endswith(")"):
                return False
        self._open.append(start)
        return False

    def _repetition(self, sign: str, is_repeatable: bool) -> bool:
        start = self._at
        if sign == "{":
            found = _TIMES.match(self._pattern, start)
            if found is None or (found[2] and int(found[2]) < int(found[1])) or int(found[1]) >= 2**31:
                raise self._wrong(start, "a { that is no number of times; a { itself is written \\{")
            self._at = found.end()
        elif not is_repeatable:
            raise self._wrong(start, f"a {sign} that repeats nothing")
        else:
            self._at += 1
        self._at += self._pattern[self._at : self._at + 1] in ("?", "+")
        return False

    def _set(self) -> None:
        """A set of characters, with sets within it."""
        start = self._at
        self._at += 2 if self._pattern.startswith("[^", start) else 1
        is_first = True
        while self._at < len(self._pattern):
            sign = self._pattern[self._at]
            if sign == "]" and not is_first:
                self._at += 1
                return
            if sign == "[":
                self._set()
            elif sign == "\\":
                self._escape()
            else:
                self._range()
            is_first = False
        raise self._wrong(start, "a [ that is not closed")

    def _range(self) -> None:
        """A character, or the characters from one to another one."""
        low, sign, high = tuple(self._pattern[self._at : self._at + 3].ljust(3, "]"))
        if sign != "-" or high in "[]\\&":
            self._at += 1
            return
        if low > high:
            raise self._wrong(self._at, f"the range {low}-{high}, which goes backwards")
        self._at += 3
