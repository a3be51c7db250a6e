"""What the statistics pages ask for."""

from __future__ import annotations

import time
from typing import Any

from django import forms

from console.metrics.curves import MAX_RANGE_MS, PERIODS
from console.web import zone
from console.web.moments import FollowsDates, MomentField, refuse_turned

RANGES = [("1h", "Last hour", 60), ("6h", "Last 6 hours", 360), ("1d", "Last day", 1440), ("7d", "Last 7 days", 10080)]
_DEFAULT_PERIOD = {"1h": 1, "6h": 1, "1d": 5, "7d": 10}


_HOUR_MS = 3_600_000


class CurveForm(FollowsDates):
    """Range, period and measure of a curve; an unknown value falls back to the usual one."""

    range = forms.ChoiceField(
        label="Range", choices=[(key, text) for key, text, _ in RANGES] + [("custom", "From … to …")]
    )
    begin = MomentField(label=zone.labelled("From"), required=False)
    end = MomentField(label="To", required=False, later=True)
    period = forms.TypedChoiceField(label="Period", choices=[(p, f"{p} min") for p in PERIODS], coerce=int)
    measure = forms.ChoiceField(label="Measure", choices=[("tps", "TPS"), ("count", "Count")])

    @classmethod
    def of_query(cls, query: dict[str, str]) -> CurveForm:
        """The form of a query string, completed with defaults; only its dates may be wrong."""
        chosen = query.get("range", "1h")
        chosen = chosen if chosen in _DEFAULT_PERIOD else "1h"
        period, measure = query.get("period", ""), query.get("measure", "")
        form = cls(
            {
                "range": chosen,
                "begin": query.get("begin", ""),
                "end": query.get("end", ""),
                "period": period if period in {str(p) for p in PERIODS} else _DEFAULT_PERIOD[chosen],
                "measure": measure if measure in ("tps", "count") else "tps",
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
            minutes = next((m for key, _, m in RANGES if key == cleaned.get("range")), 60)
            return cleaned | {"begin_ms": now_ms - minutes * 60_000, "end_ms": now_ms}
        refuse_turned(self, cleaned)
        end_ms = now_ms if end is None else end
        begin_ms = max(0, end_ms - _HOUR_MS) if begin is None else begin
        if end is None and begin_ms > now_ms:
            self.add_error("begin", "This time is still to come.")
        elif end_ms - begin_ms > MAX_RANGE_MS:
            self.add_error("begin", "A curve spans at most 7 days. Choose a later start or an earlier end.")
        return cleaned | {"begin_ms": begin_ms, "end_ms": end_ms}

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of `queries.topic_curve` and `group_curve`; of the last hour while a date is wrong."""
        now_ms = int(time.time() * 1000)
        ends = {"begin_ms": now_ms - _HOUR_MS, "end_ms": now_ms}
        if not self.errors:
            ends = {name: self.cleaned_data[name] for name in ends}
        return {"period_minutes": self.cleaned_data["period"], "measure": self.cleaned_data["measure"]} | ends
