"""Rows for what a broker has already: topics and groups are taken over as they are there, and compared with it."""

from __future__ import annotations

from brokercore.client import GroupConfig, TopicConfig
from console.accounts.models import User
from console.instances.models import Instance
from console.topics.models import DeliveryOrder, Group, OrderType, Permission, Topic

_ORDER_TYPES = {
    "NORMAL": OrderType.NORMAL,
    "FIFO": OrderType.PARTITIONALLY_ORDERED,
    "TRANSACTION": OrderType.TRANSACTIONAL,
    "DELAY": OrderType.DELAYED,
}
_MOST_QUEUES = 2**15 - 1
QUEUES, MODE, TYPE, CONSUMPTION, RETRIES = "queues", "mode", "message type", "consumption", "redeliveries"
ORDER = "delivery in order"
"""What settings are called where they are compared."""

TAKEN_OVER: dict[type[Topic | Group], tuple[str, ...]] = {
    Topic: ("order_type", "perm", "queues"),
    Group: ("read_enabled", "retry_max_times", "delivery_order"),
}
"""Fields of a row that come from the broker's settings."""


def topic_settings(config: TopicConfig) -> dict[str, object]:
    """The settings of a topic on a broker that its row has too."""
    kept: dict[str, object] = {QUEUES: config.write_queues, MODE: mode_in_words(config.perm)}
    # A broker that keeps no message types cannot differ in them.
    return kept | {TYPE: config.message_type} if config.keeps_attributes else kept


def group_settings(config: GroupConfig) -> dict[str, object]:
    """The settings of a group on a broker that its row has too."""
    return {
        CONSUMPTION: on_or_off(config.consume_enable),
        RETRIES: config.retry_max_times,
        ORDER: on_or_off(config.consume_message_orderly),
    }


def topic_settings_shown(config: TopicConfig) -> dict[str, object]:
    """The settings that the row of an adopted topic has: one says less than brokers do, such as nothing of MIXED."""
    known = config.message_type if config.message_type in _ORDER_TYPES else "NORMAL"
    return {QUEUES: _queues(config), MODE: mode_in_words(_perm(config)), TYPE: known}


def group_settings_shown(config: GroupConfig) -> dict[str, object]:
    """The same of an adopted group."""
    return group_settings(config) | {RETRIES: _retries(config)}


def _queues(config: TopicConfig) -> int:
    return min(config.write_queues, _MOST_QUEUES)


def _perm(config: TopicConfig) -> int:
    perm = config.perm & Permission.READ_WRITE
    return perm if perm in Permission.values else Permission.READ_WRITE


def _retries(config: GroupConfig) -> int:
    return min(max(config.retry_max_times, 0), _MOST_QUEUES)


def mode_in_words(perm: int) -> str:
    """Bit 4 read, bit 2 write; a broker may have neither."""
    return str(dict(Permission.choices).get(perm & Permission.READ_WRITE, "neither read nor write")).lower()


def on_or_off(enabled: bool) -> str:
    """A switch in words."""
    return "on" if enabled else "off"


def topic_as_is(
    instance: Instance, name: str, physical_name: str, config: TopicConfig, creator: User | None = None
) -> Topic:
    """The row of a topic with the settings that it has on a broker; it is not saved."""
    order_type = _ORDER_TYPES.get(config.message_type, OrderType.NORMAL)
    if order_type is OrderType.PARTITIONALLY_ORDERED and config.order and config.write_queues == 1:
        order_type = OrderType.GLOBALLY_ORDERED
    return Topic(
        instance=instance,
        name=name,
        physical_name=physical_name,
        order_type=order_type,
        perm=_perm(config),
        queues=_queues(config),
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
        retry_max_times=_retries(config),
        delivery_order=_delivery_order(config),
        owner=instance.tenant,
        creator=creator,
    )


def _delivery_order(config: GroupConfig) -> DeliveryOrder:
    if config.consume_message_orderly:
        return DeliveryOrder.ORDERLY
    return DeliveryOrder.AUTOMATIC if config.orderly_by_subscriptions else DeliveryOrder.CONCURRENTLY
