"""Times, ages and bodies of messages in templates."""

from __future__ import annotations

from collections.abc import Iterable

from django import template

from console.instances.models import Instance
from console.messaging import records
from console.messaging.status import release
from console.topics.names import shown_name
from console.web import zone
from console.web.text import visible

register = template.Library()

_STEPS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


@register.filter
def moment(epoch_ms: int | None) -> str:
    """An epoch time in milliseconds as `2026-11-21 09:41:02.123`, in the viewer's zone; a dash for none."""
    if not epoch_ms or not 0 < epoch_ms < zone.END_MS:
        return "–"
    return f"{zone.local(epoch_ms):%Y-%m-%d %H:%M:%S}.{epoch_ms % 1000:03d}"


@register.filter
def minute(epoch_ms: int) -> str:
    """An epoch time in milliseconds to the minute, in the viewer's zone."""
    return f"{zone.local(epoch_ms):%Y-%m-%d %H:%M}"


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
    return records.preview(body)


@register.filter
def shown(text: str) -> str:
    """Text that a client chose, with control and deceptive characters made visible."""
    return visible(str(text))


@register.filter
def shown_together(texts: Iterable[str]) -> str:
    """Several of them with blanks between: filter `join` would escape them, and the page would do so once more."""
    return shown(" ".join(texts))


register.filter("release", release)


@register.simple_tag
def logical(instance: Instance, physical: str) -> str:
    """A topic on the wire as its tenant knows it."""
    return visible(shown_name(instance, physical))
