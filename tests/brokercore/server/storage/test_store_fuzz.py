"""Any interleaving of writes, trims, parking, moves, breaks and crashes, against a model; Redis is a real one."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from brokercore.names import SCHEDULE_TOPIC
from brokercore.protocol.bodies.config import TopicConfig
from brokercore.protocol.message import decode_stored
from brokercore.server.errors import StoreUnavailable
from brokercore.server.settings import Settings
from brokercore.server.storage.keys import Keys
from brokercore.server.storage.parking import DISCARD, MOVE, Parking
from brokercore.server.storage.queue import Queue
from brokercore.server.storage.retention import trim
from brokercore.server.storage.store import Incoming, MessageStore, put_all
from brokercore.server.storage.topics import TopicTable
from tests.brokercore.server.wire import fresh
from tests.support.redis_server import RedisServer, redis_server

T = TypeVar("T")
QUEUES = 2
PLACES = st.integers(0, QUEUES - 1)
COUNTS = st.integers(1, 4)


class StoreMachine(RuleBasedStateMachine):
    """The model: where each acknowledged message lies, which were trimmed, which nobody knows about."""

    def __init__(self, redis: RedisServer) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.settings = Settings(redis.url, broker_name=fresh("fuzz"))
        self.names = itertools.count()
        self.stored: list[dict[int, bytes]] = [{} for _ in range(QUEUES)]
        self.parked: dict[bytes, int] = {}
        self.moved: set[bytes] = set()
        self.first = [0] * QUEUES
        self.run(self._open())
        self.run(self.topics.save(TopicConfig("t", QUEUES, QUEUES)))

    def run(self, work: Awaitable[T]) -> T:
        async def within() -> T:
            async with asyncio.timeout(20):
                return await work

        return self.loop.run_until_complete(within())

    async def _open(self) -> None:
        self.store = MessageStore(self.settings, bytes(8), Keys(self.settings.broker_name))
        self.store.scripts += [MOVE, DISCARD]
        await self.store.start()
        self.topics = TopicTable(self.store)
        await self.topics.load()
        self.store.mending = [self.topics.mend]
        self.parking = Parking(self.store, self.store.keys.timers)

    def queue(self, place: int) -> Queue:
        return self.topics.get("t").queues[place]  # type: ignore[union-attr]

    def bodies(self, count: int) -> list[bytes]:
        return [b"%d" % next(self.names) for _ in range(count)]

    async def _settle(self, start: Callable[[], list[asyncio.Future[Any]]], *, broken: bool) -> list[Any]:
        """Results of what `start` begins; the connection breaks right behind it when it is to."""
        futures = start()
        if broken:
            await asyncio.sleep(0)
            self.store.writer.reset("the fuzz")
            while self.store.ready:  # noqa: ASYNC110 (told by nobody)
                await asyncio.sleep(0)
        results = [await future for future in futures]
        while not self.store.ready or self.store.trouble:  # noqa: ASYNC110 (told by nobody)
            await asyncio.sleep(0.005)
        return results

    @rule(place=PLACES, count=COUNTS, broken=st.booleans())
    def put(self, place: int, count: int, broken: bool) -> None:
        bodies, offsets = self.bodies(count), []

        def start() -> list[asyncio.Future[Any]]:
            futures = []
            for body in bodies:
                future = self.loop.create_future()
                offsets.append(self.store.put(self.queue(place), body, b"", future.set_result))
                futures.append(future)
            return futures

        for body, offset, reason in zip(bodies, offsets, self.run(self._settle(start, broken=broken)), strict=True):
            if reason is None:
                assert offset not in self.stored[place]
                self.stored[place][offset] = body

    @rule(place=PLACES, count=COUNTS, large=st.booleans(), broken=st.booleans())
    def put_a_batch(self, place: int, count: int, large: bool, broken: bool) -> None:
        """Small ones share an entry of the stream, large ones take one each."""
        bodies = [body.ljust(40_000) if large else body for body in self.bodies(count)]
        offsets: list[int] = []

        def start() -> list[asyncio.Future[Any]]:
            future = self.loop.create_future()
            messages = [Incoming(body, b"", ()) for body in bodies]
            offsets.append(put_all(self.store, self.queue(place), messages, future.set_result))
            return [future]

        (reason,) = self.run(self._settle(start, broken=broken))
        if reason is None:
            for offset, body in enumerate(bodies, offsets[0]):
                assert offset not in self.stored[place]
                self.stored[place][offset] = body

    @rule(place=PLACES, count=COUNTS, broken=st.booleans())
    def park(self, place: int, count: int, broken: bool) -> None:
        bodies = self.bodies(count)
        schedule = self.topics.get(SCHEDULE_TOPIC).queues[0]  # type: ignore[union-attr]

        def start() -> list[asyncio.Future[Any]]:
            futures = []
            for body in bodies:
                future = self.loop.create_future()
                properties = f"REAL_QID\x01{place}\x02".encode()
                self.parking.park(schedule, 1, body, properties, future.set_result, topic="t")
                futures.append(future)
            return futures

        for body, reason in zip(bodies, self.run(self._settle(start, broken=broken)), strict=True):
            if reason is None:
                self.parked[body] = place

    @rule(broken=st.booleans())
    def deliver(self, broken: bool) -> None:
        due = self.run(self.parking.due(2, 100))
        frames = self.run(self.store.messages_at(due))
        messages = {message.physical_offset: message for frame in frames for message in decode_stored(frame)}

        def start() -> list[asyncio.Future[Any]]:
            futures = []
            for physical_offset in due:
                future = self.loop.create_future()
                message = messages.get(physical_offset)
                if message is None:
                    self.parking.discard(physical_offset, future.set_result)
                else:
                    self.parking.move(message, self.queue(int(message.properties["REAL_QID"])), future.set_result)
                futures.append(future)
            return futures

        self.run(self._settle(start, broken=broken))

    @rule(place=PLACES, share=st.floats(0, 1))
    def trim(self, place: int, share: float) -> None:
        queue = self.queue(place)
        offset = queue.min_offset + int((queue.max_offset - queue.min_offset) * share)
        self._learn()
        self.run(trim(self.store, queue, offset))
        self.first[place] = max(self.first[place], offset)

    @rule()
    def crash(self) -> None:
        """This process ends at once, and another one begins."""
        self.store.ready = False  # nothing is said in parting
        self.run(self.store.close())
        self.run(self._open())

    @rule(place=PLACES)
    def write_what_only_memory_holds(self, place: int) -> None:
        """Redis loses the number of a queue; the break mends it."""
        self.run(self.store.writer.call("HDEL", self.store.keys.queues, f"{place}@t"))
        self.run(self._settle(lambda: [], broken=True))

    @invariant()
    def nothing_acknowledged_is_lost(self) -> None:
        self._learn()

    def _learn(self) -> None:
        """Read everything; compare with the model, and note where delivered messages lie now."""
        delivered: Counter[bytes] = Counter()
        for place in range(QUEUES):
            found = dict(self.run(self._read(self.queue(place))))
            for offset, body in self.stored[place].items():
                if offset >= self.first[place]:
                    assert found.get(offset) == body
            for offset, body in found.items():
                assert list(found.values()).count(body) == 1
                self.stored[place].setdefault(offset, body)  # its answer was lost, or it was delivered
                if body in self.parked:
                    delivered[body] += 1
                    self.moved.add(body)
        waiting = self._waiting()
        for body in self.parked:
            assert delivered[body] <= 1
            if body not in self.moved:
                assert waiting[body] == 1, f"{body!r} is neither parked nor delivered"
            else:
                assert waiting[body] == 0, f"{body!r} is delivered and still parked"

    async def _read(self, queue: Queue) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        offset = queue.min_offset
        while offset < queue.max_offset:
            frames = await self.store.read(queue, offset, 32)
            found += [(number, decode_stored(frame)[0].body) for number, frame in frames]
            offset = frames[-1][0] + 1 if frames else offset + 1
        return found

    def _waiting(self) -> Counter[bytes]:
        frames = self.run(self.store.messages_at(self.run(self.parking.due(2, 1000))))
        return Counter(decode_stored(frame)[0].body for frame in frames)

    def teardown(self) -> None:
        try:
            self.run(self.store.close())
        except StoreUnavailable:
            pass  # it was broken by the last step
        finally:
            self.loop.close()


@pytest.mark.parametrize("appendfsync", ["everysec", "always"])
def test_nothing_acknowledged_is_lost_whatever_happens(appendfsync: str) -> None:
    with redis_server("--appendfsync", appendfsync) as redis:
        run_state_machine_as_test(
            lambda: StoreMachine(redis),  # type: ignore[arg-type]
            settings=settings(
                max_examples=15, stateful_step_count=14, deadline=None, suppress_health_check=list(HealthCheck)
            ),
        )
