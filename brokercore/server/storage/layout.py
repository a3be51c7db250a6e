"""Which layout of keys a store has: an older one is brought up to date, a newer one is refused.

| layout | what changed |
| --- | --- |
| 1 | what stores have that name none |
| 2 | an hour of the key index is a string of records, it was a sorted set; the name server's key-values are shared by \
all brokers under `gantry:kv`, they were each broker's own |
| 3 | half messages wait in a sorted set of their sender's account, they were all in one |
"""

from __future__ import annotations

import logging

from brokercore.protocol import properties as names
from brokercore.protocol.errors import ProtocolError
from brokercore.protocol.message import decode_stored
from brokercore.server.errors import StoreNewer
from brokercore.server.storage.keys import KEY_VALUES, Keys
from brokercore.server.storage.queue import split_physical
from brokercore.server.storage.redis_connection import RedisConnection

logger = logging.getLogger(__name__)

LAYOUT = 3
"""Raise it with every change after which an older broker would misread the store or this one an old store, and bring
the old one up to date below. A home of the last release before goes to tests/homes."""

_MEMBERS_AT_ONCE = 50_000
_HALVES_AT_ONCE = 200
_OFFSET_MASK = (1 << 40) - 1


async def bring_up_to_date(redis: RedisConnection, keys: Keys) -> None:
    """Make the store one of this release's layout; what is cut off on the way is done again by the next start.

    Raises StoreNewer, RedisError and StoreUnavailable.
    """
    stored: bytes | None = await redis.call("GET", keys.layout)
    if stored is None:
        is_new = not await redis.call("EXISTS", keys.last_queue, keys.topics)
        found = LAYOUT if is_new else 1
    else:
        found = int(stored)
    if found > LAYOUT:
        raise StoreNewer(
            f"its messages were written by a newer release (layout {found}; this one knows up to {LAYOUT}): "
            "start that release, or restore a backup of this one's"
        )
    if found < 2:
        await _append_the_index(redis, keys)
        await _share_key_values(redis, keys)
    if found < 3:
        await _part_half_messages(redis, keys)
    if stored is None or found < LAYOUT:
        await redis.call("SET", keys.layout, str(LAYOUT))


async def _append_the_index(redis: RedisConnection, keys: Keys) -> None:
    members: list[bytes] = await redis.call("SMEMBERS", keys.index_hours)
    parts = [member.decode().partition(":") for member in members]
    types = await redis.call_many(("TYPE", keys.index(part, topic)) for part, _, topic in parts)
    old = [keys.index(part, topic) for (part, _, topic), kind in zip(parts, types, strict=True) if kind == b"zset"]
    if old:
        logger.info("the key index of an older release is written anew: %d hours of topics", len(old))
    for key in old:
        await _append_one(redis, key)


async def _append_one(redis: RedisConnection, key: str) -> None:
    """Write a sorted set of records as a string, each queue's in the order of its messages, and put it in its place."""
    records: list[bytes] = []
    for start in range(0, int(await redis.call("ZCARD", key)), _MEMBERS_AT_ONCE):
        records += await redis.call("ZRANGE", key, start, start + _MEMBERS_AT_ONCE - 1)
    # The last eight bytes are a place: stream number and, in the lower 40 bits, the offset in it.
    records.sort(key=lambda record: int.from_bytes(record[-8:], "big") & _OFFSET_MASK)
    written = f"{key}:new"
    await redis.call("UNLINK", written)
    for start in range(0, len(records), _MEMBERS_AT_ONCE):
        await redis.call("APPEND", written, b"".join(records[start : start + _MEMBERS_AT_ONCE]))
    await redis.call("RENAME", written, key)


async def _part_half_messages(redis: RedisConnection, keys: Keys) -> None:
    """Those of no account, or that cannot be read, stay where all were."""
    places: list[bytes] = await redis.call("ZRANGE", keys.half, 0, -1, "WITHSCORES")
    times = list(zip(places[::2], places[1::2], strict=True))
    for start in range(0, len(times), _HALVES_AT_ONCE):
        some = times[start : start + _HALVES_AT_ONCE]
        parked = [split_physical(int.from_bytes(member, "big")) for member, _ in some]
        entries = await redis.call_many(
            ("XRANGE", keys.stream(number), f"0-{offset + 1}", f"0-{offset + 1}") for number, offset in parked
        )
        for (member, due), found in zip(some, entries, strict=True):
            account = _sender(found[0][1][1]) if found else ""
            if account:
                await redis.call_all(
                    [
                        ("SADD", keys.half_senders, account),
                        ("ZADD", keys.half_of(account), due, member),
                        ("ZREM", keys.half, member),
                    ]
                )


def _sender(frame: bytes) -> str:
    try:
        return decode_stored(frame)[0].properties.get(names.SENDER_ACCOUNT, "")
    except ProtocolError:
        return ""


async def _share_key_values(redis: RedisConnection, keys: Keys) -> None:
    table: list[bytes] = await redis.call("HGETALL", keys.old_key_values)
    for name, value in zip(table[::2], table[1::2], strict=True):
        await redis.call("HSETNX", KEY_VALUES, name, value)
    await redis.call("UNLINK", keys.old_key_values)
