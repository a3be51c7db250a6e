"""The two brokers that are compared, each started with an empty store and permissions on."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from brokercore.client import Admin, Credentials
from tests.support.apache import ApacheRocketMQ
from tests.support.broker import broker_process
from tests.support.product import free_ports
from tests.support.redis_server import redis_server

INSTANCE = "MQ_INST_1234567890123456_BENCH001"
TOPIC = f"{INSTANCE}%load"
GROUP = f"{INSTANCE}%GID_load"
QUEUES = 8
TENANT = Credentials("LTAIbench", secrets.token_urlsafe(20))


@dataclass(frozen=True)
class Target:
    """A running broker with the topic and the group; `pids` are all processes that it needs."""

    namesrv: str
    pids: list[int]


#: What starts a broker below a folder and ends it again.
Contender = Callable[[Path], AbstractContextManager[Target]]


@contextmanager
def embedded(_home: Path) -> Iterator[Target]:
    """The embedded broker with a Redis of its own, the append-only file written every second."""
    with redis_server() as redis, broker_process(redis) as broker:
        own = [f"acs:mq:*:*:{INSTANCE}", f"acs:mq:*:*:{INSTANCE}%*"]
        statements = [{"Effect": "Allow", "Action": ["mq:*"], "Resource": ["*"]}]
        row = {"tenant": "1234567890123456", "boundary": own, "statements": statements, "grants": []}
        broker.allow(TENANT.access_key_id, TENANT.access_key_secret, row)
        _prepare(broker.namesrv, Credentials(broker.access_key_id, broker.access_key_secret))
        yield Target(broker.namesrv, [broker.pid, redis.pid])


@contextmanager
def apache(home: Path) -> Iterator[Target]:
    """Apache RocketMQ with asynchronous flush, its default, and a user with the rights to publish and subscribe."""
    ports = free_ports(2)
    server = ApacheRocketMQ(home, (ports[0], ports[1]), ("autoCreateTopicEnable=false",))
    server.start()
    try:
        server.create_user(TENANT.access_key_id, TENANT.access_key_secret)
        _prepare(server.namesrv, Credentials(server.admin_key, server.admin_secret))
        yield Target(server.namesrv, server.pids())
    finally:
        server.stop()


def _prepare(namesrv: str, credentials: Credentials) -> None:
    with Admin(namesrv, credentials, timeout_ms=10_000) as admin:
        admin.create_topic(TOPIC, queues=QUEUES)
        admin.create_group(GROUP)
