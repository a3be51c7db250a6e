"""The words of a job's text, and how it is refused: one sentence with line and column. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from console.statements import lexer
from console.statements.lexer import Token
from console.web.errors import Refused

#: Nobody writes more; reading stops before a longer one costs anything.
LONGEST_TEXT = 256 * 1024
LONGEST_NAME = 255
LONGEST_SENTENCE = 2000
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


class TextRefused(Refused):
    """A job's text is wrong at a place: `line` and `column` from 1, `sentence` without them, `message` with them."""

    def __init__(self, line: int, column: int, sentence: str, symbol: str = "JOB_TEXT_INVALID") -> None:
        if len(sentence) > LONGEST_SENTENCE:  # it names what is written
            sentence = f"{sentence[:LONGEST_SENTENCE]}…"
        super().__init__(symbol, f"Line {line}, column {column}: {sentence}", "text")
        self.line = line
        self.column = column
        self.sentence = sentence


class Text:
    """What a user wrote, which knows the place of each character."""

    def __init__(self, written: str) -> None:
        self.written = written

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column, from 1, of the character behind `offset` others."""
        before = self.written[:offset]
        return before.count("\n") + 1, offset - before.rfind("\n")

    def refusal(self, at: int | Token, sentence: str) -> TextRefused:
        """A refusal of what stands at an offset or a token."""
        return TextRefused(*self.place(at if isinstance(at, int) else at.start), sentence)


def tokens_of(text: Text) -> list[Token]:
    """All parts and the end. Raises TextRefused when there are too many, or one is not closed."""
    if len(text.written) > LONGEST_TEXT:
        raise text.refusal(0, f"the text has {len(text.written)} characters; {LONGEST_TEXT} are allowed.")
    found = list(lexer.tokens(text.written, job=True))
    if found[-1].kind == "open":
        what = {"'": "text in quotes", "`": "name in back quotes"}.get(found[-1].written, "comment")
        raise text.refusal(found[-1], f"this {what} is not closed.")
    return found


def near(name: str, known: Iterable[str]) -> str:
    """` Did you mean …?` when one of the known names is like this one, else nothing."""
    by_small = {one.lower(): one for one in known}
    close = get_close_matches(name.lower(), by_small, n=1, cutoff=0.6)
    return f" Did you mean {by_small[close[0]]}?" if close else ""


class Reader(lexer.Reader):
    """Goes over the parts of one statement, and refuses what it does not expect."""

    def __init__(self, text: Text, tokens: Sequence[Token]) -> None:
        super().__init__(tokens)
        self.text = text

    def expect(self, *words: str) -> Token:
        """Go over the words, or refuse; returns the first of them."""
        first = self.next
        if not self.accept(*words):
            raise self.unexpected(f"`{' '.join(words).upper()}`")
        return first

    def name(self, what: str) -> Token:
        """A name, plain or in back quotes."""
        if self.next.kind not in ("word", "name") or not self.next.value:
            raise self.unexpected(f"the name of a {what}")
        if len(self.next.value) > LONGEST_NAME or _CONTROL.search(self.next.value):
            raise self.refusal(
                self.next, f"the name of a {what} has at most {LONGEST_NAME} characters, and no control characters."
            )
        return self.advance()

    def column_names(self) -> list[Token]:
        """`(a, b, …)`."""
        self.expect("(")
        names = [self.name("column")]
        while self.accept(","):
            names.append(self.name("column"))
        self.expect(")")
        return names

    def quoted(self, what: str) -> Token:
        """A text in quotes."""
        if self.next.kind != "text":
            raise self.unexpected(f"{what} in single quotes")
        return self.advance()

    def whole_number(self, what: str) -> int:
        """A number without sign and fraction."""
        if self.next.kind != "number" or not self.next.value.isdecimal():
            raise self.unexpected(what)
        return int(self.advance().value)

    def end(self, allowed: str) -> None:
        """Nothing more may come; `allowed` says what might have."""
        if self.next.kind != "end":
            raise self.unexpected(allowed)

    def unexpected(self, allowed: str) -> TextRefused:
        """What stands here cannot; `allowed` is what can."""
        return self.text.refusal(self.next, f"{self.next} is not expected here; expected is {allowed}.")

    def refusal(self, at: Token, sentence: str) -> TextRefused:
        """A refusal of a part."""
        return self.text.refusal(at, sentence)
