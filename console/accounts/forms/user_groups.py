"""What the pages of user groups ask for. The rules are the services'."""

from __future__ import annotations

from django import forms


class GroupForm(forms.Form):
    """Name and purpose of a user group."""

    name = forms.CharField(
        label="Name",
        max_length=64,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "autofocus": True}),
        help_text="Letters, digits, dots or -.",
    )
    description = forms.CharField(label="Description", max_length=256, required=False)
