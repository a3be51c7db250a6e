"""Two real broker processes as one cluster: one Redis, and one name-server socket that both accept from."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from brokercore.client import Admin, Credentials
from tests.support.broker import SYSTEM_KEY, SYSTEM_SECRET, BrokerProcess, eventually
from tests.support.redis_server import RedisServer, redis_server

CREDENTIALS = Credentials(SYSTEM_KEY, SYSTEM_SECRET)


@dataclass(frozen=True)
class Pair:
    """`broker-a` and `broker-b`; `namesrv` is the address that both serve."""

    redis: RedisServer
    namesrv: str
    a: BrokerProcess
    b: BrokerProcess
    admin: Admin

    def whole(self, seconds: float = 15) -> None:
        """Wait until the routes of each broker show both."""
        for address in (self.a.address, self.b.address):
            eventually(lambda at=address: self.names(at) == ["broker-a", "broker-b"], seconds)

    def alone(self, name: str, seconds: float = 15) -> None:
        """Wait until routes show one broker only."""
        eventually(lambda: self.names() == [name], seconds)

    def names(self, address: str = "") -> list[str]:
        """The brokers in the routes, as a new connection to the name server or to one broker sees them."""
        with Admin(address or self.namesrv, CREDENTIALS) as admin:
            return sorted(admin.brokers.cluster().brokers)


@contextmanager
def two_brokers(**environment: str) -> Iterator[Pair]:
    """A running pair, started one after the other as the launcher does; logs are printed when the test fails."""
    with ExitStack() as stack:
        redis = stack.enter_context(redis_server())
        shared = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=128))
        namesrv = f"127.0.0.1:{shared.getsockname()[1]}"
        brokers = [
            BrokerProcess(redis.url, gantry_broker_name=name, gantry_namesrv_fd=str(shared.fileno()), **environment)
            for name in ("broker-a", "broker-b")
        ]
        try:
            for broker in brokers:
                stack.callback(broker.close)
                broker.start()
            admin = stack.enter_context(Admin(namesrv, CREDENTIALS, timeout_ms=5000))
            yield Pair(redis, namesrv, brokers[0], brokers[1], admin)
        except BaseException:
            for broker in brokers:
                sys.stderr.write(f"--- broker log\n{broker.log[-4000:]}\n")
            raise
