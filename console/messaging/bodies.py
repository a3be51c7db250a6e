"""A message body as a person can read it: text, indented JSON or a hex dump. Never trusted, always cut."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Literal

from console.web.text import CONTROLS, visible

Mode = Literal["text", "json", "hex"]
MODES: tuple[Mode, ...] = ("text", "json", "hex")

SHOWN_BYTES = 64 * 1024
"""Body bytes shown as text; more is a download."""
SHOWN_HEX_BYTES = 8 * 1024
JSON_BYTES = 1024 * 1024
"""Larger bodies are not parsed to see whether they are JSON."""

# Invisible characters that change how their neighbours are read (right-to-left overrides and the like).
_JSON_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[{}\[\],:]|[^\s{}\[\],:"]+')


@dataclass(frozen=True)
class BodyView:
    """One way to show a body. `shown` of `size` bytes are in `content`."""

    mode: Mode
    content: str
    size: int
    shown: int
    modes: tuple[Mode, ...]

    @property
    def cut(self) -> bool:
        """True when only the beginning is shown."""
        return self.shown < self.size


def view(body: bytes, mode: str = "") -> BodyView:
    """Show `body` in `mode`, or in the one that suits it: JSON, else text, else hex.

    A mode that does not fit the bytes (text of a picture) falls back to the one that does.
    """
    text = _text(body)
    indented = _indented(text) if text is not None and len(body) <= JSON_BYTES else None
    modes = tuple(m for m in MODES if m == "hex" or (m == "text" and text is not None) or (m == "json" and indented))
    chosen: Mode = next((m for m in modes if m == mode), "json" if indented else modes[0])
    if chosen == "hex":
        return BodyView("hex", hex_dump(body[:SHOWN_HEX_BYTES]), len(body), min(len(body), SHOWN_HEX_BYTES), modes)
    if chosen == "json" and indented is not None:
        whole = len(indented) <= 2 * SHOWN_BYTES
        return BodyView(
            "json", visible(indented[: 2 * SHOWN_BYTES]), len(body), len(body) if whole else SHOWN_BYTES, modes
        )
    start = body[:SHOWN_BYTES].decode("utf-8", "ignore")
    return BodyView("text", visible(start), len(body), min(len(body), SHOWN_BYTES), modes)


def preview(body: bytes, length: int = 120) -> str:
    """The beginning of a body on one line, for lists."""
    text = _text(body[: length * 4], cut=True)
    if text is None:
        return body[: length // 3].hex(" ")
    line = " ".join(visible(text).split())
    return line if len(line) <= length else line[: length - 1] + "…"


def hex_dump(data: bytes) -> str:
    """Lines of 16 bytes: offset, hex digits, ASCII."""
    rows = []
    for start in range(0, len(data), 16):
        row = data[start : start + 16]
        digits = f"{row[:8].hex(' ')}  {row[8:].hex(' ')}"
        readable = "".join(chr(b) if 32 <= b < 127 else "." for b in row)
        rows.append(f"{start:08x}  {digits:<48}  {readable}")
    return "\n".join(rows)


def _text(body: bytes, *, cut: bool = False) -> str | None:
    """The body as UTF-8 text, or None when it is binary. A single NUL is still text, many controls are not."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        if not cut or error.start < len(body) - 3:
            return None
        text = body[: error.start].decode("utf-8")
    controls = sum(ord(c) in CONTROLS for c in text[:SHOWN_BYTES])
    return text if controls * 10 <= min(len(text), SHOWN_BYTES) else None


def _indented(text: str) -> str | None:
    """JSON objects and arrays with line breaks and indents; None for anything else.

    Only white space changes: parsing and printing again would round long numbers and drop repeated keys.
    """
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    parts: list[str] = []
    depth = 0
    previous = ""
    for part in _JSON_TOKEN.findall(text):
        if part in ("}", "]"):
            depth -= 1
            parts.append("" if previous in ("{", "[") else "\n" + "  " * depth)
        elif previous in ("{", "[", ","):
            parts.append("\n" + "  " * depth)
        parts.append(": " if part == ":" else part)
        depth += part in ("{", "[")
        previous = part
    return "".join(parts)
