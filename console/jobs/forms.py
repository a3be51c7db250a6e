"""What the pages of SQL jobs ask for."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils import timezone
from django.utils.translation import gettext as _

from console.jobs.beginnings import BEGINNINGS
from console.jobs.compiler.words import LONGEST_TEXT
from console.pipelines.models import Pipeline, Savepoint, StartFrom
from console.pipelines.queries import savepoints
from console.web.languages import gettext_lazy

_PLAIN = {"autocomplete": "off", "spellcheck": "false"}


class JobForm(forms.Form):
    """A new job."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=64,
        widget=forms.TextInput(attrs=_PLAIN | {"autofocus": True}),
        help_text=gettext_lazy("1 to 64 letters, digits, hyphens and underscores. It cannot be changed."),
    )
    beginning = forms.ChoiceField(
        label=gettext_lazy("Begin with"),
        choices=[(word, label) for word, (label, _unused) in BEGINNINGS.items()],
        widget=forms.RadioSelect,
        initial="example",
    )

    @property
    def text(self) -> str:
        """The text that was chosen."""
        return BEGINNINGS[self.cleaned_data["beginning"]][1]


class TextForm(forms.Form):
    """The text of a job."""

    text = forms.CharField(
        label=gettext_lazy("Text of the job"),
        strip=False,
        max_length=LONGEST_TEXT,
        error_messages={"required": gettext_lazy("The text is empty.")},
        widget=forms.Textarea(
            attrs={
                "rows": 24,
                "spellcheck": "false",
                "class": "font-monospace",
                "placeholder": "CREATE TEMPORARY TABLE …",
            }
        ),
    )


class StartForm(forms.Form):
    """What a start goes on from."""

    start_from = forms.ChoiceField(label=gettext_lazy("Start from"), widget=forms.RadioSelect)
    savepoint = forms.ChoiceField(label=gettext_lazy("Savepoint"), required=False)

    def __init__(self, *args: Any, job: Pipeline, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        kept = [(str(one.pk), _told(one)) for one in savepoints(job)]
        choices = [(StartFrom.CHECKPOINT, _("the last checkpoint, or the beginning when it never ran"))]
        if kept:
            choices.append((StartFrom.SAVEPOINT, _("a savepoint")))
        choices.append((StartFrom.NOTHING, _("nothing: counts and positions begin anew")))
        self.fields["start_from"].choices = choices  # type: ignore[attr-defined]
        self.fields["start_from"].initial = StartFrom.CHECKPOINT  # what the page asks for stands before it
        if kept:
            self.fields["savepoint"].choices = [("", "–"), *kept]  # type: ignore[attr-defined]
        else:
            del self.fields["savepoint"]

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        # A savepoint that was chosen and then not asked for means nothing.
        if found.get("start_from") != StartFrom.SAVEPOINT:
            found["savepoint"] = ""
        elif not found.get("savepoint"):
            self.add_error("savepoint", _("Choose the savepoint."))
        return found


class StopForm(forms.Form):
    """How a job is stopped."""

    with_savepoint = forms.BooleanField(
        label=gettext_lazy("Keep a savepoint"),
        required=False,
        help_text=gettext_lazy(
            "A copy of its state that no later run changes. Without one it goes on from its last checkpoint too."
        ),
    )


class SecretForm(forms.Form):
    """A secret, or the new value of one."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=128,
        widget=forms.TextInput(attrs=_PLAIN),
        help_text=gettext_lazy("Letters, digits, points, hyphens and underscores: ${secret_values.name} in a text."),
    )
    value = forms.CharField(
        label=gettext_lazy("Value"),
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=gettext_lazy("It is stored encrypted, put in when a job starts, and never shown again."),
    )


class VariableForm(forms.Form):
    """A variable, or the new value of one."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=64,
        widget=forms.TextInput(attrs=_PLAIN),
        help_text=gettext_lazy("Letters, digits, hyphens and underscores, a letter first: ${name} in a text."),
    )
    value = forms.CharField(
        label=gettext_lazy("Value"),
        strip=False,
        widget=forms.TextInput(attrs=_PLAIN),
        help_text=gettext_lazy("Deployed versions keep the old one."),
    )


def _told(one: Savepoint) -> str:
    version = _(", version %(number)s") % {"number": one.version.number} if one.version else ""
    return f"{timezone.localtime(one.created_at):%Y-%m-%d %H:%M:%S}{version}"
