"""CONSUMER_SEND_MSG_BACK (36): a message goes to its group's retry topic, or becomes a dead letter."""

from __future__ import annotations

import asyncio
import time
from random import randrange

from brokercore.names import retry_topic
from brokercore.protocol import properties as names
from brokercore.protocol.bodies.config import GroupConfig
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.message import StoredMessage, decode_stored
from brokercore.server.broker import Broker
from brokercore.server.connections.connection import Connection
from brokercore.server.connections.headers import integer, text
from brokercore.server.delivery.dead_letters import bury, next_attempt, prepare, safe
from brokercore.server.delivery.delayed_delivery import level_time
from brokercore.server.errors import Refusal
from brokercore.server.rights import permissions
from brokercore.server.rights.authentication import Caller
from brokercore.server.statistics import SENT_BACK

FIRST_RETRY_LEVEL = 3
"""The broker's own choice: level 3 (10 s) for the first retry, one level more for each further one."""

_VERSION_WITH_LIMIT = 121
"""Clients from V3_4_9 on say themselves how often a message may be consumed again."""


async def send_back(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Command:
    """Store the message at `offset` for another attempt of its group, later."""
    ext = command.ext
    group, level = text(ext, "group"), integer(ext, "delayLevel")
    config = broker.groups.get(group)
    if config is None:
        raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group [{group}] does not exist")
    async with connection.reads:
        await _send_back(broker, connection, command, caller, config, level)
    return command.response(ResponseCode.SUCCESS)


async def _send_back(  # noqa: PLR0917 (what the request says, looked up)
    broker: Broker, connection: Connection, command: Command, caller: Caller, config: GroupConfig, level: int
) -> None:
    ext, group = command.ext, config.group
    frame = await broker.store.message_at(integer(ext, "offset"))
    message = decode_stored(frame)[0] if frame is not None else None
    if (
        frame is None
        or message is None
        or not permissions.may(caller, connection, permissions.SUBSCRIBE, message.topic)
    ):
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {ext['offset']}")
    if not caller.is_system:
        broker.limits.admit_again(group, len(frame))
    limit = config.retry_max_times
    if command.version >= _VERSION_WITH_LIMIT and "maxReconsumeTimes" in ext:
        limit = integer(ext, "maxReconsumeTimes")
    prepare(message)
    if message.reconsume_times >= limit or level < 0:
        await bury(broker, message, group)
    else:
        await _retry(broker, message, group, level or FIRST_RETRY_LEVEL + message.reconsume_times)
    first = message.properties[names.RETRY_TOPIC]  # as the message says: it may say anything
    counted = first if broker.topics.get(first) else message.topic
    broker.statistics.counter(SENT_BACK, f"{counted}@{group}").add(1)


async def _retry(broker: Broker, message: StoredMessage, group: str, level: int) -> None:
    topic = await broker.topics.ensure(retry_topic(group), 1)
    until_ms, level = level_time(level, int(time.time() * 1000))
    properties = message.properties
    properties[names.DELAY] = str(level)
    properties[names.REAL_TOPIC] = topic.config.topic
    properties[names.REAL_QUEUE_ID] = str(randrange(max(1, topic.config.write_queues)))
    stored: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
    queue = broker.timers.queue(level - 1)
    broker.timers.park(queue, until_ms, message.body, properties, stored.set_result, fields=next_attempt(message))
    await safe(stored)


HANDLERS = {RequestCode.CONSUMER_SEND_MSG_BACK: send_back}
