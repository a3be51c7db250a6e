"""The curves of an inflow task as plotly figures; charts.js draws them in the colours of the page's theme."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from django.utils.translation import gettext as _

from analytics.inflow.delivery import Count
from console.inflow.queries import FIGURES
from console.metrics.figures import AMBER, BLUE, GREEN, VIOLET, Series, TitledFigure, lines
from console.pipelines.samples import Counted

_RED = "#d63939"
_RATES = {Count.READ: BLUE, Count.FILTERED: AMBER, Count.TRANSFORMED: VIOLET, Count.DELIVERED: GREEN}
_FAULTS = {Count.FAILED: _RED, Count.DEAD: VIOLET, Count.DISCARDED: AMBER, Count.RETRIED: BLUE}


@dataclass(frozen=True, slots=True)
class Row:
    """What was counted a second between a point and the one before it; None where it is not known."""

    at_ms: int
    rates: dict[Count, float | None]
    behind_ms: int | None

    @property
    def numbers(self) -> list[float | None]:
        """The rates in the order of pages."""
        return [self.rates.get(name) for name in FIGURES]


def curves(points: Sequence[Counted], seconds: int) -> list[TitledFigure]:
    """Rates of events and messages, of what failed, and how far it is behind its log."""
    found = list(reversed(rows(points)))
    at = [one.at_ms // 1000 for one in found]
    wanted: list[tuple[str, str, str, dict[str, Series]]] = [
        ("rates", _("Events a second"), "events/s", _series(found, _RATES)),
        ("faults", _("Faults a second"), "events/s", _series(found, _FAULTS)),
        (
            "behind", _("Behind the source, s"), "s",
            {"behind": (VIOLET, [None if one.behind_ms is None else one.behind_ms / 1000 for one in found])},
        ),
    ]  # fmt: skip
    return [
        TitledFigure(
            key,
            title,
            _("%(title)s; the table below has the same numbers") % {"title": title},
            lines(at, series, unit, seconds),
        )
        for key, title, unit, series in wanted
    ]


def rows(points: Sequence[Counted]) -> list[Row]:
    """The rates, the newest first."""
    found = [
        Row(after.at_ms, {name: _rate(before, after, name) for name in Count}, after.behind_ms)
        for before, after in pairwise(points)
    ]
    return found[::-1]


def _rate(before: Counted, after: Counted, name: Count) -> float | None:
    if name not in before.counts or name not in after.counts or after.at <= before.at:
        return None
    # A task that was made anew under its name counts from 0 again.
    return round(max(0, after.counts[name] - before.counts[name]) / (after.at - before.at), 3)


def _series(found: Sequence[Row], wanted: dict[Count, str]) -> dict[str, Series]:
    return {FIGURES[name][0].lower(): (color, [one.rates[name] for one in found]) for name, color in wanted.items()}
