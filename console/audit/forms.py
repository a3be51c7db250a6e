"""The filters of the audit page."""

from __future__ import annotations

from django import forms

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
    begin = forms.DateField(label="From (UTC)", required=False, widget=_DATE)
    end = forms.DateField(label="To (UTC)", required=False, widget=_DATE)
