"""The name-server role: whether routes let clients write to a broker."""

from __future__ import annotations

import json

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
