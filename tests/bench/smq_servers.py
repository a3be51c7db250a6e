"""The three queue services that are compared, each started empty: ours with permissions on, two of SQS without any."""

from __future__ import annotations

import multiprocessing
import os
import re
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.error import URLError
from urllib.request import urlopen

from tests.bench.smq_load import length_of
from tests.bench.smq_wire import Dialect, Smq, Sqs
from tests.support import processes
from tests.support.apache import StartError
from tests.support.broker import ROOT
from tests.support.java import compile_java, maven_jars
from tests.support.product import free_ports
from tests.support.queue_service import queue_service
from tests.support.redis_server import redis_server

HEAP = ("-Xms1g", "-Xmx1g")
"""As Apache RocketMQ has beside the broker."""
_POM = Path(__file__).parent / "sqs" / "pom.xml"
_SOURCES = [Path(__file__).parent / "sqs" / "ElasticMq.java"]
_MOTO = "moto[server]==5.2.5"
_READY_SECONDS = 60


@dataclass(frozen=True)
class Target:
    """A running service: how it is spoken to, and all processes that it needs, with the names of these."""

    name: str
    dialect: Dialect
    port: int
    pids: dict[str, int]


#: What starts a service and ends it again.
Contender = Callable[[], AbstractContextManager[Target]]


@contextmanager
def gantry() -> Iterator[Target]:
    """The queue service with a Redis of its own, whose file is on disk each second, and a key that a policy allows."""
    with redis_server() as redis, queue_service(redis) as service:
        keys = service.keys("bench", "mns:*")
        pids = {"service": service.pid, "Redis": redis.pid}
        yield Target("Gantry", Smq(service.port, keys.id, keys.secret), service.port, pids)


@contextmanager
def elasticmq() -> Iterator[Target]:
    """ElasticMQ, in memory as it is by default."""
    cache = _cache()
    jars = cache / "elasticmq"
    maven_jars(_POM, cache / "elasticmq.stamp", jars)
    compile_java(_SOURCES, f"{jars}/*", cache / "elasticmq-classes")
    (port,) = free_ports(1)
    command = ["java", *HEAP, "-cp", f"{cache / 'elasticmq-classes'}:{jars}/*", "ElasticMq", str(port)]
    with tempfile.TemporaryFile() as log, _child(command, log, dict(os.environ), "ready") as (process, _):
        yield Target("ElasticMQ", Sqs(port, "000000000000"), port, {"JVM": process.pid})


@contextmanager
def moto() -> Iterator[Target]:
    """The server of moto, from a virtual environment of its own."""
    python = _moto_python()
    (port,) = free_ports(1)
    command = [str(python), "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with tempfile.TemporaryFile() as log, _child(command, log, dict(os.environ)) as (process, _):
        deadline = time.monotonic() + _READY_SECONDS
        while not _answers(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise StartError(f"moto is not ready:\n{_end_of(log)}")
            time.sleep(0.1)
        yield Target("moto", Sqs(port, "123456789012"), port, {"Python": process.pid})


@contextmanager
def canned() -> Iterator[Target]:
    """A process that answers everything at once and knows nothing: against it the client's own limit is seen."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        process = multiprocessing.get_context("fork").Process(target=_answer_all, args=(listening,), daemon=True)
        process.start()
        port = int(listening.getsockname()[1])
        try:
            yield Target("canned", Smq(port, "LTAIcanned", "secret"), port, {"answers": process.pid or 0})
        finally:
            process.kill()
            process.join()


def _answer_all(listening: socket.socket) -> None:
    poll, connections = select.epoll(), dict[int, socket.socket]()
    poll.register(listening.fileno(), select.EPOLLIN)
    receipt = "1-fZG4FTwr7DMIAAAAAAAB_9_9CJGCKzE="
    came: dict[int, bytes] = {}
    while True:
        for number, _ in poll.poll():
            if number == listening.fileno():
                connection, _ = listening.accept()
                connections[connection.fileno()] = connection
                poll.register(connection.fileno(), select.EPOLLIN)
                continue
            data = connections[number].recv(1 << 18)
            request = came.pop(number, b"") + data
            if not data:
                poll.unregister(number)
                connections.pop(number).close()
            elif (length := length_of(request)) is None or len(request) < length:
                came[number] = request
            else:
                connections[number].sendall(_canned_answer(request, receipt))


def _canned_answer(request: bytes, receipt: str) -> bytes:
    if request.startswith(b"DELETE"):
        return b"HTTP/1.1 204 No Content\r\nConnection: keep-alive\r\n\r\n"
    body = b""
    if request.startswith(b"GET"):
        found = re.search(rb"numOfMessages=([0-9]+)", request)
        one = f"<Message><ReceiptHandle>{receipt}</ReceiptHandle><MessageBody>{'k7' * 512}</MessageBody></Message>"
        body = one.encode() * (int(found[1]) if found else 1)
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gantry-bench"


def _moto_python() -> Path:
    """The interpreter of moto's environment, which is made at the first time: the product has no use for it."""
    home = _cache() / "moto"
    python, stamp = home / "bin" / "python", home / ".package"
    if not stamp.exists() or stamp.read_text() != _MOTO:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", _MOTO], check=True)
        stamp.write_text(_MOTO)
    return python


@contextmanager
def _child(
    command: list[str], log: IO[bytes], environment: dict[str, str], ready: str = ""
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A child process, and the line that began with `ready`. Raises StartError."""
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE if ready else log, stderr=log)
    try:
        line = process.stdout.readline().decode().strip() if process.stdout is not None else ""
        if not line.startswith(ready):
            raise StartError(f"{command[0]} is not ready: {line}\n{_end_of(log)}")
        yield process, line
    finally:
        processes.end(process)
        if process.stdout is not None:
            process.stdout.close()


def _end_of(log: IO[bytes]) -> str:
    log.seek(0)
    return log.read().decode("utf-8", "replace")[-2000:]


def _answers(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/moto-api/", timeout=2) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
