"""The broker itself: its configuration shown, and changed where it can change at run time; upkeep done, or refused."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from brokercore.protocol.codes import RequestCode as Code
from brokercore.protocol.codes import ResponseCode
from brokercore.server.unsupported import REFUSED
from tests.brokercore.server.wire import Wire, properties
from tests.support.broker import broker_process


@pytest.fixture(scope="module")
def changeable() -> Iterator[Wire]:
    """A broker of its own: its settings are changed."""
    with broker_process() as process, Wire(process.address) as connection:
        yield connection


def configuration(wire: Wire, code: int = Code.GET_BROKER_CONFIG) -> dict[str, str]:
    return dict(line.split("=", 1) for line in wire.ok(code).body.decode().splitlines())


def test_a_changed_setting_is_shown_and_holds(changeable: Wire) -> None:
    topic = changeable.topic(message_type="NORMAL")
    delayed = properties(DELAY="1", UNIQ_KEY="ID")
    assert changeable.publish(topic, text=delayed).code == ResponseCode.MESSAGE_ILLEGAL
    changeable.ok(Code.UPDATE_BROKER_CONFIG, body=b"gantryCheckMessageType=false\nfileReservedTime=5\n")
    assert changeable.publish(topic, text=delayed).code == 0
    shown = configuration(changeable)
    assert (shown["gantryCheckMessageType"], shown["fileReservedTime"]) == ("false", "5")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"listenPort=1", "listenPort cannot be changed while the broker runs"),
        (b"fileReservedTime=0", "allowed are whole numbers from 1"),
        (b"fileReservedTime=" + b"9" * 5000, "allowed are whole numbers from 1"),
        (b"gantryCheckMessageType=yes", "allowed are true and false"),
        (b"transactionCheckInterval=500", "allowed are whole numbers from 1000"),
        (b"", "names no setting"),
        (b"\xff=1", "is not UTF-8"),
        (b"fileReservedTime=7\nbrokerName=x", "brokerName cannot be changed"),
    ],
)
def test_what_cannot_change_is_refused_and_nothing_changes(changeable: Wire, body: bytes, says: str) -> None:
    before = configuration(changeable)
    answer = changeable.call(Code.UPDATE_BROKER_CONFIG, body=body)
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert says in (answer.remark or "")
    assert configuration(changeable) == before


def test_the_name_server_shows_its_settings_and_changes_none(changeable: Wire) -> None:
    assert "listenPort" in configuration(changeable, Code.GET_NAMESRV_CONFIG)
    answer = changeable.call(Code.UPDATE_NAMESRV_CONFIG, body=b"listenPort=1\n")
    assert (answer.code, "listenPort cannot be changed" in (answer.remark or "")) == (29, True)


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


def test_what_exporters_read_is_there_and_true(changeable: Wire) -> None:
    """rocketmq-exporter parses each of these as a number, and gives no figures of a broker that lacks one."""
    topic = changeable.topic()
    for _ in range(3):
        assert changeable.publish(topic, b"x" * 100).code == 0
    table = json.loads(changeable.ok(Code.GET_BROKER_RUNTIME_INFO).body)["table"]
    numbers = ["putMessageEntireTimeMax", "getMessageEntireTimeMax", "putMessageSizeTotal", "dispatchMaxBuffer"]
    numbers += [f"{kind}ThreadPoolQueueCapacity" for kind in ("send", "pull", "query")]
    assert all(int(table[name]) >= 0 for name in numbers)
    assert int(table["putMessageSizeTotal"]) >= 300
    steps = dict(step.split(":") for step in table["putMessageDistributeTime"].split(" "))
    assert list(steps)[:3] == ["[<=0ms]", "[0~10ms]", "[10~50ms]"]
    assert sum(map(int, steps.values())) >= 3
