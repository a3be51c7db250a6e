"""Reading a time range of a topic: all its queues merged by store time, with a budget of pulls.

A queue's offsets are dense, so a time range is a range of offsets per queue (SEARCH_OFFSET_BY_TIMESTAMP), its size is
known before anything is read, and the place where a page ends is one offset per queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from brokercore.client import Admin, MessageQueue, StoredMessage

Accept = Callable[[StoredMessage], bool]

PULL_BUDGET = 160
"""Pulls of one request: the 2,500 messages that a query task reaches at most, plus one round over many queues."""
_BATCH = 32


@dataclass
class Cursor:
    """A range of one queue: offsets from `begin` to before `end`.

    `position` is the next offset to read (oldest first) or the one after it (newest first).
    """

    broker_name: str
    queue_id: int
    begin: int
    end: int
    position: int


@dataclass
class Taken:
    """Messages of a scan in order. `stopped`: the budget ran out before enough were found."""

    messages: list[tuple[MessageQueue, StoredMessage]] = field(default_factory=list)
    scanned: int = 0
    stopped: bool = False
    last_ms: int = 0


def open_range(admin: Admin, topic: str, begin_ms: int, end_ms: int, *, newest_first: bool) -> list[Cursor]:
    """Cursors over the messages stored from `begin_ms` to `end_ms`, both inclusive."""
    cursors = []
    for queue, stats in sorted(admin.topic_stats(topic).items()):
        if stats.max_offset <= stats.min_offset or stats.last_update_ms < begin_ms:
            continue
        begin = max(stats.min_offset, admin.search_offset(queue, begin_ms))
        # Searching behind the newest message is asking for trouble: brokers answer it differently.
        end = stats.max_offset if end_ms >= stats.last_update_ms else admin.search_offset(queue, end_ms + 1)
        end = min(end, stats.max_offset)
        if begin < end:
            start = end if newest_first else begin
            cursors.append(Cursor(queue.broker_name, queue.queue_id, begin, end, start))
    return cursors


def dump(cursors: list[Cursor]) -> list[dict[str, Any]]:
    """Cursors as plain values, for a query task."""
    return [asdict(cursor) for cursor in cursors]


def load(values: list[dict[str, Any]]) -> list[Cursor]:
    """The cursors of `dump`."""
    return [Cursor(**value) for value in values]


class Scan:
    """Merges the queues of one topic from `cursors`, which move with what is taken."""

    def __init__(
        self, admin: Admin, topic: str, cursors: list[Cursor], *, newest_first: bool, batch: int = _BATCH
    ) -> None:
        self._admin = admin
        self._topic = topic
        self._newest_first = newest_first
        self._budget = PULL_BUDGET
        self._lanes = [_Lane(cursor, newest_first, min(batch, _BATCH)) for cursor in cursors]

    def take(self, count: int, accept: Accept) -> Taken:
        """The next `count` messages that `accept` lets through, or fewer at the end or when the budget is spent."""
        taken = Taken()
        while len(taken.messages) < count:
            lane = self._next_lane()
            if lane is None:
                taken.stopped = self._budget <= 0 and self.more
                break
            message = lane.pop()
            taken.scanned += 1
            taken.last_ms = message.store_timestamp
            if accept(message):
                taken.messages.append((lane.queue(self._topic), message))
        return taken

    @property
    def more(self) -> bool:
        """True when something of the range is unread."""
        return any(not lane.done for lane in self._lanes)

    def _next_lane(self) -> _Lane | None:
        """The lane whose head comes next; None at the end, or when a head is missing and no pull is left."""
        heads: list[_Lane] = []
        for lane in self._lanes:
            while not lane.buffer and not lane.done:
                if self._budget <= 0:
                    return None
                self._budget -= 1
                lane.fill(self._admin, self._topic)
            if lane.buffer:
                heads.append(lane)
        if not heads:
            return None
        choose = max if self._newest_first else min
        return choose(heads, key=lambda lane: (lane.buffer[0].store_timestamp, lane.cursor.queue_id))


class _Lane:
    """One queue of a scan with what was pulled ahead."""

    def __init__(self, cursor: Cursor, newest_first: bool, batch: int) -> None:
        self.cursor = cursor
        self.buffer: deque[StoredMessage] = deque()
        self._newest_first = newest_first
        self._batch = batch

    @property
    def done(self) -> bool:
        edge = self.cursor.begin if self._newest_first else self.cursor.end
        return not self.buffer and self.cursor.position == edge

    def queue(self, topic: str) -> MessageQueue:
        return MessageQueue(topic, self.cursor.broker_name, self.cursor.queue_id)

    def pop(self) -> StoredMessage:
        message = self.buffer.popleft()
        self.cursor.position = message.queue_offset + (0 if self._newest_first else 1)
        return message

    def fill(self, admin: Admin, topic: str) -> None:
        """One pull. Where it brings nothing the range shrinks, so that filling comes to an end."""
        cursor = self.cursor
        start = max(cursor.begin, cursor.position - self._batch) if self._newest_first else cursor.position
        stop = cursor.position if self._newest_first else cursor.end
        result = admin.pull(self.queue(topic), start, min(self._batch, stop - start))
        found = [m for m in result.messages if start <= m.queue_offset < stop]
        if self._newest_first:
            self._fill_backwards(found, start, stop, result.min_offset)
        elif found:
            self.buffer.extend(found)
        else:
            after = max(result.next_offset, result.min_offset)
            cursor.position = min(cursor.end, after) if after > start else cursor.end

    def _fill_backwards(self, found: list[StoredMessage], start: int, stop: int, min_offset: int) -> None:
        if not found:
            if min_offset > start:  # retention took the older part meanwhile
                self.cursor.begin = min(min_offset, stop)
            else:
                self.cursor.position = start
        elif found[-1].queue_offset < stop - 1 and len(found) < stop - start:
            # A response holds 256 KiB: of large messages fewer fit, so ask for fewer and get the newest.
            self._batch = len(found) if len(found) < self._batch else 1
        else:
            self.buffer.extend(reversed(found))
