"""A filter expression as tokens."""

from __future__ import annotations

import re

from brokercore.protocol.errors import SubscriptionError

MAX_WORDS = 1000
"""Names, numbers, words and signs of a filter: reading one takes some microseconds."""

MAX_TOKENS = 4000
"""All of them, with texts and commas, so that lists for IN may be long."""

_LONG = 1 << 63
_TOKEN = re.compile(
    r"""
    (?P<blank>\s+|--[^\r\n]*(?:[\r\n]|\Z)|/\*.*?\*/)
  | (?P<float>\d+\.\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+)
  | (?P<integer>(?:0|[1-9]\d*)l?(?![\w.]))
  | (?P<text>'(?:[^']|'')*')
  | (?P<word>[a-z_$][\w$]*)
  | (?P<comma>,)
  | (?P<sign><>|<=|>=|[=<>()+-])
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL | re.ASCII,
)
_RESERVED = frozenset(
    {"NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "CONTAINS", "STARTSWITH", "ENDSWITH"}
)


def tokens(expression: str) -> list[tuple[str, str]]:
    """Kind and text; reserved words in upper case, and signs, can be told from texts since those keep their quotes."""
    found, position, words = [], 0, 0
    while position < len(expression):
        match = _TOKEN.match(expression, position)
        if match is None:
            near = expression[position : position + 20]
            raise SubscriptionError(f"the filter cannot be read at character {position + 1}: {near!r}")
        position = match.end()
        kind, token = match.lastgroup or "", match.group()
        if kind == "integer" and int(token.rstrip("lL")) > _LONG:
            raise SubscriptionError(f"{token} is too large a number")
        if kind == "word" and token.upper() in _RESERVED:
            token = token.upper()
            kind = "word" if token in {"TRUE", "FALSE", "NULL"} else "sign"
        if kind != "blank":
            found.append((kind, token))
            words += kind not in {"text", "comma"}
            if words > MAX_WORDS or len(found) > MAX_TOKENS:
                raise SubscriptionError(
                    f"the filter is too long: allowed are {MAX_WORDS} names, numbers, words and signs, and with texts"
                    f" and commas {MAX_TOKENS}"
                )
    return found


def text_of(token: str) -> str:
    """The text without its quotes; a doubled one inside is one."""
    return token[1:-1].replace("''", "'")
