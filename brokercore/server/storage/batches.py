"""Several messages that are stored together: they lie in few entries of their stream, and are answered for once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from brokercore.protocol.message import encode_stored
from brokercore.server.storage.entries import add_command
from brokercore.server.storage.queue import Queue
from brokercore.server.storage.store import Done, MessageStore

ENTRY_BYTES = 64 << 10
"""Most bytes of an entry with several messages: who reads one of them reads all."""


class Incoming(NamedTuple):
    """One of several messages that are stored together; `keys` are what QUERY_MESSAGE finds it by."""

    body: bytes
    properties: bytes
    keys: Sequence[str]
    flag: int = 0


def put_all(
    store: MessageStore,
    queue: Queue,
    messages: Sequence[Incoming],
    done: Done,
    *,
    sys_flag: int = 0,
    born_timestamp: int = 0,
    born_host: bytes = bytes(8),
    reconsume_times: int = 0,
) -> int:
    """Store several messages one behind the other and return the first one's offset.

    Whoever calls this has asked for room (`admit`). `done` is called once, when all are safe or any has failed. Raises
    StoreUnavailable, before anything is written.
    """
    store.check_ready()
    now, first = max(int(time.time() * 1000), queue.last_ms), queue.next_offset
    topic, base = queue.topic_bytes, queue.base
    entries: list[list[bytes]] = [[]]
    size = 0
    for offset, message in enumerate(messages, first):
        frame = encode_stored(
            topic,
            message.body,
            message.properties,
            queue.queue_id,
            message.flag,
            offset,
            base + offset,
            sys_flag,
            born_timestamp,
            born_host,
            now,
            store.store_host,
            reconsume_times,
        )
        size += len(frame)
        if size > ENTRY_BYTES and entries[-1]:
            entries.append([])
            size = len(frame)
        entries[-1].append(frame)
    _Writing(store, queue, entries, first, now, done).begin()
    store.index.add_all(queue.topic, [message.keys for message in messages], now, base + first)
    store.give_out(queue, now, len(messages))
    return first


@dataclass(slots=True)
class _Writing:
    """Entries on their way to Redis, which answers them in their order."""

    store: MessageStore
    queue: Queue
    entries: list[list[bytes]]
    next_offset: int
    stored_ms: int
    done: Done
    answered: int = 0
    failure: str | None = None

    def begin(self) -> None:
        parts: list[bytes] = []
        offset = self.next_offset
        for frames in self.entries:
            offset += len(frames)
            parts += add_command(self.queue, offset - 1, frames)
        self.store.writer.submit_all(parts, sum(map(len, parts)), self._answered, len(self.entries))

    def _answered(self, reply: Any) -> None:
        frames = self.entries[self.answered]
        if type(reply) is bytes:
            for offset, frame in enumerate(frames, self.next_offset):
                self.store.stored(self.queue, offset, frame, self.stored_ms)
        else:
            failure = self.store.not_stored(self.queue, reply, len(frames))
            self.failure = self.failure or failure
        self.next_offset += len(frames)
        self.answered += 1
        if self.answered == len(self.entries):
            self.done(self.failure)
