"""What the pages of alarms ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from django import forms
from django.conf import settings
from django.db.models import QuerySet
from django.utils import translation
from django.utils.translation import gettext as _

from console.accounts.actor import Actor
from console.alarms import queries
from console.alarms.models import Condition, Recipient, RecipientKind, Rule, Severity
from console.alarms.services import MOST_MINUTES, RecipientValues, RuleValues
from console.instances import queries as instances
from console.instances.models import Instance
from console.web import zone
from console.web.languages import gettext_lazy, pgettext_lazy

_PLAIN = {"autocomplete": "off", "spellcheck": "false"}
_CODE = _PLAIN | {"class": "font-monospace"}
_TIME = forms.TimeInput(attrs={"type": "time"}, format="%H:%M")
_GROUPS = (
    (gettext_lazy("Groups"), ("group.backlog", "group.delay", "group.stalled", "group.offline", "group.dead_letters")),
    (gettext_lazy("Topics"), ("topic.above", "topic.below")),
    (gettext_lazy("Instances and the account"), ("instance.throttled", "account.throttled", "account.storage")),
    (gettext_lazy("Brokers"), ("broker.storage", "broker.away")),
    (gettext_lazy("SQL jobs and inflow tasks"), ("pipeline.failed", "pipeline.stopped", "pipeline.delay")),
    (gettext_lazy("Change tracking and statements"), ("tracking.failed", "tracking.delay", "sql.failed")),
)


def _conditions() -> list[tuple[str, list[tuple[str, str]]]]:
    found = []
    for title, values in _GROUPS:
        choices = []
        for value in values:
            condition = Condition(value)
            unit = condition.unit_word
            choices.append((value, f"{condition.label} ({unit})" if unit else str(condition.label)))
        found.append((title, choices))
    return found


def _initial(rule: Rule) -> dict[str, Any]:
    names = (
        "name", "condition", "minutes", "instance", "names", "severity", "repeat_minutes", "quiet_from", "quiet_until",
        "zone",
    )  # fmt: skip
    found = {name: getattr(rule, name) for name in names}
    return found | {"threshold": f"{rule.threshold:g}", "recipients": list(rule.recipients.all())}


def _asked(wanted: Mapping[str, str], own: QuerySet[Instance]) -> dict[str, Any]:
    found: dict[str, Any] = {name: wanted[name] for name in ("names", "threshold") if name in wanted}
    if wanted.get("condition") in Condition.values:
        found["condition"] = wanted["condition"]
    if "instance" in wanted:
        found["instance"] = own.filter(instance_id=wanted["instance"]).first()
    return found


class RuleForm(forms.Form):
    """A rule; of an account's own instances and recipients."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=64,
        widget=forms.TextInput(attrs=_PLAIN | {"autofocus": True}),
        help_text=gettext_lazy("What people read in the notice."),
    )
    condition = forms.ChoiceField(label=gettext_lazy("Condition"))
    threshold = forms.FloatField(
        label=gettext_lazy("Threshold"),
        required=False,
        min_value=0,
        initial=1000,
        help_text=gettext_lazy(
            "In the unit that stands behind the condition; what is offline or has failed needs none."
        ),
    )
    minutes = forms.IntegerField(
        label=gettext_lazy("For minutes"),
        required=False,
        min_value=0,
        max_value=MOST_MINUTES,
        initial=5,
        help_text=gettext_lazy(
            "So long it holds before somebody is told; 0: at once. Of what is counted: within so many minutes."
        ),
    )
    instance = forms.ModelChoiceField(
        label=gettext_lazy("Instance"),
        queryset=Instance.objects.none(),
        required=False,
        empty_label=gettext_lazy("All instances"),
        help_text=gettext_lazy("Of groups and topics, and of clients that are held back."),
    )
    names = forms.CharField(
        label=gettext_lazy("Names"),
        max_length=512,
        required=False,
        initial="*",
        widget=forms.TextInput(attrs=_CODE),
        help_text=gettext_lazy(
            "Of groups, topics, jobs or tasks: patterns with * and ?, separated by spaces. Each has "
            "an alarm of its own."
        ),
    )
    severity = forms.ChoiceField(
        label=gettext_lazy("Severity"),
        choices=Severity.choices,
        initial=Severity.WARNING,
        help_text=gettext_lazy("Said in the notice and in lists."),
    )
    recipients = forms.ModelMultipleChoiceField(
        label=gettext_lazy("Tell"),
        queryset=Recipient.objects.none(),
        widget=forms.CheckboxSelectMultiple,
        help_text=gettext_lazy("Each gets every notice of this rule, its end too."),
    )
    repeat_minutes = forms.IntegerField(
        label=gettext_lazy("Tell again after minutes"),
        required=False,
        min_value=0,
        max_value=MOST_MINUTES,
        initial=0,
        help_text=gettext_lazy("While it fires and nobody has acknowledged it; 0: it is told once."),
    )
    quiet_from = forms.TimeField(label=gettext_lazy("Quiet hours from"), required=False, widget=_TIME)
    quiet_until = forms.TimeField(
        label=gettext_lazy("Quiet hours until"),
        required=False,
        widget=_TIME,
        help_text=gettext_lazy("Nobody is told within these; what still holds when they end is told then."),
    )
    zone = forms.CharField(
        label=gettext_lazy("Time zone of these hours"),
        required=False,
        initial="UTC",
        max_length=64,
        help_text=gettext_lazy("Such as Europe/Berlin."),
    )

    def __init__(
        self, data: Any = None, *, actor: Actor, rule: Rule | None = None, wanted: Mapping[str, str] | None = None
    ) -> None:
        """`wanted` is what the page that leads here wants to be watched, by the names of fields."""
        own = instances.instances(actor.tenant).order_by("name")
        initial = _initial(rule) if rule is not None else _asked(wanted or {}, own)
        super().__init__(data, initial=initial)
        self._enabled = rule.enabled if rule is not None else True
        fields = cast("dict[str, Any]", self.fields)
        fields["condition"].choices = _conditions()
        fields["instance"].queryset = own
        fields["instance"].label_from_instance = lambda one: one.name
        fields["recipients"].queryset = queries.recipients(actor.tenant)
        fields["recipients"].label_from_instance = lambda one: f"{one.name} ({one.get_kind_display()})"
        fields["zone"].widget = forms.TextInput(attrs=_PLAIN | {"list": "zones"})

    @property
    def zones(self) -> list[str]:
        """The time zones that there are."""
        return zone.names()

    @property
    def values(self) -> RuleValues:
        """What was said, as services take it."""
        said = self.cleaned_data
        return RuleValues(
            name=said["name"],
            condition=Condition(said["condition"]),
            instance=said["instance"],
            names=said["names"] or "*",
            threshold=said["threshold"] or 0,
            minutes=said["minutes"] or 0,
            severity=Severity(said["severity"]),
            repeat_minutes=said["repeat_minutes"] or 0,
            quiet_from=said["quiet_from"],
            quiet_until=said["quiet_until"],
            zone=said["zone"] or "UTC",
            enabled=self._enabled,
            recipients=list(said["recipients"]),
        )


class RecipientForm(forms.Form):
    """Somebody who can be told."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=64,
        widget=forms.TextInput(attrs=_PLAIN | {"autofocus": True}),
        help_text=gettext_lazy("What rules call it."),
    )
    kind = forms.ChoiceField(label=pgettext_lazy("way of sending", "By"), choices=RecipientKind.choices)
    address = forms.CharField(
        label=gettext_lazy("Address"),
        required=False,
        max_length=2048,
        widget=forms.TextInput(attrs=_CODE),
        help_text=gettext_lazy(
            "Addresses of mail separated by commas, or the URL of the webhook or robot. It is stored "
            "encrypted; of a URL the host only is shown again."
        ),
    )
    language = forms.ChoiceField(
        label=gettext_lazy("Language"),
        choices=settings.LANGUAGES,
        required=False,
        help_text=gettext_lazy("Of mail and of what is said in a chat; programs are told in English."),
    )
    secret = forms.CharField(
        label=gettext_lazy("Secret"),
        required=False,
        max_length=256,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=gettext_lazy("Signs what is sent: of a webhook of your own, DingTalk and Feishu. Never shown again."),
    )
    instance = forms.ModelChoiceField(
        label=gettext_lazy("Instance of the topic"), queryset=Instance.objects.none(), required=False, empty_label="–"
    )
    topic = forms.CharField(
        label=gettext_lazy("Topic"), required=False, max_length=255, widget=forms.TextInput(attrs=_CODE)
    )
    queue = forms.CharField(
        label=gettext_lazy("Queue"), required=False, max_length=255, widget=forms.TextInput(attrs=_CODE)
    )

    def __init__(self, data: Any = None, *, actor: Actor, recipient: Recipient | None = None) -> None:
        initial = {"language": translation.get_language()}  # most are told what whoever makes them would read
        if recipient is not None:
            names = ("name", "kind", "instance", "topic", "queue", "language")
            initial = {name: getattr(recipient, name) for name in names}
            if recipient.kind == RecipientKind.MAIL:
                initial["address"] = recipient.shown
        super().__init__(data, initial=initial)
        fields = cast("dict[str, Any]", self.fields)
        if recipient is not None:
            fields["address"].help_text = _("Left empty, it stays, and so does its secret.")
        fields["instance"].queryset = instances.instances(actor.tenant).order_by("name")
        fields["instance"].label_from_instance = lambda one: one.name

    @property
    def values(self) -> RecipientValues:
        """What was said, as services take it."""
        said = self.cleaned_data
        return RecipientValues(
            name=said["name"],
            kind=RecipientKind(said["kind"]),
            address=said["address"],
            secret=said["secret"],
            instance=said["instance"],
            topic=said["topic"],
            queue=said["queue"],
            language=said["language"],
        )
