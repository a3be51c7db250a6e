"""The words of a definition, with their lines, and a reader that says what it expected. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from console.sql import constants
from console.web.errors import Refused

#: A definition has hundreds of columns at the most; reading stops before a longer one costs anything.
LONGEST_DEFINITION = 256 * 1024
_TOKEN = re.compile(
    r"""(?P<blank>\s+|--[^\n]*|/\*.*?\*/)
      | (?P<quoted>`(?:[^`]|``)+`)
      | (?P<text>'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*")
      | (?P<number>-?\d+(?![\w]))
      | (?P<word>\w[\w$]*(?:-\w+)*)
      | (?P<mark>[(),<>:;.=])""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A word, a name in backticks, a text, a number or a mark; `value` is without quotes. The end has kind `end`."""

    kind: str
    value: str
    line: int

    def __str__(self) -> str:
        return "the end of the statement" if self.kind == "end" else f"`{self.value}`"


def refusal(line: int, message: str) -> Refused:
    """A syntax error of a definition, with its line (from 1)."""
    return Refused("SYNTAX_ERROR", f"Line {line}: {message}", "text")


def tokens_of(text: str) -> list[Token]:
    """All tokens of a definition and an end. Raises Refused for a character that begins none."""
    if len(text) > LONGEST_DEFINITION:
        raise refusal(1, f"the definition has {len(text)} characters; {LONGEST_DEFINITION} are allowed.")
    found, position, line = [], 0, 1
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            what = "a text that is not closed" if text[position] in "'\"`" else repr(text[position])
            raise refusal(line, f"{what} cannot stand in a definition.")
        kind = match.lastgroup or ""
        if kind != "blank":
            found.append(Token("name" if kind == "quoted" else kind, _value(kind, match[0]), line))
        line += match[0].count("\n")
        position = match.end()
    return [*found, Token("end", "", line)]


def _value(kind: str, written: str) -> str:
    if kind == "quoted":
        return written[1:-1].replace("``", "`")
    return constants.text_of(written) if kind == "text" else written


class Reader:
    """Takes one token after the other."""

    def __init__(self, text: str) -> None:
        self._tokens = tokens_of(text)
        self._position = 0

    @property
    def next(self) -> Token:
        """The token that is not taken yet."""
        return self._tokens[self._position]

    def take(self) -> Token:
        """Take the next token; the end is never passed."""
        token = self.next
        self._position += token.kind != "end"
        return token

    def accept(self, *words: str) -> bool:
        """Take the words or marks when all of them come next, in this order."""
        coming = self._tokens[self._position : self._position + len(words)]
        fits = len(coming) == len(words) and all(
            t.kind in ("word", "mark") and t.value.lower() == w for t, w in zip(coming, words, strict=True)
        )
        if fits:
            self._position += len(words)
        return fits

    def expect(self, *words: str) -> None:
        """Take the words, or refuse."""
        if not self.accept(*words):
            raise self.unexpected(f"`{' '.join(words)}`")

    def name(self, what: str) -> str:
        """A name, plain or in backticks."""
        if self.next.kind not in ("word", "name"):
            raise self.unexpected(f"the name of a {what}")
        return self.take().value

    def text(self, what: str) -> str:
        """A text in quotes."""
        if self.next.kind != "text":
            raise self.unexpected(f"{what} in quotes")
        return self.take().value

    def value(self, what: str) -> str:
        """A text, number or word, as values of properties are written."""
        if self.next.kind not in ("text", "number", "word"):
            raise self.unexpected(what)
        return self.take().value

    def end(self, allowed: str) -> None:
        """Nothing more may come; `allowed` says what might have."""
        self.accept(";")
        if self.next.kind != "end":
            raise self.unexpected(allowed)

    def unexpected(self, allowed: str) -> Refused:
        """What stands here cannot; `allowed` is what can."""
        return refusal(self.next.line, f"{self.next} is not expected here; allowed is {allowed}.")
