"""Sources with an event log of the task's own: requests to a webhook, and a schedule (`console.feeds`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from django import forms
from django.utils.translation import gettext as _

from analytics.inflow import schedule, task_sources, webhook
from analytics.inflow.schedule import Schedule
from analytics.inflow.task import Task
from analytics.inflow.transform import Event
from analytics.inflow.webhook import METHODS, SIGNATURE
from console.accounts.actor import Actor
from console.accounts.models import Tenant
from console.feeds import queries, services
from console.feeds.models import Kind
from console.inflow import access
from console.inflow.providers.shape import PLAIN, Document, Provider, Recent
from console.inflow.sample_events import RECENT, RECENT_BYTES, event_of
from console.pipelines.event_logs import Holder, Login
from console.web.errors import Refused
from console.web.languages import gettext_lazy

_CODE = PLAIN | {"class": "font-monospace"}
_LONGEST_NETWORKS = 8 * 1024
#: Due times that are shown.
_SHOWN = 5
#: In the example of a schedule.
_SOME_TIME = datetime.fromisoformat("2026-01-15T08:30:00Z")


class _Feeds(Provider):
    """What both have."""

    feed_kind: ClassVar[Kind]

    def made(self, actor: Actor, source: Document) -> dict[str, forms.Field]:
        return {
            "retention": forms.IntegerField(
                label=_("Keep events (days)"),
                required=False,
                min_value=1,
                max_value=task_sources.MOST_DAYS,
                initial=task_sources.DEFAULT_DAYS,
                help_text=_("For so long events wait for a task that is paused; 1 to 365."),
            ),
        }

    def initial(self, source: Document) -> dict[str, Any]:
        return {"retention": source.get(task_sources.RETENTION, task_sources.DEFAULT_DAYS)}

    def document(self, told: Mapping[str, Any], before: Document) -> dict[str, Any]:
        days = told.get("retention")
        return {} if days is None else {task_sources.RETENTION: days}

    def hold(self, actor: Actor, task: Task, before: Document | None, login: Login, holder: Holder) -> None:
        """Keep what the feed is told; nobody but the task reads it."""
        services.keep(
            tenant=actor.tenant,
            name=task.name,
            holder=holder.key,
            kind=self.feed_kind,
            told=json.loads(str(task.source.get(task_sources.SETTINGS))),
            retention_days=int(str(task.source.get(task_sources.RETENTION))),
        )

    def release(self, tenant: Tenant, holder: Holder) -> None:
        for feed in queries.held(tenant, holder.key):
            if feed.kind == self.feed_kind:
                services.delete(feed)

    def begun(self, tenant: Tenant, holder: Holder, since: datetime | None) -> bool:
        feed = next((one for one in queries.held(tenant, holder.key) if one.kind == self.feed_kind), None)
        if feed is None:
            raise Refused(
                "SOURCE_MISSING", _("The task's events are kept no more; save the task again."), "source.kind"
            )
        services.resume(feed)
        return since is not None and feed.created_at > since

    def paused(self, tenant: Tenant, holder: Holder) -> None:
        for feed in queries.held(tenant, holder.key):
            services.pause(feed)

    def recent_of(self, actor: Actor, source: Document, name: str) -> Sequence[Recent]:
        """For who may change the task, and so see what becomes of its events."""
        feed = queries.feed(actor.tenant, name) if name else None
        if feed is None or feed.kind != self.feed_kind or not access.may(actor, access.UPDATE, name):
            return ()
        events = [(entry, event_of(entry.event)) for entry in queries.recent(feed, RECENT, RECENT_BYTES)]
        return [
            Recent(entry.sequence, entry.time_ms, event, str(event.get("subject", ""))[:200])
            for entry, event in events
            if event is not None
        ]


class Webhooks(_Feeds):
    """HTTP requests to an address of the task's own."""

    kind = task_sources.WEBHOOK
    feed_kind = Kind.WEBHOOK
    title = gettext_lazy("HTTP requests (webhook)")
    fields = ("methods", "networks", "signature", "retention")
    places = {"methods": "methods", "networks": "networks", "signature": "signature", "retentionDays": "retention"}
    note = "inflow/_webhook_note.html"

    def made(self, actor: Actor, source: Document) -> dict[str, forms.Field]:
        return super().made(actor, source) | {
            "methods": forms.MultipleChoiceField(
                label=_("Methods"),
                required=False,
                choices=[(one, one) for one in METHODS],
                initial=METHODS[:1],
                widget=forms.CheckboxSelectMultiple,
            ),
            "networks": forms.CharField(
                label=_("Source addresses"),
                required=False,
                max_length=_LONGEST_NETWORKS,
                widget=forms.Textarea(attrs=_CODE | {"rows": 2, "placeholder": "203.0.113.0/24"}),
                help_text=_("Addresses and networks from where requests may come, one a line; empty for all."),
            ),
            "signature": forms.CharField(
                label=_("Header with the signature"),
                required=False,
                max_length=64,
                widget=forms.TextInput(attrs=_CODE | {"placeholder": SIGNATURE}),
                help_text=_("Such as x-gantry-signature; empty: requests need none."),
            ),
        }

    def initial(self, source: Document) -> dict[str, Any]:
        return super().initial(source) | {
            "methods": source.get("methods") or list(METHODS[:1]),
            "networks": "\n".join(map(str, source.get("networks") or ())),
            "signature": source.get("signature"),
        }

    def document(self, told: Mapping[str, Any], before: Document) -> dict[str, Any]:
        found: dict[str, Any] = {"methods": told.get("methods") or list(METHODS[:1])}
        if networks := told.get("networks", "").replace(",", " ").split():
            found["networks"] = networks
        if told.get("signature"):
            found["signature"] = told["signature"]
        return found | super().document(told, before)

    def named(self, source: Document) -> str:
        return _("Webhook")

    def example(self, source: Document) -> Event:
        request = webhook.Request(
            "POST", "/orders", [("dry", "1")], {"content-type": "application/json"}, b'{"id": 7, "state": "paid"}'
        )
        made = webhook.event_of(request, identity="5f0c8e1e", task="orders-to-topic", at=_SOME_TIME)
        return event_of(made) or {}


class Schedules(_Feeds):
    """A fixed event, again and again."""

    kind = task_sources.SCHEDULE
    feed_kind = Kind.SCHEDULE
    title = "A schedule"
    fields = ("cron", "time_zone", "event", "retention")
    required = ("cron",)
    places = {"cron": "cron", "timeZone": "time_zone", "event": "event", "retentionDays": "retention"}

    def made(self, actor: Actor, source: Document) -> dict[str, forms.Field]:
        return super().made(actor, source) | {
            "cron": forms.CharField(
                label=_("Due times (cron)"),
                required=False,
                max_length=200,
                widget=forms.TextInput(attrs=_CODE | {"placeholder": "*/5 * * * *"}),
                help_text=_("Minute, hour, day of month, month, day of week."),
            ),
            "time_zone": forms.CharField(
                label=_("Time zone"),
                required=False,
                max_length=64,
                widget=forms.TextInput(attrs=PLAIN | {"placeholder": "UTC"}),
                help_text=_("Such as Asia/Shanghai; empty for UTC."),
            ),
            "event": forms.CharField(
                label=_("Event"),
                required=False,
                max_length=schedule.LONGEST_EVENT,
                widget=forms.Textarea(attrs=_CODE | {"rows": 4, "placeholder": '{"job": "rollup"}'}),
                help_text=_("A JSON object: the data of each event."),
            ),
        }

    def initial(self, source: Document) -> dict[str, Any]:
        event = source.get("event")
        return super().initial(source) | {
            "cron": source.get("cron"),
            "time_zone": source.get("timeZone"),
            "event": json.dumps(event, indent=2, ensure_ascii=False) if event else None,
        }

    def document(self, told: Mapping[str, Any], before: Document) -> dict[str, Any]:
        found: dict[str, Any] = {"cron": told.get("cron", "")}
        if told.get("time_zone"):
            found["timeZone"] = told["time_zone"]
        if told.get("event", "").strip():
            found["event"] = _json_or_text(told["event"])
        return found | super().document(told, before)

    def named(self, source: Document) -> str:
        return (_("Schedule %(source)s") % {"source": source.get("cron", "")}).strip()

    def example(self, source: Document) -> Event:
        event = source.get("event")
        told = event if isinstance(event, Mapping) else {}
        return schedule.event_of(_SOME_TIME, told, feed="feeddemo00001", task="orders-to-topic")

    def due(self, source: Document, moment: datetime) -> Sequence[datetime]:
        try:
            times = Schedule.read(str(source.get("cron") or ""), str(source.get("timeZone") or "UTC"))
        except schedule.ScheduleError:
            return []
        return times.following(moment, _SHOWN)


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
