"""Splits a statement into tokens as Spark's lexer does, in one pass and in linear time, before any parser sees it."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from analytics.errors import QueryRefused

#: A quote that is never closed matches as a sign and ends the walk, so no text is looked at twice.
_TOKEN = re.compile(
    r"""
    (?P<space>\s++)
  | (?P<line>--(?:\\\n|[^\r\n])*+)
  | (?P<comment>/\*(?!\+))
  | (?P<text>[rR]'[^']*+' | [rR]"[^"]*+" | '(?:[^'\\]|\\.)*+' | "(?:[^"\\]|\\.)*+")
  | (?P<quoted>`[^`]*+`)
  | (?P<number>(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?(?:BD|[LSYDFlsydf])?+(?![\w]))
  | (?P<word>\w++)
  | (?P<dollar>\$[A-Za-z]*+\$)
  | (?P<sign>\|> | \|\| | :: | <=> | >>> | [<>!=]=? | << | -> | => | .)
    """,
    re.VERBOSE | re.DOTALL,
)
#: Comments in comments; each level is one of Spark's lexer.
_MOST_COMMENTS = 8
_COMMENT_EDGE = re.compile(r"/\*(?!\+)|\*/")


@dataclass(frozen=True, slots=True)
class Token:
    """A token: `kind` is text, quoted (a name in backticks), number, word or sign; words are in upper case."""

    kind: str
    text: str
    start: int


def tokens(sql: str) -> Iterator[Token]:
    """The tokens in order, without blanks and comments. Raises QueryRefused for what cannot be split."""
    position, end = 0, len(sql)
    while position < end:
        found = _TOKEN.match(sql, position)
        if found is None or found.lastgroup is None:
            raise QueryRefused(f"The statement cannot be read near character {position + 1}.")
        kind, text = found.lastgroup, found.group()
        start, position = position, found.end()
        match kind:
            case "comment":
                position = _end_of_comment(sql, start)
            case "dollar":
                raise QueryRefused(f"Texts between {text} and {text} are not allowed; write '…'.")
            case "word":
                yield Token(kind, text.upper(), start)
            case "sign":
                _require_readable(text, start)
                yield Token(kind, text, start)
            case "text" | "quoted" | "number":
                yield Token(kind, text, start)


def _end_of_comment(sql: str, start: int) -> int:
    """Where a comment ends; comments stand in each other."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(sql, start):
        depth += 1 if edge.group() != "*/" else -1
        if depth == 0:
            return edge.end()
        if depth > _MOST_COMMENTS:
            raise QueryRefused(f"Comments are nested more than {_MOST_COMMENTS} levels deep, the most that is allowed.")
    raise QueryRefused(f"The comment at character {start + 1} is not closed: end it with */.")


def _require_readable(sign: str, start: int) -> None:
    if sign in {"'", '"', "`"}:
        raise QueryRefused(f"The quote {sign} at character {start + 1} is not closed.")
    if unicodedata.category(sign[0]) in {"Cc", "Cf", "Cn", "Co", "Cs"}:
        raise QueryRefused(
            f"There is an invisible character (U+{ord(sign[0]):04X}) at character {start + 1}, outside of quotes;"
            " remove it."
        )
