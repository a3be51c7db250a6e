"""Which messages are in flight: popped by a group, and neither acknowledged nor visible again.

A queue of a group is what comes next and what is in flight; everything else before the next offset is done. Both are
in Redis when a pop is answered, and an acknowledgement is answered once Redis has it. Apache
RocketMQ keeps checkpoints in a topic and sends what is not acknowledged through a retry topic; here the message is
given out again from where it lies.

Of what was given out in order, a message counts as done only when all before it are: acknowledged behind one that is
not, it stays, and comes again with that one, as from Apache RocketMQ (ConsumerOrderInfoManager commits the first
offset that is not acknowledged). A consumer that repeats the first message has the others after it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from brokercore.protocol.ids import Receipt
from brokercore.server.storage.keys import Keys
from brokercore.server.storage.offsets import OffsetTable, Place
from brokercore.server.storage.recovery import mend_hash
from brokercore.server.storage.redis_connection import RedisConnection

if TYPE_CHECKING:
    from brokercore.server.connections.fairness import Work

_KEPT = 64
"""Ends that do not hold any more are forgotten when there are so many more of them than messages in flight."""


@dataclass(slots=True)
class Flight:
    """One delivery: visible again at `visible_ms`, if not acknowledged. `attempts` counts the deliveries before."""

    visible_ms: int
    popped_ms: int
    attempts: int
    ordered: bool = False
    """Whether it was given out in order."""
    acknowledged: bool = False
    """Whether it waits for those before it to be acknowledged too; only of what was given out in order."""

    def ends_by(self, now_ms: int) -> bool:
        """Whether nobody works on it any more."""
        return self.acknowledged or self.visible_ms <= now_ms


@dataclass(slots=True)
class QueueState:
    """What a group has of one queue. `busy` while a pop reads from it."""

    next_offset: int
    flights: dict[int, Flight] = field(default_factory=dict)
    committed: int = -1
    busy: bool = False
    kept: bool = False
    """Whether it is in Redis too: something was taken."""
    used: bool = True
    """Whether a pop asked for it since it was last looked at whether it says anything."""
    _lowest: list[int] = field(default_factory=list)
    """A heap of the offsets in flight, and of some that are not any more: the first one is asked for all the time."""
    _coming: list[tuple[int, int]] = field(default_factory=list)
    """A heap of when deliveries end, each with its offset, and of some that ended or were given another end."""
    _visible: list[int] = field(default_factory=list)
    """A heap of the offsets whose time has come, and of some that are not in flight any more."""
    _looked_ms: int = 0

    def add(self, offset: int, flight: Flight) -> None:
        """A message is in flight now, or in another flight than before."""
        if offset not in self.flights:
            heappush(self._lowest, offset)
        self.flights[offset] = flight
        heappush(self._coming, (flight.visible_ms, offset))
        if len(self._coming) > 2 * len(self.flights) + _KEPT:
            self._order()

    def end(self, offsets: Iterable[int]) -> dict[int, Flight]:
        """Take messages out of flight, and what was acknowledged right behind them; tells what was taken out."""
        ended = {offset: self.flights.pop(offset) for offset in offsets if offset in self.flights}
        while (first := self._first()) is not None and self.flights[first].acknowledged:
            ended[first] = self.flights.pop(first)
        return ended

    def wait_for_earlier(self, offset: int) -> bool:
        """Note that a message is acknowledged which comes again with one before it; False when it does not."""
        flight = self.flights[offset]
        if not flight.ordered or self._first() == offset:
            return False
        flight.acknowledged = True
        self.add(offset, flight)
        return True

    def end_at(self, offset: int, visible_ms: int) -> None:
        """A delivery ends at another time."""
        flight = self.flights[offset]
        flight.visible_ms = visible_ms
        self.add(offset, flight)

    @property
    def done_before(self) -> int:
        """Everything below this offset is done: what the group's committed offset is."""
        first = self._first()
        return self.next_offset if first is None else first

    def _first(self) -> int | None:
        """The first offset in flight."""
        lowest = self._lowest
        while lowest and lowest[0] not in self.flights:
            heappop(lowest)
        return lowest[0] if lowest else None

    def due(self, now_ms: int, count: int) -> list[int]:
        """The first offsets in flight that are visible again, in order; at most `count`."""
        self._arrive(now_ms)
        found: list[int] = []
        while self._visible and len(found) < count:
            offset = heappop(self._visible)
            flight = self.flights.get(offset)
            if flight is None or not flight.ends_by(now_ms) or (found and found[-1] == offset):
                continue  # it ended, it ends at another time, or it is here twice
            found.append(offset)
        for offset in found:
            heappush(self._visible, offset)
        return found

    def is_due(self, now_ms: int) -> bool:
        """Whether any of them is visible again."""
        return bool(self.due(now_ms, 1))

    def are_all_due(self, now_ms: int) -> bool:
        """Whether none of them is still with its consumer."""
        self._arrive(now_ms)
        return not self._coming

    def next_due_ms(self, now_ms: int, *, ordered: bool = False) -> int | None:
        """When the first message in flight is visible again: `now_ms` when one is.

        To an `ordered` pop one is only when all are: it looks when the next one is, and then perhaps again.
        """
        if self.is_due(now_ms) and not (ordered and self._coming):
            return now_ms
        return self._coming[0][0] if self._coming else None

    def _order(self) -> None:
        self._coming = [(flight.visible_ms, offset) for offset, flight in self.flights.items()]
        heapify(self._coming)
        self._visible.clear()

    def _arrive(self, now_ms: int) -> None:
        """Find those whose time has come since the last look; each is found once, unless the clock is set back."""
        if now_ms < self._looked_ms:
            self._order()
        self._looked_ms = now_ms
        coming = self._coming
        while coming:
            visible_ms, offset = coming[0]
            flight = self.flights.get(offset)
            if flight is not None and flight.visible_ms == visible_ms:
                if not flight.ends_by(now_ms):
                    return
                heappush(self._visible, offset)
            heappop(coming)


class FlightTable:
    """All queues that are consumed by POP, in memory and in two Redis hashes."""

    def __init__(
        self,
        writer: RedisConnection,
        keys: Keys,
        offsets: OffsetTable,
        note: Callable[[str, int], None] = lambda _group, _more: None,
    ) -> None:
        """`note` is told the group and how many more messages of it are in flight, or how many fewer."""
        self._writer, self._keys, self._offsets, self._note = writer, keys, offsets, note
        self._states: dict[Place, QueueState] = {}

    async def load(self) -> None:
        """Read everything. Raises StoreUnavailable."""
        for name, value in await self._hash(self._keys.pop_next):
            queue_id, topic, group = name.split("@", 2)
            self._states[group, topic, int(queue_id)] = QueueState(int(value), kept=True)
        for name, value in await self._hash(self._keys.pop_flights):
            offset, queue_id, topic, group = name.split("@", 3)
            state = self._states.get((group, topic, int(queue_id)))
            if state is not None:
                state.add(int(offset), _flight(value))
        for place, state in self._states.items():
            known = self._offsets.get(*place)
            state.committed = state.done_before if known is None else known

    def counts(self) -> list[tuple[str, int]]:
        """How many messages are in flight, by group and queue."""
        return [(group, len(state.flights)) for (group, _, _), state in self._states.items()]

    def find(self, place: Place) -> QueueState | None:
        """The state of a group's queue, None when there is none: then the committed offset says where it is."""
        return self._states.get(place)

    def current(self, place: Place, min_offset: int) -> QueueState | None:
        """The same, with what others did meanwhile.

        An offset that was committed by somebody else, or reset, counts: what was in flight is forgotten. So is what
        retention has dropped.
        """
        state = self._states.get(place)
        reset = self._offsets.pending_reset(*place)
        if reset is not None:
            self._offsets.clear_reset(*place)
        if state is None:
            return None
        state.used = True
        committed = self._offsets.get(*place) if reset is None else reset
        if committed is not None and committed != state.committed:
            self._drop(place, state, list(state.flights))
            state.next_offset = committed
            self._commit(place, state)
        if state.next_offset < min_offset:
            self._drop(place, state, [offset for offset in state.flights if offset < min_offset])
            state.next_offset = min_offset
            self._commit(place, state)
        return state

    def begin(self, place: Place, next_offset: int) -> QueueState:
        """A state for a group's queue that has none, while a pop looks for messages; `end` it afterwards."""
        state = self._states[place] = QueueState(next_offset, committed=next_offset)
        return state

    def end(self, place: Place, state: QueueState) -> None:
        """A pop has looked: forget the state that was begun for it unless something was taken."""
        if not state.kept and self._states.get(place) is state:
            del self._states[place]

    async def sweep(self, work: Work) -> None:
        """Forget states that say no more than the committed offset, unless a pop asked for them since the last sweep.

        The offset is in Redis before the state leaves it. Raises StoreUnavailable and RedisError.
        """
        idle: list[tuple[Place, QueueState]] = []
        async for place, state in work.over(list(self._states.items())):
            if state.used:
                state.used = False
            elif self._says_nothing(place, state):
                idle.append((place, state))
        if not idle:
            return
        await self._offsets.flush()
        async for place, state in work.over(idle):
            if not state.used and self._states.get(place) is state and self._says_nothing(place, state):
                self._writer.send("HDEL", self._keys.pop_next, _queue_field(place))
                del self._states[place]

    def _says_nothing(self, place: Place, state: QueueState) -> bool:
        return not state.busy and not state.flights and self._offsets.get(*place) == state.next_offset

    async def claim(
        self,
        place: Place,
        state: QueueState,
        taken: Iterable[tuple[int, int]],
        *,
        next_offset: int,
        now_ms: int,
        visible_ms: int,
        ordered: bool = False,
    ) -> None:
        """Mark messages, given as offset and attempts before, as in flight, before anybody gets them.

        Both hashes change as one: a next offset without its flights would be messages that nobody gets. Raises
        StoreUnavailable and RedisError; nothing is in flight then.
        """
        flights = {offset: Flight(visible_ms, now_ms, attempts, ordered) for offset, attempts in taken}
        words = [word for offset, flight in flights.items() for word in (_field(place, offset), _value(flight))]
        commands: list[tuple[str | int, ...]] = [("HSET", self._keys.pop_flights, *words)] if words else []
        if next_offset != state.next_offset:
            commands.append(("HSET", self._keys.pop_next, _queue_field(place), next_offset))
        await self._writer.call_all(commands)
        state.kept = True
        state.next_offset = next_offset
        before = len(state.flights)
        for offset, flight in flights.items():
            state.add(offset, flight)
        self._note(place[0], len(state.flights) - before)
        self._commit(place, state)

    def is_late(self, place: Place, receipt: Receipt, now_ms: int) -> bool:
        """Whether the invisible time is over for which a receipt handle was given, or was made longer.

        Of what is not in flight any more only the handle says how long it held.
        """
        state = self._states.get(place)
        flight = state.flights.get(receipt.offset) if state else None
        if flight is None or flight.popped_ms != receipt.popped_ms:
            return receipt.popped_ms + receipt.invisible_ms <= now_ms
        return flight.visible_ms <= now_ms

    async def acknowledge(self, place: Place, offset: int, popped_ms: int, *, in_turn: bool = True) -> bool:
        """End a delivery; False when the message was given out again since, so that this handle ends nothing.

        What was given out in order ends when all before it do, unless it is not to be acknowledged `in_turn`. Raises
        StoreUnavailable; the message stays in flight then.
        """
        state = self._states.get(place)
        flight = state.flights.get(offset) if state else None
        if state is None or flight is None:
            return True  # acknowledged before
        if flight.popped_ms != popped_ms:
            return False
        if in_turn and state.wait_for_earlier(offset):
            await self._keep_acknowledged(place, state, offset)
            return True
        ended = state.end([offset])
        self._note(place[0], -len(ended))
        try:
            await self._writer.call("HDEL", self._keys.pop_flights, *[_field(place, offset) for offset in ended])
        except Exception:
            lost = [number for number in ended if number not in state.flights]
            for number in lost:
                state.add(number, ended[number])
            self._note(place[0], len(lost))
            raise
        self._commit(place, state)
        return True

    async def _keep_acknowledged(self, place: Place, state: QueueState, offset: int) -> None:
        flight = state.flights[offset]
        try:
            await self._writer.call("HSET", self._keys.pop_flights, _field(place, offset), _value(flight))
        except Exception:
            flight.acknowledged = False
            if state.flights.get(offset) is flight:
                state.add(offset, flight)
            raise

    async def change(self, place: Place, offset: int, popped_ms: int, visible_ms: int, now_ms: int) -> bool:
        """Give a delivery another end, and a new handle of `now_ms`; False when its handle holds no more.

        Raises StoreUnavailable.
        """
        state = self._states.get(place)
        flight = state.flights.get(offset) if state else None
        if state is None or flight is None or flight.popped_ms != popped_ms or flight.acknowledged:
            return False
        changed = Flight(visible_ms, now_ms, flight.attempts, flight.ordered)
        state.add(offset, changed)
        try:
            await self._writer.call("HSET", self._keys.pop_flights, _field(place, offset), _value(changed))
        except Exception:
            if state.flights.get(offset) is changed:
                state.add(offset, flight)
            raise
        return True

    def extend(self, place: Place, offset: int, visible_ms: int) -> None:
        """Give a delivery another end and leave its handle as it is. Raises StoreUnavailable."""
        state = self._states[place]
        state.end_at(offset, visible_ms)
        flight = state.flights[offset]
        self._writer.send("HSET", self._keys.pop_flights, _field(place, offset), _value(flight))

    def drop(self, place: Place, state: QueueState, offsets: list[int]) -> None:
        """Messages that are gone, or became dead letters. Raises StoreUnavailable."""
        self._drop(place, state, offsets)
        self._commit(place, state)

    async def forget(self, *, group: str | None = None, topic: str | None = None) -> None:
        """Forget everything of a group or of a topic. Raises StoreUnavailable."""
        for place in [place for place in self._states if place[0] == group or place[1] == topic]:
            state = self._states.pop(place)
            self._drop(place, state, list(state.flights))
            await self._writer.call("HDEL", self._keys.pop_next, _queue_field(place))

    def check(self, end_of: Callable[[str, int], int | None]) -> bool:
        """After the start: forget queues that are gone, and what lies behind the end of one; True when there was any.

        `end_of` gives a queue's maximum offset. A topic of the same name would begin where the old one was left.
        """
        changed = False
        for (group, topic, queue_id), state in list(self._states.items()):
            end = end_of(topic, queue_id)
            if end is None:
                del self._states[group, topic, queue_id]
            elif state.next_offset > end:
                state.next_offset = end
                state.flights = {offset: flight for offset, flight in state.flights.items() if offset < end}
            else:
                continue
            changed = True
        return changed

    async def mend(self) -> None:
        """Write back what Redis has forgotten of what is in flight. Raises StoreUnavailable."""
        following = {_queue_field(place).encode(): b"%d" % state.next_offset for place, state in self._states.items()}
        flights = {
            _field(place, offset).encode(): _value(flight).encode()
            for place, state in self._states.items()
            for offset, flight in state.flights.items()
        }
        await mend_hash(self._writer, self._keys.pop_flights, flights)
        await mend_hash(self._writer, self._keys.pop_next, following)

    def _drop(self, place: Place, state: QueueState, offsets: list[int]) -> None:
        ended = state.end(offsets)
        if ended:
            self._writer.send("HDEL", self._keys.pop_flights, *[_field(place, offset) for offset in ended])
        self._note(place[0], -len(ended))

    def _commit(self, place: Place, state: QueueState) -> None:
        state.committed = state.done_before
        self._offsets.commit(*place, state.committed)

    async def _hash(self, key: str) -> list[tuple[str, str]]:
        table: list[bytes] = await self._writer.call("HGETALL", key)
        return [(name.decode(), value.decode()) for name, value in zip(table[::2], table[1::2], strict=True)]


def _queue_field(place: Place) -> str:
    group, topic, queue_id = place
    return f"{queue_id}@{topic}@{group}"


def _field(place: Place, offset: int) -> str:
    return f"{offset}@{_queue_field(place)}"


def _value(flight: Flight) -> str:
    order = f":{1 + flight.acknowledged}" if flight.ordered else ""
    return f"{flight.visible_ms}:{flight.popped_ms}:{flight.attempts}{order}"


def _flight(value: str) -> Flight:
    visible_ms, popped_ms, attempts, *order = map(int, value.split(":"))
    return Flight(visible_ms, popped_ms, attempts, bool(order), order == [2])
