"""The hint that the editor writes for somebody: pick lists of what he may use, and the edit of the text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from brokercore.policy import mq_resource
from brokercore.smq.client import QueueServiceUnavailable
from console.accounts.actor import Actor
from console.instances.addresses import access_point
from console.instances.models import Instance
from console.outbox import queues as to_queues
from console.queues import queries as queue_queries
from console.statements import hint as hints
from console.topics.models import Group, Topic, group_holder
from console.web.errors import Refused

PUBLISH = "mq:PUB"
#: Entries of a pick list; the rest is found by typing.
LISTED = 20
Row = TypeVar("Row", Topic, Group)
#: Rows that a search looks at: a user who may use one of 10,000 topics finds it by typing more of its name.
LOOKED_AT = 2000


@dataclass(frozen=True, slots=True)
class Option:
    """One entry of a pick list."""

    value: str
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Edit:
    """What to write where: `hint` replaces the characters `start` to `end` of the text."""

    hint: str
    start: int
    end: int

    def applied(self, text: str) -> str:
        """The text with the hint."""
        return text[: self.start] + self.hint + text[self.end :]


def instances(actor: Actor, text: str = "") -> list[Option]:
    """The account's instances whose name or id has the text."""
    found = Instance.objects.filter(tenant=actor.tenant).order_by("name")
    rows = (found.filter(name__icontains=text) | found.filter(instance_id__icontains=text)).distinct()
    return [Option(i.instance_id, i.name) for i in rows[:LISTED]]


def topics(actor: Actor, instance_id: str, text: str = "") -> list[Option]:
    """Topics of the instance that the actor may publish to; all of the account's without one."""
    rows = _in_instance(Topic.objects.filter(instance__tenant=actor.tenant), instance_id).filter(name__icontains=text)
    named = rows.order_by("name").values_list("name", "physical_name", "instance__name")[:LOOKED_AT]
    holders = {mq_resource(physical): "" for _unused, physical, _unused in named}
    allowed = _allowed(actor, holders)
    return _first(Option(name, remark) for name, physical, remark in named if mq_resource(physical) in allowed)


def groups(actor: Actor, instance_id: str, text: str = "") -> list[Option]:
    """Groups of the instance that the actor may publish with."""
    rows = _in_instance(Group.objects.filter(instance__tenant=actor.tenant, owner=actor.tenant), instance_id)
    columns = ("group_id", "physical_name", "shared", "creator__username", "creator__is_tenant_admin", "instance__name")
    named = rows.filter(group_id__icontains=text).order_by("group_id").values_list(*columns)[:LOOKED_AT]
    holders = {
        mq_resource(physical): group_holder(actor.tenant.uid, "" if admin else creator or "", shared=shared)
        for _unused, physical, shared, creator, admin, _unused in named
    }
    allowed = _allowed(actor, holders)
    return _first(Option(row[0], row[5]) for row in named if mq_resource(row[1]) in allowed)


def queues(actor: Actor, _unused: str, text: str = "") -> list[Option]:
    """The account's queues to which the actor may send. Raises Refused when the queue service does not answer."""
    try:
        names = [row.name for row in queue_queries.listing(actor.tenant, text).rows]
    except QueueServiceUnavailable as error:
        raise Refused("QUEUES_UNAVAILABLE", str(error), "queue") from error
    holders = {to_queues.resource_of(actor.tenant, name): "" for name in names}
    allowed = set(holders) if actor.is_account else actor.allowed(to_queues.SEND, holders, owner=actor.tenant)
    return _first(Option(name) for name in names if to_queues.resource_of(actor.tenant, name) in allowed)


def _in_instance(rows: QuerySet[Row], instance_id: str) -> QuerySet[Row]:
    return rows.filter(instance__instance_id=instance_id) if instance_id else rows


def _allowed(actor: Actor, holders: dict[str, str]) -> set[str]:
    return set(holders) if actor.is_account else actor.allowed(PUBLISH, holders, owner=actor.tenant)


def _first(options: Iterable[Option]) -> list[Option]:
    found: dict[str, Option] = {}
    for option in options:
        found.setdefault(option.value, option)
        if len(found) == LISTED:
            break
    return list(found.values())


def written(
    actor: Actor, *, run_async: bool, notify: str, instance_id: str, topic: str, group: str, queue: str = ""
) -> str:
    """The text of the hint; `notify` is as in `mq-notify-by`, or empty.

    Raises Refused, with the field, for what the actor cannot name.
    """
    if not notify:
        return f"/*+ {hints.RUN_ASYNC}={'true' if run_async else 'false'} */"
    if notify == hints.BY_QUEUE:
        if queue not in {option.value for option in queues(actor, "", queue)}:
            raise Refused("QUEUE_NOT_FOUND", _("Choose one of the account's queues that you may send to."), "queue")
        return hints.written_to_queue(queue, to_queues.address_of(actor.tenant))
    instance = Instance.objects.filter(tenant=actor.tenant, instance_id=instance_id).select_related("cluster").first()
    if instance is None:
        raise Refused("BIZ_INSTANCE_NOT_FOUND", _("Choose one of the account's instances."), "instance")
    if topic not in {option.value for option in topics(actor, instance_id, topic)}:
        raise Refused(
            "BIZ_TOPIC_NOT_FOUND",
            _("Choose a topic of %(instance)s that you may publish to.") % {"instance": instance.name},
            "topic",
        )
    if group not in {option.value for option in groups(actor, instance_id, group)}:
        message = _("Choose a group of %(instance)s that you may publish with.") % {"instance": instance.name}
        raise Refused("BIZ_SUBSCRIPTION_NOT_FOUND", message, "group")
    return hints.written(topic, group, access_point(instance))


def edit(text: str, hint: str) -> Edit:
    """Where the hint goes: in place of the first one in front of the statement, else at the very beginning."""
    try:
        split = hints.split(text)
    except hints.HintError:
        return Edit(f"{hint}\n", 0, 0)
    if split.place is None or not split.statement:
        return Edit(f"{hint}\n", 0, 0)
    start, end = split.place
    behind = text[end:].lstrip(" \t").removeprefix("\n")
    return Edit(f"{hint}\n", start, len(text) - len(behind))
