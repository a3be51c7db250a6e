"""A real broker process on free ports, with system credentials and AccessKeys for tests."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet
from redis import Redis

from tests.support.patience import Patience
from tests.support.redis_server import RedisServer, redis_server

ROOT = Path(__file__).resolve().parent.parent.parent
START_SECONDS = 30
MASTER_KEY = Fernet.generate_key().decode()
SYSTEM_KEY = "LTAIsystem" + secrets.token_hex(4)
SYSTEM_SECRET = secrets.token_urlsafe(24)

_READY = re.compile(r"ready namesrv=(\S+) broker=(\S+)(?: grpc=(\S+))?")


class ServerProcess:
    """A process of ours as a child, started by `python -m`; its log, its end, and the AccessKeys that it knows.

    Environment values can be set by keyword, lower or upper case.
    """

    module = ""

    def __init__(self, redis_url: str, **environment: str) -> None:
        self.redis_url = redis_url
        self.access_key_id, self.access_key_secret = SYSTEM_KEY, SYSTEM_SECRET
        self.master_key = MASTER_KEY
        self._environment = {name.upper(): value for name, value in environment.items()}
        self._log = tempfile.NamedTemporaryFile("w+", prefix="gantry-server-", suffix=".log")  # noqa: SIM115
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """False before its start and after its end."""
        return self._process is not None

    @property
    def log(self) -> str:
        """What it has logged so far."""
        return Path(self._log.name).read_text(encoding="utf-8")

    def spawn(self, **ports: str) -> str:
        """Start, with these values where the environment has no others, and return the first line that it prints."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GANTRY_")}
        environment |= (
            {
                "REDIS_URL": self.redis_url,
                "GANTRY_MASTER_KEY": MASTER_KEY,
                "GANTRY_BROKER_ACCESS_KEY_ID": SYSTEM_KEY,
                "GANTRY_BROKER_ACCESS_KEY_SECRET": SYSTEM_SECRET,
            }
            | ports
            | self._environment
        )
        self._process = subprocess.Popen(
            [sys.executable, "-m", self.module], cwd=ROOT, env=environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._log,
            pass_fds=[int(environment["GANTRY_NAMESRV_FD"])] if "GANTRY_NAMESRV_FD" in environment else (),
        )  # fmt: skip
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def signal(self, number: int) -> None:
        """Send a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def stop(self, seconds: float = 15) -> int:
        """End it in order and return its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate(timeout=seconds)
        code, self._process = self._process.returncode, None
        return code

    def close(self) -> None:
        """End it whatever its state is."""
        self.kill()
        self._log.close()

    # AccessKeys

    def allow(self, key_id: str, secret: str, row: dict[str, Any]) -> None:
        """Publish an AccessKey as the console does; `row` has tenant, boundary, statements, grants, token…"""
        values = {"secret": Fernet(MASTER_KEY).encrypt(secret.encode()).decode(), "principal": key_id} | row
        self._redis([("HSET", "gantry:acl:keys", key_id, json.dumps(values)), ("INCR", "gantry:acl:version")])

    def limit(self, tenant: str, **limits: int) -> None:
        """Publish what a tenant may take, as the console does."""
        row = json.dumps(limits)
        self._redis([("HSET", "gantry:acl:limits", tenant, row), ("INCR", "gantry:acl:version")])

    def rate(self, name: str, instance: str, *, sent: int = 0, received: int = 0) -> None:
        """Publish how fast an instance may be, as the console does; `name` is its id, or for bare names an account."""
        row = json.dumps({"instance": instance, "sent": sent, "received": received})
        self._redis([("HSET", "gantry:acl:rates", name, row), ("INCR", "gantry:acl:version")])

    def redis_command(self, *words: str) -> Any:
        """What its Redis answers."""
        with Redis.from_url(self.redis_url) as client:
            return client.execute_command(*words)

    def disable(self, key_id: str) -> None:
        """Take an AccessKey away."""
        self._redis([("HDEL", "gantry:acl:keys", key_id), ("INCR", "gantry:acl:version")])

    def _redis(self, commands: Iterable[tuple[str, ...]]) -> None:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(self.redis_url.removeprefix("unix://"))
            for command in commands:
                parts = [f"*{len(command)}\r\n".encode()]
                for word in command:
                    data = word.encode()
                    parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
                connection.sendall(b"".join(parts))
                assert connection.recv(1024)[:1] in b"+:"


class BrokerProcess(ServerProcess):
    """`python -m brokercore` as a child process."""

    module = "brokercore"

    def __init__(self, redis_url: str, **environment: str) -> None:
        super().__init__(redis_url, **environment)
        self.namesrv = self.address = self.grpc = ""

    def start(self) -> None:
        """Start, and wait for the ready line; a broker that was started before keeps its ports."""
        namesrv, address = free_engine_ports(2)
        ports = {
            "GANTRY_NAMESRV_PORT": self.namesrv.rpartition(":")[2] or str(namesrv),
            "GANTRY_BROKER_PORT": self.address.rpartition(":")[2] or str(address),
            "GANTRY_VIP_CHANNEL": "off",  # the port two below may be somebody else's of this run
            "GANTRY_BROKER_TLS": "disabled",  # tests of TLS give it a home for its certificate
        }
        if self.grpc:
            self._environment["GANTRY_GRPC_PORT"] = self.grpc.rpartition(":")[2]
        line = self.spawn(**ports)
        found = _READY.match(line)
        if not found:
            self.kill()
            raise AssertionError(f"the broker did not start: {line}\n{self.log[-3000:]}")
        self.namesrv, self.address, self.grpc = found.groups(default="")


def free_engine_ports(count: int) -> list[int]:
    """Free ones of those that Spark may connect to in this run; any, where the run keeps none for brokers."""
    first, _, last = os.environ.get("GANTRY_ENGINE_PORTS", "").partition("-")
    if not last:
        return [0] * count
    kept = range(int(first), int(last) + 1)
    found: list[int] = []
    for port in random.sample(kept, len(kept)):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise AssertionError(f"none of the ports {first} to {last} is free")


def eventually(condition: Any, seconds: float = 10.0, pause: float = 0.02) -> Any:
    """The first true value of `condition()`, asked every `pause` seconds; AssertionError when it stays false."""
    patience = Patience(seconds, pause)
    while True:
        value = condition()
        if value:
            return value
        assert not patience.is_over(), f"still {value!r} after {seconds} s"
        time.sleep(pause)


@contextmanager
def broker_process(redis: RedisServer | None = None, **environment: str) -> Iterator[BrokerProcess]:
    """A running broker, with a Redis of its own unless one is given. Its log is printed when the test fails."""
    with redis_server() if redis is None else _given(redis) as server:
        broker = BrokerProcess(server.url, **environment)
        try:
            broker.start()
            yield broker
        except BaseException:
            sys.stderr.write(f"--- broker log\n{broker.log[-5000:]}\n")
            raise
        finally:
            broker.close()


@contextmanager
def _given(redis: RedisServer) -> Iterator[RedisServer]:
    yield redis
