"""JSON with its parts marked, for `static/css/api-tool.css`."""

from __future__ import annotations

import re

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

_PARTS = re.compile(
    r'(?P<key>"(?:\\.|[^"\\])*")(?=\s*:)|(?P<text>"(?:\\.|[^"\\])*")|(?P<number>-?\d[\d.eE+-]*)|(?P<word>true|false|null)'
)


def highlighted(text: str) -> SafeString:
    """The text, escaped, with a <span> of class json-key, json-text, json-number or json-word around each part."""
    pieces: list[tuple[str | SafeString]] = []
    position = 0
    for part in _PARTS.finditer(text):
        pieces.append((text[position : part.start()],))
        pieces.append((format_html('<span class="json-{}">{}</span>', part.lastgroup, part.group()),))
        position = part.end()
    pieces.append((text[position:],))
    return format_html_join("", "{}", pieces)
