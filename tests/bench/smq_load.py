"""The client of the queue figures: a few processes, each with a share of the connections and one request on each.

It knows no more of HTTP than these servers speak: an answer with its length, or one that ends with the connection.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import select
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from typing import NamedTuple

from tests.bench.driver import LineFailedError
from tests.bench.smq_wire import SHOWN, Dialect

PROCESSES = 2
"""As many as a small machine has cores: one of them can drive all connections of any of the servers by itself."""
_SILENCE_SECONDS = 60.0
_LENGTH = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: *([0-9]+)")
_REFUSED = re.compile(rb'"Failed" ?: ?\[\{')
"""Entries of a batch, in an answer that says 200 all the same."""


class Phase(NamedTuple):
    """What to do to one queue until `seconds` are over or nothing is left: operation, messages in a request."""

    operation: str
    queue: str
    batch: int
    seconds: float
    most: int = 1 << 40
    """Messages of all processes together, at most."""


@dataclass(slots=True)
class Done:
    """What came of it: messages, seconds until the last of them, and processor time of the client."""

    messages: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    @property
    def share(self) -> float:
        """Of a core that the client took."""
        return self.cpu_seconds / max(self.seconds, 0.001)


class _Wire:
    """One connection, with what has come in of the answer."""

    __slots__ = ("came", "handles", "socket")

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.came = b""
        self.handles: Sequence[str] = ()


class _Worker:
    """One process of the client."""

    def __init__(self, dialect: Dialect, port: int, connections: int, body: str) -> None:
        self._dialect, self._port, self._body = dialect, port, body
        self._poll = select.epoll()
        self._wires: dict[int, _Wire] = {}
        for _ in range(connections):
            self._add(_Wire(port))
        self._handles: list[str] = []
        self._made = 0

    def run(self, phase: Phase) -> Done:
        """Send requests and take answers until the phase is over. Raises LineFailedError."""
        begin, spent = time.monotonic(), time.process_time()
        until = begin + phase.seconds
        received: list[str] = []
        done, last, asked = 0, begin, 0
        under_way = 0
        for wire in self._wires.values():
            if (request := self._request(phase, wire)) and asked < phase.most:
                wire.socket.sendall(request)
                asked += phase.batch
                under_way += 1
        while under_way:
            ready = self._poll.poll(_SILENCE_SECONDS)
            if not ready:
                raise LineFailedError(f"{phase.operation}: no answer within {_SILENCE_SECONDS:.0f} s")
            for number, _ in ready:
                wire = self._wires[number]
                answer = self._answer(wire)
                if answer is None:
                    continue
                wire = self._wires.get(number, wire)
                under_way -= 1
                count = self._taken(phase, wire, answer, received)
                done += count
                now = time.monotonic()
                if count:
                    last = now
                elif phase.operation == "receive":
                    continue
                if now < until and asked < phase.most and (request := self._request(phase, wire)):
                    wire.socket.sendall(request)
                    asked += phase.batch
                    under_way += 1
        if phase.operation == "receive":
            self._handles = received
        return Done(done, last - begin, time.process_time() - spent)

    def _request(self, phase: Phase, wire: _Wire) -> bytes:
        """The next request; empty when there is nothing left to ask for."""
        if phase.operation == "create":
            self._made += 1
            return self._dialect.create(f"{phase.queue}-{os.getpid()}-{self._made}")
        if phase.operation == "send":
            return self._dialect.send(phase.queue, self._body, phase.batch)
        if phase.operation == "receive":
            return self._dialect.receive(phase.queue, phase.batch)
        wire.handles = self._handles[-phase.batch :]
        del self._handles[-phase.batch :]
        return self._dialect.delete(phase.queue, wire.handles) if wire.handles else b""

    def _taken(self, phase: Phase, wire: _Wire, answer: bytes, received: list[str]) -> int:
        """How many messages an answer is about. Raises LineFailedError."""
        status = answer[9:12]
        if phase.operation == "receive":
            handles = self._dialect.handles(answer)
            received += handles
            if handles or status in (b"200", b"404"):
                return len(handles)
        elif status[:1] == b"2" and not _REFUSED.search(answer):
            return len(wire.handles) if phase.operation == "delete" else phase.batch
        raise LineFailedError(f"{phase.operation}: {answer[:SHOWN].decode('utf-8', 'replace')}")

    def _answer(self, wire: _Wire) -> bytes | None:
        """An answer that has come in whole; None while it has not. Raises LineFailedError."""
        data = wire.socket.recv(1 << 18)
        came = wire.came = wire.came + data if wire.came else data
        length = length_of(came)
        if length is None and data:
            return None
        if length is not None and len(came) < length:
            if data:
                return None
            raise LineFailedError("the server closed a connection in the middle of an answer")
        if not came:
            raise LineFailedError("the server closed a connection instead of an answer")
        if not data or b"onnection: close" in came[: came.find(b"\r\n\r\n")]:
            self._renew(wire)
        wire.came = b""
        return came

    def _renew(self, wire: _Wire) -> None:
        """The server wants another connection for the next request."""
        number = wire.socket.fileno()
        self._poll.unregister(number)
        del self._wires[number]
        wire.socket.close()
        fresh = _Wire(self._port)
        wire.socket, wire.came = fresh.socket, b""
        self._add(wire)

    def _add(self, wire: _Wire) -> None:
        self._wires[wire.socket.fileno()] = wire
        self._poll.register(wire.socket.fileno(), select.EPOLLIN)


def length_of(came: bytes) -> int | None:
    """Bytes of the whole message, as its head says; None while that is not known, or is not told."""
    head = came.find(b"\r\n\r\n")
    if head < 0:
        return None
    found = _LENGTH.search(came, 0, head)
    if found:
        return head + 4 + int(found[1])
    return head + 4 if came[:4] != b"HTTP" or came[9:12] == b"204" else None


class Load:
    """The processes of the client, which do one phase after the other, all at the same time."""

    def __init__(self, dialect: Dialect, port: int, connections: int, body: str) -> None:
        count = min(PROCESSES, connections)
        context = multiprocessing.get_context("fork")
        self._pipes: list[Pipe] = []
        self._processes: list[multiprocessing.process.BaseProcess] = []
        for number in range(count):
            share = connections // count + (number < connections % count)
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, dialect, port, share, body), daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def run(self, phase: Phase) -> Done:
        """Let all processes do it, and add up. Raises LineFailedError."""
        for pipe in self._pipes:
            pipe.send(phase._replace(most=phase.most // len(self._pipes)))
        parts = [_result(pipe) for pipe in self._pipes]
        seconds = max(part.seconds for part in parts)
        return Done(sum(part.messages for part in parts), seconds, sum(part.cpu_seconds for part in parts))

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.kill()
            process.join()
        for pipe in self._pipes:
            pipe.close()


def _result(pipe: Pipe) -> Done:
    result = pipe.recv()
    if isinstance(result, Done):
        return result
    raise LineFailedError(str(result))


def _serve(pipe: Pipe, dialect: Dialect, port: int, connections: int, body: str) -> None:
    worker = _Worker(dialect, port, connections, body)
    while True:
        phase = pipe.recv()
        try:
            result: Done | str = worker.run(phase)
        except (LineFailedError, OSError) as error:
            result = str(error)
        pipe.send(result)


@contextmanager
def load(dialect: Dialect, port: int, connections: int, body: str) -> Iterator[Load]:
    """The client, with so many connections."""
    client = Load(dialect, port, connections, body)
    try:
        yield client
    finally:
        client.close()


def ask(port: int, request: bytes) -> bytes:
    """One request on a connection of its own, and its answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=_SILENCE_SECONDS) as one:
        one.sendall(request)
        came = b""
        while True:
            data = one.recv(1 << 18)
            came += data
            length = length_of(came)
            if not data or (length is not None and len(came) >= length):
                break
    return came
