"""What a call returned, as JSON or as a table. Control characters of foreign texts never reach the terminal."""

from __future__ import annotations

import json
import unicodedata
from datetime import UTC, datetime
from typing import Any

import click

from gantry_cli.texts import _

_WIDEST = 60
_MS_FROM, _MS_TO = 10**12, 10**13
"""Epoch milliseconds between 2001 and 2286; what is outside is shown as it is."""
_TIMES = ("time", "timestamp", "since", "checkpoint")


def show(data: Any, form: str) -> None:
    """Print `data` in the form `json` or `table`."""
    click.echo(json.dumps(data, indent=2, ensure_ascii=False) if form == "json" else table(data))


def table(data: Any) -> str:
    """A list of objects as rows, one object as two columns, a list of texts one a line."""
    if data in (None, {}, []):
        return _("nothing") if data == [] else _("done")
    if isinstance(data, list):
        rows = [row for row in data if isinstance(row, dict)]
        if len(rows) == len(data):
            columns = list(dict.fromkeys(name for row in rows for name in row))
            return _grid([columns, *([cell(name, row.get(name)) for name in columns] for row in rows)], head=True)
        return "\n".join(cell("", value) for value in data)
    if isinstance(data, dict):
        lists = {name: value for name, value in data.items() if _is_table(value)}
        facts = [[name, cell(name, value)] for name, value in data.items() if name not in lists]
        parts = [_grid(facts, head=False)] if facts else []
        parts += [f"{name}:\n{table(value)}" for name, value in lists.items()]
        return "\n\n".join(parts)
    return cell("", data)


def cell(name: str, value: Any) -> str:
    """One value in a table: times in UTC, nested values as JSON."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and _MS_FROM <= value < _MS_TO and name.lower().endswith(_TIMES):
        return datetime.fromtimestamp(value / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return harmless(text)


def harmless(text: str) -> str:
    """The text with everything that could steer a terminal written out."""
    return "".join(c if unicodedata.category(c)[0] != "C" or c == "\u200d" else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode() if ord(character) < 0xD800 or ord(character) > 0xDFFF else "?"


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, dict) for entry in value)


def _grid(rows: list[list[str]], *, head: bool) -> str:
    cut = [[text if len(text) <= _WIDEST or not head else text[: _WIDEST - 1] + "…" for text in row] for row in rows]
    widths = [max(width(row[i]) for row in cut) for i in range(len(cut[0]))]
    lines = ["  ".join(t + " " * (w - width(t)) for t, w in zip(row, widths, strict=True)).rstrip() for row in cut]
    if head:
        lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def width(text: str) -> int:
    """The columns of a terminal that a text takes."""
    wide = sum(1 for c in text if unicodedata.east_asian_width(c) in "WF")
    return len(text) + wide - sum(1 for c in text if unicodedata.combining(c))
