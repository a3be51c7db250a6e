"""Where a consumer's offsets are kept: at the broker (clustering) or in a file of its own (broadcasting)."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from brokercore.client.process_queue import ProcessQueue
from brokercore.client.queue_offsets import QueueOffsets, commit_call
from brokercore.client.routes import Routes
from brokercore.client.session import Session
from brokercore.protocol.message_queue import MessageQueue


class OffsetStore(Protocol):
    """Keeps the offset of each queue of a group."""

    def read(self, queue: MessageQueue) -> int | None:
        """The kept offset, None when there is none yet."""

    def commit(self, queues: Iterable[ProcessQueue], *, wait: bool) -> None:
        """Keep the commit offsets that changed; `wait` until they are kept. Raises ClientError."""


class BrokerOffsets:
    """Offsets kept by the broker: QUERY_CONSUMER_OFFSET and UPDATE_CONSUMER_OFFSET."""

    def __init__(self, session: Session, routes: Routes, group: str) -> None:
        self._session = session
        self._routes = routes
        self._group = group
        self._queues = QueueOffsets(session, routes)

    def read(self, queue: MessageQueue) -> int | None:
        return self._queues.committed(self._group, queue)

    def commit(self, queues: Iterable[ProcessQueue], *, wait: bool) -> None:
        changed = [(item, item.commit_offset) for item in queues]
        changed = [(item, offset) for item, offset in changed if offset != item.committed]
        calls = [commit_call(self._routes, self._group, item.queue, offset) for item, offset in changed]
        if wait:
            for result in self._session.call_all(calls):
                if isinstance(result, Exception):
                    raise result
        else:
            for call in calls:
                self._session.oneway(call)
        for item, offset in changed:
            item.committed = offset


class FileOffsets:
    """Offsets in a JSON file: each broadcasting consumer goes its own way, so the broker keeps none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._offsets: dict[str, int] = {}
        with contextlib.suppress(FileNotFoundError):
            kept = json.loads(path.read_text("utf-8"))
            self._offsets = {str(key): int(offset) for key, offset in kept.items()}

    def read(self, queue: MessageQueue) -> int | None:
        return self._offsets.get(_key(queue))

    def commit(self, queues: Iterable[ProcessQueue], *, wait: bool) -> None:
        with self._lock:
            changed = False
            for item in queues:
                offset = item.commit_offset
                if offset != item.committed:
                    self._offsets[_key(item.queue)] = item.committed = offset
                    changed = True
            if changed:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                fresh = self._path.with_suffix(".new")
                fresh.write_text(json.dumps(self._offsets, indent=1, sort_keys=True), "utf-8")
                os.replace(fresh, self._path)


def _key(queue: MessageQueue) -> str:
    return f"{queue.topic}@{queue.broker_name}@{queue.queue_id}"
