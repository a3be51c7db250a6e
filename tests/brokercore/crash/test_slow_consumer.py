"""A consumer that asks and does not read, in front of a large backlog: the broker's memory stays bounded."""

from __future__ import annotations

import contextlib

from brokercore.protocol.message import decode_stored
from tests.brokercore.crash.field import field
from tests.brokercore.crash.figures import TABLE, Figures
from tests.brokercore.server.wire import Wire, properties
from tests.support.processes import resident_bytes

MESSAGES, SIZE, ASKED = 12_000, 4_000, 4_000
MOST_BYTES = 48 << 20
"""What the broker may take for one peer beyond what it has anyway: a few answers, and what was asked."""


def test_a_consumer_that_does_not_read_costs_little_memory_and_others_go_on() -> None:
    with field(gantry_store_hot_bytes=str(1 << 20)) as ground:
        topic, group = ground.topic(queues=1), ground.group()
        with Wire(ground.broker.address) as sender, Wire(ground.broker.address) as slow:
            for start in range(0, MESSAGES, 100):  # in small steps, so that the broker has no room left over from it
                sending = [sender.send(310, _send(topic, start + n), b"x" * SIZE) for n in range(100)]
                assert all(sender.receive(opaque).code == 0 for opaque in sending)
            before = resident_bytes([ground.broker.pid])
            slow.socket.settimeout(5)
            # Before the broker has an answer to the first it has read many of them; it need not read all.
            with contextlib.suppress(TimeoutError), slow.at_once():
                for number in range(ASKED):
                    slow.start_pull(group, topic, number, maxMsgNums=32)
            received: set[str] = set()
            with Wire(ground.broker.address) as reader:
                offset = 0
                while offset < MESSAGES:
                    messages = decode_stored(reader.pull(group, topic, offset).body)
                    received |= {message.keys for message in messages}
                    offset = messages[-1].queue_offset + 1
            # All of this was read from Redis behind what the other one asked for, whose answers still wait.
            taken = resident_bytes([ground.broker.pid]) - before
            assert "reason=unread" not in ground.broker.log, "so much waited for it that it was closed"
        wanted = {str(number) for number in range(MESSAGES)}
        TABLE.append(
            Figures(
                "slow consumer and a backlog of 48 MB", "Python", MESSAGES, MESSAGES, len(received),
                len(wanted - received), 0, f"{max(0, taken) >> 20} MiB for {ASKED:,} unread answers",
            )
        )  # fmt: skip
        assert received == wanted
        assert taken < MOST_BYTES, f"{taken >> 20} MiB for one peer that does not read"


def _send(topic: str, number: int) -> dict[str, str]:
    return {
        "a": "PG", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0",
        "i": properties(UNIQ_KEY=f"ID{number}", KEYS=str(number)), "j": "0", "k": "false", "m": "false",
    }  # fmt: skip
