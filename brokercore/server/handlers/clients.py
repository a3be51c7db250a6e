"""Clients: who is there, which queues they have locked, and the questions that only they can answer.

Membership: heartbeats (34), leaving (35), members (38), filter checks (46), connections (203, 204, 328). Queue locks of
ordered consumers (41, 42). Passed on to a client: running info (307), consume directly (309), its offsets (221, 223).
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import Any

import orjson

from brokercore.names import SYSTEM_GROUPS, group_of
from brokercore.protocol.bodies.clients import Connection as ConnectionInfo
from brokercore.protocol.bodies.clients import (
    ConsumerConnection,
    ConsumerData,
    Heartbeat,
    ProducerInfo,
    SubscriptionData,
    connections_to_json,
    producers_to_json,
)
from brokercore.protocol.bodies.stats import offsets_from_json
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.errors import LenientJsonError, SubscriptionError
from brokercore.protocol.fastjson import dumps_object_keyed, dumps_with, mapping, objects, read_object
from brokercore.protocol.fastjson import text as member
from brokercore.protocol.ids import pack_host, parse_offset_message_id
from brokercore.protocol.message import decode_stored
from brokercore.protocol.message_queue import MessageQueue
from brokercore.server.broker import Broker
from brokercore.server.connections.clients import Client
from brokercore.server.connections.connection import MOST_WATCHED, Connection
from brokercore.server.connections.fairness import at_once
from brokercore.server.connections.headers import text
from brokercore.server.delivery.filtering import wanted_frames
from brokercore.server.errors import Refusal
from brokercore.server.rights import permissions
from brokercore.server.rights.authentication import Caller

MOST_GROUPS = 1000
"""Producer groups, and consumer groups, that one client may be in."""

MAX_NAME = 255
"""Characters of a client id, and of a producer group's name."""

MAX_SUBSCRIPTIONS = 64 << 10
"""Characters of the topics, expressions and tags that one group subscribes to; they are kept while it is online."""

_SHORT_BEAT = 4 << 10
"""Bytes of a heartbeat up to which it is taken at once."""

RELAY_SECONDS = 10
"""How long a client may take; then the caller gets CONSUME_MSG_TIMEOUT."""

_PRIVATE = ("AccessKey", "Signature", "SecurityToken", "OnsChannel")

_OK, _ERROR = ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR


def heartbeat(
    broker: Broker, connection: Connection, command: Command, caller: Caller
) -> Command | Coroutine[Any, Any, Command]:
    """HEART_BEAT. Groups that do not exist, or that the caller may not consume with, are left out without a word."""
    beat = Heartbeat.from_json(command.body)
    for what, count in (("producer", len(beat.producer_groups)), ("consumer", len(beat.consumers))):
        if count > MOST_GROUPS:
            raise Refusal(_ERROR, f"the heartbeat names {count} {what} groups; allowed are {MOST_GROUPS}")
    _check_beat(broker, connection, beat)
    steps = _register(broker, connection, command, caller, beat)
    if len(command.body) > _SHORT_BEAT:
        return _in_slices(broker, caller, steps)
    return at_once(steps)


def _check_beat(broker: Broker, connection: Connection, beat: Heartbeat) -> None:
    """Raise Refusal for a heartbeat that would make the broker keep more than a client needs."""
    if len(beat.client_id) > MAX_NAME:
        raise Refusal(_ERROR, f"the client id has {len(beat.client_id)} characters; allowed are {MAX_NAME}")
    longest = max(map(len, beat.producer_groups), default=0)
    if longest > MAX_NAME:
        raise Refusal(_ERROR, f"a producer group has {longest} characters; allowed are {MAX_NAME}")
    known = broker.clients.producer_groups(connection)
    count = len(known.union(beat.producer_groups))
    if count > MOST_GROUPS:
        raise Refusal(_ERROR, f"the connection is in {count} producer groups; allowed are {MOST_GROUPS}")
    for data in beat.consumers:
        size = sum([_size(item) for item in data.subscriptions])
        if size > MAX_SUBSCRIPTIONS:
            raise Refusal(
                _ERROR,
                f"the subscriptions of {data.group[:MAX_NAME]} have {size} characters; allowed are {MAX_SUBSCRIPTIONS}",
            )


def _size(data: SubscriptionData) -> int:
    words = (data.topic, data.expression, data.expression_type, *data.tags)
    return sum(map(len, words)) + 8 * len(data.codes)


async def _in_slices(broker: Broker, caller: Caller, steps: Generator[None, None, Command]) -> Command:
    return await broker.pace.work(caller.account).through(steps)


def _register(
    broker: Broker, connection: Connection, command: Command, caller: Caller, beat: Heartbeat
) -> Generator[None, None, Command]:
    changed = False
    for group in beat.producer_groups:
        if not connection.is_open:
            break
        broker.clients.register_producer(group, _client(beat, connection, command, caller))
        yield
    for data in beat.consumers:
        config = broker.groups.get(data.group)
        if config is None or not (yield from _may_consume(caller, connection, data)):
            continue
        if not connection.is_open:
            break
        changed |= broker.clients.register_consumer(
            data,
            _client(beat, connection, command, caller),
            keep_subscriptions=beat.without_subscriptions,
            notify=config.notify_consumers_changed,
        )
    ext = {"IS_SUB_CHANGE": "true" if changed else "false", "IS_SUPPORT_HEART_BEAT_V2": "false"}
    return command.response(_OK, ext=ext)


def unregister(broker: Broker, connection: Connection, command: Command, _caller: Caller) -> Command:
    """UNREGISTER_CLIENT."""
    ext = command.ext
    broker.clients.unregister(
        connection, text(ext, "clientID"), ext.get("producerGroup") or "", ext.get("consumerGroup") or ""
    )
    return command.response(_OK)


def members(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """GET_CONSUMER_LIST_BY_GROUP."""
    name = text(command.ext, "consumerGroup")
    group = broker.clients.online(name)
    if group is None:
        return command.response(_ERROR, f"no consumer for this group, {name}")
    ids = [client.client_id for client in group.members.values()]
    return command.response(_OK, body=orjson.dumps({"consumerIdList": ids}))


def check_filter(_broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """CHECK_CLIENT_CONFIG: asked before a consumer starts with a filter that is no tag expression."""
    data = mapping(read_object(command.body), "subscriptionData")
    kind = member(data, "expressionType", "TAG")
    try:
        if kind != "TAG":  # RocketMQ never looks at those: it reads them at the first pull
            wanted_frames(kind, member(data, "subString", ""))
    except SubscriptionError as error:
        return command.response(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error))
    return command.response(_OK)


def consumer_connections(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """GET_CONSUMER_CONNECTION_LIST."""
    name = text(command.ext, "consumerGroup")
    group = broker.clients.online(name)
    if group is None:
        raise Refusal(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online")
    answer = ConsumerConnection(
        [_info(client) for client in group.members.values()],
        group.subscriptions,
        group.consume_type,
        group.message_model,
        group.consume_from_where,
    )
    return command.response(_OK, body=answer.to_json())


def producer_connections(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """GET_PRODUCER_CONNECTION_LIST."""
    name = text(command.ext, "producerGroup")
    clients = broker.clients.producers.get(name)
    if not clients:
        return command.response(_ERROR, f"the producer group[{name}] not exist")
    return command.response(_OK, body=connections_to_json([_info(client) for client in clients.values()]))


def all_producers(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """GET_ALL_PRODUCER_INFO."""
    found = {
        group: [
            ProducerInfo(
                client.client_id,
                client.connection.address,
                client.language,
                client.version,
                broker.wall_ms(client.last_seen),
            )
            for client in clients.values()
        ]
        for group, clients in broker.clients.producers.items()
    }
    return command.response(_OK, body=producers_to_json(found))


def _may_consume(caller: Caller, connection: Connection, data: ConsumerData) -> Generator[None, None, bool]:
    """mq:SUB on the group and on every topic it subscribes to."""
    if caller.is_system or data.group in SYSTEM_GROUPS:
        return True
    names = {data.group, *(group_of(item.topic) or item.topic for item in data.subscriptions)}
    for name in names:
        if not caller.may(permissions.SUBSCRIBE, name, connection):
            return False
        yield
    return True


def _client(beat: Heartbeat, connection: Connection, command: Command, caller: Caller) -> Client:
    return Client(beat.client_id, connection, command.language, command.version, caller=caller)


def _info(client: Client) -> ConnectionInfo:
    return ConnectionInfo(client.client_id, client.connection.address, client.language, client.version)


def lock(broker: Broker, connection: Connection, command: Command, _caller: Caller) -> Command:
    """LOCK_BATCH_MQ: what this client may read now."""
    group, client_id, queues = _locking(command)
    if len(connection.on_close) > MOST_WATCHED:
        raise Refusal(ResponseCode.SYSTEM_BUSY, "too much waits on this connection or is locked by it")
    queues = [queue for queue in queues if _exists(broker, queue)]
    locked = broker.locks.lock(group, client_id, queues, connection)
    body = orjson.dumps({"lockOKMQSet": [queue.to_dict() for queue in locked]})
    return command.response(ResponseCode.SUCCESS, body=body)


def unlock(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """UNLOCK_BATCH_MQ."""
    group, client_id, queues = _locking(command)
    broker.locks.unlock(group, client_id, queues)
    return command.response(ResponseCode.SUCCESS)


def _exists(broker: Broker, queue: MessageQueue) -> bool:
    topic = broker.topics.get(queue.topic)
    return topic is not None and 0 <= queue.queue_id < len(topic.queues)


def _locking(command: Command) -> tuple[str, str, list[MessageQueue]]:
    fields = read_object(command.body)
    queues = [MessageQueue.from_dict(item) for item in objects(fields, "mqSet")]
    return member(fields, "consumerGroup"), member(fields, "clientId"), queues


async def running_info(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """GET_CONSUMER_RUNNING_INFO, with the stack traces of the client's threads when asked (jstackEnable)."""
    ext = command.ext
    client = _online(broker, text(ext, "consumerGroup"), text(ext, "clientId"))
    return await _ask(client, command, b"")


async def consume_directly(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Command:
    """CONSUME_MESSAGE_DIRECTLY: one message, named by its offset id, is handed to one client."""
    ext = command.ext
    client = _online(broker, text(ext, "consumerGroup"), text(ext, "clientId"))
    host, port, offset = parse_offset_message_id(text(ext, "msgId"))  # a body of the caller's is no message of a topic
    elsewhere = broker.registry.is_other(pack_host(host, port))
    async with connection.reads:  # until it is answered: the message is held as long
        frame = None if elsewhere else await broker.store.message_at(offset)
        topic = decode_stored(frame)[0].topic if frame is not None else ""
        seen = any(permissions.may(caller, connection, action, topic) for action in permissions.READS_MESSAGE)
        if frame is None or not seen:  # one sentence for both: the refusal would name another account's topic
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"the message {ext['msgId']} does not exist")
        return await _ask(client, command, frame)


async def client_status(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS: the offsets each client of a group works with."""
    ext = command.ext
    group, wanted = text(ext, "group"), ext.get("clientAddr")
    online = broker.clients.online(group)
    if online is None:
        raise Refusal(ResponseCode.CONSUMER_NOT_ONLINE, f"No Any Consumer online in the consumer group: [{group}]")
    tables: dict[str, bytes] = {}
    for client in list(online.members.values()):
        if wanted and wanted not in (client.client_id, client.connection.address):
            continue
        question = {"topic": text(ext, "topic"), "group": group}
        answer = await _request(client, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, question, b"")
        try:
            offsets = offsets_from_json(answer.body, "messageQueueTable") if answer.body else {}
        except LenientJsonError as error:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"client {client.client_id} answered: {error}") from error
        tables[client.client_id] = dumps_object_keyed((queue.to_dict(), offset) for queue, offset in offsets.items())
    body = dumps_with({"messageQueueTable": {}}, {"consumerTable": dumps_with({}, tables)})
    return command.response(ResponseCode.SUCCESS, body=body)


async def own_status(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """GET_CONSUMER_STATUS_FROM_CLIENT, for one client of the group."""
    ext = command.ext
    client = _online(broker, text(ext, "group"), ext.get("clientId") or ext.get("clientAddr") or "")
    return await _ask(client, command, b"")


def _online(broker: Broker, group: str, client_id: str) -> Client:
    online = broker.clients.online(group)
    client = online.find(client_id) if online else None
    if client is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")
    return client


async def _ask(client: Client, command: Command, body: bytes) -> Command:
    """Pass a request on, without the caller's credentials, and its answer back."""
    ext = {name: value for name, value in command.ext.items() if name not in _PRIVATE}
    answer = await _request(client, command.code, ext, body)
    return command.response(answer.code, answer.remark, answer.ext, answer.body)


async def _request(client: Client, code: int, ext: dict[str, str], body: bytes) -> Command:
    try:
        return await client.connection.request(code, ext, body, seconds=RELAY_SECONDS)
    except TimeoutError:
        raise Refusal(
            ResponseCode.CONSUME_MSG_TIMEOUT, f"client {client.client_id} did not answer within {RELAY_SECONDS} s"
        ) from None


HANDLERS = {
    RequestCode.HEART_BEAT: heartbeat,
    RequestCode.UNREGISTER_CLIENT: unregister,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: members,
    RequestCode.CHECK_CLIENT_CONFIG: check_filter,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: consumer_connections,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: producer_connections,
    RequestCode.GET_ALL_PRODUCER_INFO: all_producers,
    RequestCode.LOCK_BATCH_MQ: lock,
    RequestCode.UNLOCK_BATCH_MQ: unlock,
    RequestCode.GET_CONSUMER_RUNNING_INFO: running_info,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: consume_directly,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: client_status,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: own_status,
}
