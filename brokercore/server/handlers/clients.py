"""Membership: heartbeats (34), leaving (35), members (38), filter checks (46), connections (203, 204, 328)."""

from __future__ import annotations

import orjson

from brokercore.protocol.bodies.clients import Connection as ConnectionInfo
from brokercore.protocol.bodies.clients import ConsumerConnection, connections_to_json
from brokercore.protocol.bodies.heartbeat import ConsumerData, Heartbeat
from brokercore.protocol.bodies.reading import mapping, read_object
from brokercore.protocol.bodies.reading import text as member
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.errors import SubscriptionError
from brokercore.server import permissions
from brokercore.server.broker import Broker
from brokercore.server.clients import Client
from brokercore.server.connection import Connection
from brokercore.server.errors import Refusal
from brokercore.server.filtering import wanted_frames
from brokercore.server.headers import text
from brokercore.server.security import Caller
from brokercore.server.storage.groups import SYSTEM_GROUPS
from brokercore.server.storage.topics import group_of

MOST_GROUPS = 1000
"""Producer groups, and consumer groups, that one client may be in."""

_OK, _ERROR = ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR


def heartbeat(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Command:
    """HEART_BEAT. Groups that do not exist, or that the caller may not consume with, are left out without a word."""
    beat = Heartbeat.from_json(command.body)
    changed = False
    for what, count in (("producer", len(beat.producer_groups)), ("consumer", len(beat.consumers))):
        if count > MOST_GROUPS:
            raise Refusal(_ERROR, f"the heartbeat names {count} {what} groups; allowed are {MOST_GROUPS}")
    for group in beat.producer_groups:
        broker.clients.register_producer(group, _client(beat, connection, command, caller))
    for data in beat.consumers:
        config = broker.groups.get(data.group)
        if config is None or not _may_consume(caller, connection, data):
            continue
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
    data = {
        group: [
            {
                "clientId": client.client_id,
                "language": client.language,
                "lastUpdateTimestamp": broker.wall_ms(client.last_seen),
                "remoteIP": f"/{client.connection.address}",
                "version": client.version,
            }
            for client in clients.values()
        ]
        for group, clients in broker.clients.producers.items()
    }
    return command.response(_OK, body=orjson.dumps({"data": data}))


def _may_consume(caller: Caller, connection: Connection, data: ConsumerData) -> bool:
    """mq:SUB on the group and on every topic it subscribes to."""
    if caller.is_system or data.group in SYSTEM_GROUPS:
        return True
    names = {data.group, *(group_of(item.topic) or item.topic for item in data.subscriptions)}
    return all(caller.may(permissions.SUBSCRIBE, name, connection) for name in names)


def _client(beat: Heartbeat, connection: Connection, command: Command, caller: Caller) -> Client:
    return Client(beat.client_id, connection, command.language, command.version, caller=caller)


def _info(client: Client) -> ConnectionInfo:
    return ConnectionInfo(client.client_id, client.connection.address, client.language, client.version)


HANDLERS = {
    RequestCode.HEART_BEAT: heartbeat,
    RequestCode.UNREGISTER_CLIENT: unregister,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: members,
    RequestCode.CHECK_CLIENT_CONFIG: check_filter,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: consumer_connections,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: producer_connections,
    RequestCode.GET_ALL_PRODUCER_INFO: all_producers,
}
