"""What the pages of queues ask for. Ranges and defaults are the queue service's."""

from __future__ import annotations

from typing import Any

from django import forms

from brokercore.smq.wire.messages import MAX_BATCH, PRIORITY_DEFAULT, PRIORITY_LEAST, PRIORITY_MOST
from brokercore.smq.wire.queues import LOGGING, RANGES, QueueState
from brokercore.smq.wire.requests import MAX_NAME
from console.queues.services import WAIT_SECONDS

_LABELS = {
    "VisibilityTimeout": ("Visibility timeout", "s", "How long a received message is hidden from other consumers."),
    "MessageRetentionPeriod": ("Retention", "s", "A message is dropped when it is as old as this."),
    "DelaySeconds": ("Delay", "s", "New messages can be received only so long after they were sent."),
    "PollingWaitSeconds": ("Polling wait", "s", "How long a receive waits for a message, unless it says so itself."),
    "MaximumMessageSize": ("Largest message", "bytes", "Longer bodies are refused."),
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
                help_text=f"{meaning} {allowed.least:,} to {_told(allowed.most, unit)}, by default "
                f"{_told(allowed.default, unit)}.",
            )
        self.fields[LOGGING] = forms.BooleanField(label="Logging enabled", required=False)

    @classmethod
    def of_state(cls, state: QueueState) -> AttributesForm:
        """The form filled with what a queue has."""
        return cls(initial={**state.attributes, LOGGING: state.is_logged})

    @staticmethod
    def facts(state: QueueState) -> list[tuple[str, str]]:
        """What a queue has, in the words of the form."""
        told = [
            (label, f"{_told(state.attributes[name], unit)}{'' if unit == 's' else f' {unit}'}")
            for name, (label, unit, _) in _LABELS.items()
        ]
        return [*told, ("Logging", "enabled" if state.is_logged else "disabled")]

    def attributes(self) -> dict[str, int]:
        """The attributes as they were sent, LoggingEnabled as 0 or 1."""
        return {name: int(self.cleaned_data[name]) for name in (*_LABELS, LOGGING)}


class QueueForm(AttributesForm):
    """A new queue."""

    name = forms.CharField(
        label="Name",
        max_length=MAX_NAME,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "autofocus": True}),
        help_text=f"1 to {MAX_NAME} letters, digits and hyphens, a letter or digit first. It cannot be changed.",
    )


class SendForm(forms.Form):
    """A message by hand."""

    body = forms.CharField(
        label="Body",
        strip=False,
        widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false", "class": "font-monospace"}),
    )
    delay_s = forms.IntegerField(
        label="Delay (seconds)",
        required=False,
        min_value=RANGES["DelaySeconds"].least,
        max_value=RANGES["DelaySeconds"].most,
        help_text="Left empty: the queue's own.",
    )
    priority = forms.IntegerField(
        label="Priority",
        required=False,
        min_value=PRIORITY_LEAST,
        max_value=PRIORITY_MOST,
        help_text=f"{PRIORITY_LEAST} is delivered first, {PRIORITY_MOST} last; left empty: {PRIORITY_DEFAULT}.",
    )
    as_base64 = forms.BooleanField(
        label="Send as Base64, which the vendor's SDKs for Java and Python decode", required=False
    )


class ReceiveForm(forms.Form):
    """A receive by hand."""

    most = forms.IntegerField(
        label="Messages, at most", min_value=1, max_value=MAX_BATCH, initial=1,
        help_text=f"1 to {MAX_BATCH}. They are hidden from all others for the queue's visibility timeout.",
    )  # fmt: skip
    wait_s = forms.IntegerField(
        label="Wait (seconds)", min_value=0, max_value=WAIT_SECONDS, initial=0,
        help_text=f"For a message to come, up to {WAIT_SECONDS}.",
    )  # fmt: skip
    base64 = forms.BooleanField(label="Decode Base64", required=False)


class HideForm(forms.Form):
    """How long a received message is hidden from now on."""

    handle = forms.CharField(max_length=256, widget=forms.HiddenInput)
    seconds = forms.IntegerField(
        label="Hide for (seconds)",
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
