"""Rows for what a broker has already: topics and groups are taken over as they are there."""

from __future__ import annotations

from brokercore.client import GroupConfig, TopicConfig
from console.accounts.models import User
from console.instances.models import Instance
from console.topics.models import Group, OrderType, Permission, Topic

_ORDER_TYPES = {
    "NORMAL": OrderType.NORMAL,
    "FIFO": OrderType.PARTITIONALLY_ORDERED,
    "TRANSACTION": OrderType.TRANSACTIONAL,
    "DELAY": OrderType.DELAYED,
}
_MOST_QUEUES = 2**15 - 1


def topic_as_is(
    instance: Instance, name: str, physical_name: str, config: TopicConfig, creator: User | None = None
) -> Topic:
    """The row of a topic with the settings that it has on a broker; it is not saved."""
    order_type = _ORDER_TYPES.get(config.message_type, OrderType.NORMAL)
    if order_type is OrderType.PARTITIONALLY_ORDERED and config.order and config.write_queues == 1:
        order_type = OrderType.GLOBALLY_ORDERED
    perm = config.perm & Permission.READ_WRITE
    return Topic(
        instance=instance,
        name=name,
        physical_name=physical_name,
        order_type=order_type,
        perm=perm if perm in Permission.values else Permission.READ_WRITE,
        queues=min(config.write_queues, _MOST_QUEUES),
        creator=creator,
    )


def group_as_is(
    instance: Instance, group_id: str, physical_name: str, config: GroupConfig, creator: User | None = None
) -> Group:
    """The row of a group with the settings that it has on a broker; it is not saved."""
    return Group(
        instance=instance,
        group_id=group_id,
        physical_name=physical_name,
        read_enabled=config.consume_enable,
        retry_max_times=min(max(config.retry_max_times, 0), _MOST_QUEUES),
        owner=instance.tenant,
        creator=creator,
    )
