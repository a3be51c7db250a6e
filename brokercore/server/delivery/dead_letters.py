"""A message that its group has failed on too often: it goes to `%DLQ%group`, and remembers where it came from."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from brokercore.names import dead_letter_topic
from brokercore.protocol import properties as names
from brokercore.protocol.message import StoredMessage
from brokercore.protocol.properties import encode_properties
from brokercore.server.errors import StoreUnavailable
from brokercore.server.storage.index import message_keys
from brokercore.server.storage.parking import host_bytes

if TYPE_CHECKING:
    from brokercore.server.broker import Broker


def prepare(message: StoredMessage) -> None:
    """What a message carries from its first failure on: where it came from, and which copy was the first."""
    message.properties.setdefault(names.RETRY_TOPIC, message.topic)
    message.properties.setdefault(names.ORIGIN_MESSAGE_ID, message.offset_message_id)
    message.properties[names.WAIT] = "false"


async def bury(broker: Broker, message: StoredMessage, group: str) -> None:
    """Store a message as a dead letter of its group, and wait until it is safe. Raises StoreFull, StoreUnavailable."""
    topic = await broker.topics.ensure(dead_letter_topic(group), 1)
    message.properties.pop(names.DELAY, None)
    stored: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
    broker.store.put(
        topic.queues[0],
        message.body,
        encode_properties(message.properties),
        stored.set_result,
        keys=message_keys(message.properties),
        **next_attempt(message),
    )
    await safe(stored)


def next_attempt(message: StoredMessage) -> dict[str, Any]:
    """The fields of a message that is stored once more, one delivery older."""
    return {
        "flag": message.flag,
        "sys_flag": message.sys_flag,
        "born_timestamp": message.born_timestamp,
        "born_host": host_bytes(message.born_host),
        "reconsume_times": message.reconsume_times + 1,
    }


async def safe(stored: asyncio.Future[str | None]) -> None:
    """Wait for a write. Raises StoreUnavailable with the reason that it failed for."""
    reason = await stored
    if reason is not None:
        raise StoreUnavailable(reason)
