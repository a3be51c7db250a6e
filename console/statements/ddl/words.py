"""The words of a definition, with their lines, and a reader that says what it expected. Pure."""

from __future__ import annotations

from django.utils.translation import gettext as _

from console.statements import lexer
from console.statements.lexer import Token
from console.web.errors import Refused

#: A definition has hundreds of columns at the most; reading stops before a longer one costs anything.
LONGEST_DEFINITION = 256 * 1024
_SIGNS = frozenset("(),<>:;.=")


def refusal(line: int, message: str) -> Refused:
    """A syntax error of a definition, with its line (from 1)."""
    return Refused("SYNTAX_ERROR", _("Line %(line)s: %(message)s") % {"line": line, "message": message}, "text")


def tokens_of(text: str) -> list[Token]:
    """All parts of a definition and its end. Raises Refused for a character that begins none."""
    if len(text) > LONGEST_DEFINITION:
        raise refusal(
            1,
            _("the definition has %(text)s characters; %(longest_definition)s are allowed.")
            % {"text": len(text), "longest_definition": LONGEST_DEFINITION},
        )
    found = []
    for token in lexer.tokens(text):
        if token.kind == "open" or (token.kind == "sign" and token.value not in _SIGNS):
            what = _("a text that is not closed") if token.value in ("'", '"', "`") else repr(token.value[0])
            raise refusal(token.line, _("%(what)s is not allowed in a definition.") % {"what": what})
        found.append(token)
    return found


class Reader(lexer.Reader):
    """Goes over the parts of a definition, all of which can stand in one."""

    def __init__(self, text: str) -> None:
        super().__init__(tokens_of(text))

    def expect(self, *words: str) -> None:
        """Go over the words, or refuse."""
        if not self.accept(*words):
            raise self.unexpected(f"`{' '.join(words)}`")

    def name(self, what: str) -> str:
        """A name, plain or in backticks."""
        if self.next.kind not in ("word", "name"):
            raise self.unexpected(_("the name of a %(what)s") % {"what": what})
        return self.advance().value

    def text(self, what: str) -> str:
        """A text in quotes."""
        if self.next.kind != "text":
            raise self.unexpected(_("%(what)s in quotes") % {"what": what})
        return self.advance().value

    def value(self, what: str) -> str:
        """A text, number or word, as values of properties are written."""
        if self.next.kind not in ("text", "number", "word"):
            raise self.unexpected(what)
        return self.advance().value

    def end(self, allowed: str) -> None:
        """Nothing more may come; `allowed` says what might have."""
        self.accept(";")
        if self.next.kind != "end":
            raise self.unexpected(allowed)

    def unexpected(self, allowed: str) -> Refused:
        """What stands here cannot; `allowed` is what can."""
        return refusal(
            self.next.line,
            _("%(next)s is not expected here; allowed is %(allowed)s.") % {"next": self.next, "allowed": allowed},
        )
