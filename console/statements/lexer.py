"""What SQL text is made of, for every grammar here: texts in quotes, names, comments, words, numbers and signs. Pure.

Grammars that are patterns (`show`, `select`, the MySQL endpoint's `set`) are put together from the parts below; those
that go word by word (`write`, `ddl`) are `Reader`s. Every part is possessive and what is never closed reaches to the
end, so that no text is gone over twice.

The oddities: a quote is written into a text doubled or behind a backslash; texts stand in `'` or `"`, names in
backticks, where a backslash is nothing special. `--` begins a comment whatever follows, as for Spark, which runs the
statement; in front of a statement it is MySQL's, which wants a blank behind it (`hint`), and knows `#` too. A name may
begin with a digit, and hold hyphens without being quoted.

The texts of jobs are of another house (`tokens(…, job=True)`): texts stand in `'` alone and a backslash is an ordinary
character in them, `"` is a sign, and a hyphen parts two words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from django.utils.translation import gettext as _

#: A text in quotes, closed.
TEXT = (
    r"(?:'[^'\\]*+(?:(?:''|\\(?s:.))[^'\\]*+)*+'"
    r'|"[^"\\]*+(?:(?:""|\\(?s:.))[^"\\]*+)*+")'
)
#: A text in quotes that may reach to the end instead.
OPEN_TEXT = (
    r"(?:'[^'\\]*+(?:(?:''|\\(?s:.)?)[^'\\]*+)*+(?:'|\Z)"
    r'|"[^"\\]*+(?:(?:""|\\(?s:.)?)[^"\\]*+)*+(?:"|\Z))'
)
#: A name in backticks, closed or not; a doubled backtick in it parts it in two.
OPEN_NAME = r"`[^`]*+(?:`|\Z)"
_QUOTED_NAME = r"`(?:[^`]++|``)++`"
#: A name as it is written, with backticks or without.
NAME = rf"(?:{_QUOTED_NAME}|[\w$-]+)"
LINE_COMMENT = r"--[^\n]*+"
OPEN_COMMENT = r"/\*(?s:.*?)(?:\*/|\Z)"
_COMMENT = r"/\*(?s:.*?)\*/"

_JOB_TEXT = r"(?:'(?:[^']++|'')*+')"
_WORD, _JOB_WORD = r"\w[\w$]*+(?:-[\w$]++)*+", r"\w[\w$]*+"

_PARTS = rf"""(?:\s++|{LINE_COMMENT}|{_COMMENT})*+
      (?:(?P<name>{_QUOTED_NAME})
       | (?P<text>TEXT)
       | (?P<number>NUMBER)
       | (?P<word>WORD)
       | (?P<open>OPEN|/\*)
       | (?P<sign>(?s:.))
       | (?P<end>\Z))"""
_INTEGER = r"[+-]?\d++(?!\w)"
_DECIMAL = rf"[+-]?\d++\.\d++(?!\w)|{_INTEGER}"
_UNSIGNED = r"\d++(?:\.\d++)?(?:[eE][+-]?\d++)?(?!\w)"


def _compiled(number: str, text: str = TEXT, word: str = _WORD, opening: str = "['\"`]") -> re.Pattern[str]:
    parts = _PARTS.replace("NUMBER", number).replace("TEXT", text).replace("WORD", word).replace("OPEN", opening)
    return re.compile(parts, re.VERBOSE)


_TOKENS, _TOKENS_WITH_DECIMALS = _compiled(_INTEGER), _compiled(_DECIMAL)
_TOKENS_OF_JOBS = _compiled(_UNSIGNED, _JOB_TEXT, _JOB_WORD, "['`]")
#: Behind these comes nothing more.
_LAST = ("end", "open")
_QUOTED = ("text", "name")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


class Token(NamedTuple):
    """A part of a statement: `kind` is name (in backticks), text, number, word, sign, open (never closed) or end."""

    kind: str
    #: Without quotes.
    value: str
    #: As it is written.
    written: str
    #: Line, from 1, and characters in front of it.
    line: int
    start: int
    #: What a grammar compares: a word in small letters or a sign; empty for all else.
    key: str = ""

    def __str__(self) -> str:
        """As messages name it."""
        return _("the end of the statement") if self.kind == "end" else f"`{self.value}`"


def tokens(text: str, end: int | None = None, *, decimals: bool = False, job: bool = False) -> Iterator[Token]:
    """The parts of a text, comments left out; `end` is the last one, and behind what is never closed there is none.

    Of a longer text only the first `end` characters are looked at. With `decimals`, `1.5` is one number, else three
    parts. A `job` is read as such texts are: no sign belongs to a number.
    """
    pattern = _TOKENS_OF_JOBS if job else _TOKENS_WITH_DECIMALS if decimals else _TOKENS
    position, before, line = 0, 0, 1
    end = len(text) if end is None else min(end, len(text))
    while match := pattern.match(text, position, end):
        kind = match.lastgroup or ""
        start, position = match.span(kind)
        written = text[start:position]
        line += text.count("\n", before, start)
        before = start
        if kind == "word":
            yield Token(kind, written, written, line, start, written.lower())
        elif kind == "sign":
            yield Token(kind, written, written, line, start, written)
        else:
            value = written if kind not in _QUOTED else _value_in_job(written) if job else value_of(written)
            yield Token(kind, value, written, line, start)
            if kind in _LAST:
                return


def value_of(written: str) -> str:
    """What a text in quotes or a name stands for: doubled quotes, and backslash escapes of a text, are resolved."""
    quote = written[0]
    if quote not in "'\"`":
        return written
    body = written[1:-1].replace(quote * 2, quote)
    return body if quote == "`" or "\\" not in body else _ESCAPED.sub(lambda m: _ESCAPES.get(m[1], m[1]), body)


def quoted(name: str) -> str:
    """A name in backticks, as it may stand in any statement."""
    return "`" + name.replace("`", "``") + "`"


def _value_in_job(written: str) -> str:
    return written[1:-1].replace(written[0] * 2, written[0])


class Reader:
    """Goes over the parts of a statement. A grammar adds what it expects, and how it refuses what comes instead."""

    def __init__(self, parts: Iterable[Token]) -> None:
        self._parts = iter(parts)
        self._coming = [next(self._parts)]

    @property
    def next(self) -> Token:
        """The part that comes next; it stays where it is."""
        return self._coming[0]

    def ahead(self, count: int) -> Token:
        """The part `count` behind the next one, or the last of all."""
        while len(self._coming) <= count and self._coming[-1].kind not in _LAST:
            self._coming.append(next(self._parts))
        return self._coming[min(count, len(self._coming) - 1)]

    def advance(self) -> Token:
        """Go over the next part, which is returned; the end is never passed."""
        token = self._coming[0]
        if token.kind not in _LAST:
            if len(self._coming) == 1:
                self._coming[0] = next(self._parts)
            else:
                del self._coming[0]
        return token

    def accept(self, *words: str) -> bool:
        """Go over the words or signs when all of them come next, in this order."""
        if self._coming[0].key != words[0]:
            return False
        if len(words) > 1 and any(self.ahead(number).key != word for number, word in enumerate(words)):
            return False
        for _unused in words:
            self.advance()
        return True
