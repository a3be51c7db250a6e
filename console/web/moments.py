"""Dates that people type into forms: one field, in the viewer's zone, and choices that follow what is typed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from datetime import timezone as fixed_zone
from typing import Any

from django import forms
from django.http import QueryDict
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _

from console.web import zone

_AS_TYPED = fixed_zone(timedelta(), "as typed")


class MomentField(forms.DateTimeField):
    """A time to the second, in the viewer's zone unless it has an offset of its own; cleaned to epoch milliseconds.

    An hour that a change of clocks repeats is the earlier one, with `later` the later one; Django would refuse it.
    """

    widget = forms.DateTimeInput(attrs={"type": "datetime-local", "step": "1"}, format="%Y-%m-%dT%H:%M:%S")

    def __init__(self, *, later: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self._fold = int(later)

    def clean(self, value: Any) -> int | None:
        with timezone.override(_AS_TYPED):
            moment = super().clean(value)
        if moment is None:
            return None
        if moment.tzinfo is _AS_TYPED:
            moment = moment.replace(tzinfo=timezone.get_current_timezone(), fold=self._fold)
        epoch_ms = int(moment.timestamp() * 1000)
        if not 0 <= epoch_ms < zone.END_MS:
            raise forms.ValidationError(_("Choose a time from 1970 on."))
        return epoch_ms

    def prepare_value(self, value: Any) -> Any:
        # Browsers leave the input empty for a text with an offset.
        try:
            return super().prepare_value((parse_datetime(value) if isinstance(value, str) else None) or value)
        except (ValueError, OverflowError):
            return value


class FollowsDates(forms.Form):
    """A form with a choice, one value of which means "the dates beside it": that one holds once a date is given.

    So a date counts as it is typed, without a script too, where the choice may still stand on something else.
    """

    choice_of_dates: tuple[str, str] = ("range", "custom")
    """The field of the choice, and its value that means the dates."""
    dates: tuple[str, ...] = ("begin", "end")

    def __init__(self, data: Mapping[str, Any] | None = None, *args: Any, **options: Any) -> None:
        name, value = self.choice_of_dates
        if data is not None and any(str(data.get(date) or "").strip() for date in self.dates):
            data = data.copy() if isinstance(data, QueryDict) else dict(data)
            data[name] = value
        super().__init__(data, *args, **options)
        # app.js sets the choice while a date is typed, and empties the dates where another one is made.
        self.fields[name].widget.attrs["data-dates"] = value


def refuse_turned(form: forms.Form, cleaned: Mapping[str, Any], begin: str = "begin", end: str = "end") -> None:
    """Say beside `end` that it is before `begin`, where both are given."""
    first, last = cleaned.get(begin), cleaned.get(end)
    if first is not None and last is not None and last < first:
        form.add_error(end, _("The end is before the start."))
