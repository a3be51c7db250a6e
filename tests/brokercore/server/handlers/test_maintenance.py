"""Upkeep: done where there is something to do, refused by name where the store is of another kind."""

from __future__ import annotations

import json

import pytest

from brokercore.protocol.codes import RequestCode as Code
from brokercore.protocol.codes import ResponseCode
from brokercore.server.unsupported import REFUSED
from tests.brokercore.server.wire import Wire


@pytest.mark.parametrize("code", sorted(REFUSED), ids=lambda code: Code(code).name)
def test_a_refusal_is_a_sentence(wire: Wire, code: int) -> None:
    answer = wire.call(code, body=b"{}")
    assert (answer.code, answer.remark) == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, REFUSED[code])


def test_cleaning_finds_nothing_to_do_and_keeps_what_is_stored(wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    wire.publish(topic)
    for code in (Code.CLEAN_EXPIRED_CONSUMEQUEUE, Code.CLEAN_UNUSED_TOPIC, Code.DELETE_EXPIRED_COMMITLOG):
        wire.ok(code)
    assert len(wire.messages(group, topic)) == 1


def test_a_broker_is_a_master_without_replicas(wire: Wire) -> None:
    status = json.loads(wire.ok(Code.GET_BROKER_HA_STATUS).body)
    assert (status["master"], status["inSyncSlaveNums"], status["haConnectionInfo"]) == (True, 0, [])


def test_there_are_no_units(wire: Wire) -> None:
    for code in (Code.GET_UNIT_TOPIC_LIST, Code.GET_HAS_UNIT_SUB_TOPIC_LIST, Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST):
        assert json.loads(wire.ok(code).body)["topicList"] == []
