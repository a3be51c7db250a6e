"""Offsets are kept over a restart of the consumer, and over one of the broker and its Redis."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from brokercore.client import Admin, Credentials
from tests.compat import servers
from tests.compat.programs import Event, Program, Toolbox, build_programs
from tests.compat.world import INSTANCE, World, sent
from tests.support.broker import BrokerProcess
from tests.support.redis_server import redis_server

#: Clients look for a lost broker when they poll their routes, every 30 s.
RECONNECT_SECONDS = 60.0
CLIENTS = pytest.mark.parametrize("client", ["Ons", "Apache"])


@CLIENTS
def test_a_restarted_consumer_goes_on_where_it_stopped(world: World, client: str) -> None:
    topic, group = world.topic("restart"), world.group("restart")
    before = sent(world.run(f"{client}Producer", topic, group, body="before", count=8))
    consumer = world.start(f"{client}Consumer", topic, group)
    consumer.wait_received(e["body"] for e in before)
    consumer.stop()
    # A message whose listener was about to return when the consumer stopped is not committed: it comes again.
    done = world.committed(topic, group)
    assert done > 0

    after = sent(world.run(f"{client}Producer", topic, group, body="after", count=8))
    restarted = world.start(f"{client}Consumer", topic, group)
    restarted.wait_received(e["body"] for e in after)
    assert len(restarted.bodies()) == len(before) + len(after) - done


def test_consumers_go_on_after_a_restart_of_broker_and_redis(java_home: Path) -> None:
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
                outages = [Outage.begin(world, client) for client in ("Ons", "Apache")]
                broker.stop()
                redis.stop()
                redis.start()
                broker.start()
                for outage in outages:
                    outage.end(world)
            finally:
                tools.kill_since(0)
                broker.close()


@dataclass(frozen=True)
class Outage:
    """A group that stopped before the restart with messages waiting, and a consumer that stays through it."""

    client: str
    topic: str
    group: str
    committed: int
    sent: list[str]
    waiting: list[str]
    survivor: Program

    @classmethod
    def begin(cls, world: World, client: str) -> Outage:
        topic, group = world.topic("outage"), world.group("outage")
        before = bodies(world.run(f"{client}Producer", topic, group, body="before", count=8))
        consumer = world.start(f"{client}Consumer", topic, group)
        consumer.wait_received(before)
        consumer.stop()
        waiting = bodies(world.run(f"{client}Producer", topic, group, body="waiting", count=4))
        survivor = world.start(f"{client}Consumer", topic, world.group("survivor"))
        survivor.wait_received(before + waiting)
        return cls(client, topic, group, world.committed(topic, group), before + waiting, waiting, survivor)

    def end(self, world: World) -> None:
        assert 0 < self.committed == world.committed(self.topic, self.group)
        after = bodies(world.run(f"{self.client}Producer", self.topic, self.group, body="after", count=4))
        restarted = world.start(f"{self.client}Consumer", self.topic, self.group)
        restarted.wait_received(self.waiting + after)
        assert len(restarted.bodies()) == len(self.sent) + len(after) - self.committed
        # A client that stayed finds the broker again by itself and misses nothing.
        self.survivor.wait_received(after, RECONNECT_SECONDS)


def bodies(events: list[Event]) -> list[str]:
    """The bodies of the messages that a producer sent."""
    return [e["body"] for e in sent(events)]
