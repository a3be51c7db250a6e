"""The key index: per topic and hour one sorted set of (key hash, physical offset), found by ZRANGEBYLEX."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from brokercore.server.storage.keys import Keys
from brokercore.server.storage.redis_connection import RedisConnection

HOUR_MS = 3_600_000
_HASH_BYTES = 6
_ENTRIES_A_COMMAND = 500
_ENTRY = b"$1\r\n0\r\n$14\r\n%b%b\r\n"
"""Score and member of one entry as ZADD takes them: as many messages come, as often this is written."""


def key_hash(key: str) -> bytes:
    """Six bytes of a key. Two keys may share them, so that what is found is compared with the key itself."""
    return blake2b(key.encode(), digest_size=_HASH_BYTES).digest()


def index_member(key: str, physical_offset: int) -> bytes:
    """What the index holds for one key of one message."""
    return key_hash(key) + physical_offset.to_bytes(8, "big")


class KeyIndex:
    """Gathers the entries of a loop turn and writes them ahead of the messages they name."""

    def __init__(self, writer: RedisConnection, keys: Keys) -> None:
        self._writer, self._keys = writer, keys
        self._pending: dict[tuple[int, str], list[bytes]] = {}
        self._known: set[tuple[int, str]] = set()
        writer.before_flush(self._write)

    def add(self, topic: str, keys: Iterable[str], now_ms: int, physical_offset: int) -> None:
        """Let QUERY_MESSAGE find the message at `physical_offset` by each of `keys`."""
        place = now_ms // HOUR_MS, topic
        entries = self._pending.get(place)
        if entries is None:
            entries = self._pending[place] = []
        position = physical_offset.to_bytes(8, "big")
        for key in keys:
            entries.append(_ENTRY % (blake2b(key.encode(), digest_size=_HASH_BYTES).digest(), position))

    def key_of(self, topic: str, now_ms: int) -> str:
        """The sorted set of a topic for the hour of `now_ms`; it is registered, so that retention finds it."""
        place = now_ms // HOUR_MS, topic
        self._register(place)
        return self._keys.index(*place)

    def forget_hours(self) -> None:
        """Register every hour anew: Redis may have lost what was written last."""
        self._known.clear()

    async def find(self, reader: RedisConnection, topic: str, key: str, begin_ms: int, end_ms: int) -> list[int]:
        """Physical offsets of messages that may have `key`, newest hour first. Raises StoreUnavailable."""
        hours = [hour for hour, name in await self._hours(reader) if name == topic]
        wanted = [hour for hour in hours if begin_ms // HOUR_MS <= hour <= end_ms // HOUR_MS]
        low = key_hash(key)
        replies = await reader.call_many(
            ("ZRANGEBYLEX", self._keys.index(hour, topic), b"[" + low, b"[" + low + b"\xff" * 8)
            for hour in sorted(wanted, reverse=True)
        )
        return [int.from_bytes(member[_HASH_BYTES:], "big") for reply in replies for member in reversed(reply)]

    async def drop(self, topic: str | None = None, before_ms: int | None = None) -> None:
        """Drop the index of a topic, or all hours that ended before `before_ms`. Raises StoreUnavailable."""
        gone = [
            (hour, name)
            for hour, name in await self._hours(self._writer)
            if name == topic or (before_ms is not None and (hour + 1) * HOUR_MS <= before_ms)
        ]
        for hour, name in gone:
            self._known.discard((hour, name))
            self._writer.send("UNLINK", self._keys.index(hour, name))
            await self._writer.call("SREM", self._keys.index_hours, f"{hour}:{name}")

    async def _hours(self, connection: RedisConnection) -> list[tuple[int, str]]:
        members: Iterable[bytes] = await connection.call("SMEMBERS", self._keys.index_hours)
        places = (member.decode().partition(":") for member in members)
        return [(int(hour), topic) for hour, _, topic in places]

    def _register(self, place: tuple[int, str]) -> None:
        if place not in self._known:
            self._known.add(place)
            self._writer.submit_first("SADD", self._keys.index_hours, f"{place[0]}:{place[1]}")

    def _write(self) -> None:
        if not self._pending:
            return
        for place, entries in self._pending.items():
            self._register(place)
            key = self._keys.index(*place).encode()
            for start in range(0, len(entries), _ENTRIES_A_COMMAND):
                some = entries[start : start + _ENTRIES_A_COMMAND]
                head = b"*%d\r\n$4\r\nZADD\r\n$%d\r\n%b\r\n" % (2 + 2 * len(some), len(key), key)
                self._writer.submit_packed_first(head + b"".join(some))
        self._pending = {}
