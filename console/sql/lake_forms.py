"""What the pages of the lake ask for. The rules are the services'."""

from __future__ import annotations

from typing import Any

from django import forms


class BucketForm(forms.Form):
    """The name of a new bucket."""

    name = forms.CharField(
        label="Name",
        max_length=63,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "autofocus": True}),
        help_text="3 to 63 lower-case letters, digits and hyphens; unique over all accounts.",
    )


class _Files(forms.FileField):
    """One or more files."""

    def clean(self, data: Any, initial: Any = None) -> Any:
        clean = super().clean
        return [clean(file, initial) for file in data] if data else clean(None, initial)


class _ManyFiles(forms.FileInput):
    allow_multiple_selected = True

    def value_from_datadict(self, data: Any, files: Any, name: str) -> list[Any]:
        return list(files.getlist(name))


class UploadForm(forms.Form):
    """Files for a folder, which may be a new one."""

    folder = forms.CharField(
        label="Folder",
        max_length=500,
        required=False,
        widget=forms.TextInput(attrs={"spellcheck": "false", "placeholder": "orders/day=2026-01-15"}),
        help_text="A new one is made by the first file in it.",
    )
    content = _Files(label="Files", widget=_ManyFiles(attrs={"multiple": True}))


class TableForm(forms.Form):
    """The definition of a table over a folder."""

    text = forms.CharField(
        label="Definition",
        max_length=256 * 1024,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 16, "class": "sql-definition", "spellcheck": "false"}),
        help_text="Change names, types and options as you like; nothing is read from the files again.",
    )
