"""A peer that answers frames as a test wants it to, on a real socket: for faults a broker does not make on demand."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from brokercore.protocol.command import Command, FrameReader, decode
from tests.support.patience import Patience

Answer = Callable[["Peer", socket.socket, Command], None]


def echo(_peer: Peer, connection: socket.socket, command: Command) -> None:
    """Answer with the request's own ext fields and body."""
    if not command.is_oneway:
        connection.sendall(command.response(0, ext=command.ext, body=command.body).encode())


class Peer:
    """Listens on a free port; what it received stands in `received`."""

    def __init__(self, answer: Answer = echo) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.received: list[Command] = []
        self.connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept(), which would take one more connection otherwise
        self._listener.close()
        self.drop_connections()

    def drop_connections(self) -> None:
        """Close every connection, as a broker that restarts."""
        while self.connections:
            connection = self.connections.pop()
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
            finally:
                connection.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        reader = FrameReader()
        while True:
            try:
                data = connection.recv(65536)
            except OSError:
                return
            if not data:
                return
            for frame in reader.feed(data):
                command = decode(frame)
                self.received.append(command)
                self._answer(self, connection, command)


def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait until a condition holds; fail after the deadline."""
    patience = Patience(seconds)
    while not condition():
        if patience.is_over():
            raise AssertionError(f"it did not happen within {seconds} s")
        threading.Event().wait(0.01)
