"""Pages of documentation: Markdown files of the folder `docs`, as HTML that the console's own frame holds."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from django.conf import settings
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

INDEX = "README"
_ALIGNED = {"text-align:right": "num-cell", "text-align:center": "text-center", "text-align:left": ""}
_NO_SLUG = re.compile(r"[^\w\- ]")


@dataclass(frozen=True)
class Heading:
    """A heading of the second level: its text, and the fragment that leads there."""

    text: str
    slug: str


@dataclass(frozen=True)
class Page:
    """A page: what it is called, its HTML without the first heading, and what is on it."""

    name: str
    title: str
    html: SafeString
    headings: list[Heading]


def folder() -> Path:
    """Where the documentation lies; an installation may have none."""
    return Path(settings.BASE_DIR) / "docs"


@lru_cache(maxsize=1)
def names() -> frozenset[str]:
    """All pages, such as `use/messages`; the files are those of the release."""
    found = folder()
    return frozenset(str(path.relative_to(found).with_suffix("")) for path in found.rglob("*.md"))


def page(name: str) -> Page | None:
    """A page by its name; None where there is no such page."""
    if name not in names():
        return None
    file = folder() / f"{name}.md"
    return _rendered(name, file.stat().st_mtime_ns)


@lru_cache(maxsize=128)
def _rendered(name: str, _changed: int) -> Page:
    text = (folder() / f"{name}.md").read_text(encoding="utf-8")
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    markdown.add_render_rule("table_open", lambda *_: '<div class="table-scroll" tabindex="0"><table class="table">\n')
    markdown.add_render_rule("table_close", lambda *_: "</table></div>\n")
    tokens = markdown.parse(text)
    title, tokens = _without_title(tokens)
    headings = [found for found in _with_slugs(tokens) if found is not None]
    for token in tokens:
        _align(token)
        for child in token.children or ():
            _link(child, name)
    # Markdown of the release itself, rendered without raw HTML.
    html = mark_safe(markdown.renderer.render(tokens, markdown.options, {}))  # noqa: S308  # nosec B308 B703
    return Page(name, title, html, headings)


def _without_title(tokens: Sequence[Token]) -> tuple[str, list[Token]]:
    """The first heading's text, which the frame shows, and the rest."""
    if len(tokens) > 2 and tokens[0].type == "heading_open" and tokens[0].tag == "h1":
        return _text(tokens[1]), list(tokens[3:])
    return "Documentation", list(tokens)


def _with_slugs(tokens: Sequence[Token]) -> Iterable[Heading | None]:
    """Give headings their fragments, as GitHub does it; those of the second level are told."""
    for place, token in enumerate(tokens):
        if token.type != "heading_open":
            continue
        text = _text(tokens[place + 1])
        slug = _NO_SLUG.sub("", text.lower()).replace(" ", "-")
        token.attrSet("id", slug)
        yield Heading(text, slug) if token.tag == "h2" else None


def _text(token: Token) -> str:
    return "".join(child.content for child in token.children or () if child.type in {"text", "code_inline"})


def _align(token: Token) -> None:
    """Columns by class: the pages forbid styles in attributes."""
    style = token.attrs.pop("style", None)
    if style is not None and (name := _ALIGNED.get(str(style), "")):
        token.attrSet("class", name)


def _link(token: Token, name: str) -> None:
    """Let a link lead to the console's page of what it names; what is no page is text."""
    if token.type == "image":
        token.type, token.tag, token.attrs, token.children = "text", "", {}, None
        token.content = ""
    if token.type != "link_open":
        return
    address = str(token.attrs.get("href", ""))
    if address.startswith(("https://", "http://", "#")):
        return
    target, _, fragment = address.partition("#")
    wanted = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
    found = wanted.removesuffix(".md")
    if wanted.endswith(".md") and found in names():
        token.attrSet("href", url_of(found) + (f"#{fragment}" if fragment else ""))
    else:
        token.attrs.pop("href", None)


def url_of(name: str) -> str:
    """The address of a page."""
    return reverse("manual.index") if name == INDEX else reverse("manual.page", args=[name])


_ABOUT: dict[str, str] = {
    "instances.overview": "use/metrics", "instances.client": "use/tenancy", "instances.": "use/tenancy",
    "topics.": "use/tenancy", "grants.": "use/tenancy", "groups.": "use/tenancy", "metrics.": "use/metrics",
    "messaging.": "use/messages", "queues.": "use/queues", "alarms.": "use/alarms", "sql.": "use/sql",
    "catalog.": "use/sql", "jobs.": "use/jobs", "tracking.": "use/tracking", "inflow.": "use/inflow",
    "archive.": "use/messages-in-sql", "accounts.policies": "use/permissions", "accounts.policy": "use/permissions",
    "accounts.simulator": "use/permissions", "accounts.": "use/sign-in", "audit.": "use/audit",
    "openapi.": "use/api-tool", "drift.": "operate/drift", "adoption.": "operate/adoption",
    "platform.cluster": "operate/cluster", "platform.settings": "operate/settings", "platform.audit": "use/audit",
    "platform.": "use/tenancy",
}  # fmt: skip
"""What pages of the console are explained by, by how the names of their URLs begin; the longest counts."""


def about(url_name: str) -> str:
    """The page that explains a page of the console; the index where none does."""
    fitting = [start for start in _ABOUT if url_name.startswith(start)]
    found = _ABOUT[max(fitting, key=len)] if fitting else INDEX
    return found if found in names() else INDEX


def is_there() -> bool:
    """Whether this installation has the documentation."""
    return INDEX in names()
