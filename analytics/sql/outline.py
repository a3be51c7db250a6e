"""Looks at the text of a statement before any parser does: size and nesting, so parser bombs are cheap to refuse."""

import re
from collections.abc import Iterator

from analytics.errors import QueryRefused

#: Spark's parser needs about a second for a statement of this size; people write a hundredth of it.
MAX_BYTES = 256 * 1024
#: Nested parentheses, brackets and CASEs: at a few thousand the parser is busy for seconds and then out of stack.
MAX_DEPTH = 64

_TOKEN = re.compile(
    r"""
    (?:--[^\n]* | /\*(?!\+).*?\*/)                                                             # comment
  | (?P<text>'(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `(?:[^`]|``)*`)
  | (?P<word>[^\W\d]\w*)
  | (?P<bracket>[()\[\]])
    """,
    re.VERBOSE | re.DOTALL,
)
_STEPS = {"(": 1, "[": 1, "CASE": 1, ")": -1, "]": -1, "END": -1}


def check(sql: str) -> str:
    """Return the first word of the statement in upper case, such as SELECT.

    Raises QueryRefused for a statement that is empty, too large or too deeply nested.
    """
    size = len(sql.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise QueryRefused(f"The statement has {size:,} bytes; at most {MAX_BYTES:,} are allowed.")
    first, depth = "", 0
    for token in _tokens(sql):
        first = first or (token if token.isidentifier() else "")
        depth = max(0, depth + _STEPS.get(token, 0))
        if depth > MAX_DEPTH:
            raise QueryRefused(f"The statement is nested more than {MAX_DEPTH} levels deep, the most that is allowed.")
    if not first:
        raise QueryRefused("There is no statement.")
    return first


def _tokens(sql: str) -> Iterator[str]:
    """Words in upper case and brackets; the rest does not matter for nesting."""
    for found in _TOKEN.finditer(sql):
        if found.lastgroup in {"word", "bracket"}:
            yield found.group().upper()
