"""A connection: pipelined requests, time-outs, broken peers, requests of the server."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from brokercore.client.connection import Connection, split_address
from brokercore.client.errors import BrokerUnreachable, RequestTimeout
from brokercore.protocol.command import Command
from tests.brokercore.client.peer import Peer, until


def connect(peer: Peer, requests: list[Command] | None = None) -> Connection:
    return Connection(peer.address, lambda _connection, command: (requests or []).append(command), 1000)


def test_answers_find_their_requests_in_any_order() -> None:
    held: list[Command] = []

    def answer_backwards(_peer: Peer, connection: socket.socket, command: Command) -> None:
        held.append(command)
        if len(held) == 50:
            for request in reversed(held):
                connection.sendall(request.response(0, ext=request.ext).encode())

    with Peer(answer_backwards) as peer:
        connection = connect(peer)
        futures = [connection.submit(Command(1, ext={"n": str(number)}), 2000) for number in range(50)]
        assert [future.result(3).ext["n"] for future in futures] == [str(number) for number in range(50)]
        connection.close()


def test_threads_share_one_connection() -> None:
    with Peer() as peer:
        connection = connect(peer)
        seen: list[str] = []

        def ask(name: str) -> None:
            for number in range(50):
                text = f"{name}-{number}"
                seen.append(connection.submit(Command(1, ext={"n": text}), 20_000).result(20).ext["n"])

        threads = [threading.Thread(target=ask, args=(str(number),)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(seen)) == 400
        assert len(peer.connections) == 1
        connection.close()


def test_a_peer_that_does_not_answer_is_a_timeout_and_its_late_answer_is_dropped() -> None:
    def answer_second_first(_peer: Peer, connection: socket.socket, command: Command) -> None:
        if command.ext["n"] == "second":
            first = peer.received[0]
            connection.sendall(
                first.response(0, ext=first.ext).encode() + command.response(0, ext=command.ext).encode()
            )

    with Peer(answer_second_first) as peer:
        connection = connect(peer)
        begun = time.monotonic()
        with pytest.raises(RequestTimeout, match="100 ms"):
            connection.submit(Command(1, ext={"n": "first"}), 100).result(20)
        assert time.monotonic() - begun < 10
        assert connection.submit(Command(1, ext={"n": "second"}), 20_000).result(20).ext == {"n": "second"}
        connection.close()


def test_requests_in_flight_fail_when_the_peer_goes_away() -> None:
    with Peer(lambda _peer, _connection, _command: None) as peer:
        connection = connect(peer)
        future = connection.submit(Command(1), 5000)
        until(lambda: peer.received)
        peer.drop_connections()
        with pytest.raises(BrokerUnreachable):
            future.result(3)
        assert not connection.is_open
        with pytest.raises(BrokerUnreachable):
            connection.submit(Command(1), 1000).result(1)


def test_a_broken_frame_closes_the_connection() -> None:
    with Peer(lambda _peer, connection, _command: connection.sendall(b"\xff" * 8)) as peer:
        connection = connect(peer)
        with pytest.raises(BrokerUnreachable, match="broken frame"):
            connection.submit(Command(1), 5000).result(3)


def test_a_request_of_the_server_reaches_the_handler_though_its_number_is_in_use() -> None:
    def ask_back(_peer: Peer, connection: socket.socket, command: Command) -> None:
        connection.sendall(Command(40, command.opaque, 2, ext={"consumerGroup": "g"}).encode())
        connection.sendall(command.response(0, ext=command.ext).encode())

    requests: list[Command] = []
    with Peer(ask_back) as peer:
        connection = Connection(peer.address, lambda _connection, command: requests.append(command), 1000)
        assert connection.submit(Command(1, ext={"a": "b"}), 2000).result(3).ext == {"a": "b"}
        assert [request.code for request in requests] == [40]
        connection.close()


def test_nobody_at_the_address_is_said_with_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    with pytest.raises(BrokerUnreachable, match=address):
        Connection(address, lambda _connection, _command: None, 500)


@pytest.mark.parametrize("address", ["host", "host:", "host:0", "host:70000", "host:x"])
def test_an_address_is_host_and_port(address: str) -> None:
    with pytest.raises(BrokerUnreachable, match="host:port"):
        split_address(address)
    assert split_address("[::1]:9876") == ("::1", 9876)
