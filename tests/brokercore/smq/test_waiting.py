"""Polls that wait, in a real Redis: who is woken by what, and in which order."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from brokercore.server.storage.redis_connection import RedisConnection
from brokercore.smq.server.waiting import Waiting
from brokercore.smq.storage.keys import channel
from brokercore.smq.storage.news import RedisNews
from brokercore.smq.storage.queues import Queues, Received
from brokercore.smq.wire.errors import Code, SmqError
from brokercore.smq.wire.messages import Delivery, Draft, Sent
from brokercore.smq.wire.queues import with_defaults
from tests.support.patience import Patience
from tests.support.redis_server import RedisServer

#: Longer than any test takes: a poll that is not woken fails the test by its end.
LONG = 200
PATIENCE_SECONDS = 60.0


class Process:
    """What a process of the service has, and one queue that all of them look at."""

    def __init__(self, url: str, account: str) -> None:
        self.redis = RedisConnection(url, "test")
        self.queues = Queues(self.redis)
        self.news = RedisNews(url, self._told, self._missed)
        self.waiting = Waiting(self.news)
        self.account, self.name = account, "q"

    def _told(self, where: str, text: str) -> None:
        visible, _, due = text.partition(" ")
        self.waiting.tell(where, 0 if visible != "0" or not due else int(due))

    def _missed(self) -> None:
        self.waiting.tell_all()

    async def start(self) -> None:
        await self.redis.start()
        await self.news.start()

    async def close(self) -> None:
        await self.news.close()
        await self.redis.close()

    async def make(self, **attributes: int) -> None:
        assert await self.queues.create(self.account, self.name, with_defaults(attributes))

    async def send(self, *bodies: str, delay: int | None = None) -> list[Sent]:
        sent = await self.queues.send(self.account, self.name, [Draft(body.encode(), delay) for body in bodies])
        return [one for one in sent if isinstance(one, Sent)]

    async def look(self, most: int = 1) -> Received:
        return await self.queues.receive(self.account, self.name, most)

    def poll(
        self, seconds: int | None = LONG, look: Callable[[], Awaitable[Received]] | None = None
    ) -> asyncio.Task[tuple[Delivery, ...]]:
        """Start a receive that waits."""
        waits = self.waiting.receive(channel(self.account, self.name), seconds, look or self.look)
        return asyncio.create_task(waits)

    async def polls(self, number: int) -> list[asyncio.Task[tuple[Delivery, ...]]]:
        """Start so many, each when the one before it stands in line."""
        found = []
        for _ in range(number):
            found.append(self.poll())
            await self.until_waiting(len(found))
        return found

    async def until_waiting(self, number: int) -> None:
        """Wait until so many stand in line."""
        patience = Patience(PATIENCE_SECONDS, 0.005)
        while self._in_line() < number:
            assert not patience.is_over(), f"{self._in_line()} stand in line, not {number}"
            await asyncio.sleep(0.005)

    def _in_line(self) -> int:
        queue = self.waiting._queues.get(channel(self.account, self.name))
        return 0 if queue is None else len(queue._waiters)


def bodies(deliveries: tuple[Delivery, ...]) -> list[str]:
    return [one.kept[28:].decode() for one in deliveries]


async def result(task: asyncio.Task[tuple[Delivery, ...]]) -> list[str]:
    async with asyncio.timeout(PATIENCE_SECONDS):
        return bodies(await task)


@pytest.fixture
async def processes(redis: RedisServer) -> AsyncIterator[Callable[[], Awaitable[Process]]]:
    """Starts processes of the service that look at one queue."""
    account, running = secrets.token_hex(8), []

    async def start() -> Process:
        process = Process(redis.url, account)
        await process.start()
        running.append(process)
        return process

    yield start
    for process in running:
        await process.close()


@pytest.fixture
async def process(processes: Callable[[], Awaitable[Process]]) -> Process:
    return await processes()


# --- What wakes


async def test_a_poll_is_woken_by_a_send(process: Process) -> None:
    await process.make()
    (poll,) = await process.polls(1)
    await process.send("woken")
    assert await result(poll) == ["woken"]
    assert len(process.waiting) == 0


async def test_a_poll_is_woken_by_the_end_of_a_delay_that_it_saw_and_of_one_that_came_later(process: Process) -> None:
    await process.make()
    await process.send("later", delay=2)
    first, second = await process.polls(2)
    await process.send("sooner", delay=1)
    assert await result(first) == ["sooner"]
    assert await result(second) == ["later"]


async def test_a_poll_is_woken_when_a_received_message_is_visible_again(process: Process) -> None:
    await process.make(VisibilityTimeout=1)
    await process.send("again")
    assert bodies((await process.look()).deliveries) == ["again"]
    assert await result(process.poll()) == ["again"]


async def test_a_poll_is_woken_when_a_message_is_shown_sooner(process: Process) -> None:
    await process.make(VisibilityTimeout=1000)
    await process.send("again")
    (delivery,) = (await process.look()).deliveries
    (poll,) = await process.polls(1)
    await process.queues.hide(process.account, process.name, delivery.handle, 1)
    assert await result(poll) == ["again"]


async def test_a_delayed_message_that_is_shown_sooner_wakes(process: Process) -> None:
    await process.make()
    (poll,) = await process.polls(1)
    (sent,) = await process.send("prepared", delay=1000)
    await process.queues.hide(process.account, process.name, sent.handle, 1)
    assert await result(poll) == ["prepared"]


async def test_all_polls_end_when_their_queue_is_removed(process: Process) -> None:
    await process.make()
    polls = await process.polls(3)
    await process.queues.remove(process.account, process.name)
    for poll in polls:
        with pytest.raises(SmqError) as gone:
            await result(poll)
        assert gone.value.code is Code.QUEUE_NOT_EXIST


async def test_what_another_process_does_wakes_as_well(processes: Callable[[], Awaitable[Process]]) -> None:
    here, there = await processes(), await processes()
    await here.make(VisibilityTimeout=1)
    (poll,) = await there.polls(1)
    await here.send("told")
    assert await result(poll) == ["told"]
    assert await result(here.poll()) == ["told"]  # hidden by the other one, and visible again


async def test_each_message_goes_to_one_of_those_who_wait_in_several_processes(
    processes: Callable[[], Awaitable[Process]],
) -> None:
    here, there = await processes(), await processes()
    await here.make()
    polls = [*await here.polls(5), *await there.polls(5)]
    for number in range(10):
        await (here, there)[number % 2].send(str(number))
    found = [await result(poll) for poll in polls]
    assert sorted(body for one in found for body in one) == [str(number) for number in range(10)]


# --- What does not wait, and what has waited long enough


async def test_a_poll_that_finds_something_does_not_wait(process: Process) -> None:
    await process.make()
    await process.send("there")
    assert await result(process.poll()) == ["there"]


@pytest.mark.parametrize("seconds", [0, None])
async def test_a_poll_of_no_seconds_ends_at_once(process: Process, seconds: int | None) -> None:
    await process.make()
    assert await result(process.poll(seconds)) == []
    assert len(process.waiting) == 0


async def test_a_poll_that_says_nothing_waits_as_long_as_the_queue_says(process: Process) -> None:
    await process.make(PollingWaitSeconds=1)
    started = time.monotonic()
    assert await result(process.poll(None)) == []
    assert time.monotonic() - started >= 0.99


async def test_a_poll_ends_after_its_seconds_with_nothing_also_while_others_wait_on(process: Process) -> None:
    await process.make()
    (other,) = await process.polls(1)
    assert await result(process.poll(1)) == []
    assert len(process.waiting) == 1
    await process.send("x")
    assert await result(other) == ["x"]


async def test_a_poll_that_is_woken_again_and_again_for_nothing_ends_in_time(process: Process) -> None:
    await process.make()

    async def nothing() -> Received:
        process.waiting.tell(channel(process.account, process.name))  # somebody else is always quicker
        await asyncio.sleep(0)
        return Received((), 0, 0)

    assert await result(process.poll(1, nothing)) == []


# --- In which order


async def test_who_came_first_is_served_first(process: Process) -> None:
    await process.make()
    polls = await process.polls(8)
    for number in range(8):
        await process.send(str(number))
        assert await result(polls[number]) == [str(number)]


async def test_several_messages_at_once_go_to_the_first_ones(process: Process) -> None:
    await process.make()
    polls = await process.polls(5)
    await process.send("a", "b", "c")
    assert [await result(poll) for poll in polls[:3]] == [["a"], ["b"], ["c"]]
    assert not polls[3].done()
    await process.send("d", "e")
    assert [await result(poll) for poll in polls[3:]] == [["d"], ["e"]]


async def test_who_was_woken_and_found_nothing_keeps_the_place(process: Process) -> None:
    """Somebody who does not wait takes the message before the first of the line has looked."""
    await process.make()
    looked = 0

    async def too_late() -> Received:
        nonlocal looked
        looked += 1
        return Received((), 0, 0) if looked <= 3 else await process.look()

    first = process.poll(LONG, too_late)
    await process.until_waiting(1)
    second = process.poll()
    await process.until_waiting(2)
    process.waiting.tell(channel(process.account, process.name))
    await process.until_waiting(2)
    await process.send("x")
    assert await result(first) == ["x"]
    assert not second.done()
    await process.send("y")
    assert await result(second) == ["y"]


async def test_a_client_that_goes_away_leaves_the_line(process: Process) -> None:
    await process.make()
    first, second, third = await process.polls(3)
    second.cancel()
    await asyncio.wait([second])
    await process.send("a", "b")
    assert [await result(first), await result(third)] == [["a"], ["b"]]


async def test_a_client_that_goes_away_when_it_was_woken_passes_its_turn_on(process: Process) -> None:
    await process.make()
    looks_again = asyncio.Event()
    looks: list[int] = []

    async def twice_nothing() -> Received:
        looks.append(1)
        if len(looks) > 2:
            looks_again.set()
            await asyncio.Event().wait()
        return Received((), 0, 0)

    first = process.poll(LONG, twice_nothing)
    await process.until_waiting(1)
    second = process.poll()
    await process.until_waiting(2)
    await process.send("x")
    async with asyncio.timeout(PATIENCE_SECONDS):
        await looks_again.wait()
    first.cancel()
    assert await result(second) == ["x"]


async def test_what_fails_for_one_lets_the_next_one_look(process: Process) -> None:
    await process.make()
    looks: list[int] = []

    async def fails_later() -> Received:
        looks.append(1)
        if len(looks) > 2:
            raise SmqError(Code.INTERNAL_ERROR, "The store does not answer.")
        return Received((), 0, 0)

    first = process.poll(LONG, fails_later)
    await process.until_waiting(1)
    second = process.poll()
    await process.until_waiting(2)
    await process.send("x")
    with pytest.raises(SmqError):
        await result(first)
    assert await result(second) == ["x"]


# --- Many, and Redis that goes


async def test_a_thousand_polls_get_a_message_each_in_their_order(process: Process) -> None:
    await process.make()
    order: list[int] = []

    async def wait(number: int) -> str:
        (body,) = await result(polls[number])
        order.append(number)
        return body

    polls = [process.poll() for _ in range(1000)]
    await process.until_waiting(1000)
    waits = [asyncio.create_task(wait(number)) for number in range(1000)]
    for start in range(0, 1000, 10):
        await process.send(*(str(number) for number in range(start, start + 10)))
    found = [await one for one in waits]
    assert sorted(map(int, found)) == list(range(1000))
    assert len(process.waiting) == 0
    assert process.waiting._queues == {}


async def test_polls_see_what_was_sent_while_the_news_were_lost(process: Process) -> None:
    await process.make()
    (poll,) = await process.polls(1)
    transport = process.news._transport
    assert transport is not None
    transport.abort()
    await process.send("unheard")
    assert await result(poll) == ["unheard"]
