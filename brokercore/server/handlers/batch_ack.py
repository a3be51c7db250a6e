"""BATCH_ACK_MESSAGE (200151): many popped messages are acknowledged in one request, as proxies do."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any

from brokercore.protocol.bodies.reading import integer, objects, read_object
from brokercore.protocol.bodies.reading import text as member
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.server.broker import Broker
from brokercore.server.connection import Connection
from brokercore.server.errors import Refusal
from brokercore.server.handlers.offsets import existing_topic
from brokercore.server.pop.names import named_in
from brokercore.server.security import Caller
from brokercore.server.storage.offsets import Place

MAX_ACKNOWLEDGED = 4096
"""Messages that one request may name."""

_INVALID = ResponseCode.INVALID_PARAMETER


async def acknowledge_batch(broker: Broker, _connection: Connection, command: Command, _caller: Caller) -> Command:
    """Each entry names a delivery (popTime) and, by a bit set on its first offset, the messages of a queue.

    NO_MESSAGE when any of them was given out again since; the others are acknowledged all the same.
    """
    fields = read_object(command.body)
    if member(fields, "brokerName", broker.name) != broker.name:
        raise Refusal(
            _INVALID, f"the messages are of broker {member(fields, 'brokerName')[:127]}, not of {broker.name}"
        )
    places = [(_place(broker, entry), entry) for entry in objects(fields, "acks")]
    sets = [(place, integer(entry, "so"), integer(entry, "pt"), _bits(entry)) for place, entry in places]
    count = sum([bits.bit_count() for _, _, _, bits in sets])
    if count > MAX_ACKNOWLEDGED:
        raise Refusal(_INVALID, f"{count} messages: allowed are {MAX_ACKNOWLEDGED} in one request")
    wanted = [(place, start + offset, popped) for place, start, popped, bits in sets for offset in _places_of(bits)]
    late = 0
    for place, offset, popped_ms in wanted:
        late += not await broker.flights.acknowledge(place, offset, popped_ms)
    if late:
        return command.response(ResponseCode.NO_MESSAGE, f"{late} of {len(wanted)} messages were given out again")
    return command.response(ResponseCode.SUCCESS)


def _place(broker: Broker, entry: dict[str, Any]) -> Place:
    group, name = named_in(entry)
    topic, queue_id = existing_topic(broker, name), integer(entry, "q", -1)
    if not 0 <= queue_id < len(topic.queues):
        raise Refusal(_INVALID, f"queue {queue_id} of topic {name} does not exist")
    return group, name, queue_id


def _bits(entry: dict[str, Any]) -> int:
    """The bit set of an entry (java.util.BitSet, its bytes in Base64)."""
    try:
        bits = base64.b64decode(member(entry, "b"), validate=True)
    except (ValueError, binascii.Error):
        raise Refusal(_INVALID, "the bit set of an acknowledgement is not Base64") from None
    if len(bits) > MAX_ACKNOWLEDGED // 8:
        raise Refusal(_INVALID, f"the bit set of an acknowledgement has {len(bits)} bytes")
    return int.from_bytes(bits, "little")


def _places_of(bits: int) -> Iterator[int]:
    """The place of each bit that is set."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


HANDLERS = {RequestCode.BATCH_ACK_MESSAGE: acknowledge_batch}
