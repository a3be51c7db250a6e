"""Whether a group gets messages in order: no further ones of a queue while one of it is in flight.

That is how the clients that pop keep an order, gRPC ones too; those that pull lock queues.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from brokercore.names import group_of
from brokercore.server.storage.topics import Topic

if TYPE_CHECKING:
    from brokercore.server.broker import Broker

_ORDERED = "FIFO"


def in_order(broker: Broker, group: str, topic: Topic) -> bool:
    """Whether a group gets what it pops from a topic in order: as it is set, or by what its clients subscribe to."""
    config = broker.groups.get(group)
    if config is None or config.consume_message_orderly or not config.orderly_by_subscriptions:
        return config is not None and config.consume_message_orderly
    if topic.message_type != _ORDERED:
        return False
    online = broker.clients.online(group)
    others = [broker.topics.get(name) for name in subscribed(online.subscriptions)] if online is not None else []
    return all(other.message_type == _ORDERED for other in others if other is not None)


async def is_orderly(broker: Broker, group: str, topics: Collection[str]) -> bool:
    """What a client of a group is told that subscribes to these topics, wherever in the cluster they are.

    Raises StoreUnavailable.
    """
    config = broker.groups.get(group)
    if config is None or config.consume_message_orderly or not config.orderly_by_subscriptions:
        return config is not None and config.consume_message_orderly
    types: set[str] = set()
    for name in subscribed(topics):
        topic = broker.topics.get(name)
        if topic is not None:
            types.add(topic.message_type)
        elif not broker.registry.alone:
            types.update(other.message_type for other in (await broker.registry.topic(name)).values())
    return types == {_ORDERED}


def subscribed(topics: Collection[str]) -> list[str]:
    """What a group subscribes to but for its own retries."""
    return [name for name in topics if not group_of(name)]
