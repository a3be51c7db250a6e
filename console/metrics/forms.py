"""What the statistics pages ask for."""

from __future__ import annotations

import time
from typing import Any

from django import forms

from console.metrics.queries import PERIODS

RANGES = [("1h", "Last hour", 60), ("6h", "Last 6 hours", 360), ("1d", "Last day", 1440), ("7d", "Last 7 days", 10080)]
_DEFAULT_PERIOD = {"1h": 1, "6h": 1, "1d": 5, "7d": 10}


class CurveForm(forms.Form):
    """Range, period and measure of a curve; an unknown value falls back to the usual one."""

    range = forms.ChoiceField(label="Range", choices=[(key, text) for key, text, _ in RANGES])
    period = forms.TypedChoiceField(label="Period", choices=[(p, f"{p} min") for p in PERIODS], coerce=int)
    measure = forms.ChoiceField(label="Measure", choices=[("tps", "TPS"), ("count", "Count")])

    @classmethod
    def of_query(cls, query: dict[str, str]) -> CurveForm:
        """The form of a query string, completed with defaults."""
        chosen = query.get("range", "1h")
        chosen = chosen if chosen in _DEFAULT_PERIOD else "1h"
        period, measure = query.get("period", ""), query.get("measure", "")
        form = cls(
            {
                "range": chosen,
                "period": period if period in {str(p) for p in PERIODS} else _DEFAULT_PERIOD[chosen],
                "measure": measure if measure in ("tps", "count") else "tps",
            }
        )
        form.full_clean()
        return form

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of `queries.topic_curve` and `group_curve`."""
        end_ms = int(time.time() * 1000)
        minutes = next(m for key, _, m in RANGES if key == self.cleaned_data["range"])
        return {
            "period_minutes": self.cleaned_data["period"],
            "measure": self.cleaned_data["measure"],
            "begin_ms": end_ms - minutes * 60_000,
            "end_ms": end_ms,
        }
