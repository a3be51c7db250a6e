"""Offsets of single queues at their broker: first, last, by time, committed."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from brokercore.client.errors import QueryNotFound
from brokercore.client.process_queue import ProcessQueue
from brokercore.client.routes import Routes
from brokercore.client.session import Call, Session, integer
from brokercore.protocol.codes import RequestCode
from brokercore.protocol.message_queue import MessageQueue


class QueueOffsets:
    """Asks the broker of a queue, one request each. Methods raise ClientError."""

    def __init__(self, session: Session, routes: Routes) -> None:
        self._session = session
        self._routes = routes

    def min(self, queue: MessageQueue) -> int:
        """Offset of the first message still stored."""
        return self._ask(queue, RequestCode.GET_MIN_OFFSET)

    def max(self, queue: MessageQueue) -> int:
        """Offset of the next message to be written."""
        return self._ask(queue, RequestCode.GET_MAX_OFFSET)

    def search(self, queue: MessageQueue, timestamp_ms: int, boundary: str = "LOWER") -> int:
        """Offset of the first message stored at or after a time (epoch ms); `UPPER`: of the last one at it."""
        ext = {"timestamp": str(timestamp_ms), "boundaryType": boundary}
        return self._ask(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, ext)

    def committed(self, group: str, queue: MessageQueue) -> int | None:
        """The offset that a group has committed, None when it has not."""
        ext = {"consumerGroup": group, "setZeroIfNotFound": "false"}
        try:
            return self._ask(queue, RequestCode.QUERY_CONSUMER_OFFSET, ext)
        except QueryNotFound:
            return None

    def commit(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Commit offsets of a group (UPDATE_CONSUMER_OFFSET), all at once, and wait until they are kept.

        Online consumers of the group overwrite them.
        """
        self._session.call_each([commit_call(self._routes, group, queue, offset) for queue, offset in offsets.items()])

    def _ask(self, queue: MessageQueue, code: RequestCode, ext: dict[str, str] | None = None) -> int:
        address = self._routes.address(queue.broker_name)
        return integer(self._session.call(Call(address, code, _fields(queue) | (ext or {}))), "offset", address)


def commit_call(routes: Routes, group: str, queue: MessageQueue, offset: int) -> Call:
    """UPDATE_CONSUMER_OFFSET. Raises ClientError when the broker is not known."""
    ext = _fields(queue) | {"consumerGroup": group, "commitOffset": str(offset)}
    return Call(routes.address(queue.broker_name), RequestCode.UPDATE_CONSUMER_OFFSET, ext)


def _fields(queue: MessageQueue) -> dict[str, str]:
    return {"topic": queue.topic, "queueId": str(queue.queue_id), "bname": queue.broker_name}


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
            self._session.call_each(calls)
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
