"""Pulls: 11 and 361, with long polling (docs/operate/broker.md, "Pull")."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.errors import SubscriptionError
from brokercore.server.broker import Broker
from brokercore.server.connections.connection import MOST_WATCHED, Connection, refuse, respond
from brokercore.server.connections.fairness import Work
from brokercore.server.connections.headers import integer, pull_head, text
from brokercore.server.delivery.filtering import Sieve, Wanted, wanted_frames
from brokercore.server.errors import RedisError, Refusal, StoreUnavailable
from brokercore.server.handlers.offsets import commit
from brokercore.server.rights import permissions
from brokercore.server.rights.authentication import Caller
from brokercore.server.rights.rates import Rate
from brokercore.server.storage.queue import Queue
from brokercore.server.storage.topics import Topic

COMMIT, SUSPEND, SUBSCRIPTION = 0x1, 0x2, 0x4
"""sysFlag bits of a pull."""

MAX_MESSAGES = 32
MAX_BYTES = 256 << 10
MAX_SCANNED = 1000
"""Entries one pull looks at when a filter lets few of them through."""

MAX_SUSPEND_MS = 60_000

_FOUND, _NOT_FOUND, _AGAIN, _MOVED = 0, 19, 20, 21


class Pull:
    """One pull request: looked at when it arrives, and again whenever its queue got something."""

    __slots__ = (
        "begin", "broker", "bytes", "caller", "command", "connection", "count", "group", "offset", "pause", "queue",
        "rate", "reading", "suspend", "timer", "wanted",
    )  # fmt: skip

    def __init__(self, broker: Broker, connection: Connection, command: Command, caller: Caller, queue: Queue) -> None:
        ext = command.ext
        self.broker, self.connection, self.command, self.caller = broker, connection, command, caller
        self.group, self.queue = text(ext, "consumerGroup"), queue
        self.begin = self.offset = integer(ext, "queueOffset")
        self.count = max(1, min(integer(ext, "maxMsgNums", MAX_MESSAGES), MAX_MESSAGES))
        self.bytes = max(1, min(integer(ext, "maxMsgBytes", MAX_BYTES), MAX_BYTES))
        self.suspend = 0.0
        self.wanted: Wanted | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.pause: asyncio.TimerHandle | None = None
        """Runs while the instance has received what it may: then the pull looks again."""
        self.rate = receiving(broker, caller, queue.topic)
        self.reading = False

    def look(self) -> None:
        """Answer when there is something to say; otherwise wait on, or begin to."""
        if self.reading:
            return
        queue, offset, offsets = self.queue, self.offset, self.broker.offsets
        if queue.number not in self.broker.store.by_number:
            self._end()
            respond(self.connection, self.command, ResponseCode.TOPIC_NOT_EXIST, f"topic {queue.topic} was deleted")
            return
        reset = offsets.pending_reset(self.group, queue.topic, queue.queue_id)
        if reset is not None:
            offsets.clear_reset(self.group, queue.topic, queue.queue_id)
            self._answer(_MOVED, b"OFFSET_RESET", reset)
        elif offset >= queue.max_offset or offset < queue.min_offset:
            self._outside()
        elif self.rate is not None and (seconds := self.rate.seconds_to_wait()):
            self._hold_back(self.rate, seconds)
        else:
            count = self.count if self.wanted is None else MAX_SCANNED
            found = self.broker.store.hot(queue, offset, count) if self.connection.reads.is_free else None
            if found is not None:
                self._select(found)
            else:
                self.reading = True
                self.broker.spawn(self._read())

    def give_up(self) -> None:
        """The time is over: answer that nothing came."""
        if self.reading:
            self.suspend = 0.0  # what is read now is the answer, whatever it is
        elif self.pause is not None and self.rate is not None:
            self._refuse(self.rate.refusal())
        elif self.offset != self.begin:
            self._answer(_AGAIN, b"NO_MATCHED_MESSAGE", self.offset)
        else:
            self._answer(_NOT_FOUND, b"PULL_NOT_FOUND", self.offset)

    def review(self) -> bool:
        """Refuse it if a new request like it would be refused now; False when that was done."""
        if self.reading:
            return True
        try:
            permissions.check(self.connection, self.command, self.broker.security.current(self.caller))
            readable(self.broker, self.group, self.queue.topic)
        except Refusal as refusal:
            self._end()
            refuse(self.connection, self.command, refusal)
            return False
        return True

    def _hold_back(self, rate: Rate, seconds: float) -> None:
        """There are messages, and the instance has received what it may for so long: wait as a long poll does."""
        if self.pause is not None:
            return  # woken by another message
        if not (self.suspend and self._hold()):
            self._refuse(rate.refusal())
            return
        rate.held_back += 1
        self.pause = asyncio.get_running_loop().call_later(seconds, self._resume)

    def _resume(self) -> None:
        self.pause = None
        self.look()

    def _hold(self) -> bool:
        """Let it wait for its queue, if it does not yet; False when too much waits on its connection."""
        if self.timer is None:
            if len(self.connection.on_close) >= MOST_WATCHED:
                return False
            self.broker.waiting.hold(self, self.suspend)
            self.connection.on_close[self] = self._leave
        return True

    def _refuse(self, refusal: Refusal) -> None:
        self._end()
        refuse(self.connection, self.command, refusal)
        self.broker.refusals.note(self.connection, self.command, refusal)

    def _outside(self) -> None:
        """The offset is not one of a stored message."""
        queue, offset = self.queue, self.offset
        if offset == queue.max_offset:
            if self.suspend and self._hold():
                return
            if self.offset != self.begin:
                self._answer(_AGAIN, b"NO_MATCHED_MESSAGE", offset)
            else:
                remark = b"NO_MESSAGE_IN_QUEUE" if not queue.max_offset else b"OFFSET_OVERFLOW_ONE"
                self._answer(_NOT_FOUND, remark, offset)
        elif not queue.max_offset:
            self._answer(_MOVED, b"NO_MESSAGE_IN_QUEUE", 0)
        elif offset > queue.max_offset:
            self._answer(_MOVED, b"OFFSET_OVERFLOW_BADLY", queue.max_offset)
        else:
            self._answer(_MOVED, b"OFFSET_TOO_SMALL", queue.min_offset)

    async def _read(self) -> None:
        """The messages are not in the hot tail, or the client reads nothing now."""
        queue = self.queue
        count = self.count if self.wanted is None else MAX_SCANNED
        try:
            async with self.connection.reads:
                if not self.connection.is_open:
                    return
                found = await self.broker.store.read(queue, self.offset, count, self.bytes)
        except (StoreUnavailable, RedisError) as error:
            self._end()
            refusal = error if isinstance(error, StoreUnavailable) else StoreUnavailable(str(error))
            refuse(self.connection, self.command, refusal)
            return
        self.reading = False
        if not self.review():
            return
        if found:
            self._select(found)
        else:  # what is missing was dropped while it was read, or lies in a gap a failed write left
            self._answer(_AGAIN, b"NO_MATCHED_MESSAGE", max(queue.min_offset, min(self.offset + 1, queue.max_offset)))

    def _select(self, found: Sequence[tuple[int, bytes]]) -> None:
        if self.wanted is not None:
            self._sift(Sieve(self.wanted, found, self.offset, self.count, self.bytes))
            return
        frames: list[bytes] = []
        size, following = 0, self.offset
        for offset, frame in found:
            if frames and size + len(frame) > self.bytes:
                break
            frames.append(frame)
            size += len(frame)
            following = offset + 1
            if len(frames) >= self.count:
                break
        self._deliver(frames, size, following)

    def _sift(self, sieve: Sieve) -> None:
        """Answer with what the filter lets through, now or after some slices."""
        work = self.broker.pace.work(self.caller.account)
        if sieve.go_on(work):
            work.end()
            self._deliver(sieve.frames, sieve.size, sieve.following)
        else:
            self.reading = True
            self.broker.spawn(self._sift_on(sieve, work))

    async def _sift_on(self, sieve: Sieve, work: Work) -> None:
        async with self.connection.reads:
            while True:
                await work.rest()
                if not self.connection.is_open:
                    return
                if sieve.go_on(work):
                    break
            work.end()
        self.reading = False
        if self.review():
            self._deliver(sieve.frames, sieve.size, sieve.following)

    def _deliver(self, frames: list[bytes], size: int, following: int) -> None:
        if frames:
            self._found(frames, size, following)
        elif following >= self.queue.max_offset and self.suspend:
            self.offset = following
            self._outside()
        else:
            self._answer(_AGAIN, b"NO_MATCHED_MESSAGE", max(following, self.offset + 1))

    def _found(self, frames: list[bytes], size: int, following: int) -> None:
        queue, broker = self.queue, self.broker
        self._end()
        if self.rate is not None:
            self.rate.take(len(frames), time.monotonic())
        head = pull_head(self.command.opaque, _FOUND, b"FOUND", following, queue.min_offset, queue.max_offset, size)
        self.connection.write_frames(head, frames, size)
        broker.offsets.pulled(self.group, queue.topic, queue.queue_id, following)
        broker.statistics.handed_out(broker.settings.cluster_name, queue.topic, self.group, len(frames), size)

    def _answer(self, code: int, remark: bytes, following: int) -> None:
        self._end()
        queue = self.queue
        self.connection.write(
            pull_head(self.command.opaque, code, remark, following, queue.min_offset, queue.max_offset)
        )

    def _end(self) -> None:
        if self.timer is not None:
            self._leave()
            self.connection.on_close.pop(self, None)

    def _leave(self) -> None:
        if self.pause is not None:
            self.pause.cancel()
            self.pause = None
        self.broker.waiting.release_one(self)


def pull(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Command | None:
    """PULL_MESSAGE and LITE_PULL_MESSAGE."""
    ext = command.ext
    group, name, queue_id = text(ext, "consumerGroup"), text(ext, "topic"), integer(ext, "queueId")
    topic = readable(broker, group, name)
    if not 0 <= queue_id < len(topic.queues):
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            f"queue {queue_id} does not exist: topic {name} has {topic.config.read_queues} queues",
        )
    flags = integer(ext, "sysFlag")
    request = Pull(broker, connection, command, caller, topic.queues[queue_id])
    request.wanted = _subscription(broker, ext, group, name, flags)
    if flags & SUSPEND:
        request.suspend = wait_seconds(ext, "suspendTimeoutMillis", caller)
    if flags & COMMIT:
        commit(broker, caller, (group, name, queue_id), max(0, integer(ext, "commitOffset", 0)))
    request.look()
    return None


def readable(broker: Broker, group: str, name: str) -> Topic:
    """The topic, if this group may read it now. Raises Refusal."""
    config = broker.groups.get(group)
    if config is None:
        raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group [{group}] does not exist")
    if not config.consume_enable or broker.groups.is_forbidden(group, name):
        raise Refusal(ResponseCode.NO_PERMISSION, f"group {group} may not consume topic {name}: it is switched off")
    topic = broker.topics.get(name)
    if topic is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!")
    if not topic.readable:
        raise Refusal(ResponseCode.NO_PERMISSION, f"the topic {name} cannot be read from")
    return topic


def receiving(broker: Broker, caller: Caller, topic: str) -> Rate | None:
    """The rate at which the clients of the topic's instance may receive; None where there is no limit."""
    rates = broker.limits.rates.of(topic) if caller.account is not None else None
    return rates[1] if rates is not None else None


def wait_seconds(ext: dict[str, str], field: str, caller: Caller) -> float:
    """How long a request may wait: as it asks, in ms, and never beyond the end of a temporary AccessKey."""
    wanted = max(0, min(integer(ext, field, 0), MAX_SUSPEND_MS)) / 1000
    if caller.expires_ms is None:
        return wanted
    return max(0.0, min(wanted, caller.expires_ms / 1000 - time.time()))


def _subscription(broker: Broker, ext: dict[str, str], group: str, topic: str, flags: int) -> Wanted | None:
    """What the pull wants, None for everything: said in the request, or by the group's last heartbeat."""
    kind = ext.get("expressionType") or "TAG"
    if flags & SUBSCRIPTION:
        expression = ext.get("subscription")
    else:
        online = broker.clients.online(group)
        if online is None:
            raise Refusal(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's group info not exist")
        known = online.subscriptions.get(topic)
        if known is None:
            raise Refusal(ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the group {group} has not subscribed to topic {topic}")
        if known.version < integer(ext, "subVersion", 0):
            raise Refusal(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
        expression, kind = known.expression, known.expression_type
    try:
        return wanted_frames(kind, expression)
    except SubscriptionError as error:
        raise Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from error


HANDLERS = {RequestCode.PULL_MESSAGE: pull, RequestCode.LITE_PULL_MESSAGE: pull}
