"""Writes of topics and groups. The row and the broker change together: a failed broker call leaves no row behind.

What is created is undone on the broker when the broker fails half-way; what is deleted goes from the broker first, and
its row stays until that is done. What a crash in between leaves is shown and mended as drift (docs/operate/drift.md).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from brokercore.client import GroupConfig
from brokercore.client.errors import ClientError, ConsumerNotOnline, GroupNotExist, TopicNotExist
from console.accounts.actor import Actor
from console.audit import record as audit
from console.instances import broker
from console.instances.models import Instance
from console.instances.services import hold_instance
from console.rights import access_table, limits
from console.topics import grants
from console.topics.models import DeliveryOrder, Group, OrderType, Permission, Topic
from console.topics.names import checked_group_id, checked_remark, checked_topic_name
from console.web.errors import Refused

log = logging.getLogger(__name__)
DEFAULT_QUEUES = 8
_FIELD = "BIZ_FIELD_CHECK_INVALID"
MESSAGE_TYPES = {
    OrderType.NORMAL: "NORMAL",
    OrderType.PARTITIONALLY_ORDERED: "FIFO",
    OrderType.GLOBALLY_ORDERED: "FIFO",
    OrderType.TRANSACTIONAL: "TRANSACTION",
    OrderType.DELAYED: "DELAY",
}


@transaction.atomic
def create_topic(
    *,
    actor: Actor,
    instance: Instance,
    name: str,
    order_type: int,
    remark: str = "",
    queues: int | None = None,
    perm: int = Permission.READ_WRITE,
) -> Topic:
    """Create a topic in the database and on the broker; without `queues` it has as many as its type has usually.

    Raises Refused for a broken rule, ClientError for an outage.
    """
    if order_type not in OrderType.values:
        raise Refused(_FIELD, _("The message type is one of 0, 1, 2, 4 and 5."), "order_type")
    name, remark = checked_topic_name(name, instance.physical_name("")), checked_remark(remark)
    check_capacity(instance)
    hold_instance(instance)
    topic = Topic(
        instance=instance,
        name=name,
        physical_name=instance.physical_name(name),
        order_type=order_type,
        perm=perm,
        queues=queues or (1 if order_type == OrderType.GLOBALLY_ORDERED else DEFAULT_QUEUES),
        remark=remark,
        creator=actor.user,
    )
    try:
        with transaction.atomic():
            topic.save()
    except IntegrityError as error:
        raise Refused("BIZ_TOPIC_EXISTED", _("The topic %(name)s already exists.") % {"name": name}, "name") from error
    if _broker_has_topic(topic):
        message = _(
            "The broker still has a topic %(name)s: it is being deleted, or was created elsewhere (see Broker drift)."
        ) % {"name": name}
        raise Refused("BIZ_TOPIC_EXISTED", message, "name")
    _applied(lambda: apply_topic(topic), lambda: remove_topic(topic))
    audit.record(actor, "topics.topic.create", topic.physical_name, detail={"order_type": order_type})
    if not instance.independent_naming:
        # The bare name is a new resource of the account; in a namespace the account has the name already.
        access_table.publish_on_commit()
    else:
        access_table.carry_over_on_commit()
    return topic


@transaction.atomic
def set_topic_permission(*, actor: Actor, topic: Topic, perm: int) -> None:
    """Set the read/write mode: 6 both, 4 read only, 2 write only."""
    if perm not in Permission.values:
        raise Refused(_FIELD, _("The mode is 6 (read and write), 4 (read only) or 2 (write only)."), "perm")
    before, topic.perm = topic.perm, perm
    topic.save(update_fields=["perm"])
    apply_topic(topic)
    detail = {"before": {"perm": before}, "after": {"perm": perm}}
    audit.record(actor, "topics.topic.update", topic.physical_name, detail=detail)


@transaction.atomic
def delete_topic(*, actor: Actor, topic: Topic) -> None:
    """Delete a topic with its messages, subscriptions and grants; the broker's answer is waited for.

    The broker goes first and the row after it, so that a failure on the way leaves a row that can be deleted again.
    """
    if Topic.objects.select_for_update().filter(pk=topic.pk).first() is None:
        raise Refused("BIZ_TOPIC_NOT_FOUND", _("The topic %(topic)s no longer exists.") % {"topic": topic.name})
    remove_topic(topic)
    grants.record_end(actor, topic)
    audit.record(actor, "topics.topic.delete", topic.physical_name)
    topic.delete()
    access_table.publish_on_commit()


@transaction.atomic
def create_group(
    *,
    actor: Actor,
    instance: Instance,
    group_id: str,
    remark: str = "",
    delivery_order: str = DeliveryOrder.AUTOMATIC,
    read_enabled: bool = True,
    retry_max_times: int = 16,
) -> Group:
    """Create a group ID in the database and on the broker; the caller's account becomes its owner.

    In another account's instance that is how a grant on a topic is used. Raises Refused, ClientError for an outage.
    """
    group_id, remark = checked_group_id(group_id), checked_remark(remark)
    _check_delivery_order(delivery_order)
    limits.check_groups(actor.tenant)
    hold_instance(instance)
    group = Group(
        instance=instance,
        group_id=group_id,
        physical_name=instance.physical_name(group_id),
        remark=remark,
        delivery_order=delivery_order,
        read_enabled=read_enabled,
        retry_max_times=retry_max_times,
        owner=actor.tenant,
        creator=actor.user,
    )
    try:
        with transaction.atomic():
            group.save()
    except IntegrityError as error:
        raise _group_exists(actor, group) from error
    if not _broker_has_group(group):
        _applied(lambda: apply_group(group), lambda: remove_group(group))
    elif instance.independent_naming:
        apply_group(group)  # its namespace makes it the account's: a consumer was there before the row
    else:
        raise _group_exists(actor, group)
    audit.record(actor, "topics.group.create", group.physical_name)
    access_table.publish_group_on_commit(group.physical_name, group.holder, embedded=_is_embedded(group))
    return group


@transaction.atomic
def set_group_reading(*, actor: Actor, group: Group, enabled: bool) -> None:
    """Allow or stop consumption of a group."""
    before, group.read_enabled = group.read_enabled, enabled
    group.save(update_fields=["read_enabled"])
    apply_group(group)
    detail = {"before": {"read_enabled": before}, "after": {"read_enabled": enabled}}
    audit.record(actor, "topics.group.update", group.physical_name, detail=detail)


@transaction.atomic
def set_group_order(*, actor: Actor, group: Group, delivery_order: str) -> None:
    """Set whether clients that pop get messages in order. Raises Refused, ClientError for an outage."""
    _check_delivery_order(delivery_order)
    if delivery_order == group.delivery_order:
        return
    before, group.delivery_order = group.delivery_order, delivery_order
    group.save(update_fields=["delivery_order"])
    apply_group(group)
    detail = {"before": {"delivery_order": before}, "after": {"delivery_order": delivery_order}}
    audit.record(actor, "topics.group.update", group.physical_name, detail=detail)


@transaction.atomic
def set_group_shared(*, actor: Actor, group: Group, shared: bool) -> None:
    """Let the account's RAM users use a group as their policies say, or keep it to the account and its creator."""
    group.shared = shared
    group.save(update_fields=["shared"])
    audit.record(actor, "topics.group.share", group.physical_name, detail={"shared": shared})
    access_table.publish_group_on_commit(group.physical_name, group.holder, embedded=_is_embedded(group))


@transaction.atomic
def delete_group(*, actor: Actor, group: Group) -> None:
    """Delete a group with its offsets, retry and dead-letter topics; refused while a consumer is connected."""
    admin = broker.admin(group.instance.cluster)
    if Group.objects.select_for_update().filter(pk=group.pk).first() is None:
        raise Refused(
            "BIZ_SUBSCRIPTION_NOT_FOUND", _("The group %(group_id)s no longer exists.") % {"group_id": group.group_id}
        )
    try:
        online = len(admin.clients.consumers(group.physical_name).connections)
    except ConsumerNotOnline:
        online = 0
    if online:
        raise Refused(
            _FIELD,
            _("%(group_id)s has %(online)s consumers online; stop them first.")
            % {"group_id": group.group_id, "online": online},
            "group_id",
        )
    remove_group(group)
    audit.record(actor, "topics.group.delete", group.physical_name)
    if group.owner_id != actor.tenant.pk:
        neutral = replace(actor, source_ip="", access_key_id="")
        audit.record(neutral, "topics.group.delete", group.physical_name, tenant=group.owner)
    group.delete()
    access_table.publish_group_on_commit(group.physical_name, None, embedded=_is_embedded(group))


def apply_topic(topic: Topic) -> None:
    """Make the broker's topic what the row says; also mends a broker that lost it."""
    broker.admin(topic.instance.cluster).topics.create(
        topic.physical_name,
        queues=topic.queues,
        perm=topic.perm,
        message_type=MESSAGE_TYPES[OrderType(topic.order_type)],
        order=topic.order_type in (OrderType.PARTITIONALLY_ORDERED, OrderType.GLOBALLY_ORDERED),
        one_broker=topic.order_type == OrderType.GLOBALLY_ORDERED,
    )


def apply_group(group: Group) -> None:
    """Make the broker's group what the row says.

    Brokers of Apache RocketMQ know `consumeMessageOrderly` alone: there an automatic group is in no order.
    """
    broker.admin(group.instance.cluster).groups.update(
        GroupConfig(
            group.physical_name,
            retry_max_times=group.retry_max_times,
            consume_enable=group.read_enabled,
            consume_message_orderly=group.delivery_order == DeliveryOrder.ORDERLY,
            orderly_by_subscriptions=group.delivery_order != DeliveryOrder.CONCURRENTLY,
        )
    )


def remove_topic(topic: Topic) -> None:
    """Delete the broker's topic; one that it does not have is no failure."""
    try:
        broker.admin(topic.instance.cluster).topics.delete(topic.physical_name)
    except TopicNotExist:
        log.info("the broker has no topic %s any more", topic.physical_name)


def remove_group(group: Group) -> None:
    """Delete the broker's group with all that belongs to it; one that it does not have is no failure."""
    try:
        broker.admin(group.instance.cluster).groups.delete(group.physical_name)
    except (GroupNotExist, TopicNotExist):
        log.info("the broker has no group %s any more", group.physical_name)


def _broker_has_topic(topic: Topic) -> bool:
    try:
        broker.admin(topic.instance.cluster).topics.config(topic.physical_name)
    except TopicNotExist:
        return False
    return True


def _broker_has_group(group: Group) -> bool:
    try:
        broker.admin(group.instance.cluster).groups.config(group.physical_name)
    except GroupNotExist:
        return False
    return True


def _is_embedded(group: Group) -> bool:
    return group.instance.cluster.embedded


def _applied(act: Callable[[], None], undo: Callable[[], None]) -> None:
    """Change the brokers; when one of them fails, take back what the others did already."""
    try:
        act()
    except ClientError:
        try:
            undo()
        except ClientError as error:
            log.warning("a broker keeps what was half created; Broker drift shows it: %s", error)
        raise


def check_capacity(instance: Instance) -> None:
    """Raise Refused when the instance, or its account, may have no further topic.

    The locks keep two writers from both seeing room.
    """
    limits.check_topics(instance.tenant)
    if instance.topic_capacity is None:
        return
    Instance.objects.select_for_update().get(pk=instance.pk)
    if instance.topics.count() >= instance.topic_capacity:
        raise Refused(
            "BIZ_TOPIC_QUOTA_EXCEEDED",
            _("%(instance)s may have %(topic_capacity)s topics.")
            % {"instance": instance.name, "topic_capacity": instance.topic_capacity},
        )


def _check_delivery_order(given: str) -> None:
    if given not in DeliveryOrder.values:
        raise Refused(
            _FIELD,
            _("The delivery order is one of %(values)s.") % {"values": ", ".join(DeliveryOrder.values)},
            "delivery_order",
        )


def _group_exists(actor: Actor, group: Group) -> Refused:
    holder = Group.objects.filter(physical_name=group.physical_name, cluster=group.instance.cluster).first()
    if holder and holder.owner_id != actor.tenant.pk:
        return Refused(
            "BIZ_CONSUMER_ID_BELONG_TO_OTHER_USER",
            _("The group ID %(group_id)s cannot be used.") % {"group_id": group.group_id},
            "group_id",
        )
    return Refused(
        "BIZ_SUBSCRIPTION_EXISTED",
        _("The group ID %(group_id)s already exists.") % {"group_id": group.group_id},
        "group_id",
    )
