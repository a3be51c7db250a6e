"""Offsets of broadcasting consumers in a file, and of others at a broker that refuses them."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from brokercore.client.errors import BrokerError
from brokercore.client.offsets import BrokerOffsets, FileOffsets
from brokercore.client.process_queue import ProcessQueue
from brokercore.client.routes import Routes
from brokercore.client.session import Session
from brokercore.protocol.bodies.route import BrokerData, ClusterInfo
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.message_queue import MessageQueue
from tests.brokercore.client.peer import Peer


def test_offsets_are_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "offsets.json"
    store = FileOffsets(path)
    queue = MessageQueue("%RETRY%g", "broker-a", 3)
    assert store.read(queue) is None
    store.commit([ProcessQueue(queue, 17)], wait=True)
    assert FileOffsets(path).read(queue) == 17
    assert FileOffsets(path).read(queue._replace(queue_id=4)) is None


def test_the_file_is_written_only_when_something_moved(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    store, item = FileOffsets(path), ProcessQueue(MessageQueue("t", "b", 0), 1)
    store.commit([item], wait=True)
    path.unlink()
    store.commit([item], wait=True)
    assert not path.exists()


def test_an_offset_that_the_broker_refuses_is_an_error_and_is_committed_again() -> None:
    """Of two queues one is refused: a consumer that closes must hear of it, and the offset does not count as kept."""
    refused = {"0"}
    tried: list[str] = []

    def answer(peer: Peer, connection: socket.socket, command: Command) -> None:
        if command.code == RequestCode.GET_BROKER_CLUSTER_INFO:
            cluster = ClusterInfo({"b": BrokerData("c", "b", {"0": peer.address})}, {"c": ["b"]})
            connection.sendall(command.response(0, body=cluster.to_json()).encode())
            return
        tried.append(command.ext["queueId"])
        code = ResponseCode.SYSTEM_ERROR if command.ext["queueId"] in refused else ResponseCode.SUCCESS
        connection.sendall(command.response(code, "the store is full").encode())

    with Peer(answer) as peer:
        session = Session(peer.address, None)
        store = BrokerOffsets(session, Routes(session), "g")
        items = [ProcessQueue(MessageQueue("t", "b", number), 5) for number in range(2)]
        with pytest.raises(BrokerError, match="the store is full"):
            store.commit(items, wait=True)
        refused.clear()
        tried.clear()
        store.commit(items, wait=True)
        assert "0" in tried
        assert [item.committed for item in items] == [5, 5]
        session.close()
