"""Help as click writes it, where letters are two columns wide and stand without spaces between them."""

from __future__ import annotations

import re
from collections.abc import Iterable

import click

from gantry_cli.output import width

_WIDE = "\u2e80-\u9fff\uff00-\uffef"
_UNIT = re.compile(rf"\s+|[“（《]*(?:[{_WIDE}]|[^\s{_WIDE}“”（）《》]+)?[”）》，。：；、！？…]*")
"""What is not torn: a space; one wide letter or a word of others, with the marks around it."""
_COLUMN_MOST, _SPACING, _INDENT, _NARROWEST = 30, 2, 2, 10
"""The columns of definitions, as click has them."""


def is_wide(text: str) -> bool:
    """Whether letters of it are two columns wide."""
    return width(text) > len(text)


def wrapped(text: str, columns: int) -> list[str]:
    """The lines of a paragraph that are no wider than `columns`, unless a word is."""
    lines = [""]
    for unit in filter(None, _UNIT.findall(text)):
        if width(lines[-1] + unit.rstrip()) > columns and lines[-1]:
            lines.append(unit.lstrip())
        else:
            lines[-1] += unit
    return [line.rstrip() for line in lines]


class Formatter(click.HelpFormatter):
    """Breaks wide text between letters; any other text is click's."""

    def write_text(self, text: str) -> None:
        """Paragraphs, indented."""
        if not is_wide(text):
            super().write_text(text)
            return
        indent = " " * self.current_indent
        paragraphs = (wrapped(" ".join(part.split()), self.width - self.current_indent) for part in text.split("\n\n"))
        self.write("\n\n".join("\n".join(indent + line for line in lines) for lines in paragraphs) + "\n")

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = _COLUMN_MOST, col_spacing: int = _SPACING
    ) -> None:
        """Options or commands, and beside them what they are."""
        rows = list(rows)
        if not any(is_wide(text) for row in rows for text in row):
            super().write_dl(rows, col_max, col_spacing)
            return
        column = min(max(width(term) for term, _said in rows), col_max)
        columns = max(self.width - column - col_spacing - _INDENT, _NARROWEST)
        indent, behind = " " * self.current_indent, " " * (self.current_indent + column + col_spacing)
        for term, said in rows:
            lines = wrapped(" ".join(said.split()), columns)
            if width(term) > column:
                self.write(f"{indent}{term}\n{behind}{lines[0]}".rstrip() + "\n")
            else:
                self.write(f"{indent}{term}{' ' * (column + col_spacing - width(term))}{lines[0]}".rstrip() + "\n")
            for line in lines[1:]:
                self.write(f"{behind}{line}\n")


class Context(click.Context):
    """What click makes of a command line, with our help."""

    formatter_class = Formatter


class Command(click.Command):
    """A command whose help may be wide."""

    context_class = Context

    def get_short_help_str(self, limit: int = 45) -> str:
        """The line of a list of commands: the first sentence, as far as it fits."""
        sentence = (self.short_help or self.help or "").partition("。")[0]
        if not is_wide(sentence):
            return super().get_short_help_str(limit)
        lines = wrapped(sentence, limit)
        return lines[0] if len(lines) == 1 else wrapped(sentence, limit - 1)[0] + "…"


class Group(click.Group, Command):
    """A command with commands below it, whose help may be wide."""
