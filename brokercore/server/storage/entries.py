"""Entries of a queue's stream: the frames of one or more messages, one behind the other, in one value.

The id is that of the last message: XRANGE from any message on begins with the entry that has it (docs/storage.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from brokercore.protocol.message import frame_size
from brokercore.server.storage.queue import Queue
from brokercore.server.storage.redis_connection import RedisConnection

_LEAST_BYTES = 4
"""A stored frame has at least its size, whatever a stranger has written there: splitting it comes to an end."""


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
