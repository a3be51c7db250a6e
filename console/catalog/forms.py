"""What the pages of the lake ask for. The rules are the services'."""

from __future__ import annotations

from typing import Any

from django import forms

from console.catalog.bucket_events import NAMES
from console.web.languages import gettext_lazy


class BucketForm(forms.Form):
    """The name of a new bucket."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=63,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "autofocus": True}),
        help_text=gettext_lazy("3 to 63 lower-case letters, digits and hyphens; unique over all accounts."),
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
        label=gettext_lazy("Folder"),
        max_length=500,
        required=False,
        widget=forms.TextInput(attrs={"spellcheck": "false", "placeholder": "orders/day=2026-01-15"}),
        help_text=gettext_lazy("A new one is created with its first file."),
    )
    content = _Files(label=gettext_lazy("Files"), widget=_ManyFiles(attrs={"multiple": True}))


class RuleForm(forms.Form):
    """Which changes of files a queue is told of."""

    name = forms.CharField(
        label=gettext_lazy("Name"), max_length=64, help_text=gettext_lazy("Events carry it as their ruleId.")
    )
    queue = forms.CharField(
        label=gettext_lazy("Queue"), max_length=120, help_text=gettext_lazy("One of the account's own queues.")
    )
    events = forms.MultipleChoiceField(
        label=gettext_lazy("Events"), choices=[(name, name) for name in NAMES], widget=forms.CheckboxSelectMultiple
    )
    key_prefix = forms.CharField(
        label=gettext_lazy("Prefix"), max_length=1023, required=False, strip=False,
        widget=forms.TextInput(attrs={"spellcheck": "false", "placeholder": "orders/"}),
        help_text=gettext_lazy("What the key begins with, without a slash in front; empty for every key."),
    )  # fmt: skip
    key_suffix = forms.CharField(
        label=gettext_lazy("Suffix"), max_length=1023, required=False, strip=False,
        widget=forms.TextInput(attrs={"spellcheck": "false", "placeholder": ".csv"}),
        help_text=gettext_lazy("What the key ends with."),
    )  # fmt: skip


class TableForm(forms.Form):
    """The definition of a table over a folder."""

    text = forms.CharField(
        label=gettext_lazy("Definition"),
        max_length=256 * 1024,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 16, "class": "sql-definition", "spellcheck": "false"}),
        help_text=gettext_lazy("Change names, types and options as you like; nothing is read from the files again."),
    )
