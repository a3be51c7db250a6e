"""Retention: messages older than GANTRY_STORE_RETENTION_HOURS leave, with their index."""

from __future__ import annotations

import asyncio
import logging
import time

from brokercore.names import HALF_TOPIC, SCHEDULE_TOPIC, TRACE_TOPIC
from brokercore.server.storage import recovery
from brokercore.server.storage.queue import Queue
from brokercore.server.storage.store import MessageStore
from brokercore.server.storage.topics import TopicTable

logger = logging.getLogger(__name__)

STEP_BYTES, STEP_PAUSE_SECONDS = 2 << 20, 0.005
"""What leaves a queue at once takes Redis a millisecond or two; then others have their turn."""

_KEPT = frozenset({SCHEDULE_TOPIC, HALF_TOPIC})
"""What is parked there stays until it is delivered or decided; retention counts from then on."""


async def offset_at(store: MessageStore, queue: Queue, timestamp_ms: int) -> int:
    """Offset of the first message stored at `timestamp_ms` or later; the maximum offset when there is none.

    Raises StoreUnavailable.
    """
    low, high = queue.min_offset, queue.max_offset
    if low >= high or timestamp_ms > queue.last_ms:
        return high
    while low < high:
        middle = (low + high) // 2
        found = await store.read(queue, middle, 1)
        if not found or recovery.store_timestamp(found[0][1]) >= timestamp_ms:
            high = middle
        else:
            low = found[0][0] + 1
    return low


async def expire_messages(store: MessageStore, topics: TopicTable, most_trace_bytes: int) -> None:
    """Drop what is older than the retention time, and the oldest traces of accounts with more than so many bytes.

    Raises StoreUnavailable.
    """
    before_ms = int(time.time() * 1000 - store.settings.retention_hours * 3_600_000)
    for queue in list(store.by_number.values()):
        if queue.topic in _KEPT or queue.min_offset >= queue.max_offset or queue.first_ms >= before_ms:
            continue
        await trim(store, queue, await offset_at(store, queue, before_ms))
    for queue in traces.queues if (traces := topics.get(TRACE_TOPIC)) else []:
        await keep_small(store, queue, most_trace_bytes)
    await store.index.drop(before_ms=before_ms)
    await store.measure(store.reader)


async def keep_small(store: MessageStore, queue: Queue, most_bytes: int) -> None:
    """Drop the oldest messages of a queue that holds more than so many bytes. Raises StoreUnavailable."""
    if queue.stored_bytes > most_bytes:
        surplus = -(-(queue.stored_bytes - most_bytes) // max(1, queue.average_bytes))
        await trim(store, queue, min(queue.min_offset + surplus, queue.max_offset))


async def trim(store: MessageStore, queue: Queue, offset: int) -> None:
    """Drop all messages of a queue below `offset`. Raises StoreUnavailable."""
    if offset <= queue.min_offset:
        return
    dropped = offset - queue.min_offset
    while queue.min_offset < offset:
        step = min(offset - queue.min_offset, max(1, STEP_BYTES // queue.average_bytes))
        await store.writer.call("XTRIM", queue.key, "MINID", f"0-{queue.min_offset + step + 1}")
        queue.stored_bytes -= min(queue.stored_bytes, step * queue.average_bytes)
        queue.min_offset += step
        await asyncio.sleep(STEP_PAUSE_SECONDS)
    store.parked.trimmed(queue)
    first = await store.read(queue, offset, 1)
    queue.first_ms = recovery.store_timestamp(first[0][1]) if first else 0
    logger.info("retention: %d messages of %s queue %d left", dropped, queue.topic, queue.queue_id)
