"""The key index: per topic and hour one text of records, a key's hash and a message's place, in the order of arrival.

Writing is what happens all the time: appending a record costs Redis next to nothing, and 14 bytes. A search reads the
records of the hours it asks for, the newest first, piece by piece.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from functools import partial
from hashlib import blake2b
from typing import Any

from brokercore.protocol import properties as names
from brokercore.server.storage.keys import Keys
from brokercore.server.storage.redis_connection import RedisConnection

HOUR_MS = 3_600_000
PART_BYTES = 256 << 20
"""Size from which an hour of a topic goes on in another text: Redis takes 512 MiB at the most."""

PIECE_RECORDS = 16 << 10
"""Records that are read and looked through at once: less than a millisecond, so that others have their turn."""

MOST_KEYS = 64
"""Keys of a message that it is found by; each takes some 80 bytes of the store, however short it is."""

_HASH_BYTES = 6
_RECORD_BYTES = _HASH_BYTES + 8
_PIECE_BYTES = PIECE_RECORDS * _RECORD_BYTES


def message_keys(properties: Mapping[str, str]) -> list[str]:
    """What QUERY_MESSAGE finds a message by: its unique id and its keys, at most MOST_KEYS of them."""
    unique_id, keys = properties.get(names.UNIQUE_KEY), properties.get(names.KEYS)
    found = [unique_id] if unique_id else []
    if keys:
        found += keys.split(None, MOST_KEYS)[:MOST_KEYS]
    return found


def key_hash(key: str) -> bytes:
    """Six bytes of a key. Two keys may share them, so that what is found is compared with the key itself."""
    return blake2b(key.encode(), digest_size=_HASH_BYTES).digest()


def index_record(key: str, physical_offset: int) -> bytes:
    """What the index holds for one key of one message."""
    return key_hash(key) + physical_offset.to_bytes(8, "big")


class KeyIndex:
    """Gathers the records of a loop turn and writes them ahead of the messages they name."""

    def __init__(self, writer: RedisConnection, keys: Keys) -> None:
        self._writer, self._keys = writer, keys
        self._pending: dict[tuple[int, str], list[bytes]] = {}
        self._parts: dict[tuple[int, str], str] = {}
        self._searching = asyncio.Semaphore(1)
        writer.before_flush(self._write)

    def add_all(self, topic: str, keys: Iterable[Collection[str]], now_ms: int, physical_offset: int) -> None:
        """Let QUERY_MESSAGE find messages, the first of which lies at `physical_offset`, by the keys of each."""
        place = now_ms // HOUR_MS, topic
        records = self._pending.get(place)
        if records is None:
            records = self._pending[place] = []
        for number, own in enumerate(keys, physical_offset):
            position = number.to_bytes(8, "big")
            for key in own:
                records += (blake2b(key.encode(), digest_size=_HASH_BYTES).digest(), position)

    def key_of(self, topic: str, now_ms: int) -> str:
        """Where the records of a topic go at `now_ms`; it is registered, so that retention finds it."""
        return self._keys.index(self._part((now_ms // HOUR_MS, topic)), topic)

    def forget_hours(self) -> None:
        """Register every hour anew: Redis may have lost what was written last."""
        self._parts.clear()

    async def find(
        self, reader: RedisConnection, topic: str, key: str, begin_ms: int, end_ms: int
    ) -> AsyncIterator[list[int]]:
        """Physical offsets of messages that may have `key`, the newest first. Raises StoreUnavailable.

        One piece of the index is looked through at a time, whoever asks.
        """
        wanted, last = key_hash(key), -1
        parts = [part for part, name in await self._all(reader) if name == topic]
        hours = [part for part in parts if begin_ms // HOUR_MS <= _hour(part) <= end_ms // HOUR_MS]
        for part in sorted(hours, key=_order, reverse=True):
            text = self._keys.index(part, topic)
            size = int(await reader.call("STRLEN", text))
            for start in range((size - 1) // _PIECE_BYTES * _PIECE_BYTES, -1, -_PIECE_BYTES):
                async with self._searching:
                    piece = await reader.call("GETRANGE", text, start, start + _PIECE_BYTES - 1)
                    places = _places(piece, wanted)
                if places and places[0] == last:  # a message that has the key twice, across two pieces
                    del places[0]
                if places:
                    last = places[-1]
                    yield places

    async def drop(self, topic: str | None = None, before_ms: int | None = None) -> None:
        """Drop the index of a topic, or all hours that ended before `before_ms`. Raises StoreUnavailable."""
        for part, name in await self._all(self._writer):
            if name == topic or (before_ms is not None and (_hour(part) + 1) * HOUR_MS <= before_ms):
                self._parts.pop((_hour(part), name), None)
                self._writer.send("UNLINK", self._keys.index(part, name))
                await self._writer.call("SREM", self._keys.index_hours, f"{part}:{name}")

    async def _all(self, connection: RedisConnection) -> list[tuple[str, str]]:
        members: Iterable[bytes] = await connection.call("SMEMBERS", self._keys.index_hours)
        return [(part, topic) for part, _, topic in (member.decode().partition(":") for member in members)]

    def _part(self, place: tuple[int, str]) -> str:
        """The part of an hour that is written now: `<hour>`, and `<hour>.<number>` behind a full one."""
        return self._parts.get(place) or self._begin(place, str(place[0]))

    def _begin(self, place: tuple[int, str], part: str) -> str:
        self._parts[place] = part
        self._writer.submit_first("SADD", self._keys.index_hours, f"{part}:{place[1]}")
        return part

    def _write(self) -> None:
        if not self._pending:
            return
        for place, records in self._pending.items():
            part = self._part(place)
            text, added = self._keys.index(part, place[1]).encode(), b"".join(records)
            command = b"*3\r\n$6\r\nAPPEND\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(text), text, len(added), added)
            self._writer.submit_packed_first(command, partial(self._appended, place, part))
        self._pending = {}

    def _appended(self, place: tuple[int, str], part: str, reply: Any) -> None:
        if type(reply) is not int:
            self._writer.log_error(reply)
        elif reply >= PART_BYTES and self._parts.get(place) == part:
            hour, number = _order(part)
            self._begin(place, f"{hour}.{number + 1}")


def _places(piece: bytes, wanted: bytes) -> list[int]:
    """Places of the messages with this hash in some records, the last first; a message stands there once."""
    places: list[int] = []
    at = piece.find(wanted)
    while at >= 0:
        if at % _RECORD_BYTES:
            at = piece.find(wanted, at + 1)
            continue
        end = at + _RECORD_BYTES
        place = int.from_bytes(piece[at + _HASH_BYTES : end], "big")
        if not places or places[-1] != place:
            places.append(place)
        at = piece.find(wanted, end)
    return places[::-1]


def _order(part: str) -> tuple[int, int]:
    """Hour, counted from the epoch, and number of a part."""
    hour, _, number = part.partition(".")
    return int(hour), int(number or 0)


def _hour(part: str) -> int:
    return _order(part)[0]
