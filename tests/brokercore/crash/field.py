"""Where a crash happens: a Redis and a broker of its own, clients in processes of their own, and who kills what."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from brokercore.client import Admin, Credentials
from tests.brokercore.crash.records import Client
from tests.support.broker import SYSTEM_KEY, SYSTEM_SECRET, BrokerProcess, eventually
from tests.support.redis_server import RedisServer

ALWAYS = ("--appendfsync", "always")
BROKER_NAME = "broker-a"
_WATCHED = re.compile(r"figures and health on port (\d+)")
_names = itertools.count(1)


class Field:
    """One Redis, one broker, and the clients that a test has started."""

    def __init__(self, redis: RedisServer, broker: BrokerProcess) -> None:
        self.redis, self.broker = redis, broker
        self.admin = Admin(broker.namesrv, Credentials(SYSTEM_KEY, SYSTEM_SECRET), timeout_ms=10_000)
        self.clients: list[Client] = []

    def topic(self, queues: int = 4, message_type: str = "NORMAL") -> str:
        """Create a topic."""
        name = f"crash-{next(_names)}"
        self.admin.topics.create(name, queues=queues, message_type=message_type)
        return name

    def group(self) -> str:
        """Create a consumer group."""
        name = f"GID_crash_{next(_names)}"
        self.admin.groups.create(name)
        return name

    def start(self, role: str, topic: str, **options: Any) -> Client:
        """Start a client of the driver."""
        client = Client(self.broker.namesrv, role, topic, **options)
        self.clients.append(client)
        return client

    def restart_broker(self) -> None:
        """Kill the broker and start it again, as the launcher would."""
        self.broker.kill()
        self.broker.start()

    def restart_redis(self) -> None:
        """Kill Redis and start it again on what it has written."""
        self.redis.kill()
        self.redis.start()

    @property
    def append_only_file(self) -> Path:
        """The file that Redis appends to."""
        (path,) = (self.redis.folder / "appendonlydir").glob("*.incr.aof")
        return path

    def health(self) -> tuple[int, str]:
        """Status and reason of /healthz."""
        port = _WATCHED.findall(self.broker.log)[-1]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
                return answer.status, ""
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())["reason"]

    def wait_healthy(self) -> None:
        """Wait until the broker serves."""
        eventually(lambda: self.health()[0] == 200, 30)

    def command(self, *words: str) -> bytes:
        """Ask Redis something by hand; the first part of its answer."""
        import socket

        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10)
            connection.connect(str(self.redis.socket))
            parts = [f"*{len(words)}\r\n"] + [f"${len(word)}\r\n{word}\r\n" for word in words]
            connection.sendall("".join(parts).encode())
            return connection.recv(1 << 20)


@contextmanager
def field(*redis_settings: str, folder: Path | None = None, **environment: Any) -> Iterator[Field]:
    """A field; everything on it is ended afterwards, and the broker's log printed when the test fails."""
    home = folder or Path(tempfile.mkdtemp(prefix="gantry-crash-"))
    redis = RedisServer(home, *redis_settings)
    broker = BrokerProcess(redis.url, gantry_metrics_port="0", gantry_transaction_check_seconds="1", **environment)
    ground: Field | None = None
    try:
        redis.start()
        broker.start()
        ground = Field(redis, broker)
        yield ground
    except BaseException:
        sys.stderr.write(f"--- broker log\n{broker.log[-6000:]}\n--- redis log\n{_tail(redis.log)}\n")
        raise
    finally:
        for client in ground.clients if ground else []:
            client.close()
        if ground:
            ground.admin.close()
        broker.close()
        redis.kill()
        if folder is None:
            shutil.rmtree(home, ignore_errors=True)


def _tail(path: Path) -> str:
    return path.read_text(errors="replace")[-2000:] if path.exists() else ""
