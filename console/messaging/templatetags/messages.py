"""Times, ages and bodies of messages in templates."""

from __future__ import annotations

from datetime import UTC, datetime

from django import template

from console.messaging import bodies

register = template.Library()

_STEPS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


@register.filter
def moment(epoch_ms: int | None) -> str:
    """An epoch time in milliseconds as `2026-11-21 09:41:02.123`, UTC; a dash for none."""
    if not epoch_ms or not 0 < epoch_ms < 253_402_300_800_000:
        return "–"
    return f"{datetime.fromtimestamp(epoch_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}.{epoch_ms % 1000:03d}"


@register.filter
def duration(milliseconds: int | None) -> str:
    """Milliseconds as `1 h 5 min`: the two largest units."""
    if milliseconds is None:
        return "–"
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    parts = []
    for size, name in _STEPS:
        if milliseconds >= size:
            parts.append(f"{milliseconds // size} {name}")
            milliseconds %= size
        elif parts:
            break
    return " ".join(parts[:2])


@register.filter
def preview(body: bytes) -> str:
    """The beginning of a body on one line."""
    return bodies.preview(body)


@register.filter
def shown(text: str) -> str:
    """Text that a client chose, with control and deceptive characters made visible."""
    return bodies.visible(str(text))
