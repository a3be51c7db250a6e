"""Whose the messages are that lie in topics of the broker: bytes by the topic that each is for.

Timers, half messages and those given up share a few queues, so a queue's size does not tell it. Messages that come and
go are counted; what was there at the start is read once, in small steps beside the work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from brokercore.names import CHECKED_TOO_OFTEN_TOPIC, HALF_TOPIC, SCHEDULE_TOPIC
from brokercore.protocol import properties as names
from brokercore.protocol.errors import ProtocolError
from brokercore.protocol.message import decode_stored
from brokercore.protocol.properties import encode_properties
from brokercore.server.storage.queue import Queue, split_physical

if TYPE_CHECKING:
    from brokercore.protocol.message import StoredMessage

SHARED_TOPICS = frozenset({SCHEDULE_TOPIC, HALF_TOPIC})

_HEAD_BYTES = 110
"""Bytes of a stored message beside its body and properties."""

_AT_ONCE = 200


class Readable(Protocol):
    """Queues that can be read."""

    by_number: dict[int, Queue]

    async def read(self, queue: Queue, offset: int, count: int) -> list[tuple[int, bytes]]:
        """Up to `count` stored frames from `offset` on, with their offsets."""


class ParkedBytes:
    """Bytes of bodies and properties, by topic: of what waits, and of half messages that were given up."""

    def __init__(self) -> None:
        self.waiting: defaultdict[str, int] = defaultdict(int)
        self.given_up: defaultdict[str, int] = defaultdict(int)
        self._unread: dict[int, tuple[int, int]] = {}
        """First and end of the offsets of a queue that are not counted yet, by the queue's number."""
        self._left_unread: set[int] = set()

    def begin(self, queues: Iterable[Queue]) -> None:
        """Count from nothing: the queues were read back from Redis."""
        self.waiting.clear()
        self.given_up.clear()
        self._left_unread.clear()
        self._unread = {
            queue.number: (queue.min_offset, queue.max_offset)
            for queue in queues
            if (queue.topic in SHARED_TOPICS or queue.topic == CHECKED_TOO_OFTEN_TOPIC)
            and queue.max_offset > queue.min_offset
        }

    @property
    def known(self) -> bool:
        """True once everything is counted."""
        return not self._unread

    def came(self, topic: str, size: int) -> None:
        """A message for `topic` is parked; `size` is that of its body and its properties."""
        self.waiting[topic] += size + _HEAD_BYTES

    def left(self, message: StoredMessage, target: Queue | None = None) -> None:
        """A parked message was moved to `target`, or thrown away."""
        number, offset = split_physical(message.physical_offset)
        first, end = self._unread.get(number, (0, 0))
        if first <= offset < end:
            self._left_unread.add(message.physical_offset)
        else:
            self._add(self.waiting, message, -1)
        if target is not None and target.topic == CHECKED_TOO_OFTEN_TOPIC:
            self._add(self.given_up, message, 1)

    def trimmed(self, queue: Queue) -> None:
        """Messages of a queue have left by their age: what was given up is counted anew."""
        if queue.topic == CHECKED_TOO_OFTEN_TOPIC:
            self.given_up.clear()
            self._unread[queue.number] = queue.min_offset, queue.max_offset

    async def read_on(self, store: Readable) -> None:
        """Count some of what was there at the start. Raises StoreUnavailable and RedisError."""
        number, (first, end) = next(iter(self._unread.items()))
        queue = store.by_number.get(number)
        frames = await store.read(queue, first, min(_AT_ONCE, end - first)) if queue is not None else []
        if self._unread.get(number) != (first, end):
            return  # begun anew meanwhile
        for offset, frame in frames:
            if offset < end and (offset | number << 40) not in self._left_unread:
                self._count(queue, frame)
        following = frames[-1][0] + 1 if frames else end
        if following < end:
            self._unread[number] = following, end
        else:
            del self._unread[number]
            self._left_unread = {place for place in self._left_unread if split_physical(place)[0] != number}

    def _count(self, queue: Queue | None, frame: bytes) -> None:
        try:
            message = decode_stored(frame)[0]
        except ProtocolError:
            return  # timers and checks say so when its time comes
        given_up = queue is not None and queue.topic == CHECKED_TOO_OFTEN_TOPIC
        self._add(self.given_up if given_up else self.waiting, message, 1)

    def _add(self, table: defaultdict[str, int], message: StoredMessage, sign: int) -> None:
        topic = message.properties.get(names.REAL_TOPIC, "")
        size = len(message.body) + len(encode_properties(message.properties)) + _HEAD_BYTES
        table[topic] += sign * size
        if table[topic] <= 0:
            del table[topic]
