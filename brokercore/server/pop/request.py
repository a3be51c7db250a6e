"""One POP: takes what is visible from the queues of a topic, or waits until there is something."""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from brokercore.protocol.message import decode_stored
from brokercore.server.delivery.dead_letters import bury, prepare
from brokercore.server.delivery.filtering import Wanted
from brokercore.server.errors import RedisError, Refusal, StoreUnavailable
from brokercore.server.pop.in_flight import QueueState
from brokercore.server.rights.limits import LimitReached
from brokercore.server.storage.offsets import Place
from brokercore.server.storage.queue import Queue
from brokercore.server.storage.topics import Topic

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from brokercore.server.broker import Broker
    from brokercore.server.connections.fairness import Reads
    from brokercore.server.rights.account import Account
    from brokercore.server.rights.rates import Rate

MAX_BYTES = 256 << 10
"""Bytes of one answer; the first message is given whatever its size."""

MAX_SCANNED = 1000

_BURIED_AT_ONCE = 32
"""Messages that one look at a queue may find to be gone, or to be dead letters, beside those that it gives out."""

_RECONSUME_AT = 72
"""Where a stored frame has its count of earlier deliveries, as four bytes."""

_QUEUE_OFFSET_AT = 20
"""Where a stored frame has its offset in its queue, as eight bytes."""

_turns = itertools.count()
_Found = TypeVar("_Found")


class Popped(NamedTuple):
    """One message that was given out."""

    queue_id: int
    offset: int
    frame: bytes


@dataclass(slots=True)
class _Answer:
    """What one pop has collected so far."""

    room: int
    size: int = 0
    messages: list[Popped] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return len(self.messages) >= self.room or self.size >= MAX_BYTES

    def add(self, queue: Queue, offset: int, frame: bytes) -> None:
        self.messages.append(Popped(queue.queue_id, offset, frame))
        self.size += len(frame)


@dataclass(eq=False)
class PopRequest:
    """What a group wants of a topic's queues. While it waits, a message, a time or the broker's end wakes it."""

    broker: Broker
    reads: Reads
    group: str
    topic: Topic
    queues: list[Queue]
    count: int
    invisible_ms: int
    wanted: Wanted | None
    ordered: bool
    from_end: bool
    check: Callable[[], None]
    """Raises Refusal when a new request like this one would be refused now."""

    account: Account | None = None
    rate: Rate | None = None
    """How fast clients of the topic's instance may receive; None where there is no limit."""
    popped_ms: int = 0

    def __post_init__(self) -> None:
        self._woken = asyncio.Event()
        self._over = False
        self._held = 0.0
        """How long the instance could receive nothing when there was something at the last look, seconds."""
        self._refusal: Refusal | None = None
        self._passed: list[QueueState] = []
        """States of queues from which another request was taking when this one looked."""
        self._work = self.broker.pace.work(self.account)

    async def run(self, wait_seconds: float) -> list[Popped]:
        """Messages that are in flight for this request now; none when the time is over. Raises Refusal."""
        found = await self._until(self._collect_in_time, wait_seconds)
        if not found and self._held and self.rate is not None:
            raise self.rate.refusal()
        self.received(len(found))
        return found

    def received(self, messages: int) -> None:
        """So many messages go to the client."""
        if self.rate is not None:
            self.rate.take(messages, time.monotonic())

    async def wait_for_message(self, wait_seconds: float) -> bool:
        """Whether something is visible, waiting for it so long. Nothing is taken. Raises Refusal."""
        return await self._until(self.has_messages, wait_seconds)

    async def collect(self) -> list[Popped]:
        """Take what is visible now. Raises StoreUnavailable."""
        self.popped_ms = int(time.time() * 1000)  # of all messages of the answer: their receipt handles name it
        answer = _Answer(self.count)
        self._passed.clear()
        turn = next(_turns) % len(self.queues)
        for queue in self.queues[turn:] + self.queues[:turn]:
            if self._work.is_over:
                await self._work.rest()
            place, state = self._place(queue), self._state(queue)
            if state is None:
                first = self._first(queue, keep=True)
                if first >= queue.max_offset:
                    continue
                state = self.broker.flights.begin(place, first)
            if state.busy:
                self._passed.append(state)
                continue
            state.busy = True
            try:
                await self._claim_from(queue, state, answer)
            except (StoreUnavailable, RedisError, LimitReached):
                if not answer.messages:
                    raise
                break  # what other queues gave is in flight for this request
            finally:
                state.busy = False
                self.broker.flights.end(place, state)
                if queue.waiters and state.next_offset < queue.max_offset:
                    self.broker.waiting.wake(queue)  # who came meanwhile has passed it
            if answer.is_full:
                break
        return answer.messages

    async def look(self) -> list[Popped]:
        """What a pop would take now; nothing is taken. Raises StoreUnavailable."""
        self.popped_ms = int(time.time() * 1000)
        answer = _Answer(self.count)
        for queue in self.queues:
            if self._work.is_over:
                await self._work.rest()
            state = self._state(queue)
            due = [queue.base + offset for offset in state.due(self.popped_ms, self.count)] if state else []
            for frame in await self.broker.store.messages_at(due):
                offset = int.from_bytes(frame[_QUEUE_OFFSET_AT : _QUEUE_OFFSET_AT + 8], "big")
                if not answer.is_full:
                    answer.add(queue, offset, frame)
            if not answer.is_full:
                await self._new(queue, state.next_offset if state else self._first(queue), answer, [])
        return answer.messages

    async def has_messages(self) -> bool:
        """Whether something is visible now, as far as is known without reading."""
        now = int(time.time() * 1000)
        for queue in self.queues:
            if self._work.is_over:
                await self._work.rest()
            state = self._state(queue)
            if self.ordered and state and not state.are_all_due(now):
                continue
            first = state.next_offset if state else self._first(queue, keep=True)
            if first < queue.max_offset or (state and state.is_due(now)):
                return True
        return False

    def put_back(self, found: list[Popped]) -> None:
        """Nobody took the answer: let others have its messages now, not after the invisible time."""
        for popped in found:
            state = self.broker.flights.find(self._place(self.topic.queues[popped.queue_id]))
            flight = state.flights.get(popped.offset) if state else None
            if state is not None and flight is not None and flight.popped_ms == self.popped_ms:
                state.end_at(popped.offset, self.popped_ms)
        for queue in self.queues:
            self.broker.waiting.wake(queue)

    def rest(self) -> int:
        """Messages behind those that were given out."""
        count = 0
        for queue in self.queues:
            state = self._state(queue)
            count += queue.max_offset - (state.next_offset if state else self._first(queue))
        return count

    def give_up(self) -> None:
        """The broker closes, or the time is over."""
        self._over = True
        self._woken.set()

    def review(self) -> bool:
        """End it if it would be refused now; False when that was done."""
        try:
            self.check()
        except Refusal as refusal:
            self._refusal = refusal
            self._woken.set()
            return False
        return True

    def _place(self, queue: Queue) -> Place:
        return self.group, queue.topic, queue.queue_id

    def _state(self, queue: Queue) -> QueueState | None:
        return self.broker.flights.current(self._place(queue), queue.min_offset)

    def _first(self, queue: Queue, *, keep: bool = False) -> int:
        """Where the group goes on in a queue of which it has no state; to `keep` it says where the end is now.

        Where a group begins that never took a message, the first one is found anew each time. The end is another one
        the next time, so that it is kept as the committed offset. Raises LimitReached.
        """
        offsets, place = self.broker.offsets, self._place(queue)
        known = offsets.get(*place)
        if known is not None:
            return max(known, queue.min_offset)
        if not self.from_end:
            return queue.min_offset
        if keep:
            self.broker.limits.add_positions(self.account, self.group, 1)
            offsets.commit(*place, queue.max_offset)
        return queue.max_offset

    async def _claim_from(self, queue: Queue, state: QueueState, answer: _Answer) -> None:
        """Messages that are visible again first; an ordered queue gives nothing while something is in flight."""
        now = self.popped_ms
        if self.ordered and not state.are_all_due(now):
            return
        due = state.due(now, answer.room - len(answer.messages) + _BURIED_AT_ONCE)
        taken: list[tuple[int, int]] = []
        before = len(answer.messages)
        for offset in due:
            if answer.is_full:
                break
            frame = await self._again(queue, state, offset)
            if frame is not None:
                attempts = state.flights[offset].attempts + 1
                answer.add(queue, offset, _with_attempts(frame, attempts))
                taken.append((offset, attempts))
        next_offset = state.next_offset
        if not answer.is_full and not (self.ordered and state.flights) and self._has_room(queue, next_offset, answer):
            next_offset = await self._new(queue, next_offset, answer, taken)
        if taken or next_offset != state.next_offset:
            place = self._place(queue)
            try:
                if self.broker.offsets.get(*place) is None:
                    self.broker.limits.add_positions(self.account, self.group, 1)
                visible_ms = now + self.invisible_ms
                await self.broker.flights.claim(
                    place,
                    state,
                    taken,
                    next_offset=next_offset,
                    now_ms=now,
                    visible_ms=visible_ms,
                    ordered=self.ordered,
                )
            except (StoreUnavailable, RedisError, LimitReached):
                del answer.messages[before:]
                raise

    def _has_room(self, queue: Queue, offset: int, answer: _Answer) -> bool:
        """Whether messages from `offset` on may be in flight too; the answer takes no more. Raises LimitReached."""
        if offset >= queue.max_offset:
            return False
        room = self.broker.limits.room_in_flight(self.account, self.group)
        if not room and not answer.messages:
            raise self.broker.limits.too_many_in_flight(self.group)
        answer.room = min(answer.room, len(answer.messages) + room)
        return room > 0

    async def _again(self, queue: Queue, state: QueueState, offset: int) -> bytes | None:
        """The frame of a message that is visible again; None when it is gone, or now a dead letter."""
        frame = await self.broker.store.message_at(queue.base + offset)
        flight = state.flights.get(offset)
        if flight is None:
            return None  # it was acknowledged, and what it came again with has become a dead letter
        config = self.broker.groups.get(self.group)
        limit = config.retry_max_times if config else 0
        if frame is not None and (flight.acknowledged or flight.attempts < limit):
            return frame
        if frame is not None:
            message = decode_stored(frame)[0]
            message.reconsume_times = flight.attempts
            prepare(message)
            await bury(self.broker, message, self.group)
        self.broker.flights.drop(self._place(queue), state, [offset])
        return None

    async def _new(self, queue: Queue, offset: int, answer: _Answer, taken: list[tuple[int, int]]) -> int:
        """Add messages that were never given out, and tell the offset behind the last one that was looked at."""
        if offset >= queue.max_offset:
            return offset
        wanted = self.wanted
        count = answer.room - len(answer.messages) if wanted is None else MAX_SCANNED
        for number, frame in await self.broker.store.read(queue, offset, count, MAX_BYTES):
            if wanted is None or await self._passes(wanted, frame):
                if answer.messages and answer.size + len(frame) > MAX_BYTES:
                    return offset
                answer.add(queue, number, frame)
                taken.append((number, 0))
            offset = number + 1
            if answer.is_full:
                break
        return offset

    async def _passes(self, wanted: Wanted, frame: bytes) -> bool:
        """Whether a filter lets a frame through, found out in as many slices as that takes."""
        while True:
            if self._work.is_over:
                await self._work.rest()
            passes = wanted.passes(frame, self._work)
            if passes is not None:
                return passes
            await self._work.rest()

    async def _collect_in_time(self) -> list[Popped]:
        """As `collect`, but nothing while the instance has received what it may."""
        seconds = self.rate.seconds_to_wait() if self.rate is not None else 0.0
        if self.rate is not None and seconds and await self.has_messages():
            self.rate.held_back += not self._held
            self._held = seconds
            self._passed.clear()
            return []
        self._held = 0.0
        return await self.collect()

    async def _until(self, look: Callable[[], Awaitable[_Found]], wait_seconds: float) -> _Found:
        """What `look` finds, at the latest when the time is over. Raises Refusal."""
        deadline = time.monotonic() + wait_seconds
        while True:
            self._woken.clear()
            async with self.reads:
                found = await look()
            self._work.end()
            left = deadline - time.monotonic()
            if found or self._over or left <= 0:
                return found
            if all(state.busy for state in self._passed):
                await self._wait(left)
            if self._refusal is not None:
                raise self._refusal

    async def _wait(self, seconds: float) -> None:
        """Until a message comes, one is visible again, the instance may receive again, or the time is over."""
        now = int(time.time() * 1000)
        states = [self.broker.flights.find(self._place(queue)) for queue in self.queues]
        times = [state.next_due_ms(now, ordered=self.ordered) for state in states if state is not None]
        due = min((moment for moment in times if moment is not None), default=None)
        if self._held:
            seconds = min(seconds, self._held)
        elif due is not None:
            seconds = min(seconds, max(0.001, (due - now) / 1000))
        self.broker.waiting.watch(self)
        for queue in self.queues:
            queue.waiters[self] = self._woken.set
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            pass  # the caller looks again
        finally:
            self.broker.waiting.leave(self)
            for queue in self.queues:
                queue.waiters.pop(self, None)


def _with_attempts(frame: bytes, attempts: int) -> bytes:
    return frame[:_RECONSUME_AT] + attempts.to_bytes(4, "big") + frame[_RECONSUME_AT + 4 :]
