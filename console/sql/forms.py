"""The forms of the editor: a statement, its hint, a name to save it under, a plot of its result."""

from __future__ import annotations

from typing import Any, cast

from django import forms
from django.utils.translation import gettext as _

from console.sql import plots
from console.sql.results import Head
from console.sql.saved import LONGEST_TEXT
from console.statements import LONGEST_STATEMENT
from console.statements import hint as hints
from console.web.languages import gettext_lazy

_TEXT = {"rows": 12, "class": "sql-text", "spellcheck": "false", "autocapitalize": "off", "autocomplete": "off"}


class EditorForm(forms.Form):
    """A statement with its schema; `from_line` and `from_column` tell where a selection begins in the editor."""

    use_required_attribute = False  # the browser could not show its complaint beside the field that the editor hides

    schema = forms.CharField(label=gettext_lazy("Schema"), required=False, widget=forms.Select)
    text = forms.CharField(
        label=gettext_lazy("Statement"),
        max_length=LONGEST_STATEMENT,
        strip=False,
        widget=forms.Textarea(attrs=_TEXT),
        error_messages={"required": gettext_lazy("Write a statement first.")},
    )
    from_line = forms.IntegerField(required=False, min_value=0, max_value=LONGEST_STATEMENT, widget=forms.HiddenInput)
    from_column = forms.IntegerField(required=False, min_value=0, max_value=LONGEST_STATEMENT, widget=forms.HiddenInput)

    def choose_schemas(self, names: list[str]) -> None:
        """Offer these; services decide which one is accepted."""
        cast(forms.Select, self.fields["schema"].widget).choices = [(name, name) for name in names]

    @property
    def origin(self) -> dict[str, int]:
        """Line and column from 0 at which the statement that was run begins."""
        return {"line": self.cleaned_data.get("from_line") or 0, "column": self.cleaned_data.get("from_column") or 0}


class HintForm(forms.Form):
    """What the hint in front of a statement says."""

    run_async = forms.BooleanField(label=gettext_lazy("Run asynchronously (run_async=true)"), required=False)
    notify = forms.ChoiceField(
        label=gettext_lazy("Notification"),
        choices=[
            ("", gettext_lazy("None")),
            (hints.BY_TOPIC, gettext_lazy("To a topic (ons)")),
            (hints.BY_QUEUE, gettext_lazy("To a queue (mns)")),
        ],
        widget=forms.RadioSelect,
        required=False,
    )
    instance = forms.CharField(label=gettext_lazy("Instance"), max_length=64, required=False)
    topic = forms.CharField(label=gettext_lazy("Topic"), max_length=127, required=False)
    group = forms.CharField(label=gettext_lazy("Producer group"), max_length=64, required=False)
    queue = forms.CharField(label=gettext_lazy("Queue"), max_length=120, required=False)

    @property
    def wanted(self) -> dict[str, Any]:
        """The arguments of `hint_builder.written`."""
        given = self.cleaned_data
        named = {"instance_id": given["instance"], **{name: given[name] for name in ("topic", "group", "queue")}}
        return {"run_async": given["run_async"], "notify": given["notify"]} | named


class SavedForm(forms.Form):
    """A statement under a name."""

    name = forms.CharField(label=gettext_lazy("Name"), max_length=100)
    schema = forms.CharField(max_length=64, required=False, widget=forms.HiddenInput)
    text = forms.CharField(max_length=LONGEST_TEXT, strip=False, required=False, widget=forms.HiddenInput)
    shared = forms.BooleanField(
        label=gettext_lazy("Share with everybody of the account who may use the editor"), required=False
    )


class PlotForm(forms.Form):
    """What a plot shows; columns are named by their number, since names may come twice."""

    kind = forms.ChoiceField(label=gettext_lazy("Kind"), choices=list(plots.KINDS.items()))
    x = forms.TypedChoiceField(label="X", coerce=int)
    y = forms.TypedMultipleChoiceField(label="Y", coerce=int, widget=forms.CheckboxSelectMultiple)
    method = forms.ChoiceField(label=gettext_lazy("Rows with the same x"), choices=list(plots.METHODS.items()))

    def __init__(self, *args: Any, columns: list[Head], prefix_id: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs | {"auto_id": f"plot-{prefix_id}-%s"})
        named = [(str(number), column.name or _("(no name)")) for number, column in enumerate(columns)]
        numbers = [pair for pair, column in zip(named, columns, strict=True) if column.numeric]
        for field in self.fields.values():
            field.required = False  # no mark beside lists that always have a value; `clean` sees to it
        cast(forms.ChoiceField, self.fields["x"]).choices = named
        cast(forms.ChoiceField, self.fields["y"]).choices = numbers or named

    def clean_y(self) -> list[int]:
        """At most as many curves as there are colours."""
        chosen: list[int] = self.cleaned_data["y"]
        if len(chosen) > plots.MOST_CURVES:
            raise forms.ValidationError(
                _("At most %(most_curves)s columns can be drawn at once.") % {"most_curves": plots.MOST_CURVES}
            )
        return chosen

    def clean(self) -> dict[str, Any]:
        """Every list has a value, which only a hand-made address leaves out."""
        given = super().clean() or self.cleaned_data
        for name in ("kind", "x", "y", "method"):
            if name not in self.errors and given.get(name) in ("", None, []):
                self.add_error(name, _("Choose one."))
        return given

    @property
    def choice(self) -> plots.Choice:
        """What is to be drawn."""
        given = self.cleaned_data
        return plots.Choice(given["x"], tuple(given["y"]), given["kind"], given["method"])

    @staticmethod
    def initial_of(choice: plots.Choice) -> dict[str, Any]:
        """The choice as the form shows it."""
        return {"kind": choice.kind, "x": choice.x, "y": list(choice.ys), "method": choice.method}
