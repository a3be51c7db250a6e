"""BATCH_ACK_MESSAGE: many popped messages are acknowledged by a first offset and a set of bits."""

from __future__ import annotations

import base64
import json
from typing import Any

from brokercore.protocol.codes import RequestCode as Code
from brokercore.protocol.codes import ResponseCode
from brokercore.protocol.command import Command
from tests.brokercore.server.handlers.test_pop import bodies, pop
from tests.brokercore.server.wire import Wire, fresh


def acknowledge(wire: Wire, *entries: dict[str, Any], broker: str = "broker-a") -> Command:
    return wire.call(Code.BATCH_ACK_MESSAGE, body=json.dumps({"brokerName": broker, "acks": list(entries)}).encode())


def entry(group: str, topic: str, popped: Command, *offsets: int) -> dict[str, Any]:
    """As rocketmq's BatchAck is written; Java writes the bytes of a BitSet in Base64."""
    bits = sum(1 << offset for offset in offsets)
    text = base64.b64encode(bits.to_bytes((bits.bit_length() + 7) // 8, "little")).decode()
    return {
        "c": group, "t": topic, "r": "0", "so": 0, "q": 0, "rq": 0, "it": 1000, "b": text,
        "pt": int(popped.ext["popTime"]),
    }  # fmt: skip


def filled(wire: Wire, count: int = 12) -> tuple[str, str]:
    topic, group = wire.topic(), wire.group()
    for number in range(count):
        wire.publish(topic, b"%02d" % number)
    return group, topic


def test_what_the_bits_name_is_done_and_the_rest_comes_again(wire: Wire) -> None:
    place = filled(wire)
    popped, messages = pop(wire, *place, invisibleTime=1000)
    assert len(messages) == 12
    assert acknowledge(wire, entry(*place, popped, *(n for n in range(12) if n not in (3, 9)))).code == 0
    assert bodies(wire, *place, pollTime=10_000) == [b"03", b"09"]


def test_an_old_delivery_is_told_apart(wire: Wire) -> None:
    place = filled(wire, 1)
    popped, _ = pop(wire, *place, invisibleTime=200)
    pop(wire, *place, pollTime=10_000)
    answer = acknowledge(wire, entry(*place, popped, 0))
    assert (answer.code, answer.remark) == (ResponseCode.NO_MESSAGE, "1 of 1 messages were given out again")


def test_what_makes_no_sense_is_refused(wire: Wire) -> None:
    place = filled(wire, 1)
    popped, _ = pop(wire, *place)
    good = entry(*place, popped, 0)
    assert acknowledge(wire, good, broker="broker-z").code == ResponseCode.INVALID_PARAMETER
    assert acknowledge(wire, good | {"b": "no base64"}).code == ResponseCode.INVALID_PARAMETER
    assert acknowledge(wire, good | {"q": 7}).code == ResponseCode.INVALID_PARAMETER
    assert acknowledge(wire, good | {"t": fresh()}).code == ResponseCode.TOPIC_NOT_EXIST
    many = base64.b64encode(b"\xff" * 512).decode()
    assert acknowledge(wire, good | {"b": many}, good | {"b": many}).code == ResponseCode.INVALID_PARAMETER
    assert acknowledge(wire, good).code == 0
