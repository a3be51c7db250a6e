"""Offsets are kept over a restart of the consumer, and over one of the broker and its Redis."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokercore.client import Admin, Credentials
from tests.compat import servers
from tests.compat.programs import Toolbox, build_programs
from tests.compat.world import INSTANCE, World, sent
from tests.support.broker import BrokerProcess
from tests.support.redis_server import RedisServer, redis_server

CLIENTS = pytest.mark.parametrize("client", ["Ons", "Apache"])


def committed(world: World, topic: str, group: str) -> int:
    """How many messages of the topic the group has committed."""
    stats = world.admin.consume_stats(world.physical(group), world.physical(topic))
    return sum(queue.consumer_offset for queue in stats.queues.values())


@CLIENTS
def test_a_restarted_consumer_goes_on_where_it_stopped(world: World, client: str) -> None:
    topic, group = world.topic("restart"), world.group("restart")
    before = sent(world.run(f"{client}Producer", topic, group, body="before", count=8))
    consumer = world.start(f"{client}Consumer", topic, group)
    consumer.wait_received(e["body"] for e in before)
    consumer.stop()
    # A message whose listener was about to return when the consumer stopped is not committed: it comes again.
    done = committed(world, topic, group)
    assert done > 0

    after = sent(world.run(f"{client}Producer", topic, group, body="after", count=8))
    restarted = world.start(f"{client}Consumer", topic, group)
    restarted.wait_received(e["body"] for e in after)
    assert len(restarted.bodies()) == len(before) + len(after) - done


@CLIENTS
def test_a_consumer_goes_on_after_a_restart_of_broker_and_redis(java_home: Path, client: str) -> None:
    if servers.wants_apache():
        pytest.skip("Apache RocketMQ keeps its own store: only the embedded broker is restarted")
    build_programs()
    with redis_server() as redis:
        broker = BrokerProcess(redis.url)
        broker.start()
        server = servers.cast_of(broker)
        tools = Toolbox(java_home, server.namesrv, INSTANCE)
        with Admin(server.namesrv, Credentials(*server.system), timeout_ms=10_000) as admin:
            world = World(tools, admin, *server.cast, embedded=True)
            try:
                check_restart(world, client, broker, redis)
            finally:
                tools.kill_since(0)
                broker.close()


def check_restart(world: World, client: str, broker: BrokerProcess, redis: RedisServer) -> None:
    topic, group = world.topic("outage"), world.group("outage")
    before = sent(world.run(f"{client}Producer", topic, group, body="before", count=8))
    consumer = world.start(f"{client}Consumer", topic, group)
    consumer.wait_received(e["body"] for e in before)
    consumer.stop()
    done = committed(world, topic, group)
    waiting = sent(world.run(f"{client}Producer", topic, group, body="waiting", count=4))
    survivor = world.start(f"{client}Consumer", topic, world.group("survivor"))
    survivor.wait_received(e["body"] for e in before + waiting)

    broker.stop()
    redis.stop()
    redis.start()
    broker.start()
    assert committed(world, topic, group) == done
    after = sent(world.run(f"{client}Producer", topic, group, body="after", count=4))
    restarted = world.start(f"{client}Consumer", topic, group)
    restarted.wait_received(e["body"] for e in waiting + after)
    assert len(restarted.bodies()) == len(before) + len(waiting) + len(after) - done
    # A client that stayed connected finds the broker again by itself and misses nothing.
    survivor.wait_received(e["body"] for e in after)
