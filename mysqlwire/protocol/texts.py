"""Texts of statements as far as the protocol needs them: where the `?` of a prepared one are, and where it ends.

What stands in quotes and comments is neither. Nothing is understood of the statement itself.
"""

from __future__ import annotations

import re

from mysqlwire.protocol.commands import MOST_PARAMETERS, Value

#: What may hold a `?` or a `;` that is none. What is never closed reaches to the end, and the repetitions are
#: possessive: no text is gone over twice.
_CLOSED = (
    r"""'(?:[^'\\]|\\.?|'')*+(?:'|\Z)|"(?:[^"\\]|\\.?|"")*+(?:"|\Z)|`[^`]*+(?:`|\Z)|--[^\n]*+|\#[^\n]*+"""
    r"""|/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z)"""
)
_PIECES = re.compile(rf"{_CLOSED}|(?P<placeholder>\?)|(?P<end>;)", re.DOTALL)
#: From anywhere to behind the next one, in one step: a text may have a million of what is neither.
_TO_PLACEHOLDER, _TO_END = (
    re.compile(rf"(?:[^{sign}'\"`\-#/]++|{_CLOSED}|[^{sign}])*+\{sign}", re.DOTALL) for sign in "?;"
)
_BLANK_OR_COMMENT = re.compile(r"(?:[\s;]|--[^\n]*+|\#[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z))*+")


def count_placeholders(text: str) -> int:
    """Number of `?` outside quotes and comments; MOST_PARAMETERS + 1 with more of them, which are not looked at."""
    count, found = 0, _TO_PLACEHOLDER.match(text)
    while found is not None and count <= MOST_PARAMETERS:
        count += 1
        found = _TO_PLACEHOLDER.match(text, found.end())
    return count


def single(text: str) -> str | None:
    """The statement without its closing `;` and comments behind that; None when another statement follows."""
    end = _TO_END.match(text)
    if end is None:
        return text
    return text[: end.end() - 1] if _BLANK_OR_COMMENT.fullmatch(text, end.end()) else None


def bound(text: str, values: tuple[Value, ...]) -> str:
    """The text with its values as literals, escaped: for who reads short statements as texts. Values that go to a
    database go as values.
    """
    given = iter(values)
    return _PIECES.sub(lambda piece: _literal(next(given, None)) if piece["placeholder"] else piece[0], text)


def _literal(value: Value) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "''").replace("\0", "\\0")
        return f"'{escaped}'"
    return repr(value)
