"""Routes: the queues of a topic, kept while no name server answers."""

from __future__ import annotations

import socket

import pytest

from brokercore.client.errors import BrokerNotExist, BrokerUnreachable, TopicNotExist
from brokercore.client.routes import Routes
from brokercore.client.session import Session
from brokercore.protocol.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRoute
from brokercore.protocol.command import Command
from brokercore.protocol.message_queue import MessageQueue
from tests.brokercore.client.peer import Answer, Peer

A = BrokerData("c", "broker-a", {"0": "127.0.0.1:1"})
B = BrokerData("c", "broker-b", {"1": "127.0.0.1:2"})
READ_ONLY = QueueData("broker-b", 2, 2, 4)


def name_server(route: TopicRoute) -> Answer:
    def answer(_peer: Peer, connection: socket.socket, command: Command) -> None:
        if command.code == 106:
            cluster = ClusterInfo({"broker-a": A}, {"c": ["broker-a"]})
            connection.sendall(command.response(0, body=cluster.to_json()).encode())
        elif command.ext["topic"] == "t":
            connection.sendall(command.response(0, body=route.to_json()).encode())
        else:
            connection.sendall(command.response(17, "no route").encode())

    return answer


def test_queues_are_listed_by_permission_and_only_of_brokers_with_a_master() -> None:
    route = TopicRoute([QueueData("broker-a", 3, 2, 6), READ_ONLY], [A, B])
    with Peer(name_server(route)) as peer:
        routes = Routes(Session(peer.address, None))
        a = [MessageQueue("t", "broker-a", number) for number in range(3)]
        assert routes.write_queues("t") == a[:2]
        assert routes.read_queues("t") == [*a, MessageQueue("t", "broker-b", 0), MessageQueue("t", "broker-b", 1)]
        assert routes.masters("t") == {"broker-a": "127.0.0.1:1"}
        assert routes.address("broker-a") == "127.0.0.1:1"
        with pytest.raises(BrokerNotExist):
            routes.address("broker-b")
        with pytest.raises(TopicNotExist):
            routes.route("unknown")


def test_an_ordered_topic_has_its_configured_queues_whichever_broker_is_up() -> None:
    route = TopicRoute([QueueData("broker-a", 8, 8, 6)], [A], "broker-b:1;broker-a:2;nonsense")
    with Peer(name_server(route)) as peer:
        queues = Routes(Session(peer.address, None)).write_queues("t")
    assert [(queue.broker_name, queue.queue_id) for queue in queues] == [
        ("broker-a", 0),
        ("broker-a", 1),
        ("broker-b", 0),
    ]


def test_a_route_is_asked_for_once_and_again_when_forgotten() -> None:
    with Peer(name_server(TopicRoute([], [A]))) as peer:
        routes = Routes(Session(peer.address, None))
        for _ in range(3):
            routes.route("t")
        assert len(peer.received) == 1
        routes.forget("t")
        routes.route("t")
        routes.route("t", fresh=True)
        assert len(peer.received) == 3


def test_the_old_route_serves_while_no_name_server_answers() -> None:
    peer = Peer(name_server(TopicRoute([QueueData("broker-a", 1, 1, 6)], [A])))
    routes = Routes(Session(peer.address, None, timeout_ms=500))
    route = routes.route("t")
    with peer:
        routes.forget_all()
    assert routes.route("t") == route
    assert routes.address("broker-a") == "127.0.0.1:1"
    with pytest.raises(BrokerUnreachable):
        routes.route("t", fresh=True)
    with pytest.raises(BrokerUnreachable):
        routes.address("never heard of")
