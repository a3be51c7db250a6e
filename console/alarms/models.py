"""Rules that watch what an account has, who is told, and what happened (docs/use/alarms.md)."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from console.accounts.models import Tenant
from console.alarms import sentences
from console.instances.models import Instance
from console.web.languages import gettext_lazy


class Condition(models.TextChoices):
    """What a rule watches."""

    BACKLOG = "group.backlog", gettext_lazy("Backlog of a group")
    DELAY = "group.delay", gettext_lazy("Delay of a group")
    STALLED = "group.stalled", gettext_lazy("Group that consumes nothing")
    OFFLINE = "group.offline", gettext_lazy("Group that is offline")
    DEAD_LETTERS = "group.dead_letters", gettext_lazy("New dead letters of a group")
    ABOVE = "topic.above", gettext_lazy("Rate of a topic above")
    BELOW = "topic.below", gettext_lazy("Rate of a topic below")
    STORAGE = "broker.storage", gettext_lazy("Storage of a broker")
    AWAY = "broker.away", gettext_lazy("Broker that does not answer")
    THROTTLED = "instance.throttled", gettext_lazy("Instance whose clients are held back")
    REFUSED = "account.throttled", gettext_lazy("Requests refused for limits of the account")
    ROOM = "account.storage", gettext_lazy("Storage of the account at the brokers")
    PIPELINE = "pipeline.failed", gettext_lazy("Failed SQL job or inflow task")
    STOPPED = "pipeline.stopped", gettext_lazy("SQL job or inflow task that does not run")
    PIPELINE_DELAY = "pipeline.delay", gettext_lazy("Delay of a SQL job or inflow task")
    TRACKING = "tracking.failed", gettext_lazy("Failed change tracking task")
    TRACKING_DELAY = "tracking.delay", gettext_lazy("Delay of a change tracking task")
    STATEMENTS = "sql.failed", gettext_lazy("Failed SQL statements")

    @property
    def unit(self) -> str:
        """Of its threshold, in English; empty where it has none."""
        return _UNITS[self][0] if self in _UNITS else ""

    @property
    def unit_word(self) -> str:
        """The same in the visitor's language."""
        return str(_UNITS[self][1]) if self in _UNITS else ""

    @property
    def is_of_groups(self) -> bool:
        """Whether it is about groups, of an instance."""
        return self.value.startswith("group.")

    @property
    def is_of_topics(self) -> bool:
        """Whether it is about topics, of an instance."""
        return self.value.startswith("topic.")

    @property
    def is_of_an_instance(self) -> bool:
        """Whether a rule may be about one instance only."""
        return self.is_of_groups or self.is_of_topics or self == Condition.THROTTLED

    @property
    def has_names(self) -> bool:
        """Whether a rule says of which things it is."""
        return not self.value.startswith(("broker.", "instance.", "account.", "sql."))

    @property
    def is_counted(self) -> bool:
        """Whether something is counted within the rule's minutes; else it holds for as long as they are."""
        return self in (Condition.DEAD_LETTERS, Condition.STATEMENTS, Condition.THROTTLED, Condition.REFUSED)


#: As machines are told, and as pages say it.
_UNITS = {
    Condition.BACKLOG: ("messages", gettext_lazy("messages")),
    Condition.DELAY: ("seconds", gettext_lazy("seconds")),
    Condition.DEAD_LETTERS: ("dead letters", gettext_lazy("dead letters")),
    Condition.ABOVE: ("messages/s", gettext_lazy("messages/s")),
    Condition.BELOW: ("messages/s", gettext_lazy("messages/s")),
    Condition.STORAGE: ("%", "%"),
    Condition.THROTTLED: ("times", gettext_lazy("times")),
    Condition.REFUSED: ("requests", gettext_lazy("requests")),
    Condition.ROOM: ("%", "%"),
    Condition.PIPELINE_DELAY: ("seconds", gettext_lazy("seconds")),
    Condition.TRACKING_DELAY: ("seconds", gettext_lazy("seconds")),
    Condition.STATEMENTS: ("statements", gettext_lazy("statements")),
}


class Severity(models.TextChoices):
    """How bad it is."""

    CRITICAL = "critical", gettext_lazy("Critical")
    WARNING = "warning", gettext_lazy("Warning")
    NOTE = "note", gettext_lazy("Note")


class RecipientKind(models.TextChoices):
    """How somebody is told."""

    MAIL = "mail", gettext_lazy("Mail")
    WEBHOOK = "webhook", gettext_lazy("Webhook")
    SLACK = "slack", gettext_lazy("Slack")
    DINGTALK = "dingtalk", gettext_lazy("DingTalk")
    FEISHU = "feishu", gettext_lazy("Feishu")
    TOPIC = "topic", gettext_lazy("Topic")
    QUEUE = "queue", gettext_lazy("Queue")

    @property
    def is_of_people(self) -> bool:
        """Whether people read what arrives; else programs do."""
        return self not in (RecipientKind.WEBHOOK, RecipientKind.TOPIC, RecipientKind.QUEUE)


class Recipient(models.Model):
    """Who is told. Addresses of webhooks are secrets themselves, so all are encrypted."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="alarm_recipients")
    name = models.CharField(max_length=64)
    kind = models.CharField(max_length=8, choices=RecipientKind.choices)
    address_encrypted = models.TextField(blank=True, help_text="addresses of mail, or a URL")
    secret_encrypted = models.TextField(blank=True, help_text="what signs requests to a webhook")
    shown = models.CharField(max_length=512, help_text="what pages tell of the address")
    language = models.CharField(max_length=16, default="en", help_text="in which people are told; programs: English")
    instance = models.ForeignKey(Instance, null=True, on_delete=models.CASCADE, related_name="+")
    topic = models.CharField(max_length=255, blank=True)
    queue = models.CharField(max_length=255, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["tenant", "name"], name="alarm_recipient_name_once")]

    @property
    def language_word(self) -> str:
        """Its language in that language, where people read what arrives and it is not the usual one."""
        is_usual = self.language == settings.LANGUAGE_CODE or not RecipientKind(self.kind).is_of_people
        return "" if is_usual else dict(settings.LANGUAGES).get(self.language, self.language)

    def __str__(self) -> str:
        return self.name


class Rule(models.Model):
    """One condition, of all things of an account that fit; each of them has an alarm of its own."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="alarm_rules")
    name = models.CharField(max_length=64)
    condition = models.CharField(max_length=24, choices=Condition.choices)
    instance = models.ForeignKey(
        Instance, null=True, on_delete=models.CASCADE, related_name="alarm_rules", help_text="null: all"
    )
    names = models.CharField(max_length=512, default="*", help_text="patterns with * and ?, separated by spaces")
    threshold = models.FloatField(default=0)
    minutes = models.PositiveSmallIntegerField(default=0, help_text="for how long; of a count, within how long")
    severity = models.CharField(max_length=8, choices=Severity.choices, default=Severity.WARNING)
    repeat_minutes = models.PositiveSmallIntegerField(default=0, help_text="until it is acknowledged; 0: told once")
    quiet_from = models.TimeField(null=True)
    quiet_until = models.TimeField(null=True)
    zone = models.CharField(max_length=64, default="UTC", help_text="of the quiet hours")
    enabled = models.BooleanField(default=True)
    recipients = models.ManyToManyField(Recipient, related_name="rules")
    creator = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["tenant", "name"], name="alarm_rule_name_once")]

    @property
    def watched(self) -> Condition:
        """Its condition, with what is known of it."""
        return Condition(self.condition)

    @property
    def needs_minutes(self) -> int:
        """For how many minutes the condition holds before somebody is told."""
        return 0 if self.watched.is_counted else self.minutes

    def __str__(self) -> str:
        return self.name


class Alarm(models.Model):
    """What a rule found of one thing: it waits, then fires, and ends.

    It fires by a conditional update of `fired_at` and ends by one of `ended_at`, so that two workers tell nothing
    twice. Its rule may be gone: what happened stays.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="alarms")
    rule = models.ForeignKey(Rule, null=True, on_delete=models.SET_NULL, related_name="alarms")
    rule_name = models.CharField(max_length=64)
    condition = models.CharField(max_length=24, choices=Condition.choices)
    severity = models.CharField(max_length=8, choices=Severity.choices)
    subject = models.CharField(max_length=320, help_text="of what, the same for the same thing")
    sentence = models.CharField(max_length=512, help_text="in English, as machines are told and searches find it")
    facts = models.JSONField(default=dict, help_text="what is needed to say it in any language")
    value = models.FloatField(null=True)
    path = models.CharField(max_length=512, blank=True, help_text="of the page on which it is looked into")
    began_at = models.DateTimeField()
    fired_at = models.DateTimeField(null=True)
    told_at = models.DateTimeField(null=True, help_text="null while it fires: quiet hours")
    repeats = models.PositiveIntegerField(default=0, help_text="how often it was told again")
    repeated_at = models.DateTimeField(null=True, help_text="when it was told again last")
    ended_at = models.DateTimeField(null=True)
    acknowledged_at = models.DateTimeField(null=True)
    acknowledged_by = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering = ["-began_at", "-pk"]
        constraints = [
            models.UniqueConstraint(fields=["rule", "subject"], condition=Q(ended_at=None), name="alarm_open_once")
        ]
        indexes = [
            models.Index(fields=["tenant", "ended_at", "-began_at"], name="alarm_history"),
            models.Index(fields=["ended_at"], name="alarm_ended"),
        ]

    @property
    def told(self) -> str:
        """What it says, in the reader's language."""
        return sentences.sentence(self.condition, self.facts, self.sentence)

    @property
    def word(self) -> str:
        """Its state as pages name it."""
        if self.ended_at is not None:
            return pgettext("state", "Ended")
        return _("Firing") if self.fired_at is not None else _("Pending")

    def __str__(self) -> str:
        return f"{self.rule_name}: {self.subject}"
