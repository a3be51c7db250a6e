"""What pages of every kind of pipeline show: log, versions and what differs between them, ranges of curves."""

from __future__ import annotations

from typing import Any

from django.http import Http404

from console.pipelines import journal, queries
from console.pipelines.changes import changes
from console.pipelines.models import Pipeline, Version
from console.web import htmx
from console.web.htmx import HtmxRequest
from console.web.languages import gettext_lazy

RANGES = {
    "15m": (gettext_lazy("Last 15 minutes"), 900),
    "1h": (gettext_lazy("Last hour"), 3600),
    "6h": (gettext_lazy("Last 6 hours"), 6 * 3600),
    "1d": (gettext_lazy("Last day"), 24 * 3600),
}
MOST_SHOWN = 100
"""Events and versions of a page."""


def ranges(request: HtmxRequest) -> tuple[list[tuple[str, str, bool]], int]:
    """The ranges of curves with the one that is chosen, and its seconds."""
    chosen = request.GET.get("range", "")
    chosen = chosen if chosen in RANGES else "15m"
    return [(key, title, key == chosen) for key, (title, _) in RANGES.items()], RANGES[chosen][1]


def log(request: HtmxRequest, pipeline: Pipeline) -> dict[str, Any]:
    """The newest lines, or those behind the cursor `after`; for a whole page also how many there are."""
    after = request.GET.get("after", "")
    lines = journal.lines(pipeline.pk, after)
    context: dict[str, Any] = {"lines": lines, "cursor": lines[-1].cursor if lines else after}
    if not htmx.is_fragment(request):
        context |= {"kept": journal.kept(pipeline.pk), "is_from_oldest": bool(after), "most": journal.MOST_KEPT}
    return context


def versions(pipeline: Pipeline) -> dict[str, Any]:
    """The newest versions, and which of them ran last."""
    return {
        "versions": queries.versions(pipeline)[:MOST_SHOWN],
        "ran_version": queries.running_version(pipeline),
    }


def version(request: HtmxRequest, pipeline: Pipeline, number: int) -> dict[str, Any]:
    """A version, and what differs from the one before it, or from the one that was chosen (`against`)."""
    found = _version(pipeline, str(number))
    chosen = request.GET.get("against", "")
    before = _version(pipeline, chosen) if chosen else queries.version(pipeline, number - 1)
    return {
        "version": found,
        "before": before,
        "lines": changes(before.text, found.text) if before is not None else [],
        "numbers": [one.number for one in queries.versions(pipeline)[:MOST_SHOWN] if one.number != number],
        "draft_differs": pipeline.version_id == found.pk and pipeline.draft != found.text,
    }


def _version(pipeline: Pipeline, number: str) -> Version:
    found = queries.version(pipeline, int(number)) if number.isdecimal() and len(number) < 10 else None
    if found is None:
        raise Http404("no such version")
    return found
