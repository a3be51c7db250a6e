"""Several messages that are stored together: they lie one behind the other, and are answered for once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from brokercore.protocol.message import encode_stored
from brokercore.server.storage.queue import Queue
from brokercore.server.storage.store import Done, MessageStore


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

    `done` is called once, when all are safe or any has failed. Raises as `put`, before anything is written.
    """
    store.admit()
    now, first = max(int(time.time() * 1000), queue.last_ms), queue.next_offset
    prefix, topic, base = queue.command[0], queue.topic_bytes, queue.base
    frames: list[bytes] = []
    parts: list[bytes] = []
    for offset, message in enumerate(messages, first):
        frame = encode_stored(
            topic,
            message.body,
            message.properties,
            queue_id=queue.queue_id,
            flag=message.flag,
            queue_offset=offset,
            physical_offset=base + offset,
            sys_flag=sys_flag,
            born_timestamp=born_timestamp,
            born_host=born_host,
            store_timestamp=now,
            store_host=store.store_host,
            reconsume_times=reconsume_times,
        )
        entry = b"0-%d" % (offset + 1)
        frames.append(frame)
        parts += (prefix, b"$%d\r\n%b\r\n$1\r\nm\r\n$%d\r\n" % (len(entry), entry, len(frame)), frame, b"\r\n")
    answered: list[str | None] = []

    def stored(reply: Any) -> None:
        place = len(answered)
        if type(reply) is bytes:
            store.stored(queue, first + place, frames[place], now)
            answered.append(None)
        else:
            answered.append(store.not_stored(queue, reply))
        if len(answered) == len(frames):
            done(next(filter(None, answered), None))

    store.writer.submit_all(parts, sum(map(len, parts)), stored, len(frames))
    for offset, message in enumerate(messages, base + first):
        store.index.add(queue.topic, message.keys, now, offset)
    store.give_out(queue, now, len(frames))
    return first
