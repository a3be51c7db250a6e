"""What became of one message, step by step: sent, stored, each attempt of each group, as a picture over time.

The steps of clients are what clients themselves say, in RMQ_SYS_TRACE_TOPIC, where their application switched traces on
(docs/use/messages.md#one-message): any client may write there, so they are shown as claims. Only groups of the
viewer's account are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from django.utils.translation import gettext as _

from brokercore.client import Admin
from brokercore.client.admin.traces import TraceRecord
from console.accounts.models import Tenant
from console.messaging.records import MessageRecord
from console.topics.models import Group, Topic
from console.web.languages import gettext_lazy

WIDTH = 1000
"""Units from the first to the last moment."""
_LEAST_WIDTH = 6
_MOST_RECORDS = 200
#: What consumers of the vendor's client and of RocketMQ say of an attempt (ConsumeReturnType).
_RETURNS = {
    "1": gettext_lazy("took too long"),
    "2": gettext_lazy("threw an exception"),
    "3": gettext_lazy("returned nothing"),
    "4": gettext_lazy("asked to have it again"),
}
_TRANSACTIONS = {
    "COMMIT_MESSAGE": gettext_lazy("Committed"),
    "ROLLBACK_MESSAGE": gettext_lazy("Rolled back"),
    "UNKNOW": gettext_lazy("Left open"),
}


class Result(StrEnum):
    """How a step ended."""

    DONE = "done"
    FAILED = "failed"
    OPEN = "open"


@dataclass(frozen=True)
class Step:
    """One step: what, by which group and client, when it began (epoch ms), how long it took (ms), and how it ended."""

    what: str
    group: str
    client: str
    at_ms: int
    took_ms: int | None
    result: Result
    note: str = ""
    x: int = 0
    width: int = 0

    @property
    def colour(self) -> str:
        """Of its bar."""
        return {Result.DONE: "green", Result.FAILED: "red", Result.OPEN: "yellow"}[self.result]


def steps(admin: Admin, topic: Topic, message: MessageRecord, tenant: Tenant) -> list[Step]:
    """The steps of a message in order of time. Raises ClientError when the brokers do not answer."""
    records = records_of(admin, topic, message.message_id, tenant)
    found = list(_of_producers(records))
    if not any(one.kind == "Pub" for one in records):
        found.append(
            Step(_("Sent"), "", message.born_host, message.born_at_ms, None, Result.DONE, _("as the message says"))
        )
    place = _("queue %(queue_id)s, offset %(offset)s") % {
        "queue_id": message.position.queue_id,
        "offset": message.position.offset,
    }
    found.append(Step(_("Stored"), "", message.position.broker_name, message.stored_at_ms, None, Result.DONE, place))
    found += _attempts(records)
    return _drawn(sorted(found, key=lambda step: step.at_ms))


def records_of(admin: Admin, topic: Topic, message_id: str, tenant: Tenant) -> list[TraceRecord]:
    """What clients say of a message of the topic, oldest first, as far as it is of this topic and the tenant's groups.

    Raises ClientError when the brokers do not answer.
    """
    records = admin.traces.of_message(message_id)[:_MOST_RECORDS]
    own = set(
        Group.objects.filter(owner=tenant, cluster=topic.instance.cluster).filter(
            group_id__in={record.group for record in records}
        ).values_list("group_id", flat=True)
    )  # fmt: skip
    names = {topic.name, topic.physical_name}
    return [
        one
        for one in records
        if (one.group in own if one.kind in ("SubBefore", "SubAfter") else one.fields.get("topic", topic.name) in names)
    ]


def _of_producers(records: Iterable[TraceRecord]) -> Iterator[Step]:
    for one in records:
        if one.kind == "Pub":
            result = Result.FAILED if one.succeeded is False else Result.DONE
            yield Step(_("Sent"), one.group, one.client_host, one.time_ms, number_of(one, "cost_ms"), result)
        elif one.kind == "EndTransaction":
            state = _TRANSACTIONS.get(one.fields.get("state", ""), _("Ended"))
            note = _("after the broker asked") if one.fields.get("from_check") == "true" else ""
            yield Step(state, one.group, one.client_host, one.time_ms, None, Result.DONE, note)
        elif one.kind == "Recall":
            yield Step(_("Recalled"), one.group, one.client_host, one.time_ms, None, Result.DONE)


def attempts(records: Iterable[TraceRecord]) -> Iterator[tuple[TraceRecord, TraceRecord | None]]:
    """Each attempt to consume with its end; one without an end runs still, or its client died."""
    records = list(records)
    ends = {one.fields.get("request_id"): one for one in records if one.kind == "SubAfter"}
    return ((one, ends.get(one.fields.get("request_id"))) for one in records if one.kind == "SubBefore")


def _attempts(records: Iterable[TraceRecord]) -> Iterator[Step]:
    for one, end in attempts(records):
        tries = number_of(one, "retry_times")
        what = _("Attempt") if tries is None else _("Attempt %(tries)s") % {"tries": tries + 1}
        if end is None:
            yield Step(what, one.group, one.client_host, one.time_ms, None, Result.OPEN, _("no end was told"))
            continue
        result = Result.FAILED if end.succeeded is False else Result.DONE
        note = _RETURNS.get(end.fields.get("context_code", ""), "")
        yield Step(what, one.group, one.client_host, one.time_ms, number_of(end, "cost_ms"), result, note)


def number_of(record: TraceRecord, name: str) -> int | None:
    """A field that should be a number; None where it is none, or larger than any that a client means."""
    text = record.fields.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def _drawn(found: list[Step]) -> list[Step]:
    """With the place of each on the picture."""
    begin = min(step.at_ms for step in found)
    length = max(1, max(step.at_ms + (step.took_ms or 0) for step in found) - begin)
    drawn = []
    for step in found:
        width = max(_LEAST_WIDTH, (step.took_ms or 0) * WIDTH // length)
        x = min((step.at_ms - begin) * WIDTH // length, WIDTH - _LEAST_WIDTH)
        drawn.append(replace(step, x=x, width=min(width, WIDTH - x)))
    return drawn
