"""One queue in memory: its place in Redis, its offsets, its hot tail, and who waits for its next message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from brokercore.protocol.message import frame_size
from brokercore.server.storage.redis_connection import RedisConnection

_LEAST_BYTES = 4
"""A stored frame has at least its size, whatever a stranger has written there: splitting it comes to an end."""

OFFSET_BITS = 40
"""A physical offset is stream number << 40 | queue offset: it names a message without an index."""

OFFSET_MASK = (1 << OFFSET_BITS) - 1

READ_BYTES = 8 << 20
"""Bytes of frames that are asked for at once: what a queue's average says is no bound, since one may pick the large."""

UNKNOWN_BYTES = 512 << 10
"""What counts as the largest frame of a queue that was read back: nobody has looked at all of it."""


# Entries of a queue's stream: the frames of one or more messages, one behind the other, in one value. The id is that
# of the last message: XRANGE from any message on begins with the entry that has it (docs/operate/storage.md).


def add_command(queue: Queue, last: int, frames: Sequence[bytes]) -> tuple[bytes, ...]:
    """The parts of the command that stores messages as one entry; `last` is the offset of the last one."""
    entry = b"0-%d" % (last + 1)
    head = b"$%d\r\n%b\r\n$1\r\nm\r\n$%d\r\n" % (len(entry), entry, sum(map(len, frames)))
    return queue.command[0], head, *frames, b"\r\n"


def find_command(queue: Queue, offset: int) -> tuple[str | bytes | int, ...]:
    """The command that reads the entry with the message at an offset, or the one behind it when that is gone."""
    return "XRANGE", queue.key, f"0-{offset + 1}", "+", "COUNT", 1


async def read_messages(reader: RedisConnection, queue: Queue, offset: int, count: int) -> list[tuple[int, bytes]]:
    """Offsets and frames of at least one and up to `count` messages from `offset` on, if there are any.

    How many entries that takes is guessed from what was read last. Raises StoreUnavailable and RedisError.
    """
    entries = -(-count // queue.messages_an_entry)
    last = f"0-{queue.max_offset}"
    reply = await reader.call("XRANGE", queue.key, f"0-{offset + 1}", last, "COUNT", entries)
    found = list(messages_of(reply))
    if reply:
        queue.messages_an_entry = max(1, len(found) // len(reply))
    if found and found[0][0] < offset:  # the first entry begins before it
        found = [message for message in found if message[0] >= offset]
    return found[:count]


def messages_of(reply: Iterable[tuple[bytes, list[bytes]]]) -> Iterator[tuple[int, bytes]]:
    """Offsets and frames of all messages in an answer of XRANGE."""
    for entry, fields in reply:
        value = fields[1]
        if frame_size(value) == len(value):
            yield int(entry.partition(b"-")[2]) - 1, value
            continue
        frames = list(_split(value))
        yield from enumerate(frames, int(entry.partition(b"-")[2]) - len(frames))


def first_offset(entry: tuple[bytes, list[bytes]]) -> int:
    """Offset of the first message of an entry."""
    return next(messages_of([entry]))[0]


def _split(value: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(value):
        end = at + max(_LEAST_BYTES, frame_size(value, at))
        yield value[at:end]
        at = end


def split_physical(physical_offset: int) -> tuple[int, int]:
    """Stream number and queue offset of a physical offset."""
    return physical_offset >> OFFSET_BITS, physical_offset & OFFSET_MASK


@dataclass(slots=True, eq=False)
class Queue:
    """A queue of a topic. `next_offset` is the next to be given out, `max_offset` one past the last stored.

    `largest_bytes` is the size of the largest frame that it had.
    No offset below `least_next` is given out: there may have been messages that Redis has lost.
    `tail` holds the newest stored frames from `tail_start` on; everything older is only in Redis, where
    `messages_an_entry` is how many an entry of its stream had where it was read last.
    """

    topic: str
    queue_id: int
    number: int
    key: bytes
    next_offset: int = 0
    max_offset: int = 0
    min_offset: int = 0
    tail_start: int = 0
    tail: dict[int, bytes] = field(default_factory=dict)
    in_flight: int = 0
    least_next: int = 0
    stored_bytes: int = 0
    largest_bytes: int = 0
    messages_an_entry: int = 1
    first_ms: int = 0
    last_ms: int = 0
    waiters: dict[object, Callable[[], None]] = field(default_factory=dict)
    command: tuple[bytes, int] = (b"", 0)
    topic_bytes: bytes = b""

    def __post_init__(self) -> None:
        self.topic_bytes = self.topic.encode()
        prefix = b"*5\r\n$4\r\nXADD\r\n$%d\r\n%b\r\n" % (len(self.key), self.key)
        self.command = prefix, len(prefix)

    @property
    def base(self) -> int:
        """Physical offset of the queue's offset 0."""
        return self.number << OFFSET_BITS

    @property
    def average_bytes(self) -> int:
        """Average size of a stored frame, at least 1."""
        return max(1, self.stored_bytes // max(1, self.max_offset - self.min_offset))

    @property
    def most_at_once(self) -> int:
        """How many of its messages may be asked for at once, if all were as large as the largest; at least 1."""
        return max(1, READ_BYTES // self.largest_bytes) if self.largest_bytes else READ_BYTES

    def keep(self, offset: int, frame: bytes) -> None:
        """Add a stored frame to the hot tail."""
        if not self.tail:
            self.tail_start = offset
        self.tail[offset] = frame
        self.max_offset = offset + 1

    def forget_oldest(self) -> int:
        """Drop the oldest frame of the hot tail and return its size in bytes."""
        tail = self.tail
        if not tail:
            return 0
        start = self.tail_start
        while True:
            frame = tail.pop(start, None)
            start += 1
            if frame is not None or start > self.max_offset:
                break
        self.tail_start = start
        return len(frame) if frame is not None else 0
