"""Pulled messages that wait for poll(): bounded, taken from the queues in turn."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable

from brokercore.client.process_queue import ProcessQueue
from brokercore.protocol.message import StoredMessage
from brokercore.protocol.message_queue import MessageQueue


class PollCache:
    """Messages by queue. Pulling pauses above `max_messages` or `max_bytes` in all queues together."""

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._changed = threading.Condition()
        self._lines: dict[ProcessQueue, deque[StoredMessage]] = {}
        self._paused: set[MessageQueue] = set()
        self._messages = 0
        self._bytes = 0
        self._stopped = False

    def deliver(self, item: ProcessQueue, message: StoredMessage) -> None:
        with self._changed:
            self._lines.setdefault(item, deque()).append(message)
            self._messages += 1
            self._bytes += message.total_size
            self._changed.notify()

    def is_full(self, item: ProcessQueue) -> bool:
        return (
            item.is_full
            or item.queue in self._paused
            or self._messages >= self._max_messages
            or self._bytes >= self._max_bytes
        )

    def release(self, item: ProcessQueue, then: Callable[[], None]) -> None:
        with self._changed:
            self._drop(item)
            self._paused.discard(item.queue)
        then()

    def stop(self, timeout_s: float) -> bool:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        return True

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Give out nothing of these queues, and pull nothing more of them."""
        with self._changed:
            self._paused.update(queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Undo `pause`."""
        with self._changed:
            self._paused.difference_update(queues)
            self._changed.notify_all()

    def paused(self) -> set[MessageQueue]:
        """The queues that are paused now."""
        with self._changed:
            return set(self._paused)

    def first_offset(self, item: ProcessQueue) -> int | None:
        """Offset of the first message of a queue that waits here."""
        with self._changed:
            line = self._lines.get(item)
            return line[0].queue_offset if line else None

    def take(self, max_messages: int, timeout_s: float) -> list[tuple[ProcessQueue, StoredMessage]]:
        """Up to so many messages, those of one queue in its order; [] when none came in time or after stop()."""
        taken: list[tuple[ProcessQueue, StoredMessage]] = []
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._ready(), timeout_s)
            for item in () if self._stopped else self._ready():
                line = self._lines.pop(item)
                while line and len(taken) < max_messages:
                    message = line.popleft()
                    self._messages -= 1
                    self._bytes -= message.total_size
                    taken.append((item, message))
                if line:
                    self._lines[item] = line  # behind the others: each queue has its turn
                if len(taken) >= max_messages:
                    break
        return taken

    def _ready(self) -> list[ProcessQueue]:
        for item in [item for item in self._lines if item.dropped]:
            self._drop(item)
        return [item for item in self._lines if item.queue not in self._paused]

    def _drop(self, item: ProcessQueue) -> None:
        for message in self._lines.pop(item, ()):
            self._messages -= 1
            self._bytes -= message.total_size
