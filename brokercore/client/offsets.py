"""Where a consumer's offsets are kept: at the broker (clustering) or in a file of its own (broadcasting)."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from brokercore.client.errors import QueryNotFound
from brokercore.client.process_queue import ProcessQueue
from brokercore.client.routes import Routes
from brokercore.client.session import Call, Session, integer
from brokercore.protocol.codes import RequestCode
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

    def read(self, queue: MessageQueue) -> int | None:
        address = self._routes.address(queue.broker_name)
        call = Call(address, RequestCode.QUERY_CONSUMER_OFFSET, self._fields(queue))
        try:
            return integer(self._session.call(call), "offset", address)
        except QueryNotFound:
            return None

    def commit(self, queues: Iterable[ProcessQueue], *, wait: bool) -> None:
        changed = [(item, item.commit_offset) for item in queues]
        changed = [(item, offset) for item, offset in changed if offset != item.committed]
        calls = [
            Call(
                self._routes.address(item.queue.broker_name),
                RequestCode.UPDATE_CONSUMER_OFFSET,
                self._fields(item.queue) | {"commitOffset": str(offset)},
            )
            for item, offset in changed
        ]
        if wait:
            for result in self._session.call_all(calls):
                if isinstance(result, Exception):
                    raise result
        else:
            for call in calls:
                self._session.oneway(call)
        for item, offset in changed:
            item.committed = offset

    def _fields(self, queue: MessageQueue) -> dict[str, str]:
        return {
            "consumerGroup": self._group,
            "topic": queue.topic,
            "queueId": str(queue.queue_id),
            "bname": queue.broker_name,
        }


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
