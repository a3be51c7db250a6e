"""The door of streams leads to the JVM and nowhere else."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from analytics.stream_door import StreamDoor, listens


@pytest.fixture
def door() -> Iterator[StreamDoor]:
    """One that takes this process for the JVM."""
    found = StreamDoor()
    found.open(os.getpid())
    yield found
    found.close()


def ask(door: StreamDoor, port: int) -> socket.socket:
    reader = socket.create_connection(("127.0.0.1", door.port), 30)
    reader.sendall(struct.pack("!H", port))
    return reader


def test_all_bytes_go_both_ways_until_an_end_closes(door: StreamDoor) -> None:
    with socket.create_server(("127.0.0.1", 0)) as spark:
        reader = ask(door, spark.getsockname()[1])
        accepted, _ = spark.accept()
        sent = os.urandom(3 << 20)
        with reader, accepted:
            assert reader.recv(1) == b"\1"
            sending = threading.Thread(target=reader.sendall, args=(sent,))
            sending.start()
            with accepted.makefile("rb") as incoming:
                assert incoming.read(len(sent)) == sent
                sending.join()
                accepted.sendall(b"back")
                accepted.shutdown(socket.SHUT_WR)
                assert reader.recv(4, socket.MSG_WAITALL) == b"back"
                assert reader.recv(1) == b""


def test_it_stays_shut_for_a_port_that_the_jvm_does_not_listen_on(door: StreamDoor) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and not listened on, as the ports that are kept
        port = bound.getsockname()[1]
        assert not listens(os.getpid(), port)
        with ask(door, port) as reader:
            assert reader.recv(1) == b""


def test_who_listens_is_told_by_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert listens(os.getpid(), port)
        assert not listens(os.getppid(), port)
