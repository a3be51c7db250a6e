"""What the statistics pages ask for."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.utils.translation import gettext as _

from console.metrics.curves import MAX_RANGE_MS, MINUTE_MS, PERIODS
from console.metrics.flow import Asked
from console.metrics.totals import COMPARED
from console.web import zone
from console.web.languages import gettext_lazy, pgettext_lazy
from console.web.moments import FollowsDates, MomentField, refuse_turned

_HOUR_MS = 3_600_000
RANGES = {
    "1h": (gettext_lazy("the last hour"), _HOUR_MS),
    "6h": (gettext_lazy("the last 6 hours"), 6 * _HOUR_MS),
    "1d": (gettext_lazy("the last day"), 24 * _HOUR_MS),
    "3d": (gettext_lazy("the last 3 days"), 72 * _HOUR_MS),
    "7d": (gettext_lazy("the last 7 days"), MAX_RANGE_MS),
}
_RANGE_NAMES = {
    "1h": gettext_lazy("Last hour"),
    "6h": gettext_lazy("Last 6 hours"),
    "1d": gettext_lazy("Last day"),
    "3d": gettext_lazy("Last 3 days"),
    "7d": gettext_lazy("Last 7 days"),
}
"""What the choice calls them."""
_MOST_POINTS = 400
"""Up to which the shortest period is the usual one."""
_DRAWN_POINTS = 2_100
"""More are neither seen nor drawn in reasonable time."""
_KEPT = ("topic", "period", "measure", "compare")
"""What stays as it is when another range is looked at."""


@dataclass(frozen=True)
class Links:
    """Addresses of views like the one that is shown.

    `here` has its range as dates of UTC, so that it shows the same to everybody at any time. A script adds the dates of
    a part of it to `zoom`. `whole` leads back to the range from which a zoom began: empty where there was none.
    """

    here: str
    zoom: str
    whole: str = ""
    whole_name: str = ""


class CurveForm(FollowsDates):
    """Range, period and measure of a curve; an unknown value falls back to the usual one."""

    range = forms.ChoiceField(
        label=gettext_lazy("Range"),
        choices=[*_RANGE_NAMES.items(), ("custom", gettext_lazy("From … to …"))],
    )
    begin = MomentField(label=zone.labelled(gettext_lazy("From")), required=False)
    end = MomentField(label=gettext_lazy("To"), required=False, later=True)
    period = forms.TypedChoiceField(
        label=gettext_lazy("Period"),
        choices=[("", gettext_lazy("Automatic")), *((p, gettext_lazy("%(p)s min", p=p)) for p in PERIODS)],
        coerce=int,
        empty_value=None,
        required=False,
    )
    measure = forms.ChoiceField(
        label=gettext_lazy("Measure"), choices=[("tps", "TPS"), ("count", gettext_lazy("Count"))]
    )
    compare = forms.ChoiceField(
        label=gettext_lazy("Compare with"),
        choices=[
            ("", pgettext_lazy("compare with", "Nothing")),
            ("day", gettext_lazy("The day before")),
            ("week", gettext_lazy("The week before")),
        ],
        required=False,
    )

    @classmethod
    def of_query(cls, query: Mapping[str, str]) -> CurveForm:
        """The form of a query string, completed with defaults; dates may be wrong, and the period too short."""
        chosen, period, measure, compare = (query.get(name, "") for name in ("range", "period", "measure", "compare"))
        form = cls(
            {
                "range": chosen if chosen in RANGES else "1h",
                "begin": query.get("begin", ""),
                "end": query.get("end", ""),
                "period": period if period in {str(p) for p in PERIODS} else "",
                "measure": measure if measure in ("tps", "count") else "tps",
                "compare": compare if compare in COMPARED else "",
            }
        )
        form.full_clean()
        return form

    def clean(self) -> dict[str, Any]:
        """Adds `begin_ms` and `end_ms`; an end alone has the hour before it, a begin alone goes on until now."""
        cleaned = super().clean() or self.cleaned_data
        now_ms = int(time.time() * 1000)
        begin, end = cleaned.get("begin"), cleaned.get("end")
        if cleaned.get("range") != "custom":
            _unused, length_ms = RANGES[cleaned.get("range", "1h")]
            self._refuse_crowded(length_ms)
            return cleaned | {"begin_ms": now_ms - length_ms, "end_ms": now_ms}
        refuse_turned(self, cleaned)
        end_ms = now_ms if end is None else end
        begin_ms = max(0, end_ms - _HOUR_MS) if begin is None else begin
        if end is None and begin_ms > now_ms:
            self.add_error("begin", _("This time is still to come."))
        elif end_ms - begin_ms > MAX_RANGE_MS:
            self.add_error("begin", _("A curve spans at most 7 days. Choose a later start or an earlier end."))
        else:
            self._refuse_crowded(end_ms - begin_ms)
        return cleaned | {"begin_ms": begin_ms, "end_ms": end_ms}

    def _refuse_crowded(self, length_ms: int) -> None:
        """A period that was chosen and is too short for the range is an error at its field."""
        period = self.cleaned_data.get("period")
        if period and length_ms > _DRAWN_POINTS * period * MINUTE_MS:
            hours = _DRAWN_POINTS * period // 60
            message = _("%(period)s min is for up to %(hours)s hours. Choose a longer period, or Automatic.") % {
                "period": period,
                "hours": hours,
            }
            self.add_error("period", message)

    def asked(self) -> Asked:
        """What it asks for: of the last hour while a date is wrong."""
        now_ms = int(time.time() * 1000)
        begin_ms, end_ms = now_ms - _HOUR_MS, now_ms
        if not self.errors:
            begin_ms, end_ms = self.cleaned_data["begin_ms"], self.cleaned_data["end_ms"]
        period = self.cleaned_data.get("period") or _usual_period(end_ms - begin_ms)
        return Asked(period, self.cleaned_data["measure"], begin_ms, end_ms, self.cleaned_data["compare"])

    def links(self, path: str, query: Mapping[str, str]) -> Links:
        """Of the page at `path`, which was asked for with `query`."""
        asked = self.asked()
        kept = {name: value for name in _KEPT if (value := query.get(name, ""))}
        dates = {"begin": _as_text(asked.begin_ms), "end": _as_text(asked.end_ms)}
        here = kept | {"period": str(asked.period_minutes), "measure": asked.measure} | dates
        whole, found = query.get("whole", ""), _whole(query.get("whole", ""))
        if found is None:
            begun = self.cleaned_data["range"]
            whole = begun if begun in RANGES else f"{asked.begin_ms}-{asked.end_ms}"
        zoom = f"{path}?{urlencode(kept | {'whole': whole})}"
        if found is None:
            return Links(f"{path}?{urlencode(here)}", zoom)
        name, of = found
        return Links(f"{path}?{urlencode(here)}", zoom, f"{path}?{urlencode(kept | of)}", name)


def _usual_period(length_ms: int) -> int:
    return next((period for period in PERIODS if length_ms <= _MOST_POINTS * period * MINUTE_MS), max(PERIODS))


def _whole(text: str) -> tuple[str, dict[str, str]] | None:
    """The range in which a zoom began: its name, and what asks for it. None for any other text."""
    if text in RANGES:
        return RANGES[text][0], {"range": text}
    begin, _unused, end = text.partition("-")
    if not all(part.isascii() and part.isdigit() and int(part) < zone.END_MS for part in (begin[:16], end[:16])):
        return None
    return _("the whole range"), {"begin": _as_text(int(begin[:16])), "end": _as_text(int(end[:16]))}


def _as_text(epoch_ms: int) -> str:
    return f"{datetime.fromtimestamp(epoch_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
