"""Changes of a database: the event log of a change tracking task, or one in a bucket of the account."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from django import forms
from django.utils import timezone
from django.utils.translation import gettext as _

from analytics import lake
from analytics.errors import AnalyticsError
from analytics.inflow import debezium, task_sources
from analytics.inflow.event_reader import Reader
from analytics.inflow.fields import EventRejected
from analytics.inflow.task import Task
from analytics.inflow.transform import Event
from console.accounts.actor import Actor
from console.accounts.models import Tenant
from console.inflow.providers.shape import PLAIN, Document, Provider, Recent
from console.inflow.sample_events import RECENT, RECENT_BYTES, event_of
from console.pipelines import event_logs
from console.pipelines.event_logs import Holder, Login
from console.web import zone
from console.web.errors import Refused
from console.web.languages import gettext_lazy

#: A change as `analytics.inflow.changes` makes it.
EXAMPLE: Event = {
    "specversion": "1.0",
    "id": "mysql-bin.000012:4711:0",
    "source": "dtsdemo0001",
    "type": "dts:Change",
    "time": "2026-01-15T08:30:00.120Z",
    "subject": "shop.orders",
    "datacontenttype": "application/json",
    "data": {
        "operation": "UPDATE",
        "databaseName": "shop",
        "schemaName": None,
        "tableName": "orders",
        "primaryKey": {"id": 1001},
        "before": {"id": 1001, "customer": "c-17", "amount": "99.90", "state": "new"},
        "after": {"id": 1001, "customer": "c-17", "amount": "99.90", "state": "paid"},
        "commitTime": 1768465800120,
        "position": "mysql-bin.000012:4711",
        "transaction": "3e11fa47-71ca-11e1-9e33-c80aa9429562:23",
        "snapshot": False,
    },
}


class Changes(Provider):
    """Data Transmission Service."""

    kind = task_sources.CHANGES
    title = gettext_lazy("Data Transmission Service (DTS)")
    fields = ("source", "group", "account", "password", "offset", "envelope")
    required = ("source",)
    places = {"task": "source", "log": "source", "group": "group", "startTimeMs": "offset", "envelope": "envelope"}
    note = "inflow/_sources.html"

    def made(self, actor: Actor, source: Document) -> dict[str, forms.Field]:
        found = event_logs.sources.get().sources(actor)
        choices = [("", _("Choose one")), *((one.id, f"{one.title} · {one.state}") for one in found)]
        if log := source.get("log"):
            choices.append((log, _("the event log %(log)s") % {"log": log}))
        groups = [(one.title, [(f"{one.id}/{name}", name) for name in one.groups]) for one in found]
        return {
            "source": forms.ChoiceField(
                label=_("Data subscription task"),
                required=False,
                choices=choices,
                help_text=_("The change tracking task whose changes are delivered; it must be Normal."),
            ),
            "group": forms.ChoiceField(
                label=_("Consumer group"),
                required=False,
                choices=[("", _("Choose one")), *groups],
                help_text=_("It has this task as its only client."),
            ),
            "account": forms.CharField(
                label=_("Account"), max_length=128, required=False, widget=forms.TextInput(attrs=PLAIN)
            ),
            "password": forms.CharField(
                label=_("Password"),
                max_length=256,
                required=False,
                strip=False,
                widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
                help_text=_("Of the consumer group. It is checked when the group changes hands, and kept nowhere."),
            ),
            "envelope": forms.ChoiceField(
                label=_("Format of the events"),
                required=False,
                choices=[("cloudevents", "CloudEvents"), (task_sources.DEBEZIUM, "Debezium")],
                help_text=_(
                    "What pattern, transformation and fields are about. Debezium's records have before, "
                    "after, source, op and ts_ms."
                ),
            ),
        }

    def initial(self, source: Document) -> dict[str, Any]:
        task, group = source.get("task"), source.get("group")
        return {
            "source": task or source.get("log"),
            "group": f"{task}/{group}" if task and group else "",
            "envelope": source.get("envelope", task_sources.ENVELOPES[0]),
        }

    def document(self, told: Mapping[str, Any], before: Document) -> dict[str, Any]:
        chosen = told.get("source", "")
        found: dict[str, Any] = {"log": chosen} if chosen.startswith("oss://") else {"task": chosen}
        if told.get("group") and "task" in found:
            found["group"] = told["group"]
        if told.get("offset") is not None:
            found["startTimeMs"] = told["offset"]
        if told.get("envelope") == task_sources.DEBEZIUM:
            found["envelope"] = told["envelope"]
        return found

    def unsent(self, actor: Actor) -> dict[str, Any]:
        found = event_logs.sources.get().sources(actor)
        return {"task": found[0].id} if found else {}

    def require(self, actor: Actor, task: Task, before: Document | None) -> None:
        """The source is there, and has the time at which the task begins, if it begins there."""
        if task.source.get("task") is None:
            if task.source.get("log") is None:
                raise Refused("SOURCE_MISSING", _("Choose a change tracking task."), "source.task")
            return
        source = event_logs.require_source(actor, str(task.source.get("task")))
        group = str(task.source.get("group") or "")
        if group not in source.groups:
            named = (
                _("%(id)s has no consumer group %(group)s.") % {"id": source.id, "group": group}
                if group
                else _("Choose a consumer group.")
            )
            raise Refused("GROUP_NOT_FOUND", named, "source.group")
        if before is not None and task_sources.place_of(before.get("source")) == (self.kind, source.id, ""):
            return  # it goes on where it is
        if source.state != event_logs.NORMAL:
            raise Refused(
                "SOURCE_NOT_NORMAL",
                _("The change tracking task %(id)s is %(state)s; it must be Normal.")
                % {"id": source.id, "state": source.state},
                "source.task",
            )
        _require_time(source, task.source.get("startTimeMs"))

    def hold(self, actor: Actor, task: Task, before: Document | None, login: Login, holder: Holder) -> None:
        """Nobody is asked for the login of a group that the task has."""
        source, group = str(task.source.get("task") or ""), str(task.source.get("group") or "")
        earlier = (before or {}).get("source") or {}
        if (earlier.get("task", ""), earlier.get("group", "")) == (source, group):
            return
        if earlier.get("task"):
            self.release(actor.tenant, holder)
        if source:
            event_logs.sources.get().hold(actor, source, group, login, holder)

    def release(self, tenant: Tenant, holder: Holder) -> None:
        event_logs.sources.get().release(tenant, holder)

    def named(self, source: Document) -> str:
        return str(source.get("task") or source.get("log") or "")

    def trouble(self, actor: Actor, source: Document) -> str:
        if not source.get("task"):
            return ""
        found = event_logs.sources.get().source(actor, str(source["task"]))
        return found.trouble if found is not None else ""

    def recent(self, actor: Actor, source: Document) -> Sequence[Recent]:
        if not source.get("task"):
            return ()
        try:
            found = event_logs.require_source(actor, str(source["task"]))
            if not found.shows_events:
                return ()
            with Reader(Path(lake.lake_path(found.log))) as reader:
                entries = reader.tail(RECENT, RECENT_BYTES)
        except (Refused, AnalyticsError, OSError):
            return ()
        events = [(entry, event_of(entry.event)) for entry in reversed(entries)]
        formed = [(entry, self.formed(source, event)) for entry, event in events if event is not None]
        return [Recent(entry.sequence, entry.time_ms, event, _title(event)) for entry, event in formed]

    def example(self, source: Document) -> Event:
        return self.formed(source, EXAMPLE)

    def formed(self, source: Document, event: Event) -> Event:
        """Of what is no change of a row there is no record: it stays what it is."""
        if source.get("envelope") != task_sources.DEBEZIUM:
            return event
        try:
            return debezium.records(event)[-1]
        except EventRejected:
            return event


def _title(event: Event) -> str:
    """What has happened, and to what."""
    data, source = event.get("data"), event.get("source")
    if isinstance(source, dict):  # a record of Debezium's
        place = source.get("schema") or source.get("db")
        told = event.get("op"), f"{place}.{source.get('table')}"
    else:
        told = data.get("operation") if isinstance(data, dict) else None, str(event.get("subject", ""))
    operation, subject = told
    return f"{str(operation or '')[:40]} {subject[:200]}".strip()


def _require_time(source: event_logs.Source, begin: object) -> None:
    if begin is None or source.first_ms is None:
        return
    last = max(source.last_ms or 0, round(timezone.now().timestamp() * 1000))
    if not source.first_ms // 1000 * 1000 <= int(str(begin)) <= last:
        raise Refused(
            "OFFSET_OUT_OF_RANGE",
            _("%(id)s has data from %(first_ms)s to %(last)s.")
            % {"id": source.id, "first_ms": _told(source.first_ms), "last": _told(last)},
            "source.startTimeMs",
        )


def _told(epoch_ms: int) -> str:
    return f"{zone.local(epoch_ms):%Y-%m-%d %H:%M:%S} ({zone.current_name()})"
