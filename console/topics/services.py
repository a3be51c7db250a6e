"""Writes of topics and groups. The row and the broker change together: a failed broker call leaves no row behind."""

from __future__ import annotations

from django.db import IntegrityError, transaction

from brokercore.client.errors import ConsumerNotOnline
from console.accounts import acl
from console.accounts.actor import Actor
from console.audit import services as audit
from console.instances import broker
from console.instances.models import Instance
from console.topics.models import Group, OrderType, Permission, Topic
from console.topics.names import checked_group_id, checked_remark, checked_topic_name
from console.web.errors import Refused

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
def create_topic(*, actor: Actor, instance: Instance, name: str, order_type: int, remark: str = "") -> Topic:
    """Create a topic in the database and on the broker. Raises Refused for a broken rule, ClientError for an outage."""
    if order_type not in OrderType.values:
        raise Refused(_FIELD, "The message type is one of 0, 1, 2, 4 and 5.", "order_type")
    name, remark = checked_topic_name(name), checked_remark(remark)
    if instance.topic_capacity is not None and instance.topics.count() >= instance.topic_capacity:
        raise Refused("BIZ_TOPIC_QUOTA_EXCEEDED", f"{instance.name} may have {instance.topic_capacity} topics.")
    topic = Topic(
        instance=instance,
        name=name,
        physical_name=instance.physical_name(name),
        order_type=order_type,
        queues=1 if order_type == OrderType.GLOBALLY_ORDERED else DEFAULT_QUEUES,
        remark=remark,
        creator=actor.user,
    )
    try:
        with transaction.atomic():
            topic.save()
    except IntegrityError as error:
        raise Refused("BIZ_TOPIC_EXISTED", f"The topic {name} exists already.", "name") from error
    apply_topic(topic)
    audit.record(actor, "topics.topic.create", topic.physical_name, detail={"order_type": order_type})
    if not instance.independent_naming:
        # The bare name is a new resource of the account; in a namespace the account has the name already.
        acl.publish_on_commit()
    return topic


@transaction.atomic
def set_topic_permission(*, actor: Actor, topic: Topic, perm: int) -> None:
    """Set the read/write mode: 6 both, 4 read only, 2 write only."""
    if perm not in Permission.values:
        raise Refused(_FIELD, "The mode is 6 (read and write), 4 (read only) or 2 (write only).", "perm")
    topic.perm = perm
    topic.save(update_fields=["perm"])
    apply_topic(topic)
    audit.record(actor, "topics.topic.update", topic.physical_name, detail={"perm": perm})


@transaction.atomic
def delete_topic(*, actor: Actor, topic: Topic) -> None:
    """Delete a topic with its messages and subscriptions."""
    audit.record(actor, "topics.topic.delete", topic.physical_name)
    physical_name, cluster = topic.physical_name, topic.instance.cluster
    topic.delete()
    broker.admin(cluster).delete_topic(physical_name)
    acl.publish_on_commit()


@transaction.atomic
def create_group(*, actor: Actor, instance: Instance, group_id: str, remark: str = "") -> Group:
    """Create a group ID in the database and on the broker."""
    group_id, remark = checked_group_id(group_id), checked_remark(remark)
    group = Group(
        instance=instance,
        group_id=group_id,
        physical_name=instance.physical_name(group_id),
        remark=remark,
        owner=actor.tenant,
        creator=actor.user,
    )
    try:
        with transaction.atomic():
            group.save()
    except IntegrityError as error:
        raise _taken(actor, group) from error
    apply_group(group)
    audit.record(actor, "topics.group.create", group.physical_name)
    acl.publish_group_on_commit(group.physical_name, group.holder)
    return group


@transaction.atomic
def set_group_reading(*, actor: Actor, group: Group, enabled: bool) -> None:
    """Allow or stop consumption of a group."""
    group.read_enabled = enabled
    group.save(update_fields=["read_enabled"])
    apply_group(group)
    audit.record(actor, "topics.group.update", group.physical_name, detail={"read_enabled": enabled})


@transaction.atomic
def delete_group(*, actor: Actor, group: Group) -> None:
    """Delete a group with its offsets, retry and dead-letter topics; refused while a consumer is connected."""
    admin = broker.admin(group.instance.cluster)
    try:
        online = len(admin.consumer_connection(group.physical_name).connections)
    except ConsumerNotOnline:
        online = 0
    if online:
        raise Refused(_FIELD, f"{group.group_id} has {online} consumers online; stop them first.", "group_id")
    audit.record(actor, "topics.group.delete", group.physical_name)
    physical_name = group.physical_name
    group.delete()
    admin.delete_group(physical_name)
    acl.publish_group_on_commit(physical_name, None)


def apply_topic(topic: Topic) -> None:
    """Make the broker's topic what the row says; also mends a broker that lost it."""
    broker.admin(topic.instance.cluster).create_topic(
        topic.physical_name,
        queues=topic.queues,
        perm=topic.perm,
        message_type=MESSAGE_TYPES[OrderType(topic.order_type)],
        order=topic.order_type == OrderType.GLOBALLY_ORDERED,
    )


def apply_group(group: Group) -> None:
    """Make the broker's group what the row says."""
    broker.admin(group.instance.cluster).create_group(
        group.physical_name, retry_max_times=group.retry_max_times, consume_enable=group.read_enabled
    )


def _taken(actor: Actor, group: Group) -> Refused:
    holder = Group.objects.filter(physical_name=group.physical_name).first()
    if holder and holder.owner_id != actor.tenant.pk:
        return Refused(
            "BIZ_CONSUMER_ID_BELONG_TO_OTHER_USER", f"The group ID {group.group_id} cannot be used.", "group_id"
        )
    return Refused("BIZ_SUBSCRIPTION_EXISTED", f"The group ID {group.group_id} exists already.", "group_id")
