"""Thousands of timers due in the same seconds while messages are sent: all come, none early; how late is printed."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

import pytest

from brokercore.protocol.message import StoredMessage, decode_stored
from tests.brokercore.server.wire import Wire, fresh, properties
from tests.support.broker import broker_process, eventually

TIMERS, QUEUES, WINDOW_MS, LEAD_MS = 3000, 4, 3000, 4000
_AT_ONCE = 250

#: Names of a time of its own, each with what a producer writes for a time in epoch ms.
KINDS: dict[str, Callable[[int], str]] = {
    "TIMER_DELIVER_MS": str,
    "__STARTDELIVERTIME": str,
    "TIMER_DELAY_MS": lambda at: str(at - int(time.time() * 1000)),
}


def park(wire: Wire, topic: str) -> dict[str, int]:
    """Send the timers and return the time of each by its unique id; delays count from when the broker has them."""
    start = int(time.time() * 1000) + LEAD_MS
    times: dict[str, int] = {}
    asked: list[int] = []
    for number in range(TIMERS):
        at, unique_id = start + random.randrange(WINDOW_MS), f"{topic}-{number}"
        name, value = list(KINDS.items())[number % len(KINDS)]
        text = properties(**{"UNIQ_KEY": unique_id, name: value(at)})
        ext = {"a": "PG", "b": topic, "d": 4, "e": number % QUEUES, "f": 0, "g": at, "h": 0, "i": text}
        asked.append(wire.send(310, ext, b"t" * 100))
        times[unique_id] = at
        if len(asked) == _AT_ONCE:
            assert all(wire.receive(opaque).code == 0 for opaque in asked)
            asked.clear()
    return times


def send_until(address: str, over: threading.Event, sent: list[int]) -> None:
    """Send messages of 1 KB, 16 under way, until it is over; `sent` counts them."""
    with Wire(address) as wire:
        topic = wire.topic()
        while not over.is_set():
            ext = {"a": "PG", "b": topic, "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}
            asked = [wire.send(310, ext | {"i": properties(UNIQ_KEY=fresh("L"))}, bytes(1000)) for _ in range(16)]
            sent[0] += sum(wire.receive(opaque).code == 0 for opaque in asked)


def collect(wire: Wire, group: str, topic: str) -> list[StoredMessage]:
    """Everything that is in the topic's queues."""
    found: list[StoredMessage] = []
    for queue_id in range(QUEUES):
        offset = 0
        while (answer := wire.pull(group, topic, offset, queueId=queue_id)).code == 0:
            found += decode_stored(answer.body)
            offset = int(answer.ext["nextBeginOffset"])
    return found


def test_all_come_and_none_early_while_messages_are_sent(capsys: pytest.CaptureFixture[str]) -> None:
    over, sent = threading.Event(), [0]
    with broker_process() as broker, Wire(broker.address) as wire:
        topic, group = wire.topic(QUEUES, "DELAY"), wire.group()
        times = park(wire, topic)
        load = threading.Thread(target=send_until, args=(broker.address, over, sent))
        began = time.monotonic()
        load.start()
        try:
            ends = [{"topic": topic, "queueId": queue_id} for queue_id in range(QUEUES)]
            eventually(lambda: sum(int(wire.ok(30, end).ext["offset"]) for end in ends) == TIMERS, 60)
        finally:
            rate = sent[0] / (time.monotonic() - began)
            over.set()
            load.join()
        late = sorted(message.store_timestamp - times[message.unique_id] for message in collect(wire, group, topic))
    assert len(late) == len(times) == TIMERS
    assert late[0] >= 0
    with capsys.disabled():
        p50, p99 = late[TIMERS // 2], late[TIMERS * 99 // 100]
        what = f"{TIMERS} timers within {WINDOW_MS} ms beside {rate:.0f} sends/s"
        print(f"\n{what}: late by p50 {p50}, p99 {p99}, max {late[-1]} ms")
