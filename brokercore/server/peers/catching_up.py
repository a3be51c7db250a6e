"""Topics and groups of the whole cluster: what goes with a deleted one, and what a broker catches up on at its start.

That is what the cluster deleted or made without it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from brokercore.names import group_of, is_retry_topic, retry_topic
from brokercore.protocol.bodies.config import GroupConfig, TopicConfig
from brokercore.server.peers.key_values import ORDER_NAMESPACE
from brokercore.server.storage.groups import POP
from brokercore.server.storage.topics import SYSTEM_QUEUES

if TYPE_CHECKING:
    from brokercore.server.broker import Broker
    from brokercore.server.peers.discovery import Peer

logger = logging.getLogger(__name__)


async def join(broker: Broker) -> None:
    """Delete what was deleted meanwhile, join the cluster, then copy what the others have.

    Raises StoreUnavailable and RedisError.
    The others need not run: their tables lie in the same Redis. Configurations are copied, never messages or offsets,
    and nothing that this broker has is changed.
    """
    writer, deleted = broker.store.writer, broker.registry.own_keys.deleted
    for name in [member.decode() for member in await writer.call("SMEMBERS", deleted)]:
        await remove_topic(broker, name)
        if is_retry_topic(name) and not await _has_group(broker, group_of(name)):
            await broker.groups.delete(group_of(name))
            await forget_progress(broker, group_of(name))
        await writer.call("SREM", deleted, name)
        logger.info("topic %s is deleted, as the cluster's was meanwhile", name)
    await broker.registry.join()
    for peer in broker.registry.peers.values():
        await _copy(broker, peer)


async def _has_group(broker: Broker, group: str) -> bool:
    """Whether another broker has the group: then only its retry topic was deleted, or it was made again."""
    writer, keys = broker.store.writer, [peer.keys for peer in broker.registry.peers.values()]
    there = await writer.call_many([("HEXISTS", key.groups, group) for key in keys])
    gone = await writer.call_many([("SISMEMBER", key.deleted, retry_topic(group)) for key in keys])
    return any(has and not deleted for has, deleted in zip(there, gone, strict=True))


async def _copy(broker: Broker, peer: Peer) -> None:
    keys = peer.keys
    topics, groups, forbidden, popping, gone = await broker.store.writer.call_many(
        [
            ("HGETALL", keys.topics),
            ("HGETALL", keys.groups),
            ("SMEMBERS", keys.forbidden),
            ("SMEMBERS", keys.pop_modes),
            ("SMEMBERS", keys.deleted),
        ]
    )
    deleted = {name.decode() for name in gone}
    made_topics = made_groups = 0
    for name, config in _pairs(topics):
        if name in SYSTEM_QUEUES or group_of(name) or name in deleted or broker.topics.get(name):
            continue
        known = TopicConfig.from_json(config)
        if known.order and not _orders_here(broker, name):
            continue  # with more queues, a key's messages would move between them
        await broker.topics.save(known)
        made_topics += 1
    for name, config in _pairs(groups):
        if retry_topic(name) in deleted or broker.groups.get(name):
            continue
        group = GroupConfig.from_json(config)
        await broker.groups.save(group)
        await broker.topics.ensure(retry_topic(name), group.retry_queues)
        for topic in _of(name, forbidden):
            await broker.groups.set_readable(name, topic, readable=False)
        for topic in _of(name, popping):
            await broker.request_modes.set(name, topic, POP)
        made_groups += 1
    if made_topics or made_groups:
        logger.info("%d topics and %d groups are taken over from %s", made_topics, made_groups, peer.name)


def _orders_here(broker: Broker, topic: str) -> bool:
    """Whether the fixed queues of an ordered topic (`broker-a:8;broker-b:8`) include this broker's."""
    order = broker.key_values.get(ORDER_NAMESPACE, topic) or ""
    return any(part.partition(":")[0] == broker.name for part in order.split(";"))


def _pairs(table: list[bytes]) -> list[tuple[str, bytes]]:
    return [(name.decode(), value) for name, value in zip(table[::2], table[1::2], strict=True)]


def _of(group: str, members: Any) -> list[str]:
    """The topics of the members `<group>@<topic>`."""
    split = [member.decode().partition("@") for member in members]
    return [topic for name, _, topic in split if name == group]


async def remove_topic(broker: Broker, name: str) -> None:
    """Delete a topic: its messages, its index and all offsets in it go with it. Raises StoreUnavailable."""
    await broker.topics.delete(name)
    await broker.offsets.forget(topic=name)
    await broker.flights.forget(topic=name)
    await broker.request_modes.forget(topic=name)
    await broker.groups.open_again(topic=name)
    if broker.key_values.get(ORDER_NAMESPACE, name) is not None:
        await broker.key_values.delete(ORDER_NAMESPACE, name)
    broker.statistics.forget(name)


async def forget_progress(broker: Broker, group: str) -> None:
    """Delete all offsets of a group, and how it consumes. Raises StoreUnavailable."""
    await broker.offsets.forget(group=group)
    await broker.flights.forget(group=group)
    await broker.request_modes.forget(group=group)
