"""Mending drift: the broker is made what the database says; what only the broker has is adopted or deleted."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from brokercore.client.errors import ClientError, GroupNotExist, TopicNotExist
from console.accounts.actor import Actor
from console.audit import record as audit
from console.drift.comparison import Difference, Kind
from console.drift.queries import Row
from console.instances import broker
from console.instances.models import Cluster, Instance
from console.rights import access_table
from console.topics import services as topics
from console.topics.as_is import TAKEN_OVER, group_as_is, topic_as_is
from console.topics.models import Group, Topic
from console.topics.names import may_be_adopted
from console.web.errors import Refused

_FIELD = "BIZ_FIELD_CHECK_INVALID"


@dataclass(frozen=True)
class Outcome:
    """What became of one row; `error` is empty when it was mended."""

    row: Row
    error: str = ""


def mend(*, actor: Actor, rows: list[Row]) -> list[Outcome]:
    """Make the brokers what the database says, row by row; one that fails is told and stops no other."""
    return [_mended(actor, row) for row in rows]


@transaction.atomic
def accept(*, actor: Actor, row: Row) -> None:
    """Let the console show what was adopted as the brokers have it now; nothing is written to them.

    Raises Refused, ClientError.
    """
    difference, admin = row.difference, broker.admin(row.cluster)
    name = difference.physical_name
    model = Topic if difference.kind is Kind.TOPIC else Group
    rows = model.objects.select_related("instance__tenant").select_for_update(of=("self",))
    found = rows.filter(physical_name=name, cluster=row.cluster).first()
    if found is None or not found.adopted:
        raise Refused(_FIELD, _("%(difference)s was forgotten meanwhile.") % {"difference": difference.name})
    try:
        if isinstance(found, Topic):
            now = topic_as_is(found.instance, found.name, name, admin.topics.config(name))
        else:
            now = group_as_is(found.instance, found.group_id, name, admin.groups.config(name))  # type: ignore[assignment]
    except (TopicNotExist, GroupNotExist) as error:
        raise Refused(
            _FIELD,
            (
                _("The cluster has no topic %(name)s any more.")
                if difference.kind is Kind.TOPIC
                else _("The cluster has no group %(name)s any more.")
            )
            % {"name": difference.name},
        ) from error
    for field in TAKEN_OVER[model]:
        setattr(found, field, getattr(now, field))
    found.save(update_fields=TAKEN_OVER[model])
    audit.record(actor, f"drift.{difference.kind}.accept", name, detail={"differed": list(difference.details)})


@transaction.atomic
def adopt(*, actor: Actor, row: Row) -> None:
    """Take what a broker has in the account's namespace into the database, as it is. Raises Refused, ClientError."""
    difference = row.difference
    instance = Instance.objects.filter(instance_id=difference.instance_id, tenant=actor.tenant).first()
    if instance is None or not may_be_adopted(difference.name, group=difference.kind is Kind.GROUP):
        raise Refused(
            _FIELD, _("%(difference)s has a name that the console cannot adopt.") % {"difference": difference.name}
        )
    adopted = _topic(actor, instance, row) if difference.kind is Kind.TOPIC else _group(actor, instance, row)
    try:
        with transaction.atomic():
            adopted.save()
    except IntegrityError as error:
        raise Refused(_FIELD, _("%(difference)s is in the database now.") % {"difference": difference.name}) from error
    audit.record(actor, f"drift.{difference.kind}.adopt", difference.physical_name)
    access_table.publish_on_commit()


@transaction.atomic
def delete_extra(*, actor: Actor, row: Row) -> None:
    """Delete what only a broker has, with its messages or offsets. Raises Refused when the database has it by now."""
    difference, admin = row.difference, broker.admin(row.cluster)
    model = Topic if difference.kind is Kind.TOPIC else Group
    if model.objects.filter(physical_name=difference.physical_name, cluster=row.cluster).exists():
        raise Refused(
            _FIELD,
            _("%(difference)s is in the database now; delete it on its own page.") % {"difference": difference.name},
        )
    try:
        if difference.kind is Kind.TOPIC:
            admin.topics.delete(difference.physical_name)
        else:
            admin.groups.delete(difference.physical_name)
    except (TopicNotExist, GroupNotExist) as error:
        raise Refused(
            _FIELD,
            (
                _("The broker has no topic %(name)s any more.")
                if difference.kind is Kind.TOPIC
                else _("The broker has no group %(name)s any more.")
            )
            % {"name": difference.name},
        ) from error
    audit.record(actor, f"drift.{difference.kind}.delete", difference.physical_name)


def _mended(actor: Actor, row: Row) -> Outcome:
    difference = row.difference
    try:
        _apply(row.cluster, difference)
    except Refused as refused:
        return Outcome(row, refused.message)
    except ClientError as error:
        audit.record(
            actor,
            f"drift.{difference.kind}.mend",
            difference.physical_name,
            result="failed",
            detail={"reason": error.user_message},
        )
        return Outcome(row, error.user_message)
    detail = {"differed": list(difference.details)}
    audit.record(actor, f"drift.{difference.kind}.mend", difference.physical_name, detail=detail)
    return Outcome(row)


def _apply(cluster: Cluster, difference: Difference) -> None:
    """From the row as it is now: the snapshot may be minutes old."""
    if difference.kind is Kind.TOPIC:
        topics_there = Topic.objects.select_related("instance__cluster").filter(cluster=cluster)
        topic = topics_there.filter(physical_name=difference.physical_name).first()
        if topic is None:
            raise Refused(
                _FIELD, _("The topic %(difference)s was deleted meanwhile.") % {"difference": difference.name}
            )
        topics.apply_topic(topic)
        return
    groups_there = Group.objects.select_related("instance__cluster").filter(cluster=cluster)
    group = groups_there.filter(physical_name=difference.physical_name).first()
    if group is None:
        raise Refused(_FIELD, _("The group %(difference)s was deleted meanwhile.") % {"difference": difference.name})
    topics.apply_group(group)


def _topic(actor: Actor, instance: Instance, row: Row) -> Topic:
    topics.check_capacity(instance)
    try:
        config = broker.admin(row.cluster).topics.config(row.physical_name)
    except TopicNotExist as error:
        raise Refused(
            _FIELD, _("The broker has no topic %(name)s any more.") % {"name": row.difference.name}
        ) from error
    return topic_as_is(instance, row.difference.name, row.physical_name, config, actor.user)


def _group(actor: Actor, instance: Instance, row: Row) -> Group:
    try:
        config = broker.admin(row.cluster).groups.config(row.physical_name)
    except GroupNotExist as error:
        raise Refused(
            _FIELD, _("The broker has no group %(name)s any more.") % {"name": row.difference.name}
        ) from error
    return group_as_is(instance, row.difference.name, row.physical_name, config, actor.user)
