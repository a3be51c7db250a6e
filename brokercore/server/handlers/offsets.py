"""Offsets: 14, 15, 29 to 32, resets (222), copies (314) and the table of all (43)."""

from __future__ import annotations

import orjson

from brokercore.protocol.bodies.stats import offsets_to_json
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.fastjson import dumps_with
from brokercore.protocol.message_queue import MessageQueue
from brokercore.server.broker import Broker
from brokercore.server.connections.connection import Connection
from brokercore.server.connections.headers import boolean, integer, text
from brokercore.server.errors import Refusal
from brokercore.server.rights import permissions
from brokercore.server.rights.authentication import Caller
from brokercore.server.storage import recovery
from brokercore.server.storage.offsets import Place
from brokercore.server.storage.queue import Queue
from brokercore.server.storage.retention import offset_at
from brokercore.server.storage.topics import Topic

_OK, _NOT_FOUND = ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND


def existing_topic(broker: Broker, name: str) -> Topic:
    """The topic. Raises Refusal when there is none."""
    topic = broker.topics.get(name)
    if topic is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"the topic {name} does not exist")
    return topic


def existing_queue(broker: Broker, ext: dict[str, str]) -> Queue:
    """The queue a header names. Raises Refusal when there is none."""
    topic, queue_id = existing_topic(broker, text(ext, "topic")), integer(ext, "queueId")
    if not 0 <= queue_id < len(topic.queues):
        raise Refusal(ResponseCode.INVALID_PARAMETER, f"queue {queue_id} of topic {ext['topic']} does not exist")
    return topic.queues[queue_id]


def existing_group(broker: Broker, name: str) -> None:
    """Raise Refusal when the group does not exist."""
    if broker.groups.get(name) is None:
        raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group [{name}] does not exist")


def query(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """QUERY_CONSUMER_OFFSET: a group that never committed starts at 0 on a queue that lost no message yet.

    So it does on an empty one: a client that begins at the end would ask for the end next, and miss what came between.
    """
    ext = command.ext
    group, topic, queue_id = text(ext, "consumerGroup"), text(ext, "topic"), integer(ext, "queueId")
    offset = broker.offsets.get(group, topic, queue_id)
    if offset is None and boolean(ext, "setZeroIfNotFound", True):
        found = broker.topics.get(topic)
        if found is not None and 0 <= queue_id < len(found.queues) and found.queues[queue_id].min_offset == 0:
            offset = 0
    if offset is None:
        return command.response(_NOT_FOUND, "Not found, maybe this group consumer boot first")
    return command.response(_OK, ext={"offset": str(offset)})


def commit(broker: Broker, caller: Caller, place: Place, offset: int) -> None:
    """Take a client's offset. Raises LimitReached for a place too many of the group's account."""
    if broker.offsets.get(*place) is None:
        broker.limits.add_positions(caller.account, place[0], 1)
    broker.offsets.commit(*place, offset)


async def update(broker: Broker, _connection: Connection, command: Command, caller: Caller) -> Command:
    """UPDATE_CONSUMER_OFFSET: a request that waits for its answer is answered when the offset is stored."""
    ext = command.ext
    group, topic, offset = text(ext, "consumerGroup"), text(ext, "topic"), integer(ext, "commitOffset")
    existing_group(broker, group)
    queue = existing_queue(broker, ext)
    if offset < 0:
        raise Refusal(ResponseCode.INVALID_PARAMETER, f"offset {offset} is below 0")
    commit(broker, caller, (group, topic, queue.queue_id), offset)
    if not command.is_oneway:
        await broker.offsets.flush()
    return command.response(_OK)


async def search(broker: Broker, connection: Connection, command: Command, _caller: Caller) -> Command:
    """SEARCH_OFFSET_BY_TIMESTAMP: the first message from that time on; UPPER the last until then."""
    queue, timestamp = existing_queue(broker, command.ext), integer(command.ext, "timestamp")
    async with connection.reads:
        if command.ext.get("boundaryType", "").upper() == "UPPER":
            offset = max(await offset_at(broker.store, queue, timestamp + 1) - 1, queue.min_offset)
        else:
            offset = await offset_at(broker.store, queue, timestamp)
    return command.response(_OK, ext={"offset": str(offset)})


def maximum(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """GET_MAX_OFFSET: the offset the next message will get."""
    return command.response(_OK, ext={"offset": str(existing_queue(broker, command.ext).max_offset)})


def minimum(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """GET_MIN_OFFSET."""
    return command.response(_OK, ext={"offset": str(existing_queue(broker, command.ext).min_offset)})


def earliest(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """GET_EARLIEST_MSG_STORETIME: -1 when the queue is empty."""
    queue = existing_queue(broker, command.ext)
    return command.response(_OK, ext={"timestamp": str(queue.first_ms or -1)})


async def reset(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Command:
    """INVOKE_BROKER_TO_RESET_OFFSET, done by the broker: the group's next pull of each queue is told where to go."""
    ext = command.ext
    topic_name, group = text(ext, "topic"), text(ext, "group")
    topic = existing_topic(broker, topic_name)
    existing_group(broker, group)
    timestamp, given, only = integer(ext, "timestamp", -1), integer(ext, "offset", -1), integer(ext, "queueId", -1)
    offsets: dict[int, int] = {}
    for queue in topic.queues:
        if only not in (-1, queue.queue_id):
            continue
        if given >= 0:
            wanted = min(max(given, queue.min_offset), queue.max_offset)
        elif timestamp < 0:
            wanted = queue.max_offset
        else:
            async with connection.reads:
                wanted = await offset_at(broker.store, queue, timestamp)
        known = broker.offsets.get(group, topic_name, queue.queue_id)
        if known is not None and wanted > known and not boolean(ext, "isForce", True):
            wanted = known
        offsets[queue.queue_id] = wanted
    if not offsets:
        raise Refusal(ResponseCode.INVALID_PARAMETER, f"queue {only} of topic {topic_name} does not exist")
    broker.limits.add_positions(caller.account, group, broker.offsets.without(group, topic_name, offsets))
    await broker.offsets.reset(group, topic_name, offsets, announce=broker.clients.online(group) is not None)
    for queue_id in offsets:
        broker.waiting.wake(topic.queues[queue_id])
    table = {MessageQueue(topic_name, broker.name, queue_id): offset for queue_id, offset in offsets.items()}
    return command.response(_OK, body=offsets_to_json(table))


async def clone(broker: Broker, _connection: Connection, command: Command, caller: Caller) -> Command:
    """CLONE_GROUP_OFFSET: what one group has committed holds for another."""
    source, target = text(command.ext, "srcGroup"), text(command.ext, "destGroup")
    existing_group(broker, target)
    only = command.ext.get("topic")
    for topic in [only] if only else broker.offsets.topics_of(source):
        offsets = dict(broker.offsets.queues(source, topic))
        if offsets:
            broker.limits.add_positions(caller.account, target, broker.offsets.without(target, topic, offsets))
            await broker.offsets.reset(target, topic, offsets, announce=False)
    return command.response(_OK)


async def all_offsets(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Command:
    """GET_ALL_CONSUMER_OFFSET, of the groups the caller may see."""
    rows: list[bytes] = []
    async for (group, topic), queues in broker.pace.work(caller.account).over(broker.offsets.items()):
        if permissions.may_see_group(caller, connection, group):
            offsets = {str(queue_id): offset for queue_id, offset in queues.items()}
            rows.append(orjson.dumps(f"{topic}@{group}") + b":" + orjson.dumps(offsets))
    table = b"{" + b",".join(rows) + b"}"
    body = dumps_with({"dataVersion": broker.offsets.version.to_dict()}, {"offsetTable": table})
    return command.response(_OK, body=body)


async def first_and_last_ms(broker: Broker, queue: Queue) -> tuple[int, int]:
    """Store times of a queue's first and last message, 0 when it is empty. Raises StoreUnavailable."""
    if queue.min_offset >= queue.max_offset:
        return 0, 0
    first = await broker.store.read(queue, queue.min_offset, 1)
    return recovery.store_timestamp(first[0][1]) if first else 0, queue.last_ms


HANDLERS = {
    RequestCode.QUERY_CONSUMER_OFFSET: query,
    RequestCode.UPDATE_CONSUMER_OFFSET: update,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: search,
    RequestCode.GET_MAX_OFFSET: maximum,
    RequestCode.GET_MIN_OFFSET: minimum,
    RequestCode.GET_EARLIEST_MSG_STORETIME: earliest,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: reset,
    RequestCode.CLONE_GROUP_OFFSET: clone,
    RequestCode.GET_ALL_CONSUMER_OFFSET: all_offsets,
}
