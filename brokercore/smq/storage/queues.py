"""The queues of all accounts in Redis. Whatever changes a message is one script: after a crash it is done or not."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brokercore.policy.table import CHANGED, CHANGED_FIELD
from brokercore.server.errors import RedisError
from brokercore.server.storage.redis_connection import RedisConnection
from brokercore.smq.storage import keys
from brokercore.smq.wire.errors import Code, SmqError
from brokercore.smq.wire.messages import (
    NONCE_BYTES,
    Delivery,
    Draft,
    Place,
    Sent,
    message_id,
    read_handle,
    write_handle,
)
from brokercore.smq.wire.queues import LOGGING, RANGES, QueueState

_SCRIPTS = Path(__file__).parent / "lua"
_GONE = -1
_TOO_LARGE, _FULL, _ALL_FULL = -1, -2, -3
ALL_FULL = "The queues of all accounts together hold as much as this service may; try again later."


class Script:
    """One script of the folder `lua`, behind what all of them share, and what those of its folder share.

    The first argument of a noted one is what the audit trail is told when it changes something (`lua/_noted.lua`).
    """

    def __init__(self, name: str, *shared: str, noted: bool = False) -> None:
        own = _read(name)
        if noted:
            where = f"local STREAM, FIELD = '{CHANGED}', '{CHANGED_FIELD}'\n"
            own = where + _read("_noted").replace("--[[ the script ]]", own)
        self._text = "".join(map(_read, ("_head", *shared))) + own
        self._digest = hashlib.sha1(self._text.encode(), usedforsecurity=False).hexdigest()

    async def run(self, redis: RedisConnection, names: Sequence[str], *arguments: bytes | str | int) -> Any:
        """Run it. Raises RedisError and StoreUnavailable."""
        try:
            return await redis.call("EVALSHA", self._digest, len(names), *names, *arguments)
        except RedisError as error:
            if not str(error).startswith("NOSCRIPT"):
                raise
            return await redis.call("EVAL", self._text, len(names), *names, *arguments)


def _read(part: str) -> str:
    return (_SCRIPTS / f"{part}.lua").read_text(encoding="utf-8")


def epoch_ms() -> int:
    """The time, epoch ms."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Received:
    """What a receive gave, and when the next message becomes visible by itself (epoch ms; 0: none will)."""

    deliveries: tuple[Delivery, ...]
    due_ms: int
    polling_seconds: int
    """How long the queue lets a receive wait that does not say it."""


class Queues:
    """Reads and changes queues; `account` is the owner's ID, `clock` gives epoch ms. `note` is what the audit trail is
    told with a change (`Changed`, encoded; nothing: it is told nothing).

    `most_bytes` is what the messages of all accounts may take of Redis (0: any). Raises SmqError, RedisError and
    StoreUnavailable.
    """

    def __init__(self, redis: RedisConnection, clock: Callable[[], int] = epoch_ms, most_bytes: int = 0) -> None:
        self._redis, self._now, self.most_bytes = redis, clock, most_bytes
        self._create, self._change, self._remove = (Script(name, noted=True) for name in ("create", "change", "remove"))
        self._state, self._send, self._receive = Script("state"), Script("send"), Script("receive")
        self._peek, self._hide, self._delete = Script("peek"), Script("hide"), Script("delete")
        self._sweep, self._count = Script("sweep"), Script("count")

    # Queues

    async def create(
        self, account: str, name: str, attributes: Mapping[str, int], most: int = 0, *, note: bytes = b""
    ) -> bool:
        """Make a queue; False when it is there with the same attributes. `most` queues an account may have (0: any)."""
        words = [str(word) for pair in attributes.items() for word in pair]
        # Before the queue, so that no queue is there whose account the sweep does not know.
        await self._redis.call("SADD", keys.ACCOUNTS, account)
        made = await self._create.run(
            self._redis,
            keys.of_queue(account, name),
            note,
            name,
            os.urandom(8).hex().upper(),
            self._now() // 1000,
            most,
            *words,
        )
        if made == -1:
            raise SmqError(Code.QUEUE_ALREADY_EXIST, f"The queue {name} exists, with other attributes.")
        if made == -2:
            raise SmqError(Code.ACCESS_DENIED, f"The account has {most} queues, which is as many as it may have.")
        return bool(made)

    async def change(self, account: str, name: str, attributes: Mapping[str, int], *, note: bytes = b"") -> None:
        """Change attributes; what is not named stays."""
        words = [str(word) for pair in attributes.items() for word in pair]
        if not await self._change.run(self._redis, keys.of_queue(account, name), note, self._now() // 1000, *words):
            raise _missing(name)

    async def remove(self, account: str, name: str, *, note: bytes = b"") -> bool:
        """Remove a queue with all that is in it; False when there is none."""
        return bool(
            await self._remove.run(self._redis, keys.of_queue(account, name), note, name, keys.channel(account, name))
        )

    async def state(self, account: str, name: str) -> QueueState:
        """What a queue is and holds now."""
        answer = await self._state.run(self._redis, keys.of_queue(account, name), self._now())
        if answer is None:
            raise _missing(name)
        fields, active, hidden, delayed, oldest_ms = answer
        known = {field.decode(): value.decode() for field, value in zip(fields[::2], fields[1::2], strict=True)}
        return QueueState(
            name,
            {attribute: int(known[attribute]) for attribute in RANGES},
            known[LOGGING] == "1",
            int(known["created"]),
            int(known["modified"]),
            active,
            hidden,
            delayed,
            oldest_ms,
            int(known["number"]),
            int(known.get("received", 0)),
        )

    async def names(self, account: str, prefix: str, after: str, most: int) -> tuple[list[str], str]:
        """Names that begin with `prefix`, in order, behind `after`; and the name to go on behind, empty at the end."""
        return await page(self._redis, keys.names(account), prefix, after, most)

    async def accounts(self) -> list[str]:
        """Every account that has ever had a queue or a topic."""
        return [account.decode() for account in await self._redis.call("SMEMBERS", keys.ACCOUNTS)]

    async def count(self) -> tuple[int, int]:
        """What the messages of all accounts take of Redis, bytes, about, and how many they are; counted anew."""
        held, messages = await self._count.run(self._redis, [keys.ACCOUNTS, keys.LANES], self.most_bytes)
        return held, messages

    async def sweep(self, account: str, name: str) -> None:
        """Drop the messages that a queue has kept for as long as it keeps any: nobody may ask it for a long time."""
        await self._sweep.run(self._redis, keys.of_queue(account, name), self._now())

    # Messages

    async def send(
        self, account: str, name: str, drafts: Sequence[Draft], most_bytes: int = 0, most_messages: int = 0
    ) -> list[Sent | SmqError]:
        """Add messages; gives for each what it became. `most_…` is what the account's queues may hold (0: any)."""
        now, nonce = self._now(), os.urandom(NONCE_BYTES)
        words: list[bytes | str | int] = []
        for draft in drafts:
            words += draft.kept(now), len(draft.body), "" if draft.delay is None else draft.delay, draft.priority
        answer = await self._send.run(
            self._redis,
            keys.of_queue(account, name),
            now,
            keys.channel(account, name),
            most_bytes,
            most_messages,
            nonce,
            self.most_bytes,
            *words,
        )
        if answer is None:
            raise _missing(name)
        queue_id, *flat = answer
        pairs = zip(flat[::2], flat[1::2], strict=True)
        return [_sent(queue_id.decode(), draft, *pair, nonce) for draft, pair in zip(drafts, pairs, strict=True)]

    async def receive(self, account: str, name: str, most: int) -> Received:
        """Receive up to `most` messages; they are hidden for the queue's visibility timeout."""
        nonce = os.urandom(NONCE_BYTES)
        while True:
            now = self._now()
            answer = await self._receive.run(self._redis, keys.of_queue(account, name), now, most, nonce)
            if answer is None:
                raise _missing(name)
            packed_id, hidden_until, due_ms, polling_seconds, *flat = answer
            if flat or not 0 < due_ms <= now:
                break
        queue_id = packed_id.decode()
        found = tuple(
            Delivery(
                message_id(queue_id, Place.read(place)),
                kept,
                place[0],
                count,
                first_ms,
                write_handle(queue_id, place, nonce),
                hidden_until,
            )
            for place, kept, first_ms, count in _fours(flat)
        )
        return Received(found, due_ms, polling_seconds)

    async def peek(self, account: str, name: str, most: int) -> tuple[Delivery, ...]:
        """The messages that would be received next; nothing of them changes."""
        answer = await self._peek.run(self._redis, keys.of_queue(account, name), self._now(), most)
        if answer is None:
            raise _missing(name)
        queue_id, *flat = answer
        return tuple(
            Delivery(message_id(queue_id.decode(), Place.read(place)), kept, place[0], count, first_ms)
            for place, kept, first_ms, count in _fours(flat)
        )

    async def hide(self, account: str, name: str, handle: str, seconds: int) -> tuple[str, int]:
        """Hide a received message for so long from now on; its new handle, and when it is visible again (epoch ms)."""
        queue_id, place, nonce = read_handle(handle)
        renewed = os.urandom(NONCE_BYTES)
        until = await self._hide.run(
            self._redis,
            keys.of_queue(account, name),
            self._now(),
            queue_id,
            place,
            nonce,
            renewed,
            seconds,
            keys.channel(account, name),
        )
        if until is None:
            raise _missing(name)
        if until < 0:
            raise _refused_handle(until)
        return write_handle(queue_id, place, renewed), until

    async def delete(self, account: str, name: str, handles: Sequence[str]) -> list[tuple[str, SmqError]]:
        """Delete received messages; returns the handles that were refused, with the reason."""
        refused: list[tuple[str, SmqError]] = []
        valid: list[tuple[str, tuple[str, bytes, bytes]]] = []
        for handle in handles:
            try:
                valid.append((handle, read_handle(handle)))
            except SmqError as error:
                refused.append((handle, error))
        words = [word for _, parts in valid for word in parts]
        answer = await self._delete.run(self._redis, keys.of_queue(account, name), self._now(), *words)
        if answer is None:
            raise _missing(name)
        refused += [(handle, _refused_handle(why)) for (handle, _), why in zip(valid, answer, strict=True) if why < 0]
        return refused


async def page(redis: RedisConnection, key: str, prefix: str, after: str, most: int) -> tuple[list[str], str]:
    """Names in a sorted set that begin with `prefix`, behind `after`; and the one to go on behind, empty at the end."""
    first = f"({after}" if after >= prefix and after else f"[{prefix}"
    last = f"({prefix}\x7f" if prefix else "+"
    found = await redis.call("ZRANGE", key, first, last, "BYLEX", "LIMIT", 0, most + 1)
    names = [name.decode() for name in found]
    return names[:most], names[most - 1] if len(names) > most else ""


def _fours(flat: list[Any]) -> Iterator[tuple[bytes, bytes, int, int]]:
    return zip(flat[::4], flat[1::4], flat[2::4], flat[3::4], strict=True)


def _sent(queue_id: str, draft: Draft, number: int, is_delayed: int, nonce: bytes) -> Sent | SmqError:
    if number == _TOO_LARGE:
        return SmqError(
            Code.INVALID_ARGUMENT, f"The body has {len(draft.body)} bytes, more than the queue's MaximumMessageSize."
        )
    if number == _FULL:
        return SmqError(Code.ACCESS_DENIED, "The account's queues hold as many messages, or bytes, as they may.")
    if number == _ALL_FULL:
        return SmqError(Code.INTERNAL_ERROR, ALL_FULL)
    place = Place(draft.priority, number)
    handle = write_handle(queue_id, place.packed(), nonce) if is_delayed else ""
    return Sent(message_id(queue_id, place), draft.digest, handle)


def _missing(name: str) -> SmqError:
    return SmqError(Code.QUEUE_NOT_EXIST, f"The queue {name} does not exist.")


def _refused_handle(why: int) -> SmqError:
    if why == _GONE:
        return SmqError(Code.MESSAGE_NOT_EXIST, "The message is deleted, or the receipt handle has ended.")
    return SmqError(Code.RECEIPT_HANDLE_ERROR, "The receipt handle is of another queue.")
