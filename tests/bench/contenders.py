"""The two brokers that are compared, each started with an empty store and permissions on."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from brokercore.client import Admin, Credentials
from tests.bench import driver
from tests.support.apache import ApacheRocketMQ
from tests.support.broker import broker_process
from tests.support.product import free_ports
from tests.support.redis_server import redis_server

INSTANCE = "MQ_INST_1234567890123456_BENCH001"
PREFIX = f"{INSTANCE}%"
LOAD, BACKLOG, PACED, IDLE = (f"{PREFIX}{name}" for name in ("load", "backlog", "paced", "idle"))
GROUP, PACED_GROUP, IDLE_GROUP = (f"{PREFIX}GID_{name}" for name in ("load", "paced", "idle"))
QUEUES = 8
TENANT = Credentials("LTAIbench", secrets.token_urlsafe(20))
STORE_MAX_BYTES = 16 << 30
"""No line may end because the store is full."""


@dataclass(frozen=True)
class Target:
    """A running broker with topics and groups; `pids` are all processes that it needs.

    `start_seconds` is the time from the start of its first process until the last one said that it is ready.
    """

    name: str
    namesrv: str
    broker: str
    pids: tuple[int, ...]
    parts: tuple[str, ...]
    start_seconds: float


#: What starts a broker below a folder, with synchronous flush or without, and ends it again.
Contender = Callable[[Path, bool], AbstractContextManager[Target]]


@contextmanager
def embedded(_home: Path, synchronous: bool, **environment: str) -> Iterator[Target]:
    """The embedded broker with a Redis of its own, whose file is on disk each second, or before each answer."""
    flush = "always" if synchronous else "everysec"
    begin = time.monotonic()
    limits = {"GANTRY_STORE_MAX_BYTES": str(STORE_MAX_BYTES)} | environment
    with redis_server("--appendfsync", flush) as redis, broker_process(redis, **limits) as broker:
        seconds = time.monotonic() - begin
        own = [f"acs:mq:*:*:{INSTANCE}", f"acs:mq:*:*:{INSTANCE}%*"]
        statements = [{"Effect": "Allow", "Action": ["mq:*"], "Resource": ["*"]}]
        row = {"tenant": "1234567890123456", "boundary": own, "statements": statements, "grants": []}
        broker.allow(TENANT.access_key_id, TENANT.access_key_secret, row)
        _prepare(broker.namesrv, Credentials(broker.access_key_id, broker.access_key_secret))
        pids = broker.pid, redis.pid
        yield Target("embedded", broker.namesrv, broker.address, pids, ("broker", "Redis"), seconds)


@contextmanager
def apache(home: Path, synchronous: bool) -> Iterator[Target]:
    """Apache RocketMQ with its default settings, and a user with the rights to publish, subscribe and create."""
    ports = free_ports(2)
    flush = "SYNC_FLUSH" if synchronous else "ASYNC_FLUSH"
    lines = ("autoCreateTopicEnable=false", f"flushDiskType={flush}")
    server = ApacheRocketMQ(home, (ports[0], ports[1]), lines, measured=True)
    try:
        server.boot()
        administrator = Credentials(server.admin_key, server.admin_secret)
        with closing(driver.Driver(driver.class_path(), server.namesrv, administrator)) as java:
            java.ask(f"user {TENANT.access_key_id} {TENANT.access_key_secret}")
        _prepare(server.namesrv, administrator)
        pids, parts = tuple(server.pids()), ("name server", "broker")
        yield Target("Apache", server.namesrv, f"127.0.0.1:{ports[1]}", pids, parts, server.boot_seconds)
    finally:
        server.kill()


def _prepare(namesrv: str, credentials: Credentials) -> None:
    with Admin(namesrv, credentials, timeout_ms=10_000) as admin:
        for topic in (LOAD, BACKLOG, PACED, IDLE):
            admin.topics.create(topic, queues=QUEUES)
        for group in (GROUP, PACED_GROUP, IDLE_GROUP):
            admin.groups.create(group)
