"""Scheduled messages: levels, times of their own, limits, restarts."""

from __future__ import annotations

import time

import pytest
from redis import Redis

from brokercore.protocol.message import decode_stored
from tests.brokercore.server.wire import Wire, fresh, properties
from tests.support.broker import broker_process
from tests.support.redis_server import RedisServer, redis_server

#: The machine may be busy: how late timers are on a quiet one is measured elsewhere.
MOST_LATE_MS = 5000


def now_ms() -> int:
    return int(time.time() * 1000)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DELAY", lambda: "1"),
        ("TIMER_DELAY_SEC", lambda: "1"),
        ("TIMER_DELAY_MS", lambda: "1000"),
        ("TIMER_DELIVER_MS", lambda: str(now_ms() + 1000)),
        ("__STARTDELIVERTIME", lambda: str(now_ms() + 1000)),
    ],
)
def test_a_message_comes_at_its_time(wire: Wire, name: str, value: object) -> None:
    topic, group = wire.topic(queues=2, message_type="DELAY"), wire.group()
    unique_id, sent = fresh("ID"), now_ms()
    assert callable(value)
    answer = wire.publish(topic, b"later", properties(**{"UNIQ_KEY": unique_id, name: value()}), e="1")
    assert (answer.code, answer.ext["queueId"]) == (0, "1")
    message = None
    deadline = time.monotonic() + 20
    while message is None and time.monotonic() < deadline:
        found = wire.pull(group, topic, queueId=1, sysFlag=6, suspendTimeoutMillis=5000)
        if found.code == 0:
            (message,) = decode_stored(found.body)
    assert message is not None
    assert (message.body, message.unique_id, message.queue_id, message.queue_offset) == (b"later", unique_id, 1, 0)
    assert 1000 <= message.store_timestamp - sent < 1000 + MOST_LATE_MS
    assert message.properties["REAL_TOPIC"] == topic


@pytest.mark.parametrize("ahead_ms", [-1000, 0])
def test_a_time_that_is_over_means_at_once(wire: Wire, ahead_ms: int) -> None:
    topic, group = wire.topic(message_type="DELAY"), wire.group()
    wire.publish(topic, b"now", properties(__STARTDELIVERTIME=str(now_ms() + ahead_ms)))
    assert wire.pull(group, topic).code == 0


def test_forty_days_are_the_limit(wire: Wire) -> None:
    topic = wire.topic(message_type="DELAY")
    day = 86_400_000
    assert wire.publish(topic, text=properties(__STARTDELIVERTIME=str(now_ms() + 40 * day - 60_000))).code == 0
    answer = wire.publish(topic, text=properties(__STARTDELIVERTIME=str(now_ms() + 40 * day + 60_000)))
    assert answer.code == 13
    assert "40 days" in (answer.remark or "")


def test_a_time_that_is_no_number_is_refused(wire: Wire) -> None:
    assert wire.publish(wire.topic(message_type="DELAY"), text=properties(TIMER_DELAY_MS="soon")).code == 13


def test_an_earlier_timer_is_not_held_up_by_a_later_one(wire: Wire) -> None:
    topic, group = wire.topic(message_type="DELAY"), wire.group()
    wire.publish(topic, b"tomorrow", properties(TIMER_DELAY_SEC="86400"))
    wire.publish(topic, b"soon", properties(TIMER_DELAY_MS="300"))
    assert [message.body for message in wire.messages(group, topic)] == [b"soon"]


def test_a_delivered_message_is_found_by_its_key(wire: Wire) -> None:
    topic, group = wire.topic(message_type="DELAY"), wire.group()
    wire.publish(topic, b"keyed", properties(KEYS="alpha beta", TIMER_DELAY_MS="100"))
    wire.messages(group, topic)
    ext = {"topic": topic, "key": "beta", "maxNum": 32, "beginTimestamp": 0, "endTimestamp": 1 << 62}
    assert wire.ok(12, ext).body


def test_a_timer_that_redis_stores_after_its_time_is_not_forgotten(wire: Wire, redis: RedisServer) -> None:
    topic, group = wire.topic(message_type="DELAY"), wire.group()
    with Redis.from_url(redis.url) as client:
        client.execute_command("CLIENT", "PAUSE", "700", "WRITE")
    sent = now_ms()
    assert wire.publish(topic, b"soon", properties(TIMER_DELAY_MS="200")).code == 0
    (message,) = wire.messages(group, topic)
    assert message.store_timestamp - sent < 700 + MOST_LATE_MS


def test_timers_survive_the_death_of_broker_and_redis() -> None:
    with redis_server("--appendfsync", "always") as server:
        topic = _schedule_and_kill(server)
        server.kill()
        server.start()
        with broker_process(server) as broker, Wire(broker.address) as wire:
            group = wire.group()
            found = wire.messages(group, topic, count=20)
            assert sorted(message.body for message in found) == sorted(b"%d" % n for n in range(20))
            assert int(wire.ok(30, {"topic": topic, "queueId": 0}).ext["offset"]) == 20


def _schedule_and_kill(server: RedisServer) -> str:
    with broker_process(server) as broker, Wire(broker.address) as wire:
        topic = wire.topic(message_type="DELAY")
        for number in range(20):
            answer = wire.publish(topic, b"%d" % number, properties(TIMER_DELAY_MS="1500"))
            assert answer.code == 0
        broker.kill()
        return topic
