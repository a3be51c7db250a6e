"""Transactional messages: half messages wait for commit or rollback, and their producers are asked when none comes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from contextlib import aclosing
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Any

from brokercore.names import CHECKED_TOO_OFTEN_TOPIC, HALF_TOPIC
from brokercore.protocol import properties as names
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.message import TRANSACTION_COMMIT, TRANSACTION_MASK, StoredMessage
from brokercore.protocol.properties import encode_properties
from brokercore.server.delivery.delayed_delivery import deliver_at, is_delayed
from brokercore.server.delivery.drafts import Draft
from brokercore.server.errors import RedisError, Refusal, StoreUnavailable
from brokercore.server.rights.permissions import PUBLISH
from brokercore.server.storage.index import message_keys
from brokercore.server.storage.parking import DISCARD, Parking, host_bytes, readable
from brokercore.server.storage.queue import Queue
from brokercore.server.storage.topics import TIMER_QUEUE, TopicTable

if TYPE_CHECKING:
    from brokercore.server.connections.clients import Client, ClientTable
    from brokercore.server.delivery.delayed_delivery import Timers
    from brokercore.server.rights.authentication import Caller, Security
    from brokercore.server.storage.store import Done, MessageStore

logger = logging.getLogger(__name__)

MAX_CHECKS = 15
"""After so many checks a half message is moved to TRANS_CHECK_MAX_TIME_TOPIC (transactionCheckMax)."""

_AT_ONCE = 200
"""Half messages that are looked at in one look, of all accounts together: they have turns."""

_LOOK_SECONDS = 1.0
_BROKEN_MS = 3_600_000
_MAX_IMMUNITY_SECONDS = 86_400 * 3


def is_of_sender(half: StoredMessage, caller: Caller) -> bool:
    """Whether the caller is of the account that sent a half message; True of one that does not say who did."""
    sender = half.properties.get(names.SENDER_ACCOUNT)
    return caller.is_system or not sender or sender == caller.tenant


def _shown(half: StoredMessage) -> dict[str, str]:
    """The properties that others than the broker see."""
    return {name: value for name, value in half.properties.items() if name != names.SENDER_ACCOUNT}


class Transactions:
    """Half messages of this broker. They and their times are in Redis; a restart forgets nothing."""

    def __init__(
        self, store: MessageStore, topics: TopicTable, clients: ClientTable, security: Security, timers: Timers
    ) -> None:
        self._store, self._topics, self._timers = store, topics, timers
        self._clients, self._security = clients, security
        self._keys = store.keys
        self._parkings: dict[str, Parking] = {}
        self._senders: deque[str] = deque([""])
        """Accounts that may have half messages; whose turn is next stands first."""
        self._known: set[str] = set()
        store.scripts.append(DISCARD)

    def prepare(self, draft: Draft, done: Done) -> tuple[Queue, int]:
        """Store a half message; `done` is called when it is safe or has failed. Returns where it lies.

        Raises Refusal, StoreFull and StoreUnavailable.
        """
        properties = dict(draft.properties)
        if not properties.get(names.PRODUCER_GROUP):
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, "a transactional message names its producer group in PGROUP")
        properties[names.REAL_TOPIC] = draft.topic.config.topic
        properties[names.REAL_QUEUE_ID] = str(draft.queue.queue_id)
        account = draft.connection.account
        properties[names.SENDER_ACCOUNT] = sender = account.uid if account is not None else ""
        until_ms = int(time.time() * 1000) + 1000 * self._immunity(properties)
        queue = self._queue(HALF_TOPIC)
        if sender not in self._known:
            self._meet(sender)
        return queue, self._parking(sender).park(
            queue,
            until_ms,
            draft.body,
            encode_properties(properties),
            done,
            topic=draft.topic.config.topic,
            **draft.fields,
        )

    async def waits(self, message: StoredMessage) -> bool:
        """True while a half message is neither committed nor rolled back. Raises StoreUnavailable."""
        return await self._parking_of(message).waits(message.physical_offset)

    async def commit(self, half: StoredMessage) -> None:
        """Deliver a half message. Raises Refusal when its topic is gone, StoreUnavailable."""
        topic = self._topics.get(half.properties.get(names.REAL_TOPIC, ""))
        if topic is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic {half.properties.get(names.REAL_TOPIC)} was deleted")
        number = half.properties.get(names.REAL_QUEUE_ID, "0")
        target = topic.queues[int(number) % len(topic.queues)] if number.isdecimal() else topic.queues[0]
        flags = (half.sys_flag & ~TRANSACTION_MASK) | TRANSACTION_COMMIT
        if is_delayed(half.properties) and await self._delay(half, flags):
            return
        await self._move(half, target, _shown(half), sys_flag=flags, prepared_transaction_offset=half.physical_offset)

    async def rollback(self, half: StoredMessage) -> None:
        """Throw a half message away. Raises StoreUnavailable."""
        moved: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._parking_of(half).discard(half.physical_offset, moved.set_result, message=half)
        await self._ended(half, moved)

    async def run(self) -> None:
        """Ask producers about half messages until cancelled."""
        is_loaded = False
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                if not is_loaded:
                    for sender in await self._store.reader.call("SMEMBERS", self._keys.half_senders):
                        self._add(sender.decode())
                    is_loaded = True
                await self._check_all()
            except (StoreUnavailable, RedisError) as error:
                logger.warning("transaction checks pause: %s", error)

    async def _check_all(self) -> None:
        due = await self._due(int(time.time() * 1000))
        left = dict(due)
        async with aclosing(self._store.in_pieces(list(left))) as pieces:
            async for frames in pieces:
                halves, broken = readable(frames)
                for half in halves:
                    try:
                        await self._check(half)
                    except (ValueError, ArithmeticError, LookupError):  # one message must not keep all others back
                        logger.exception("half message %d cannot be checked", half.physical_offset)
                        broken.append(half.physical_offset)
                for physical_offset in broken:
                    until_ms = int(time.time() * 1000) + _BROKEN_MS
                    await self._parking(left[physical_offset]).postpone(physical_offset, until_ms)
                for physical_offset in {half.physical_offset for half in halves} | set(broken):
                    left.pop(physical_offset, None)
        for physical_offset, sender in left.items():
            self._parking(sender).discard(physical_offset)

    async def _due(self, now_ms: int) -> list[tuple[int, str]]:
        """Half messages whose time has come, with their senders' accounts: as many of each as of any other, by turns.

        What some leave of the _AT_ONCE, others get. Raises StoreUnavailable and RedisError.
        """
        asked = list(islice(self._senders, _AT_ONCE))
        self._senders.rotate(-len(asked))
        found: dict[str, list[int]] = {}
        most = -(-_AT_ONCE // len(asked))
        while asked:
            places = await asyncio.gather(*[self._parking(sender).due(now_ms, most) for sender in asked])
            found |= zip(asked, places, strict=True)
            left = _AT_ONCE - sum(map(len, found.values()))
            asked = [sender for sender in asked if len(found[sender]) == most]
            if left <= 0 or not asked:
                break
            most += -(-left // len(asked))
        for sender in [sender for sender, places in found.items() if sender and not places]:
            await self._forget_if_done(sender)
        turns = zip_longest(*[[(one, sender) for one in places] for sender, places in found.items()])
        return list(islice((one for turn in turns for one in turn if one is not None), _AT_ONCE))

    async def _forget_if_done(self, sender: str) -> None:
        """Ask no more for an account of which nothing waits. One that sends meanwhile is met anew."""
        self._known.discard(sender)
        if await self._store.writer.call("ZCARD", self._keys.half_of(sender)):
            self._add(sender)
        elif sender not in self._known:
            self._senders.remove(sender)
            self._parkings.pop(sender, None)
            self._store.writer.submit_first("SREM", self._keys.half_senders, sender)

    def _meet(self, sender: str) -> None:
        """An account sends its first half message since the start: its name is in Redis before what it sends."""
        self._add(sender)
        if sender:
            self._store.writer.submit_first("SADD", self._keys.half_senders, sender)

    def _add(self, sender: str) -> None:
        self._known.add(sender)
        if sender not in self._senders:
            self._senders.append(sender)

    def _parking(self, sender: str) -> Parking:
        found = self._parkings.get(sender)
        if found is None:
            found = self._parkings[sender] = Parking(self._store, self._keys.half_of(sender))
        return found

    def _parking_of(self, half: StoredMessage) -> Parking:
        return self._parking(half.properties.get(names.SENDER_ACCOUNT, ""))

    async def _check(self, half: StoredMessage) -> None:
        writer, field = self._store.writer, str(half.physical_offset)
        checks = int(await writer.call("HGET", self._keys.half_checks, field) or 0)
        age_ms = time.time() * 1000 - half.store_timestamp
        if checks >= MAX_CHECKS or age_ms > self._store.settings.retention_hours * 3_600_000:
            logger.warning("half message %s was checked %d times and is given up", half.unique_id, checks)
            await self._move(half, self._queue(CHECKED_TOO_OFTEN_TOPIC), half.properties)
            return
        producer = self._producer(half)
        if producer is not None:
            ext, body = self._question(half)
            producer.connection.push(RequestCode.CHECK_TRANSACTION_STATE, ext, body)
            await writer.call("HINCRBY", self._keys.half_checks, field, 1)
        next_ms = int(time.time() * 1000) + 1000 * self._store.settings.transaction_check_seconds
        await self._parking_of(half).postpone(half.physical_offset, next_ms)

    def _producer(self, half: StoredMessage) -> Client | None:
        """Who is asked: the latest of the group that may publish the message. A group's name is no secret.

        And of the sender's account: whoever is let in to publish to another's topic is not told what others publish.
        """
        topic = half.properties.get(names.REAL_TOPIC, "")
        producers = self._clients.producers.get(half.properties.get(names.PRODUCER_GROUP, ""), {})
        return next((one for one in reversed(producers.values()) if self._may_publish(one, topic, half)), None)

    def _may_publish(self, producer: Client, topic: str, half: StoredMessage) -> bool:
        if producer.caller is None:
            return True
        try:
            caller = self._security.current(producer.caller)
            return is_of_sender(half, caller) and caller.may(PUBLISH, topic, producer.connection)
        except Refusal:
            return False  # its AccessKey is gone

    def _question(self, half: StoredMessage) -> tuple[dict[str, str], bytes]:
        """What a producer is asked: header fields, and the message under its real topic."""
        ext = {
            "bname": self._store.settings.broker_name,
            "commitLogOffset": str(half.physical_offset),
            "msgId": half.unique_id,
            "offsetMsgId": half.offset_message_id,
            "topic": HALF_TOPIC,
            "tranStateTableOffset": str(half.queue_offset),
            "transactionId": half.unique_id,
        }
        number = half.properties.get(names.REAL_QUEUE_ID, "0")
        shown = half.copy(
            properties=_shown(half),
            topic=half.properties.get(names.REAL_TOPIC, half.topic),
            queue_id=int(number) if number.isdecimal() else 0,
        )
        return ext, bytes(shown.encode())

    async def _delay(self, half: StoredMessage, flags: int) -> bool:
        """Park a committed message that asks for a later delivery; False when its time is over."""
        until_ms, level = deliver_at(half.properties, int(time.time() * 1000))
        if not until_ms:
            return False
        stored: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        fields: dict[str, Any] = {
            "flag": half.flag,
            "sys_flag": flags,
            "born_timestamp": half.born_timestamp,
            "born_host": host_bytes(half.born_host),
            "prepared_transaction_offset": half.physical_offset,
        }
        timers = self._timers
        queue = timers.queue(level - 1 if level else TIMER_QUEUE)
        timers.park(queue, until_ms, half.body, _shown(half), stored.set_result, fields=fields)
        if reason := await stored:
            raise StoreUnavailable(reason)
        await self.rollback(half)
        return True

    async def _move(self, half: StoredMessage, target: Queue, properties: dict[str, str], **fields: int) -> None:
        moved: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        keys = message_keys(properties)
        self._parking_of(half).move(half, target, moved.set_result, keys=keys, properties=properties, **fields)
        await self._ended(half, moved)

    async def _ended(self, half: StoredMessage, moved: asyncio.Future[bool]) -> None:
        if not await moved:
            raise StoreUnavailable("Redis did not take the end of the transaction")
        self._store.writer.send("HDEL", self._keys.half_checks, str(half.physical_offset))

    def _immunity(self, properties: dict[str, str]) -> int:
        """Seconds before the first check: as the message says, else as the broker is set."""
        wanted = properties.get(names.CHECK_IMMUNITY_TIME, "")
        if wanted.isascii() and wanted.isdecimal() and 0 < int(wanted) <= _MAX_IMMUNITY_SECONDS:
            return int(wanted)
        return self._store.settings.transaction_check_seconds

    def _queue(self, name: str) -> Queue:
        topic = self._topics.get(name)
        if topic is None:
            raise StoreUnavailable("the broker is starting")
        return topic.queues[0]
