"""Messages of a topic, read by a consumer group that no other task has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from analytics.inflow import task_sources
from analytics.inflow.messages import FORMATS, TEXT, TopicEvents
from analytics.inflow.task import Task
from analytics.inflow.transform import Event
from brokercore.client import MessageQueue, StoredMessage
from brokercore.client.errors import ClientError
from console.accounts.actor import Actor
from console.inflow import readable
from console.inflow.providers.shape import PLAIN, Document, Provider, Recent
from console.inflow.sample_events import RECENT, RECENT_BYTES
from console.instances import broker
from console.pipelines import groups
from console.pipelines.event_logs import Holder, Login
from console.web.errors import Refused
from console.web.languages import gettext_lazy

_FORMATS = [(TEXT, gettext_lazy("Text")), ("json", "JSON"), ("binary", gettext_lazy("Binary (Base64)"))]
SEARCH = "mq:QueryMessage"
"""What it takes to see bodies in the message search, and so the last messages here."""
#: In place of an instance: the cluster that the document names.
_ELSEWHERE = "elsewhere"
_SAMPLE = StoredMessage(
    "orders", b'{"orderId": 1001, "state": "paid"}',
    {"KEYS": "order-1001", "TAGS": "paid", "UNIQ_KEY": "7F0000010001F98F1A2B3C4D5E6F0000", "shop": "17"},
    queue_id=2, queue_offset=4711, born_timestamp=1_768_465_800_120, store_timestamp=1_768_465_800_123,
)  # fmt: skip
_REACH = ("endpoint", "accessId", "accessKey")


class _Suggesting(forms.TextInput):
    """An input for a name, with those that there are, each with what is told beside it; `key` names the list."""

    def __init__(self, key: str, found: Iterable[tuple[str, str]]) -> None:
        self._key, self._found = f"suggested-{key}", list(found)
        super().__init__(attrs=PLAIN | {"list": self._key})

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        """The input and its list."""
        options = format_html_join("", '<option value="{}">{}</option>', self._found)
        shown = super().render(name, value, attrs, renderer)
        return format_html('{}<datalist id="{}">{}</datalist>', shown, self._key, options)


class Topics(Provider):
    """ApsaraMQ for RocketMQ."""

    kind = task_sources.TOPIC
    title = gettext_lazy("ApsaraMQ for RocketMQ")
    fields = ("source_instance", "source_topic", "source_tag", "source_group", "offset", "source_format")
    required = ("source_topic", "source_group")
    places = {
        "topic": "source_topic", "instanceID": "source_instance", "group": "source_group", "tag": "source_tag",
        "format": "source_format", "startTimeMs": "offset",
    }  # fmt: skip

    def made(self, actor: Actor, source: Document) -> dict[str, forms.Field]:
        instances = readable.instances(actor)
        offered = [(readable.namespace(one), f"{one.name} ({one.instance_id})") for one in instances]
        if source.get("accessId"):
            offered = [
                (_ELSEWHERE, _("%(source)s, with a key of its own") % {"source": source.get("endpoint", "")}),
                *offered,
            ]
        return {
            "source_instance": forms.ChoiceField(label=_("Instance of the topic"), required=False, choices=offered),
            "source_topic": forms.CharField(
                label=_("Topic to read"), max_length=127, required=False,
                widget=_Suggesting("source-topics", readable.topics(actor, instances)),
            ),
            "source_tag": forms.CharField(
                label=_("Tag"), max_length=1024, required=False, widget=forms.TextInput(attrs=PLAIN),
                help_text=_("Only messages of this tag, or of one of several: a || b. Empty for all."),
            ),
            "source_group": forms.CharField(
                label=_("Group ID"), max_length=127, required=False,
                widget=_Suggesting("source-groups", readable.groups(actor, instances)),
                help_text=_("The consumer group by which the topic is read; no other consumer and no other task may."),
            ),
            "source_format": forms.ChoiceField(
                label=_("Format of the body"), required=False, choices=_FORMATS, initial=TEXT,
                help_text=_("A body that is not of it is a fault: its event fails as the task properties say."),
            ),
        }  # fmt: skip

    def initial(self, source: Document) -> dict[str, Any]:
        place = _ELSEWHERE if source.get("accessId") else source.get("instanceID", "")
        named = {f"source_{name}": source.get(name) for name in ("topic", "group", "tag")}
        return named | {"source_instance": place, "source_format": source.get("format", TEXT)}

    def document(self, told: Mapping[str, Any], before: Document) -> dict[str, Any]:
        found = {name: told.get(f"source_{name}") for name in ("topic", "group", "tag", "format")}
        if told.get("source_instance") == _ELSEWHERE:
            found |= {name: before.get(name) for name in (*_REACH, "instanceID")}
        else:
            found["instanceID"] = told.get("source_instance")
        if told.get("offset") is not None:
            found["startTimeMs"] = told["offset"]
        return {name: value for name, value in found.items() if value not in (None, "")}

    def hold(self, actor: Actor, task: Task, before: Document | None, login: Login, holder: Holder) -> None:
        """Refuse a group by which another task, or a job that runs, reads."""
        groups.require_free(actor, task.plan(), holder, "source.group")

    def named(self, source: Document) -> str:
        return str(source.get("topic") or "")

    def recent(self, actor: Actor, source: Document) -> Sequence[Recent]:
        """The last messages of the account's topic, for who may search them."""
        if source.get("accessId") or not source.get("topic"):
            return ()
        try:
            topic = readable.require_topic(actor, SEARCH, str(source.get("instanceID") or ""), str(source["topic"]))
        except (Refused, PermissionDenied):
            return ()
        made = TopicEvents(topic.name, str(source.get("instanceID") or ""), written_as(source))
        try:
            admin = broker.admin(topic.instance.cluster)
            found = _last(admin, topic.physical_name)
        except ClientError:
            return ()
        return [
            Recent(
                message.queue_offset, message.store_timestamp, made.event(message, queue.broker_name), _title(message)
            )
            for queue, message in found
        ]

    def example(self, source: Document) -> Event:
        topic, namespace = str(source.get("topic") or "orders"), str(source.get("instanceID") or "")
        made = TopicEvents(topic, namespace, written_as(source))
        return made.event(_SAMPLE, "broker-a")


def written_as(source: Document) -> str:
    """The format of the bodies, of a document that nobody has checked."""
    found = source.get("format")
    return found if found in FORMATS else TEXT


def _title(message: StoredMessage) -> str:
    return " ".join(filter(None, (f"{message.queue_id}:{message.queue_offset}", message.tags, message.keys)))


def _last(admin: Any, topic: str) -> list[tuple[MessageQueue, StoredMessage]]:
    """The last messages of a topic, the newest first, as far as they are not too large together. Raises ClientError."""
    found: list[tuple[MessageQueue, StoredMessage]] = []
    for queue, stats in admin.topics.stats(topic).items():
        begin = max(stats.min_offset, stats.max_offset - RECENT)
        for messages in admin.messages.read_range(queue, begin, stats.max_offset):
            found += ((queue, message) for message in messages)
    found.sort(key=lambda one: (one[1].store_timestamp, one[1].queue_offset), reverse=True)
    size, kept = 0, list[tuple[MessageQueue, StoredMessage]]()
    for queue, message in found[:RECENT]:
        size += len(message.body)
        if kept and size > RECENT_BYTES:
            break
        kept.append((queue, message))
    return kept
