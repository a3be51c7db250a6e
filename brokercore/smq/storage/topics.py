"""The topics of all accounts in Redis, and their subscriptions.

A publish is one script: when it is acknowledged, the message is in every subscribed queue, and stored for every push.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from brokercore.server.storage.redis_connection import RedisConnection
from brokercore.smq.storage import keys
from brokercore.smq.storage.pushes import LANE_ROOM, Lane, outcome, record
from brokercore.smq.storage.queues import ALL_FULL, Script, epoch_ms, page
from brokercore.smq.wire.errors import Code, SmqError
from brokercore.smq.wire.messages import NONCE_BYTES, Draft
from brokercore.smq.wire.notifications import Notice
from brokercore.smq.wire.queues import LOGGING
from brokercore.smq.wire.subscriptions import Format, PushResult, Subscription, SubscriptionState
from brokercore.smq.wire.topics import RANGES, Publication, TopicState

#: Subscriptions that a topic may have.
MAX_SUBSCRIPTIONS = 100
#: What may wait to be pushed to one subscriber; what comes on top of it is dropped. Notifications, and bytes of them.
MAX_WAITING, MAX_WAITING_BYTES = 10_000, 64 << 20
#: Reads of a topic that changed before the script ran, until this is given up: somebody changes it all the time.
_READS = 20
_CHANGED, _FULL, _ALL_FULL = -1, -2, -3
_COUNTERS = ("delivered", "failures", "dropped")


@dataclass(frozen=True, slots=True)
class Published:
    """What a publish became: the message's ID, the MD5 of its body, and how many notifications wait to be pushed."""

    id: str
    digest: bytes
    waiting: int


@dataclass(frozen=True, slots=True)
class _Topic:
    """A topic as a publish reads it."""

    id: str
    stamp: str
    most_bytes: int
    subscriptions: Mapping[str, Subscription]


class Topics:
    """Reads and changes topics; `account` is the owner's ID, `clock` gives epoch ms, `note` is as for queues.

    `most_bytes` is as for queues. Raises SmqError, RedisError and StoreUnavailable.
    """

    def __init__(self, redis: RedisConnection, clock: Callable[[], int] = epoch_ms, most_bytes: int = 0) -> None:
        self._redis, self._now, self._most_bytes = redis, clock, most_bytes
        self._create, self._change, self._remove = (
            _script(name, noted=True) for name in ("create", "change", "remove")
        )
        self._subscribe, self._resubscribe, self._unsubscribe = (
            _script(name, noted=True) for name in ("subscribe", "resubscribe", "unsubscribe")
        )
        self._publish = _script("publish")

    # Topics

    async def create(
        self, account: str, name: str, attributes: Mapping[str, int], most: int = 0, *, note: bytes = b""
    ) -> bool:
        """Make a topic; False when it is there with the same attributes. `most` topics an account may have (0: any)."""
        words = [str(word) for pair in attributes.items() for word in pair]
        own = [*keys.of_topic(account, name), keys.topics(account)]
        # Before the topic, so that what waits to be pushed is counted (`Queues.count`).
        await self._redis.call("SADD", keys.ACCOUNTS, account)
        made = await self._create.run(self._redis, own, note, name, _unique(), self._now() // 1000, most, *words)
        if made == -1:
            raise SmqError(Code.TOPIC_ALREADY_EXIST, f"The topic {name} exists, with other attributes.")
        if made == -2:
            raise SmqError(Code.ACCESS_DENIED, f"The account has {most} topics, which is as many as it may have.")
        return bool(made)

    async def change(self, account: str, name: str, attributes: Mapping[str, int], *, note: bytes = b"") -> None:
        """Change attributes; what is not named stays."""
        words = [str(word) for pair in attributes.items() for word in pair]
        own = keys.of_topic(account, name)
        if not await self._change.run(self._redis, own, note, _unique(), self._now() // 1000, *words):
            raise _missing(name)

    async def remove(self, account: str, name: str, *, note: bytes = b"") -> bool:
        """Remove a topic, its subscriptions, and what they wait for; False when there is no such topic."""
        for _ in range(_READS):
            try:
                topic = await self._read(account, name)
            except SmqError:
                return False
            lanes = [Lane(account, name, subscription) for subscription in topic.subscriptions]
            own = [*keys.of_topic(account, name), keys.topics(account)]
            own += [key for lane in lanes for key in keys.of_lane(*lane)]
            words = [word for lane in lanes for word in (lane.text, lane.subscription)]
            removed = await self._remove.run(self._redis, own, note, name, topic.stamp, *words)
            if removed != _CHANGED:
                return bool(removed)
        raise _changing(name)

    async def state(self, account: str, name: str) -> TopicState:
        """What a topic is."""
        topic, subscriptions, *_ = keys.of_topic(account, name)
        fields, names = await self._redis.call_many([("HGETALL", topic), ("HKEYS", subscriptions)])
        if not fields:
            raise _missing(name)
        known = _texts(fields)
        counts: list[int] = []
        if names:
            bodies = [keys.of_lane(account, name, one.decode())[2] for one in names]
            counts = await self._redis.call_many([("HLEN", key) for key in bodies])
        return TopicState(
            name,
            {attribute: int(known[attribute]) for attribute in RANGES},
            known[LOGGING] == "1",
            int(known["created"]),
            int(known["modified"]),
            sum(counts),
        )

    async def names(self, account: str, prefix: str, after: str, most: int) -> tuple[list[str], str]:
        """Names that begin with `prefix`, in order, behind `after`; and the name to go on behind, empty at the end."""
        return await page(self._redis, keys.topics(account), prefix, after, most)

    # Subscriptions

    async def subscribe(self, account: str, topic: str, name: str, wanted: Subscription, *, note: bytes = b"") -> bool:
        """Subscribe; False when the same subscription is there."""
        kept = orjson.dumps(wanted.kept())
        made = await self._subscribe.run(
            self._redis, keys.of_topic(account, topic), note, name, kept, _unique(), MAX_SUBSCRIPTIONS
        )
        if made is None:
            raise _missing(topic)
        if made == -1:
            raise SmqError(Code.SUBSCRIPTION_ALREADY_EXIST, f"The subscription {name} exists, with other attributes.")
        if made == -2:
            raise SmqError(
                Code.ACCESS_DENIED, f"The topic {topic} has {MAX_SUBSCRIPTIONS} subscriptions, as many as it may have."
            )
        return bool(made)

    async def resubscribe(
        self, account: str, topic: str, name: str, changes: Mapping[str, str], *, note: bytes = b""
    ) -> None:
        """Change a subscription's strategy or filter; what is not named stays."""
        words = [word for pair in changes.items() for word in pair]
        own = keys.of_topic(account, topic)
        changed = await self._resubscribe.run(self._redis, own, note, name, _unique(), self._now() // 1000, *words)
        if changed is None:
            raise _missing(topic)
        if not changed:
            raise _unsubscribed(topic, name)

    async def subscription(self, account: str, topic: str, name: str) -> SubscriptionState:
        """A subscription, and what became of its notifications."""
        own, subscriptions, *_ = keys.of_topic(account, topic)
        exists, kept = await self._redis.call_many([("EXISTS", own), ("HGET", subscriptions, name)])
        if not exists:
            raise _missing(topic)
        if kept is None:
            raise _unsubscribed(topic, name)
        (state,) = await self._states(account, topic, {name: Subscription.read(orjson.loads(kept))})
        return state

    async def subscriptions(
        self, account: str, topic: str, prefix: str, after: str, most: int
    ) -> tuple[list[SubscriptionState], str]:
        """Subscriptions in order of their names, as `names` gives topics, and what became of their notifications."""
        found = (await self._read(account, topic)).subscriptions
        names = sorted(name for name in found if name.startswith(prefix) and name > after)
        marker = names[most - 1] if len(names) > most else ""
        return await self._states(account, topic, {name: found[name] for name in names[:most]}), marker

    async def _states(
        self, account: str, topic: str, subscriptions: Mapping[str, Subscription]
    ) -> list[SubscriptionState]:
        results = keys.of_topic(account, topic)[2]
        commands: list[tuple[str, ...]] = []
        for name in subscriptions:
            commands.append(("HMGET", results, *(f"{name}:{counter}" for counter in (*_COUNTERS, "last"))))
            commands.append(("HLEN", keys.of_lane(account, topic, name)[2]))
        replies = iter(await self._redis.call_many(commands))
        states = []
        for name, subscription in subscriptions.items():
            (*counts, last), waiting = next(replies), next(replies)
            last_ms, status, error = orjson.loads(last) if last else (0, 0, "")
            delivered, failures, dropped = (int(count or 0) for count in counts)
            result = PushResult(last_ms, status, error, delivered, failures, dropped, waiting)
            states.append(SubscriptionState(account, topic, name, subscription, result))
        return states

    async def unsubscribe(self, account: str, topic: str, name: str, *, note: bytes = b"") -> bool:
        """End a subscription, and what it waits for; False when there is none."""
        lane = Lane(account, topic, name)
        own = [*keys.of_topic(account, topic), *keys.of_lane(*lane)]
        ended = await self._unsubscribe.run(self._redis, own, note, name, lane.text, _unique())
        if ended is None:
            raise _missing(topic)
        return bool(ended)

    # Messages

    async def publish(
        self, account: str, name: str, publication: Publication, most_bytes: int = 0, most_messages: int = 0
    ) -> Published:
        """Bring a message to all subscribers that want it. `most_…` is what the account may hold (0: any)."""
        for _ in range(_READS):
            topic = await self._read(account, name)
            if len(publication.body) > topic.most_bytes:
                raise SmqError(
                    Code.INVALID_ARGUMENT,
                    f"The body has {len(publication.body)} bytes, more than the topic's MaximumMessageSize.",
                )
            now = self._now()
            notice = Notice(account, name, f"{topic.id}-{_unique()}", now, publication)
            takers = {one: kept for one, kept in topic.subscriptions.items() if kept.takes(publication.tag)}
            own = keys.of_topic(account, name)
            words: list[bytes | str | int] = []
            for subscription, kept in takers.items():
                if kept.queue:
                    own += keys.into_queue(account, kept.queue)
                else:
                    own += keys.of_lane(account, name, subscription)
                words += _words(notice, subscription, kept)
                await asyncio.sleep(0)  # others have their turn: all of it may take a second
            waiting = await self._publish.run(
                self._redis,
                own,
                now,
                topic.stamp,
                most_bytes,
                most_messages,
                len(publication.body),
                notice.message_id,
                os.urandom(NONCE_BYTES),
                MAX_WAITING,
                MAX_WAITING_BYTES,
                LANE_ROOM,
                self._most_bytes,
                *words,
            )
            if waiting is None:
                raise _missing(name)
            if waiting == _FULL:
                raise SmqError(Code.ACCESS_DENIED, "The account's queues and notifications hold as much as they may.")
            if waiting == _ALL_FULL:
                raise SmqError(Code.INTERNAL_ERROR, ALL_FULL)
            if waiting != _CHANGED:
                return Published(notice.message_id, notice.digest, waiting)
        raise _changing(name)

    async def _read(self, account: str, name: str) -> _Topic:
        own, subscriptions, *_ = keys.of_topic(account, name)
        (identity, stamp, most), kept = await self._redis.call_many(
            [("HMGET", own, "id", "stamp", "MaximumMessageSize"), ("HGETALL", subscriptions)]
        )
        if identity is None:
            raise _missing(name)
        found = {one: Subscription.read(orjson.loads(text)) for one, text in _texts(kept).items()}
        return _Topic(identity.decode(), stamp.decode(), int(most), found)

    # The account

    async def bucket(self, account: str) -> str:
        """The bucket that the account named for logs; empty without one."""
        found = await self._redis.call("HGET", keys.held(account), "LoggingBucket")
        return (found or b"").decode()

    async def set_bucket(self, account: str, bucket: str) -> None:
        """Name a bucket for logs."""
        await self._redis.call("HSET", keys.held(account), "LoggingBucket", bucket)

    async def order(self, account: str) -> str:
        """The number under which the account has the service: the same at each call."""
        _, order = await self._redis.call_many(
            [("HSETNX", keys.held(account), "order", _unique()), ("HGET", keys.held(account), "order")]
        )
        return str(order.decode())


def _script(name: str, *, noted: bool = False) -> Script:
    return Script(f"topics/{name}", "topics/_head", noted=noted)


def _words(notice: Notice, name: str, subscription: Subscription) -> list[bytes | str | int]:
    """What the script of a publish is told of one subscriber."""
    content = notice.content(name, subscription.format)
    now = notice.published_ms
    if queue := subscription.queue:
        kept = Draft(content, extra=notice.publication.extra).kept(now)
        return [
            1,
            name,
            keys.channel(notice.account, queue),
            kept,
            outcome(now, 201),
            outcome(now, 404, f"The queue {queue} does not exist."),
            outcome(now, 400, f"The message is larger than the MaximumMessageSize of the queue {queue}."),
        ]
    headers = notice.headers(name) if subscription.format is Format.SIMPLIFIED else {}
    full = f"{MAX_WAITING} notifications, or {MAX_WAITING_BYTES >> 20} MiB of them, wait for this receiver already."
    lane = Lane(notice.account, notice.topic, name)
    return [0, name, lane.text, record(content, headers), "", outcome(now, 0, full), ""]


def _unique() -> str:
    return os.urandom(8).hex().upper()


def _texts(flat: list[Any]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in zip(flat[::2], flat[1::2], strict=True)}


def _missing(name: str) -> SmqError:
    return SmqError(Code.TOPIC_NOT_EXIST, f"The topic {name} does not exist.")


def _unsubscribed(topic: str, name: str) -> SmqError:
    return SmqError(Code.SUBSCRIPTION_NOT_EXIST, f"The topic {topic} has no subscription {name}.")


def _changing(name: str) -> SmqError:
    return SmqError(Code.INTERNAL_ERROR, f"The topic {name} is changed all the time; try again.")
