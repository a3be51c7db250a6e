"""The name-server role: routes (105), cluster (106), topic lists (206, 224, 304), key-values (100-102, 219).

And whether routes let clients write to a broker (205, 327).
"""

from __future__ import annotations

import re
from collections.abc import Coroutine, Mapping
from typing import Any

import orjson

from brokercore.names import TRACE_TOPIC
from brokercore.protocol.bodies.config import TopicConfig
from brokercore.protocol.bodies.route import MASTER, BrokerData, ClusterInfo, QueueData, TopicRoute
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.server.broker import Broker
from brokercore.server.connections.connection import Connection
from brokercore.server.connections.headers import text
from brokercore.server.delivery.replies import is_reply_topic, reply_cluster
from brokercore.server.errors import Refusal
from brokercore.server.peers.key_values import ORDER_NAMESPACE
from brokercore.server.rights import permissions
from brokercore.server.rights.authentication import Caller
from brokercore.server.storage.topics import SYSTEM_QUEUES

MAX_ORDER = 1024
"""Characters of what says where the queues of an ordered topic are."""

_ORDER = re.compile(r"[a-zA-Z0-9_-]+:[0-9]{1,4}(;[a-zA-Z0-9_-]+:[0-9]{1,4})*;?")
_OK = ResponseCode.SUCCESS
_WRITABLE, _INHERITED = 2, 1
_BROKER_NAMESPACE, _READ_ONLY = "BROKER_PERMISSION", "read"
"""Where a broker whose write permission was wiped is remembered: all brokers share it, and restarts keep it."""


def route(
    broker: Broker, connection: Connection, command: Command, caller: Caller
) -> Command | Coroutine[Any, Any, Command]:
    """GET_ROUTEINFO_BY_TOPIC. TBW102 has no route: topics are not made by sending.

    Another account's topic that the caller may neither see nor use is not there, whether it is or not. Within an
    account the route is told, so that a client hears which permission it lacks from the broker that refuses it.
    """
    name = text(command.ext, "topic")
    own = _reply_route(broker, name) or _route_for_creating(broker, name)
    if own is not None:
        return command.response(_OK, body=own.to_json())
    is_own = caller.account is not None and broker.limits.owner_uid(name) == caller.account.uid
    if not is_own and name != TRACE_TOPIC and not permissions.may_see_topic(caller, connection, name):
        raise _no_route(name)
    if broker.registry.alone or name in SYSTEM_QUEUES:
        return _route(broker, command, name, {})
    return _cluster_route(broker, command, name)


async def _cluster_route(broker: Broker, command: Command, name: str) -> Command:
    elsewhere = await broker.registry.topic(name)
    await broker.registry.catch_up_with(broker.key_values.load)
    return _route(broker, command, name, elsewhere)


def _route(broker: Broker, command: Command, name: str, elsewhere: Mapping[str, TopicConfig]) -> Command:
    configs = dict(elsewhere)
    topic = broker.topics.get(name)
    if topic is not None:
        configs[broker.name] = topic.config
    if not configs:
        raise _no_route(name)
    brokers = _brokers(broker)
    order = broker.key_values.get(ORDER_NAMESPACE, name) or ""
    if not order and any(config.order for config in configs.values()):
        order = ";".join(f"{holder}:{config.write_queues}" for holder, config in sorted(configs.items()))
    answer = TopicRoute(
        [
            QueueData(
                holder, config.read_queues, config.write_queues, _perm(broker, holder, config), config.system_flag
            )
            for holder, config in sorted(configs.items())
            if holder in brokers
        ],
        [brokers[holder] for holder in sorted(configs) if holder in brokers],
        order,
    )
    return command.response(_OK, body=answer.to_json())


def _no_route(name: str) -> Refusal:
    return Refusal(
        ResponseCode.TOPIC_NOT_EXIST, f"No topic route info in name server for the topic: {name}; create it first"
    )


def _reply_route(broker: Broker, name: str) -> TopicRoute | None:
    """The route of a reply topic, which holds no messages: the broker that it names, or every broker."""
    cluster, brokers = broker.settings.cluster_name, _brokers(broker)
    if not is_reply_topic(name, cluster):
        brokers = {
            holder: data for holder, data in brokers.items() if is_reply_topic(name, reply_cluster(cluster, holder))
        }
        if not brokers:
            return None
    return TopicRoute([QueueData(holder, 1, 1, _WRITABLE, 0) for holder in brokers], list(brokers.values()))


def _route_for_creating(broker: Broker, name: str) -> TopicRoute | None:
    """The route of the cluster's name, or of a broker's, by which tools find the brokers on which they make a topic.

    Brokers of Apache register a topic for each. Here there is none behind it unless somebody made one: such a name
    takes no messages, and has none.
    """
    brokers = _brokers(broker)
    if name != broker.settings.cluster_name:
        brokers = {holder: data for holder, data in brokers.items() if holder == name}
    if not brokers or broker.topics.get(name) is not None:
        return None
    return TopicRoute([QueueData(holder, 1, 1, _INHERITED, 0) for holder in brokers], list(brokers.values()))


def cluster(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """GET_BROKER_CLUSTER_INFO."""
    brokers = _brokers(broker)
    return command.response(_OK, body=ClusterInfo(brokers, {broker.settings.cluster_name: sorted(brokers)}).to_json())


async def topic_names(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Command:
    """GET_ALL_TOPIC_LIST_FROM_NAMESERVER and GET_TOPICS_BY_CLUSTER: the topics the caller may see."""
    names = set(broker.topics.names())
    if not broker.registry.alone:
        names |= await broker.registry.topic_names()
    seen = []
    async for name in broker.pace.work(caller.account).over(sorted(names)):
        if permissions.may_see_topic(caller, connection, name):
            seen.append(name)
    wanted = command.ext.get("cluster", broker.settings.cluster_name)
    return command.response(
        _OK, body=orjson.dumps({"topicList": seen if wanted == broker.settings.cluster_name else []})
    )


def system_topics(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """GET_SYSTEM_TOPIC_LIST_FROM_NS and ..._FROM_BROKER: topics the broker writes, and those for creating."""
    names = [*SYSTEM_QUEUES, broker.settings.cluster_name, *_brokers(broker)]
    return command.response(_OK, body=orjson.dumps({"brokerAddr": broker.address, "topicList": names}))


async def delete_topic(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """DELETE_TOPIC_IN_NAMESRV: routes come from the brokers' own topics; those that are away delete theirs later."""
    await broker.registry.deleted(text(command.ext, "topic"))
    return command.response(_OK)


async def put(broker: Broker, _connection: Connection, command: Command, caller: Caller) -> Command:
    """PUT_KV_CONFIG. Clients may say where the queues of an ordered topic are: of one that there is."""
    ext = command.ext
    namespace, key, value = text(ext, "namespace"), text(ext, "key"), text(ext, "value")
    if not caller.is_system:
        if broker.topics.get(key) is None and not await broker.registry.topic(key):
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"the topic {key[:127]} does not exist")
        if len(value) > MAX_ORDER or not _ORDER.fullmatch(value):
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"the queues of an ordered topic are {value[:40]!r}; allowed is broker-a:8;broker-b:8, up to"
                f" {MAX_ORDER} characters",
            )
    await broker.key_values.put(namespace, key, value)
    return command.response(_OK)


async def get(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """GET_KV_CONFIG."""
    await broker.registry.catch_up_with(broker.key_values.load)
    namespace, key = text(command.ext, "namespace"), text(command.ext, "key")
    value = broker.key_values.get(namespace, key)
    if value is None:
        raise Refusal(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace} Key: {key}")
    return command.response(_OK, ext={"value": value})


async def delete(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """DELETE_KV_CONFIG."""
    await broker.key_values.delete(text(command.ext, "namespace"), text(command.ext, "key"))
    return command.response(_OK)


async def namespace_values(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """GET_KVLIST_BY_NAMESPACE."""
    await broker.registry.catch_up_with(broker.key_values.load)
    namespace = text(command.ext, "namespace")
    table = broker.key_values.namespace(namespace)
    if not table:
        raise Refusal(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace}")
    return command.response(_OK, body=orjson.dumps({"table": table}))


async def wipe_write_permission(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """WIPE_WRITE_PERM_OF_BROKER: routes say that it takes no messages; what clients send all the same is stored."""
    await broker.key_values.put(_BROKER_NAMESPACE, _known_broker(broker, command), _READ_ONLY)
    return command.response(_OK, ext={"wipeTopicCount": str(len(broker.topics.names()))})


async def add_write_permission(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """ADD_WRITE_PERM_OF_BROKER: routes name each topic's own permission again."""
    await broker.key_values.delete(_BROKER_NAMESPACE, _known_broker(broker, command))
    return command.response(_OK, ext={"addTopicCount": str(len(broker.topics.names()))})


def _known_broker(broker: Broker, command: Command) -> str:
    name, brokers = text(command.ext, "brokerName"), _brokers(broker)
    if name not in brokers:
        raise Refusal(ResponseCode.BROKER_NOT_EXIST, f"there is no broker {name[:127]}; there is {', '.join(brokers)}")
    return name


def _perm(broker: Broker, holder: str, config: TopicConfig) -> int:
    wiped = config.topic in SYSTEM_QUEUES or broker.key_values.get(_BROKER_NAMESPACE, holder) == _READ_ONLY
    return config.perm & ~_WRITABLE if wiped else config.perm


def _brokers(broker: Broker) -> dict[str, BrokerData]:
    """What routes tell of this broker and of the others that serve, by name."""
    addresses = {broker.name: broker.address} | {peer.name: peer.address for peer in broker.registry.serving}
    cluster_name = broker.settings.cluster_name
    return {name: BrokerData(cluster_name, name, {MASTER: addresses[name]}) for name in sorted(addresses)}


HANDLERS = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC: route,
    RequestCode.GET_BROKER_CLUSTER_INFO: cluster,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: topic_names,
    RequestCode.GET_TOPICS_BY_CLUSTER: topic_names,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: system_topics,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: system_topics,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: delete_topic,
    RequestCode.PUT_KV_CONFIG: put,
    RequestCode.GET_KV_CONFIG: get,
    RequestCode.DELETE_KV_CONFIG: delete,
    RequestCode.GET_KVLIST_BY_NAMESPACE: namespace_values,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: wipe_write_permission,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: add_write_permission,
}
