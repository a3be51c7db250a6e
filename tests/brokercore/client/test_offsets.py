"""Offsets of broadcasting consumers in a file."""

from __future__ import annotations

from pathlib import Path

from brokercore.client.offsets import FileOffsets
from brokercore.client.process_queue import ProcessQueue
from brokercore.protocol.message_queue import MessageQueue


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
