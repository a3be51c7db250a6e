"""QueryRoute and QueryAssignment: where the queues of a topic are."""

from __future__ import annotations

import ipaddress

from brokercore.protocol.bodies.route import MASTER, PERM_READ, PERM_WRITE, QueueData, TopicRoute
from brokercore.protocol.codes import RequestCode
from brokercore.protocol.grpc.messaging_pb2 import (
    Address,
    AddressScheme,
    Assignment,
    Broker,
    Code,
    Endpoints,
    MessageQueue,
    MessageType,
    Permission,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    QueryRouteRequest,
    QueryRouteResponse,
    Resource,
)
from brokercore.server.grpc.call import OK, Call, Fault, check
from brokercore.server.grpc.messages import group_name, topic_name
from brokercore.server.grpc.service import Service
from brokercore.server.rights import permissions

_TYPES = {
    "NORMAL": [MessageType.NORMAL],
    "FIFO": [MessageType.FIFO],
    "DELAY": [MessageType.DELAY],
    "TRANSACTION": [MessageType.TRANSACTION],
}
_ALL_TYPES = [kind for kinds in _TYPES.values() for kind in kinds]
_PERMISSIONS = {
    PERM_READ | PERM_WRITE: Permission.READ_WRITE,
    PERM_READ: Permission.READ,
    PERM_WRITE: Permission.WRITE,
    0: Permission.NONE,
}


async def query_route(service: Service, call: Call, request: QueryRouteRequest) -> QueryRouteResponse:
    """All queues of a topic, with what may be done with each and which messages it takes."""
    name = topic_name(request.topic)
    route = await _route(call, name)
    topic = call.broker.topics.get(name)
    kinds = _TYPES.get(topic.message_type, _ALL_TYPES) if topic else _ALL_TYPES
    brokers = _brokers(service, call, route, request.endpoints)
    queues = [
        MessageQueue(
            topic=request.topic, id=number, permission=permission, broker=brokers[data.broker_name],
            accept_message_types=kinds,
        )
        for data in route.queues
        if data.broker_name in brokers
        for number, permission in enumerate(_permissions(data))
    ]  # fmt: skip
    return QueryRouteResponse(status=OK, message_queues=queues)


async def query_assignment(service: Service, call: Call, request: QueryAssignmentRequest) -> QueryAssignmentResponse:
    """What a push consumer asks for messages: each broker as a whole, as queue -1."""
    name, group = topic_name(request.topic), group_name(request.group)
    if not permissions.may_see_group(call.caller, call, group):
        raise Fault(Code.FORBIDDEN, permissions.denied(call.caller, permissions.READS_GROUP, group).remark)
    config = call.broker.groups.get(group)
    if config is None:
        raise Fault(Code.CONSUMER_GROUP_NOT_FOUND, f"subscription group [{group}] does not exist")
    route = await _route(call, name)
    brokers = _brokers(service, call, route, request.endpoints)
    assignments = [
        Assignment(message_queue=_assigned(request.topic, -1, data, brokers[data.broker_name]))
        for data in route.queues
        if data.broker_name in brokers and data.perm & PERM_READ and data.read_queues
    ]
    if not assignments:
        raise Fault(Code.FORBIDDEN, f"the topic {name} cannot be read from")
    return QueryAssignmentResponse(status=OK, assignments=assignments)


def _assigned(topic: Resource, queue_id: int, data: QueueData, broker: Broker) -> MessageQueue:
    return MessageQueue(
        topic=topic, id=queue_id, permission=_PERMISSIONS[data.perm & (PERM_READ | PERM_WRITE)], broker=broker
    )


async def _route(call: Call, topic: str) -> TopicRoute:
    answer = check(await call.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}))
    return TopicRoute.from_json(answer.body)


def _permissions(data: QueueData) -> list[Permission]:
    """One for each queue: those that are only read or only written come behind."""
    readable = data.read_queues if data.perm & PERM_READ else 0
    writable = data.write_queues if data.perm & PERM_WRITE else 0
    both, rest = min(readable, writable), abs(readable - writable)
    only = Permission.READ if readable > writable else Permission.WRITE
    found = [Permission.READ_WRITE] * both + [only] * rest
    return found or [Permission.NONE] * max(1, data.read_queues, data.write_queues)


def _brokers(service: Service, call: Call, route: TopicRoute, dialled: Endpoints) -> dict[str, Broker]:
    """The brokers of a route, where clients reach their gRPC ports."""
    ports = {peer.name: peer.grpc_port for peer in call.broker.registry.serving} | {call.broker.name: service.port}
    found = {}
    for data in route.brokers:
        name, port = data.broker_name, ports.get(data.broker_name)
        if not port:
            continue
        if name == call.broker.name and len(dialled.addresses) == 1:
            endpoints = dialled
        else:
            endpoints = endpoints_of(data.addresses[MASTER].rpartition(":")[0].strip("[]"), port)
        found[name] = Broker(name=name, id=int(MASTER), endpoints=endpoints)
    return found


def endpoints_of(host: str, port: int) -> Endpoints:
    """One address."""
    try:
        scheme = AddressScheme.IPv4 if ipaddress.ip_address(host).version == 4 else AddressScheme.IPv6
    except ValueError:
        scheme = AddressScheme.DOMAIN_NAME
    return Endpoints(scheme=scheme, addresses=[Address(host=host, port=port)])
