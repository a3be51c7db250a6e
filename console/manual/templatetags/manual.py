"""Where a page of the console is explained: `{% explained_at as url %}`."""

from __future__ import annotations

from django import template

from console.manual import pages

register = template.Library()


@register.simple_tag(takes_context=True)
def explained_at(context: template.Context) -> str:
    """The address of the documentation of the page that is shown; empty where the installation has none."""
    match = getattr(context.get("request"), "resolver_match", None)
    if match is None or not pages.is_there():
        return ""
    return pages.url_of(pages.about(match.url_name or ""))
