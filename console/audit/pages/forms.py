"""The filters of the audit page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django import forms
from django.core.validators import MaxValueValidator, MinValueValidator

from console.audit.queries import SEARCHED, Filters
from console.web import zone
from console.web.languages import gettext_lazy
from console.web.moments import refuse_turned

_TIMES_TEXT = gettext_lazy("Choose a time from 1970 to 2999.")
_TIMES = [
    MinValueValidator(datetime(1970, 1, 2, tzinfo=UTC), _TIMES_TEXT),
    MaxValueValidator(datetime(2999, 12, 30, tzinfo=UTC), _TIMES_TEXT),
]
_FORMATS = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d"]
_BEGINNING = gettext_lazy("The whole value, or its beginning followed by *.")


def _text(label: str, **options: Any) -> forms.CharField:
    attrs = {"autocomplete": "off", "spellcheck": "false", "placeholder": options.pop("placeholder", "")}
    return forms.CharField(label=label, required=False, max_length=512, widget=forms.TextInput(attrs=attrs), **options)


def _time(label: Any) -> forms.DateTimeField:
    widget = forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M")
    return forms.DateTimeField(label=label, required=False, widget=widget, input_formats=_FORMATS, validators=_TIMES)


class FilterForm(forms.Form):
    """All optional; what is not valid is not applied and says so."""

    q = forms.CharField(
        label=gettext_lazy("Search"),
        required=False,
        max_length=128,
        widget=forms.TextInput(
            attrs={"type": "search", "placeholder": gettext_lazy("Who, what, resource, key, address, request")}
        ),
        help_text=gettext_lazy(
            "Looks through the latest %(searched)s entries that match the other filters.", searched=f"{SEARCHED:,}"
        ),
    )
    result = forms.ChoiceField(
        label=gettext_lazy("Result"),
        required=False,
        choices=[
            ("", gettext_lazy("Any result")),
            ("success", gettext_lazy("Success")),
            ("refused", gettext_lazy("Refused")),
            ("failed", gettext_lazy("Failed")),
        ],
    )
    channel = forms.ChoiceField(
        label=gettext_lazy("Channel"),
        required=False,
        choices=[
            ("", gettext_lazy("Any channel")),
            ("page", gettext_lazy("Page")),
            ("api", "API"),
            ("mcp", "MCP"),
            ("sql", "SQL"),
            ("broker", gettext_lazy("Broker")),
            ("queues", gettext_lazy("Queue service")),
            ("command", gettext_lazy("Command")),
        ],
    )
    begin = _time(zone.labelled(gettext_lazy("From")))
    end = _time(zone.labelled(gettext_lazy("To")))
    who = _text(gettext_lazy("Who"), placeholder="bob@acme", help_text=_BEGINNING)
    key = _text("AccessKey", placeholder="LTAI…")
    action = _text(gettext_lazy("Action"), placeholder="topics.topic.*", help_text=_BEGINNING)
    resource = _text(gettext_lazy("Resource"), placeholder="MQ_INST_…%orders", help_text=_BEGINNING)
    request_id = _text(gettext_lazy("Request ID"))

    quick = ("result", "channel", "begin", "end")
    exact: tuple[str, ...] = ("who", "key", "action", "resource", "request_id")

    def clean(self) -> dict[str, Any]:
        """An end before the start is said, and is not applied."""
        cleaned = super().clean() or self.cleaned_data
        refuse_turned(self, cleaned)
        return cleaned

    def quick_fields(self) -> list[Any]:
        """What stands beside the search field."""
        return [self[name] for name in self.quick]

    def exact_fields(self) -> list[Any]:
        """What is folded away until one of them is used."""
        return [self[name] for name in self.exact]

    def has_exact(self) -> bool:
        """True when one of those is used."""
        return any(self.data.get(name) for name in self.exact)

    def wanted(self) -> Filters:
        """The valid filters. The end of a range counts to the end of its minute, a bare day as a whole."""
        self.is_valid()
        given = self.cleaned_data
        end = given.get("end")
        if end is not None:
            bare = "T" not in self.data.get("end", "")
            end = end + (timedelta(days=1) if bare else timedelta(minutes=1))
        values = {name: given.get(name, "").strip() for name in (*self.exact, "result", "channel", "account")}
        return Filters(text=given.get("q", "").strip(), begin=given.get("begin"), end=end, **values)


class PlatformFilterForm(FilterForm):
    """The trail of the whole platform can be narrowed to one account."""

    account = _text(gettext_lazy("Account"), placeholder=gettext_lazy("Name or ID"))
    exact = ("account", *FilterForm.exact)
