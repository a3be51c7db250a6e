"""What is done at the start, and after every break with Redis, so that memory and Redis say the same.

The state of the queues is read back from their streams. What is in memory and not in Redis is written back: what it
lost in a crash, or refused when it was full.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar

from brokercore.server.errors import RedisError, StoreUnavailable
from brokercore.server.storage.keys import Keys
from brokercore.server.storage.queue import UNKNOWN_BYTES, Queue, first_offset
from brokercore.server.storage.redis_connection import RedisConnection

logger = logging.getLogger(__name__)

LEAP = 1 << 17
"""More messages than one queue takes in the two seconds that `everysec` may lose."""

_AT_ONCE = 500
_STORE_TIMESTAMP_AT = 56
_FRAME_BYTES_PER_STORED = 0.85

_Item = TypeVar("_Item")


def store_timestamp(frame: bytes) -> int:
    """When a frame was stored, epoch ms."""
    return int.from_bytes(frame[_STORE_TIMESTAMP_AT : _STORE_TIMESTAMP_AT + 8], "big")


async def check_role(redis: RedisConnection) -> None:
    """Raise StoreUnavailable when Redis is a replica: a failover left the address with one that refuses writes."""
    try:
        role = await redis.call("ROLE")
    except RedisError:  # its user may not ask; a write will tell
        return
    if role and role[0] == b"slave":
        raise StoreUnavailable("Redis is a replica and takes no writes")


async def recover(redis: RedisConnection, keys: Keys, queues: dict[int, Queue], *, leap: bool = False) -> None:
    """Fill `queues` (by number) with offsets and times; queues that are there already keep their identity.

    Offsets never go back while this process lives: consumers know the ones of messages that Redis has lost, and
    would pass over new messages that got them again. With `leap` nobody knows how many Redis has lost, and new
    messages get offsets that certainly none had.
    """
    if leap:
        logger.warning("Redis and the broker both ended out of order: offsets go on %d further on", LEAP)
    table: list[bytes] = await redis.call("HGETALL", keys.queues)
    for name, number in zip(table[::2], table[1::2], strict=True):
        if int(number) not in queues:
            queue_id, _, topic = name.decode().partition("@")
            queues[int(number)] = Queue(topic, int(queue_id), int(number), keys.stream(int(number)).encode())
    for some in _chunks(queues.values()):
        for queue, information in zip(some, await _information(redis, some), strict=True):
            known = queue.max_offset
            _fill(queue, information)
            if queue.max_offset < known:
                await _go_on_at(redis, queue, known)
            if leap:
                queue.least_next = queue.max_offset + LEAP
            queue.next_offset = max(queue.max_offset, queue.least_next)


async def measure(redis: RedisConnection, keys: Keys, queues: Iterable[Queue]) -> tuple[int, dict[str, int]]:
    """Bytes of memory that messages and key indexes take in Redis, by Redis' own estimate.

    Returns all of them, and those of the indexes by topic.
    """
    total = 0
    for some in _chunks(queue for queue in queues if queue.max_offset > queue.min_offset):
        sizes = await redis.call_many(("MEMORY", "USAGE", queue.key) for queue in some)
        for queue, size in zip(some, sizes, strict=True):
            queue.stored_bytes = int((size or 0) * _FRAME_BYTES_PER_STORED)
            total += size or 0
    places = [member.decode().partition(":") for member in await redis.call("SMEMBERS", keys.index_hours)]
    sizes = await redis.call_many(("MEMORY", "USAGE", keys.index(part, topic)) for part, _, topic in places)
    indexes: dict[str, int] = {}
    for (_, _, topic), size in zip(places, sizes, strict=True):
        indexes[topic] = indexes.get(topic, 0) + (size or 0)
    return total + sum(indexes.values()), indexes


async def _information(redis: RedisConnection, queues: list[Queue]) -> list[dict[bytes, Any]]:
    futures = [redis.call("XINFO", "STREAM", queue.key) for queue in queues]
    answers = []
    for future in futures:
        try:
            reply = await future
            answers.append(dict(zip(reply[::2], reply[1::2], strict=True)))
        except RedisError as error:
            if "no such key" not in str(error):
                raise
            answers.append({})
    return answers


def _fill(queue: Queue, information: dict[bytes, Any]) -> None:
    last = information.get(b"last-generated-id", b"0-0")
    first_entry, last_entry = information.get(b"first-entry"), information.get(b"last-entry")
    queue.max_offset = queue.next_offset = int(last.partition(b"-")[2])
    queue.min_offset = first_offset(first_entry) if first_entry else queue.max_offset
    if queue.max_offset > queue.min_offset:
        queue.largest_bytes = max(queue.largest_bytes, UNKNOWN_BYTES)
    queue.first_ms = store_timestamp(first_entry[1][1]) if first_entry else 0
    queue.last_ms = store_timestamp(last_entry[1][1]) if last_entry else 0
    queue.in_flight = 0
    queue.tail.clear()
    queue.tail_start = queue.max_offset


async def _go_on_at(redis: RedisConnection, queue: Queue, offset: int) -> None:
    lost = offset - queue.max_offset
    logger.error("Redis has lost the last %d messages of %s queue %d", lost, queue.topic, queue.queue_id)
    queue.max_offset = queue.next_offset = queue.tail_start = offset
    if not queue.first_ms:
        queue.min_offset = offset
    try:  # an entry that comes and goes leaves its id as the stream's last, which the next start reads
        for command in (("MULTI",), ("XADD", queue.key, f"0-{offset}", "m", ""), ("XDEL", queue.key, f"0-{offset}")):
            await redis.call(*command)
        await redis.call("EXEC")
    except RedisError as error:  # full memory or disk: the next message leaves its id there as well
        logger.warning("redis %s: %s", redis.name, error)


def _chunks(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    iterator = iter(items)
    while some := list(islice(iterator, _AT_ONCE)):
        yield some


async def mend_hash(redis: RedisConnection, key: str, wanted: Mapping[bytes, bytes]) -> None:
    """Make a hash equal to `wanted`, which nearly always it is already. Raises StoreUnavailable.

    What Redis refuses (full memory or disk) is logged: it serves consumers all the same.
    """
    table: list[bytes] = await redis.call("HGETALL", key)
    stored = dict(zip(table[::2], table[1::2], strict=True))
    missing = {name: value for name, value in wanted.items() if stored.get(name) != value}
    surplus = [name for name in stored if name not in wanted]
    if not missing and not surplus:
        return
    logger.warning("redis: %d fields of %s are written again, %d removed", len(missing), key, len(surplus))
    try:
        for some in _chunks(missing):
            await redis.call("HSET", key, *[word for name in some for word in (name, missing[name])])
        for some in _chunks(surplus):
            await redis.call("HDEL", key, *some)
    except RedisError as error:
        logger.warning("redis: %s cannot be mended: %s", key, error)
