"""What the pages of queues ask for. Ranges and defaults are the queue service's."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext as _

from brokercore.smq.wire.messages import MAX_BATCH, PRIORITY_DEFAULT, PRIORITY_LEAST, PRIORITY_MOST
from brokercore.smq.wire.queues import LOGGING, RANGES, QueueState
from brokercore.smq.wire.requests import MAX_NAME
from console.queues.services import WAIT_SECONDS
from console.web.languages import gettext_lazy

_LABELS = {
    "VisibilityTimeout": (
        gettext_lazy("Visibility timeout"),
        "s",
        gettext_lazy("How long a received message is hidden from other consumers."),
    ),
    "MessageRetentionPeriod": (
        gettext_lazy("Retention"),
        "s",
        gettext_lazy("A message is dropped when it is as old as this."),
    ),
    "DelaySeconds": (
        gettext_lazy("Delay"),
        "s",
        gettext_lazy("New messages can be received only so long after they were sent."),
    ),
    "PollingWaitSeconds": (
        gettext_lazy("Polling wait"),
        "s",
        gettext_lazy("How long a receive waits for a message, unless it says so itself."),
    ),
    "MaximumMessageSize": (gettext_lazy("Largest message"), "bytes", gettext_lazy("Longer bodies are refused.")),
}
_SPANS = ((86_400, "d"), (3600, "h"), (60, "min"))


class AttributesForm(forms.Form):
    """Every attribute that a queue has."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, (label, unit, meaning) in _LABELS.items():
            allowed = RANGES[name]
            self.fields[name] = forms.IntegerField(
                label=f"{label}, {unit}",
                min_value=allowed.least,
                max_value=allowed.most,
                initial=allowed.default,
                help_text=_("%(meaning)s %(least)s to %(most)s, by default %(default)s.")
                % {
                    "meaning": meaning,
                    "least": f"{allowed.least:,}",
                    "most": _told(allowed.most, unit),
                    "default": _told(allowed.default, unit),
                },
            )
        self.fields[LOGGING] = forms.BooleanField(label=_("Logging enabled"), required=False)

    @classmethod
    def of_state(cls, state: QueueState) -> AttributesForm:
        """The form filled with what a queue has."""
        return cls(initial={**state.attributes, LOGGING: state.is_logged})

    @staticmethod
    def facts(state: QueueState) -> list[tuple[str, str]]:
        """What a queue has, in the words of the form."""
        told = [
            (label, f"{_told(state.attributes[name], unit)}{'' if unit == 's' else f' {unit}'}")
            for name, (label, unit, _unused) in _LABELS.items()
        ]
        return [*told, (_("Logging"), "enabled" if state.is_logged else "disabled")]

    def attributes(self) -> dict[str, int]:
        """The attributes as they were sent, LoggingEnabled as 0 or 1."""
        return {name: int(self.cleaned_data[name]) for name in (*_LABELS, LOGGING)}


class QueueForm(AttributesForm):
    """A new queue."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=MAX_NAME,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "autofocus": True}),
        help_text=gettext_lazy(
            "1 to %(max_name)s letters, digits and hyphens, a letter or digit first. It cannot be changed.",
            max_name=MAX_NAME,
        ),
    )


class SendForm(forms.Form):
    """A message by hand."""

    body = forms.CharField(
        label=gettext_lazy("Body"),
        strip=False,
        widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false", "class": "font-monospace"}),
    )
    delay_s = forms.IntegerField(
        label=gettext_lazy("Delay (seconds)"),
        required=False,
        min_value=RANGES["DelaySeconds"].least,
        max_value=RANGES["DelaySeconds"].most,
        help_text=gettext_lazy("Left empty: the queue's own."),
    )
    priority = forms.IntegerField(
        label=gettext_lazy("Priority"),
        required=False,
        min_value=PRIORITY_LEAST,
        max_value=PRIORITY_MOST,
        help_text=gettext_lazy(
            "%(priority_least)s is delivered first, %(priority_most)s last; left empty: %(priority_default)s.",
            priority_least=PRIORITY_LEAST,
            priority_most=PRIORITY_MOST,
            priority_default=PRIORITY_DEFAULT,
        ),
    )
    as_base64 = forms.BooleanField(
        label=gettext_lazy("Send as Base64, which the vendor's SDKs for Java and Python decode"), required=False
    )


class ReceiveForm(forms.Form):
    """A receive by hand."""

    most = forms.IntegerField(
        label=gettext_lazy("Messages, at most"),
        min_value=1,
        max_value=MAX_BATCH,
        initial=1,
        help_text=gettext_lazy(
            "1 to %(max_batch)s. They are hidden from all others for the queue's visibility timeout.",
            max_batch=MAX_BATCH,
        ),
    )
    wait_s = forms.IntegerField(
        label=gettext_lazy("Wait (seconds)"),
        min_value=0,
        max_value=WAIT_SECONDS,
        initial=0,
        help_text=gettext_lazy("For a message to come, up to %(wait_seconds)s.", wait_seconds=WAIT_SECONDS),
    )
    base64 = forms.BooleanField(label=gettext_lazy("Decode Base64"), required=False)


class HideForm(forms.Form):
    """How long a received message is hidden from now on."""

    handle = forms.CharField(max_length=256, widget=forms.HiddenInput)
    seconds = forms.IntegerField(
        label=gettext_lazy("Hide for (seconds)"),
        min_value=RANGES["VisibilityTimeout"].least,
        max_value=RANGES["VisibilityTimeout"].most,
        initial=RANGES["VisibilityTimeout"].default,
    )


def _told(value: int, unit: str) -> str:
    """A number; of seconds with their unit, or in a larger one that they are a whole number of."""
    for size, name in _SPANS if unit == "s" else ():
        if value >= size and value % size == 0:
            return f"{value:,} s ({value // size} {name})"
    return f"{value:,} s" if unit == "s" else f"{value:,}"
