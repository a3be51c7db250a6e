"""Deleting a topic or a group with everything that refers to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokercore.server.key_values import ORDER_NAMESPACE

if TYPE_CHECKING:
    from brokercore.server.broker import Broker


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
