"""Configuration of broker and name server: shown, and changed where it can change at run time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from brokercore.protocol.codes import RequestCode as Code
from brokercore.protocol.codes import ResponseCode
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
