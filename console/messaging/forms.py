"""What the message pages ask for. Times are in the viewer's zone."""

from __future__ import annotations

import time
from typing import Any

from django import forms
from django.utils.translation import gettext as _

from console.accounts.actor import Actor
from console.instances.models import Instance
from console.messaging.letter_filters import REASONS, STATES
from console.topics.access import find_topic
from console.topics.models import OrderType, Topic
from console.web import zone
from console.web.languages import gettext_lazy
from console.web.moments import FollowsDates, MomentField, refuse_turned

PRESETS = [
    ("15m", gettext_lazy("Last 15 minutes"), 15),
    ("1h", gettext_lazy("Last hour"), 60),
    ("6h", gettext_lazy("Last 6 hours"), 6 * 60),
    ("1d", gettext_lazy("Last day"), 24 * 60),
    ("3d", gettext_lazy("Last 3 days"), 3 * 24 * 60),
]
_MINUTES = {key: minutes for key, _unused, minutes in PRESETS}
_BODY_BYTES = 4 * 1024 * 1024
_ORDERED = (OrderType.PARTITIONALLY_ORDERED, OrderType.GLOBALLY_ORDERED)


class RangeForm(FollowsDates):
    """A time range: a preset that ends now, or begin and end. Without a begin it starts with the oldest message."""

    range = forms.ChoiceField(
        label=gettext_lazy("Stored"),
        choices=[(k, text) for k, text, _unused in PRESETS] + [("custom", gettext_lazy("From … to …"))],
        initial="1h",
    )
    begin = MomentField(label=zone.labelled(gettext_lazy("From")), required=False)
    end = MomentField(label=gettext_lazy("To"), required=False, later=True)

    def clean(self) -> dict[str, Any]:
        """Adds `begin_ms` and `end_ms`."""
        cleaned = super().clean() or self.cleaned_data
        now_ms = int(time.time() * 1000)
        if cleaned.get("range") != "custom":
            minutes = _MINUTES.get(str(cleaned.get("range")), 60)
            return cleaned | {"begin_ms": now_ms - minutes * 60_000, "end_ms": now_ms}
        begin, end = cleaned.get("begin"), cleaned.get("end")
        if begin is None and end is None and not self.errors:
            self.add_error("begin", _("Choose a start."))
        refuse_turned(self, cleaned)
        # The field has no milliseconds, so the last second counts as a whole.
        return cleaned | {"begin_ms": begin or 0, "end_ms": now_ms if end is None else end + 999}


def _typed(placeholder: str = "") -> forms.TextInput:
    return forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "placeholder": placeholder})


class TopicField(forms.CharField):
    """The name of a topic, typed or chosen from suggestions; cleaned to the Topic of the form's instance."""

    def __init__(self) -> None:
        super().__init__(
            label=_("Topic"),
            max_length=127,
            error_messages={"required": _("Choose a topic.")},
            widget=forms.TextInput(attrs={"list": "topic-names", "autocomplete": "off", "spellcheck": "false"}),
        )


class _OnTopic(forms.Form):
    def __init__(self, *args: Any, actor: Actor, instance: Instance, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._actor, self._instance = actor, instance

    def clean_topic(self) -> Topic:
        name = self.cleaned_data["topic"].strip()
        # In another account's instance, a topic that was not granted looks as if it did not exist.
        found = find_topic(self._actor, self._instance.instance_id, name)
        if found is None:
            raise forms.ValidationError(_("There is no such topic in this instance."))
        return found


class TimeSearchForm(_OnTopic, RangeForm):
    """Search by topic and time."""

    topic = TopicField()
    tag = forms.CharField(
        label=gettext_lazy("Tag"),
        required=False,
        max_length=128,
        help_text=gettext_lazy("Exactly this tag; empty for all."),
    )
    order = forms.ChoiceField(
        label=gettext_lazy("Order"),
        choices=[("newest", gettext_lazy("Newest first")), ("oldest", gettext_lazy("Oldest first"))],
        required=False,
    )
    field_order = ["topic", "range", "begin", "end", "tag", "order"]


class IdSearchForm(_OnTopic):
    """Search by message id."""

    topic = TopicField()
    message_id = forms.CharField(
        label=gettext_lazy("Message ID"),
        max_length=128,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text=gettext_lazy("The ID in the producer's SendResult, or an offset ID."),
    )


class KeySearchForm(_OnTopic):
    """Search by key."""

    topic = TopicField()
    key = forms.CharField(
        label=gettext_lazy("Key"),
        max_length=1024,
        help_text=gettext_lazy("A complete key. The 64 newest messages are shown."),
    )
    begin = MomentField(label=zone.labelled(gettext_lazy("From")), required=False)
    end = MomentField(label=gettext_lazy("To"), required=False, later=True)

    def clean(self) -> dict[str, Any]:
        """The end is not before the start."""
        cleaned = super().clean() or self.cleaned_data
        refuse_turned(self, cleaned)
        return cleaned


class LetterForm(RangeForm):
    """Which dead letters of a group are listed. With an id the rest does not count."""

    state = forms.ChoiceField(label=gettext_lazy("Show"), choices=list(STATES.items()), required=False)
    message_id = forms.CharField(label=gettext_lazy("Message ID"), required=False, max_length=128, widget=_typed())
    reason = forms.ChoiceField(label=gettext_lazy("Reason"), choices=list(REASONS.items()), required=False)
    tag = forms.CharField(
        label=gettext_lazy("Tag"),
        required=False,
        max_length=128,
        widget=_typed(),
        help_text=gettext_lazy("Exactly this tag."),
    )
    key = forms.CharField(
        label=gettext_lazy("Key"),
        required=False,
        max_length=1024,
        widget=_typed(),
        help_text=gettext_lazy("A complete key."),
    )
    property = forms.CharField(
        label=gettext_lazy("Property"), required=False, max_length=1024, widget=_typed("name=value"),
        help_text=gettext_lazy("A pair, a name, or a part of a value."),
    )  # fmt: skip
    body = forms.CharField(
        label=gettext_lazy("Body text"),
        required=False,
        max_length=1024,
        widget=_typed(),
        help_text=gettext_lazy("Anywhere in it, in any case."),
    )
    field_order = ["range", "begin", "end", "state", "message_id", "reason", "tag", "key", "property", "body"]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["range"].label = _("Gave up")

    quick = ("range", "begin", "end", "state")
    more = ("message_id", "reason", "tag", "key", "property", "body")

    def quick_fields(self) -> list[Any]:
        """What is always there."""
        return [self[name] for name in self.quick]

    def more_fields(self) -> list[Any]:
        """What is folded away until one of them is used."""
        return [self[name] for name in self.more]

    def has_more(self) -> bool:
        """True when one of those is used."""
        return any(self.data.get(name) for name in self.more)

    def wanted(self) -> dict[str, str]:
        """The filters as `dead_letters.search` takes them."""
        names = ("state", "reason", "tag", "key", "property", "body")
        return {name: str(self.cleaned_data.get(name, "")).strip() for name in names}


class PublishForm(forms.Form):
    """A test message; fields that do not fit the topic's type are left out."""

    body = forms.CharField(
        label=gettext_lazy("Body"),
        strip=False,
        widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false", "class": "font-monospace"}),
        help_text=gettext_lazy("Text, sent as UTF-8 with line ends of one character."),
    )
    tag = forms.CharField(
        label=gettext_lazy("Tag"),
        required=False,
        max_length=128,
        help_text=gettext_lazy("One word, by which consumers choose what they get."),
    )
    key = forms.CharField(
        label=gettext_lazy("Key"),
        required=False,
        max_length=1024,
        help_text=gettext_lazy("Separate several keys with spaces."),
    )
    sharding_key = forms.CharField(
        label=gettext_lazy("Sharding key"),
        required=False,
        max_length=128,
        help_text=gettext_lazy("Equal keys go to the same queue."),
    )
    delay_seconds = forms.IntegerField(
        label=gettext_lazy("Deliver after (seconds)"),
        required=False,
        min_value=0,
        max_value=40 * 24 * 3600,
        help_text=gettext_lazy("Up to 3,456,000, which is 40 days; empty: at once."),
    )
    properties = forms.CharField(
        label=gettext_lazy("Properties"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "class": "font-monospace"}),
        help_text=gettext_lazy("One name=value per line."),
    )

    def __init__(self, *args: Any, topic: Topic, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if topic.order_type not in _ORDERED:
            del self.fields["sharding_key"]
        elif topic.order_type == OrderType.PARTITIONALLY_ORDERED:
            self.fields["sharding_key"].required = True
        if topic.order_type != OrderType.DELAYED:
            del self.fields["delay_seconds"]

    def clean_body(self) -> bytes:
        # Browsers send line ends of text areas as CRLF; what was typed has LF.
        body = str(self.cleaned_data["body"]).replace("\r\n", "\n").encode()
        if len(body) > _BODY_BYTES:
            raise forms.ValidationError(
                _("The body has %(body)s bytes; at most %(body_bytes)s are allowed.")
                % {"body": len(body), "body_bytes": _BODY_BYTES}
            )
        return body

    def clean_properties(self) -> dict[str, str]:
        pairs: dict[str, str] = {}
        for number, row in enumerate(str(self.cleaned_data["properties"]).splitlines(), start=1):
            if not row.strip():
                continue
            name, separator, value = row.partition("=")
            if not separator or not name.strip() or not value.strip():
                raise forms.ValidationError(_("Line %(number)s is not name=value.") % {"number": number})
            pairs[name.strip()] = value.strip()
        return pairs

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of `services.publish_test_message`."""
        cleaned = dict(self.cleaned_data)
        delay = cleaned.pop("delay_seconds", None)
        return cleaned | {"deliver_at_ms": int(time.time() * 1000) + delay * 1000 if delay else None}


class TargetForm(FollowsDates):
    """Where to move a group's progress."""

    choice_of_dates, dates = ("to", "time"), ("at",)

    to = forms.ChoiceField(
        label=gettext_lazy("Reset to"),
        choices=[
            ("end", gettext_lazy("new messages only (skip the backlog)")),
            ("begin", gettext_lazy("the oldest stored message")),
            ("time", gettext_lazy("the first message stored at or after …")),
        ],
        initial="end",
        widget=forms.RadioSelect,
    )
    at = MomentField(label=zone.labelled(gettext_lazy("Time")), required=False)

    def clean(self) -> dict[str, Any]:
        """Adds `target` as `services.reset_offset` wants it."""
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("to") == "time" and cleaned.get("at") is None and "at" not in self.errors:
            self.add_error("at", _("Choose the time."))
        return cleaned | {"target": cleaned.get("at") if cleaned.get("to") == "time" else cleaned.get("to")}

    @property
    def exact_at(self) -> str:
        """The chosen time with its offset: the reset goes to the time of the preview, whatever the zone is by then."""
        chosen = self.cleaned_data.get("at")
        return "" if chosen is None else zone.local(chosen).isoformat()


class ResetForm(_OnTopic, TargetForm):
    """Where to move a group's progress in one topic, or in one of its queues (`broker-a:0`)."""

    topic = TopicField()
    queue = forms.CharField(
        label=gettext_lazy("Queue"),
        required=False,
        max_length=255,
        widget=forms.TextInput(
            attrs={"autocomplete": "off", "spellcheck": "false", "placeholder": gettext_lazy("All queues")}
        ),
        help_text=gettext_lazy("Empty for all, or one as broker:number."),
    )
    field_order = ["topic", "queue", "to", "at"]
