"""Small lines without axes: `{% spark values "green" %}`."""

from __future__ import annotations

from collections.abc import Sequence

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from console.web.lines import area, line

register = template.Library()

_WIDTH, _HEIGHT = 60, 20


@register.simple_tag
def spark(values: Sequence[float | None], colour: str = "secondary") -> SafeString:
    """A line over the values from 0 to the largest, in a colour of `spark-…`; an empty place where none is known.

    It only accompanies a number beside it: screen readers pass over it.
    """
    known = [value for value in values if value is not None]
    if not known:
        return format_html('<span class="spark" aria-hidden="{}"></span>', "true")
    top = max(known) or 1
    return format_html(
        '<svg class="spark spark-{}" viewBox="0 0 {} {}" preserveAspectRatio="none" aria-hidden="true">'
        '<path class="spark-area" d="{}"/><path class="spark-line" d="{}"/></svg>',
        colour, _WIDTH, _HEIGHT,
        area(values, top, _WIDTH, _HEIGHT), line(values, top, _WIDTH, _HEIGHT),
    )  # fmt: skip
