"""The name-server role: whether routes let clients write to a broker."""

from __future__ import annotations

import json

import pytest

from brokercore.protocol.codes import RequestCode as Code
from brokercore.protocol.codes import ResponseCode
from tests.brokercore.server.wire import Wire
from tests.support.broker import broker_process


def perm(wire: Wire, topic: str) -> int:
    route = json.loads(wire.ok(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}).body)
    return int(route["queueDatas"][0]["perm"])


def test_a_broker_without_write_permission_is_read_only_in_routes_until_it_has_it_again() -> None:
    with broker_process() as broker:
        with Wire(broker.address) as wire:
            topic = wire.topic()
            assert perm(wire, topic) == 6
            assert int(wire.ok(Code.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"}).ext["wipeTopicCount"]) > 0
            assert perm(wire, topic) == 4
            assert wire.publish(topic).code == 0  # a client with an old route loses nothing
        broker.stop()
        broker.start()
        with Wire(broker.address) as wire:
            assert perm(wire, topic) == 4
            wire.ok(Code.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})
            assert perm(wire, topic) == 6
            assert wire.call(Code.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "b"}).code == ResponseCode.BROKER_NOT_EXIST


@pytest.mark.parametrize("name", ["DefaultCluster", "broker-a"])
def test_the_cluster_and_its_brokers_have_routes_by_which_tools_make_topics(wire: Wire, name: str) -> None:
    """`DefaultMQAdminExt.createTopic(key, topic, …)` makes the topic on each broker in the route of `key`."""
    route = json.loads(wire.ok(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": name}).body)
    assert [one["brokerName"] for one in route["brokerDatas"]] == ["broker-a"]
    assert [one["perm"] & 6 for one in route["queueDatas"]] == [0]  # nothing can be sent there, or read
    assert wire.publish(name).code == ResponseCode.TOPIC_NOT_EXIST


def test_whatever_a_list_of_topics_names_has_a_route(wire: Wire) -> None:
    wire.topic()
    listed: set[str] = set()
    for code, ext in (
        (Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {}),
        (Code.GET_TOPICS_BY_CLUSTER, {"cluster": "DefaultCluster"}),
        (Code.GET_SYSTEM_TOPIC_LIST_FROM_NS, {}),
        (Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, {}),
    ):
        listed |= set(json.loads(wire.ok(code, ext).body)["topicList"])
    listed |= set(json.loads(wire.ok(Code.GET_ALL_TOPIC_CONFIG).body)["topicConfigTable"])
    assert {"DefaultCluster", "broker-a", "SCHEDULE_TOPIC_XXXX"} <= listed
    for name in listed:
        wire.ok(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": name})
    assert perm(wire, "SCHEDULE_TOPIC_XXXX") == 4
