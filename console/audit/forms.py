"""The filters of the audit page."""

from __future__ import annotations

from datetime import date

from django import forms
from django.core.validators import MaxValueValidator, MinValueValidator

from console.web import zone

_DAYS_TEXT = "Choose a day from 1970 to 2999."
_DAYS = [MinValueValidator(date(1970, 1, 1), _DAYS_TEXT), MaxValueValidator(date(2999, 12, 31), _DAYS_TEXT)]
_DATE = forms.DateInput(attrs={"type": "date"})


class FilterForm(forms.Form):
    """All optional; what is not valid is not applied and says so."""

    q = forms.CharField(
        label="Search",
        required=False,
        max_length=128,
        widget=forms.TextInput(attrs={"type": "search", "placeholder": "Who, what, resource, key, address, request"}),
    )
    result = forms.ChoiceField(
        label="Result",
        required=False,
        choices=[("", "Any result"), ("success", "Success"), ("refused", "Refused"), ("failed", "Failed")],
    )
    channel = forms.ChoiceField(
        label="Channel",
        required=False,
        choices=[("", "Any channel"), ("page", "Page"), ("api", "API"), ("sql", "SQL"), ("command", "Command")],
    )
    begin = forms.DateField(label=zone.labelled("From"), required=False, widget=_DATE, validators=_DAYS)
    end = forms.DateField(label="To", required=False, widget=_DATE, validators=_DAYS)
