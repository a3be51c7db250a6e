"""What the templates of all apps share: icons, assets, numbers, sizes, times, form fields, links of pagers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from django import forms, template
from django.conf import settings
from django.core.paginator import Paginator
from django.forms import BoundField
from django.forms.boundfield import BoundWidget
from django.http import HttpRequest
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext_lazy

from console.web import zone
from console.web.bulk import Bar
from console.web.bundles import bundle_url
from console.web.script_texts import texts
from console.web.text import largest_unit

register = template.Library()

_SPRITE = "vendor/tabler-icons-3.51.0/sprite.svg"
_DASH = "–"
_SCALES = ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k"))
_AGES = (
    (86_400, ngettext_lazy("%(number)s day ago", "%(number)s days ago", "number")),
    (3600, ngettext_lazy("%(number)s hour ago", "%(number)s hours ago", "number")),
    (60, ngettext_lazy("%(number)s minute ago", "%(number)s minutes ago", "number")),
)
#: Units of a span in seconds, each with the one below it.
_SPANS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


@lru_cache
def _icon_names() -> frozenset[str]:
    return frozenset(re.findall(r'<symbol id="([^"]+)"', _static_file(_SPRITE).read_text()))


def _static_file(path: str) -> Path:
    file = Path(settings.STATIC_ROOT) / path
    if not file.is_file():
        raise template.TemplateSyntaxError(f"there is no static file {path}")
    return file


@lru_cache
def _version(path: str, _changed: int) -> str:
    return hashlib.sha256(_static_file(path).read_bytes()).hexdigest()[:8]


@register.simple_tag
def asset(path: str) -> str:
    """URL of a static file. Our own carry their digest, so that a browser's cache never serves an old one."""
    if path.startswith("vendor/"):
        return static(path)
    return f"{static(path)}?v={_version(path, _static_file(path).stat().st_mtime_ns)}"


@register.simple_tag
def script_texts() -> dict[str, str]:
    """What scripts say, where the page is not in English."""
    return texts()


@register.simple_tag
def bundle(name: str) -> str:
    """URL of files that every page needs, in one (`console.web.bundles`)."""
    return bundle_url(name)


@register.simple_tag
def icon(name: str, css: str = "") -> SafeString:
    """A Tabler icon of the sprite, hidden from screen readers: the text beside it says the same."""
    return _icon(name, css)


@lru_cache(maxsize=1024, typed=True)
def _icon(name: str, css: str) -> SafeString:
    """Kept, since a page has fifty; with the type, since what is safe and what is not may be equal."""
    if name not in _icon_names():
        raise template.TemplateSyntaxError(f"there is no icon {name} in {_SPRITE}")
    return format_html(
        '<svg class="icon {}" aria-hidden="true" focusable="false"><use href="{}#{}"></use></svg>',
        css,
        static(_SPRITE),
        name,
    )


@register.simple_tag
def number(value: float | int | None, unit: str = "") -> SafeString:
    """A number for people, with the exact value on hover: 1,234 · 12.3 k · 4.56 M; a dash for None."""
    if value is None:
        return format_html('<span class="num text-secondary">{}</span>', _DASH)
    exact = f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value:,}"
    suffix = f" {unit}" if unit else ""
    return format_html('<span class="num" title="{}{}">{}{}</span>', exact, suffix, _short(value), suffix)


def _short(value: float | int) -> str:
    for size, letter in _SCALES:
        if abs(value) >= size:
            divisor = 1000 if letter == "k" else size
            return f"{value / divisor:,.1f} {letter}"
    if isinstance(value, int) or value.is_integer() or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:,.2f}" if abs(value) < 10 else f"{value:,.1f}"


@register.simple_tag
def duration(ms: int | None) -> SafeString:
    """A time span for people: 267 ms · 3.8 s · 2 min 5 s · 3 h 20 min · 4 d 7 h, with the exact milliseconds on hover.

    A dash for None.
    """
    if ms is None or ms < 1000:
        return number(ms, "ms")
    seconds = ms // 1000
    shown = f"{seconds} s" if ms % 1000 == 0 else f"{ms / 1000:.1f} s"
    for (size, unit), (part, rest) in pairwise(_SPANS):
        if seconds >= size:
            shown = f"{seconds // size:,} {unit} {seconds % size // part} {rest}"
            break
    return format_html('<span class="num" title="{} ms">{}</span>', f"{ms:,}", shown)


@register.filter
def exact(value: int) -> str:
    """A number of something that is looked up by it, to its last digit: 1,234,567."""
    return f"{value:,}"


@register.filter
def short(value: int) -> str:
    """A number for people where no element can stand, as in a drawing; whoever shows it tells the exact one beside."""
    return _short(value)


@register.simple_tag(name="bytes")
def byte_size(value: int | None) -> SafeString:
    """A size such as 1.4 KiB, with the exact number of bytes on hover; a dash for None."""
    if value is None:
        return format_html('<span class="num text-secondary">{}</span>', _DASH)
    unit, size = largest_unit(value)
    if size == 1:
        return format_html('<span class="num">{} B</span>', value)
    return format_html('<span class="num" title="{} bytes">{} {}</span>', f"{value:,}", f"{value / size:.1f}", unit)


def _moment(value: datetime | int | float | None) -> datetime | None:
    """A datetime, or epoch milliseconds, in UTC; None for no or no sensible time."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if value is None or not 0 < value < zone.END_MS:
        return None
    return datetime.fromtimestamp(value / 1000, UTC)


@register.simple_tag
def time(value: datetime | int | float | None, precision: str = "seconds") -> SafeString:
    """A time in the viewer's zone, with UTC on hover. `precision`: seconds, milliseconds or date.

    app.js renders it again in the browser's zone, for the first page that a browser asks for.
    """
    moment = _moment(value)
    if moment is None:
        return format_html('<span class="text-secondary">{}</span>', _DASH)
    iso = moment.isoformat(timespec="milliseconds")
    shown = f"{timezone.localtime(moment):%Y-%m-%d}" if precision == "date" else _local_text(moment, precision)
    hover = moment.replace(tzinfo=None).isoformat(" ", "seconds" if precision == "date" else precision)
    return format_html(
        '<time datetime="{}" data-time="{}" title="{} UTC · shown in {}">{}</time>',
        iso,
        precision,
        hover,
        zone.current_name(),
        shown,
    )


def _local_text(moment: datetime, precision: str) -> str:
    return timezone.localtime(moment).replace(tzinfo=None).isoformat(" ", precision)


@register.simple_tag
def ago(value: datetime | int | float | None) -> SafeString:
    """How long ago, kept up to date by app.js, with the exact time on hover."""
    moment = _moment(value)
    if moment is None:
        return format_html('<span class="text-secondary">{}</span>', _DASH)
    iso = moment.isoformat(timespec="milliseconds")
    title = f"{_local_text(moment, 'seconds')} {zone.current_name()}"
    return format_html('<time datetime="{}" data-ago title="{}">{}</time>', iso, title, _age(moment))


@register.simple_tag(name="zone")
def zone_name() -> str:
    """The name of the viewer's zone, to be shown once beside times."""
    return zone.current_name()


def _age(moment: datetime) -> str:
    seconds = int((timezone.now() - moment).total_seconds())
    for size, words in _AGES:
        if seconds >= size:
            return words % {"number": seconds // size}
    return _("just now") if seconds < 10 else _("%(seconds)s seconds ago") % {"seconds": seconds}


@register.filter
def is_checkbox(field: BoundField) -> bool:
    """True for one box to tick."""
    return isinstance(field.field.widget, forms.CheckboxInput)


@register.filter
def is_choice_group(field: BoundField) -> bool:
    """True for radio buttons and several boxes to tick."""
    return isinstance(field.field.widget, forms.RadioSelect | forms.CheckboxSelectMultiple)


@register.filter
def styled(field: BoundField) -> SafeString:
    """The field's widget with Tabler's classes, tied to its help text and errors for screen readers."""
    widget = field.field.widget
    css = "form-control"
    if isinstance(widget, forms.Select):
        css = "form-select"
    elif is_checkbox(field):
        css = "form-check-input"
    attrs: dict[str, str | bool] = {
        "class": f"{css} {widget.attrs.get('class', '')}{' is-invalid' if field.errors else ''}".strip()
    }
    described = [f"{field.auto_id}_helptext"] if field.help_text else []
    if field.errors:
        described.append(f"{field.auto_id}_error")
    if described:
        attrs["aria-describedby"] = " ".join(described)
    return field.as_widget(attrs=attrs)


@register.filter
def choice_tag(choice: BoundWidget) -> SafeString:
    """One radio button or box of a group, with Tabler's class."""
    choice.data["attrs"]["class"] = "form-check-input"
    return choice.tag()


@register.filter
def picked_by(record: Any, bar: Bar) -> str:
    """The key by which a row of a list is chosen (`console.web.bulk`); empty for one that cannot be."""
    return bar.keys.get(getattr(record, "pk", None), "")


@register.filter
def pages_around(paginator: Paginator[Any], number: int) -> Iterator[int | None]:
    """The page numbers of a pager: both ends and two around `number`; None for what is left out."""
    for page in paginator.get_elided_page_range(number, on_each_side=2, on_ends=1):
        yield page if isinstance(page, int) else None


@register.simple_tag(takes_context=True)
def page_link(context: template.Context, parameter: str, value: Any) -> str:
    """This page's query string with one parameter changed."""
    request: HttpRequest = context["request"]
    query = request.GET.copy()
    query[parameter] = str(value)
    return f"?{query.urlencode()}"
