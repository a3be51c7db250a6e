"""What the pages of topics ask for. Ranges and defaults are the queue service's."""

from __future__ import annotations

from django import forms

from brokercore.smq.wire.queues import LOGGING
from brokercore.smq.wire.requests import MAX_TOPIC_NAME
from brokercore.smq.wire.subscriptions import Format, Strategy
from brokercore.smq.wire.topics import MAX_TAG, RANGES, TopicState
from console.web.languages import gettext_lazy

_SIZE = RANGES["MaximumMessageSize"]
_NAME = forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"})
_NAME_HELP = gettext_lazy(
    "1 to %(max_topic_name)s letters, digits and hyphens, a letter or digit first.", max_topic_name=MAX_TOPIC_NAME
)


class AttributesForm(forms.Form):
    """Every attribute of a topic that can be set."""

    most_bytes = forms.IntegerField(
        label=gettext_lazy("Largest message, bytes"),
        min_value=_SIZE.least,
        max_value=_SIZE.most,
        initial=_SIZE.default,
        help_text=gettext_lazy(
            "Longer bodies are refused. %(least)s to %(most)s.", least=f"{_SIZE.least:,}", most=f"{_SIZE.most:,}"
        ),
    )
    is_logged = forms.BooleanField(label=gettext_lazy("Logging enabled"), required=False)

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

    name = forms.CharField(label=gettext_lazy("Name"), max_length=MAX_TOPIC_NAME, widget=_NAME, help_text=_NAME_HELP)
    field_order = ("name",)


class SubscriptionForm(forms.Form):
    """What of a subscription can be changed."""

    strategy = forms.TypedChoiceField(
        label=gettext_lazy("When a push fails"),
        coerce=Strategy,
        choices=[
            (Strategy.BACKOFF, gettext_lazy("try 3 times more, 10 to 20 s apart")),
            (Strategy.DECAY, gettext_lazy("try 176 times more within a day")),
        ],
    )
    tag = forms.CharField(
        label=gettext_lazy("Tag"),
        required=False,
        max_length=MAX_TAG,
        help_text=gettext_lazy("Only messages with this tag; left empty: all."),
    )


class SubscribeForm(SubscriptionForm):
    """A new subscription."""

    name = forms.CharField(label=gettext_lazy("Name"), max_length=MAX_TOPIC_NAME, widget=_NAME, help_text=_NAME_HELP)
    receiver = forms.CharField(
        label=gettext_lazy("Receiver"),
        max_length=1024,
        widget=_NAME,
        help_text=gettext_lazy("The name of a queue of this account, or a URL that notifications are posted to."),
    )
    form = forms.TypedChoiceField(
        label=gettext_lazy("Format"),
        coerce=Format,
        choices=[
            (Format.SIMPLIFIED, gettext_lazy("the published text alone")),
            (Format.XML, gettext_lazy("XML, with what is known of the message")),
            (Format.JSON, gettext_lazy("JSON, with what is known of the message")),
        ],
    )
    field_order = ("name", "receiver", "strategy", "form", "tag")


class PublishForm(forms.Form):
    """A message by hand."""

    body = forms.CharField(
        label=gettext_lazy("Body"),
        strip=False,
        widget=forms.Textarea(attrs={"rows": 6, "spellcheck": "false", "class": "font-monospace"}),
    )
    tag = forms.CharField(label=gettext_lazy("Tag"), required=False, max_length=MAX_TAG)
