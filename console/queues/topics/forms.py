"""What the pages of topics ask for. Ranges and defaults are the queue service's."""

from __future__ import annotations

from django import forms

from brokercore.smq.wire.queues import LOGGING
from brokercore.smq.wire.requests import MAX_TOPIC_NAME
from brokercore.smq.wire.subscriptions import Format, Strategy
from brokercore.smq.wire.topics import MAX_TAG, RANGES, TopicState

_SIZE = RANGES["MaximumMessageSize"]
_NAME = forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"})
_NAME_HELP = f"1 to {MAX_TOPIC_NAME} letters, digits and hyphens, a letter or digit first."


class AttributesForm(forms.Form):
    """Every attribute of a topic that can be set."""

    most_bytes = forms.IntegerField(
        label="Largest message, bytes",
        min_value=_SIZE.least,
        max_value=_SIZE.most,
        initial=_SIZE.default,
        help_text=f"Longer bodies are refused. {_SIZE.least:,} to {_SIZE.most:,}.",
    )
    is_logged = forms.BooleanField(label="Logging enabled", required=False)

    @classmethod
    def of_state(cls, state: TopicState) -> AttributesForm:
        """The form filled with what a topic has."""
        return cls(initial={"most_bytes": state.attributes["MaximumMessageSize"], "is_logged": state.is_logged})

    def attributes(self) -> dict[str, int]:
        """The attributes as they were sent, LoggingEnabled as 0 or 1."""
        return {
            "MaximumMessageSize": self.cleaned_data["most_bytes"],
            LOGGING: int(self.cleaned_data["is_logged"]),
        }


class TopicForm(AttributesForm):
    """A new topic."""

    name = forms.CharField(label="Name", max_length=MAX_TOPIC_NAME, widget=_NAME, help_text=_NAME_HELP)
    field_order = ("name",)


class SubscriptionForm(forms.Form):
    """What of a subscription can be changed."""

    strategy = forms.TypedChoiceField(
        label="When a push fails",
        coerce=Strategy,
        choices=[
            (Strategy.BACKOFF, "try 3 times more, 10 to 20 s apart"),
            (Strategy.DECAY, "try 176 times more within a day"),
        ],
    )
    tag = forms.CharField(
        label="Tag", required=False, max_length=MAX_TAG, help_text="Only messages with this tag; left empty: all."
    )


class SubscribeForm(SubscriptionForm):
    """A new subscription."""

    name = forms.CharField(label="Name", max_length=MAX_TOPIC_NAME, widget=_NAME, help_text=_NAME_HELP)
    receiver = forms.CharField(
        label="Receiver",
        max_length=1024,
        widget=_NAME,
        help_text="The name of a queue of this account, or a URL that notifications are posted to.",
    )
    form = forms.TypedChoiceField(
        label="Format",
        coerce=Format,
        choices=[
            (Format.SIMPLIFIED, "the published text alone"),
            (Format.XML, "XML, with what is known of the message"),
            (Format.JSON, "JSON, with what is known of the message"),
        ],
    )
    field_order = ("name", "receiver", "strategy", "form", "tag")


class PublishForm(forms.Form):
    """A message by hand."""

    body = forms.CharField(
        label="Body",
        strip=False,
        widget=forms.Textarea(attrs={"rows": 6, "spellcheck": "false", "class": "font-monospace"}),
    )
    tag = forms.CharField(label="Tag", required=False, max_length=MAX_TAG)
