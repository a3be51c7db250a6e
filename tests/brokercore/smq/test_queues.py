"""Queues in a real Redis, with a clock that the test turns."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator

import pytest

from brokercore.server.storage.redis_connection import RedisConnection
from brokercore.smq.storage import keys
from brokercore.smq.storage.queues import Queues
from brokercore.smq.wire.errors import Code, SmqError
from brokercore.smq.wire.messages import Delivery, Draft, Sent, write_handle
from brokercore.smq.wire.queues import with_defaults
from tests.support.redis_server import RedisServer

ACCOUNT = "1234567890123456"


class Clock:
    """Epoch ms, which stand until the test turns them."""

    def __init__(self) -> None:
        self.now = 1_800_000_000_000

    def __call__(self) -> int:
        return self.now

    def turn(self, seconds: float) -> None:
        self.now += round(seconds * 1000)


class Bench:
    """One queue, and what a test does with it."""

    def __init__(self, queues: Queues, clock: Clock, redis: RedisConnection) -> None:
        self.queues, self.clock, self.redis = queues, clock, redis
        self.name = f"q{secrets.token_hex(4)}"
        self.account = secrets.token_hex(8)

    async def make(self, **attributes: int) -> None:
        assert await self.queues.create(self.account, self.name, with_defaults(attributes))

    async def send(self, *bodies: str, delay: int | None = None, priority: int = 8) -> None:
        drafts = [Draft(body.encode(), delay, priority) for body in bodies]
        sent = await self.queues.send(self.account, self.name, drafts)
        assert all(isinstance(one, Sent) for one in sent)

    async def receive(self, most: int = 16) -> tuple[Delivery, ...]:
        return (await self.queues.receive(self.account, self.name, most)).deliveries

    async def bodies(self, most: int = 16) -> list[str]:
        return [body_of(one) for one in await self.receive(most)]

    async def delete(self, *deliveries: Delivery) -> list[Code]:
        handles = [one.handle for one in deliveries]
        return [why.code for _, why in await self.queues.delete(self.account, self.name, handles)]

    async def counts(self) -> tuple[int, int, int]:
        state = await self.queues.state(self.account, self.name)
        return state.active, state.inactive, state.delayed


def body_of(delivery: Delivery) -> str:
    (leaf,) = [one for one in delivery.leaves() if one.startswith("<MessageBody>")]
    return leaf.removeprefix("<MessageBody>").removesuffix("</MessageBody>")


@pytest.fixture
async def bench(redis: RedisServer) -> AsyncIterator[Bench]:
    connection = RedisConnection(redis.url, "test")
    await connection.start()
    clock = Clock()
    yield Bench(Queues(connection, clock), clock, connection)
    await connection.close()


async def test_a_queue_is_made_once_and_again_with_the_same_attributes(bench: Bench) -> None:
    attributes = with_defaults({"DelaySeconds": 5})
    assert await bench.queues.create(bench.account, bench.name, attributes)
    assert not await bench.queues.create(bench.account, bench.name, attributes)
    with pytest.raises(SmqError, match="exists, with other attributes") as refused:
        await bench.queues.create(bench.account, bench.name, with_defaults({}))
    assert refused.value.code is Code.QUEUE_ALREADY_EXIST


async def test_an_account_has_as_many_queues_as_it_may(bench: Bench) -> None:
    await bench.queues.create(bench.account, "first", with_defaults({}), most=1)
    with pytest.raises(SmqError, match="as many as it may have"):
        await bench.queues.create(bench.account, "second", with_defaults({}), most=1)


async def test_attributes_that_a_change_does_not_name_stay(bench: Bench) -> None:
    await bench.make(DelaySeconds=7)
    bench.clock.turn(60)
    await bench.queues.change(bench.account, bench.name, {"VisibilityTimeout": 99})
    state = await bench.queues.state(bench.account, bench.name)
    assert (state.attributes["DelaySeconds"], state.attributes["VisibilityTimeout"]) == (7, 99)
    assert state.modified - state.created == 60


async def test_names_are_listed_in_order_and_in_pages(bench: Bench) -> None:
    for name in ("b2", "a1", "b1", "b3", "c"):
        await bench.queues.create(bench.account, name, with_defaults({}))
    assert await bench.queues.names(bench.account, "", "", 10) == (["a1", "b1", "b2", "b3", "c"], "")
    assert await bench.queues.names(bench.account, "b", "", 2) == (["b1", "b2"], "b2")
    assert await bench.queues.names(bench.account, "b", "b2", 2) == (["b3"], "")
    assert await bench.queues.names("somebody else", "", "", 10) == ([], "")


async def test_every_operation_on_a_missing_queue_says_so(bench: Bench) -> None:
    queues, place = bench.queues, (bench.account, "none")
    handle = write_handle("00" * 8, bytes(7), bytes(8))
    for work in (
        queues.change(*place, {"DelaySeconds": 1}),
        queues.state(*place),
        queues.send(*place, [Draft(b"x")]),
        queues.receive(*place, 1),
        queues.peek(*place, 1),
        queues.hide(*place, handle, 1),
        queues.delete(*place, [handle]),
    ):
        with pytest.raises(SmqError) as refused:
            await work
        assert refused.value.code is Code.QUEUE_NOT_EXIST
    assert not await queues.remove(*place)


async def test_a_received_message_is_hidden_and_comes_again_until_it_is_deleted(bench: Bench) -> None:
    await bench.make(VisibilityTimeout=10)
    await bench.send("one")
    (first,) = await bench.receive()
    assert (first.count, first.first_ms, first.next_visible_ms) == (1, bench.clock.now, bench.clock.now + 10_000)
    assert await bench.receive() == ()
    bench.clock.turn(10)
    (second,) = await bench.receive()
    assert (second.id, second.count, second.first_ms) == (first.id, 2, first.first_ms)
    assert second.handle != first.handle
    assert await bench.delete(first) == [Code.MESSAGE_NOT_EXIST]
    assert await bench.delete(second) == []
    assert await bench.delete(second) == [Code.MESSAGE_NOT_EXIST]
    bench.clock.turn(100)
    assert await bench.receive() == ()


async def test_a_handle_ends_with_the_time_that_its_message_is_hidden(bench: Bench) -> None:
    await bench.make(VisibilityTimeout=10)
    await bench.send("one")
    (delivery,) = await bench.receive()
    bench.clock.turn(10)
    assert await bench.delete(delivery) == [Code.MESSAGE_NOT_EXIST]
    with pytest.raises(SmqError) as refused:
        await bench.queues.hide(bench.account, bench.name, delivery.handle, 5)
    assert refused.value.code is Code.MESSAGE_NOT_EXIST


async def test_a_change_of_visibility_gives_a_new_handle_and_ends_the_old_one(bench: Bench) -> None:
    await bench.make(VisibilityTimeout=10)
    await bench.send("one")
    (delivery,) = await bench.receive()
    handle, until = await bench.queues.hide(bench.account, bench.name, delivery.handle, 60)
    assert until == bench.clock.now + 60_000
    bench.clock.turn(59)
    assert await bench.receive() == ()
    assert await bench.delete(delivery) == [Code.MESSAGE_NOT_EXIST]
    assert await bench.queues.delete(bench.account, bench.name, [handle]) == []


async def test_priority_goes_before_age_and_age_before_chance(bench: Bench) -> None:
    await bench.make()
    await bench.send("late a", "late b", priority=16)
    await bench.send("first a", "first b", priority=1)
    await bench.send("usual")
    assert await bench.bodies() == ["first a", "first b", "usual", "late a", "late b"]


async def test_a_delay_is_the_messages_own_or_the_queues(bench: Bench) -> None:
    await bench.make(DelaySeconds=30)
    await bench.send("of the queue")
    await bench.send("own", delay=10)
    await bench.send("none", delay=0)
    assert await bench.counts() == (1, 0, 2)
    assert await bench.bodies() == ["none"]
    bench.clock.turn(10)
    assert await bench.counts() == (1, 1, 1)
    assert await bench.bodies() == ["own"]
    bench.clock.turn(20)
    assert "of the queue" in await bench.bodies()


async def test_a_receive_says_when_the_next_message_becomes_visible(bench: Bench) -> None:
    await bench.make(VisibilityTimeout=20)
    assert (await bench.queues.receive(bench.account, bench.name, 1)).due_ms == 0
    await bench.send("hidden")
    await bench.receive()
    await bench.send("delayed", delay=5)
    assert (await bench.queues.receive(bench.account, bench.name, 1)).due_ms == bench.clock.now + 5_000


async def test_counters_are_exact_through_all_states(bench: Bench) -> None:
    await bench.make(VisibilityTimeout=10)
    await bench.send("a", "b", "c", "d")
    await bench.send("later", delay=100)
    deliveries = await bench.receive(3)
    assert await bench.counts() == (1, 3, 1)
    await bench.delete(deliveries[0])
    assert await bench.counts() == (1, 2, 1)
    bench.clock.turn(10)
    assert await bench.counts() == (3, 0, 1)
    bench.clock.turn(90)
    assert await bench.counts() == (4, 0, 0)


async def test_peeking_changes_nothing(bench: Bench) -> None:
    await bench.make()
    await bench.send("a", "b")
    peeked = await bench.queues.peek(bench.account, bench.name, 16)
    assert [body_of(one) for one in peeked] == ["a", "b"]
    assert all((one.count, one.first_ms, one.handle) == (0, 0, "") for one in peeked)
    assert await bench.counts() == (2, 0, 0)


async def test_messages_leave_when_they_have_been_kept_for_long_enough(bench: Bench) -> None:
    await bench.make(MessageRetentionPeriod=60, VisibilityTimeout=50)
    await bench.send("hidden")
    await bench.receive()
    await bench.send("visible")
    await bench.send("delayed", delay=3600)
    bench.clock.turn(59.999)
    assert await bench.counts() == (2, 0, 1)
    bench.clock.turn(0.001)
    assert await bench.counts() == (0, 0, 0)
    assert await bench.receive() == ()
    assert await bench.queues.peek(bench.account, bench.name, 1) == ()


async def test_a_receive_gives_no_message_whose_time_is_over(bench: Bench) -> None:
    await bench.make(MessageRetentionPeriod=60)
    for _ in range(20):
        await bench.send(*(str(number) for number in range(16)))
    bench.clock.turn(59)
    await bench.send("young")
    bench.clock.turn(1)
    assert await bench.bodies() == ["young"]


async def test_a_body_larger_than_the_queue_takes_is_refused_and_the_others_of_its_batch_are_not(bench: Bench) -> None:
    await bench.make(MaximumMessageSize=1024)
    drafts = [Draft(b"x" * 1024), Draft(b"x" * 1025), Draft("é".encode() * 513)]
    fitting, larger, wide = await bench.queues.send(bench.account, bench.name, drafts)
    assert isinstance(fitting, Sent)
    assert isinstance(larger, SmqError)
    assert isinstance(wide, SmqError)
    assert "1026 bytes" in wide.message
    assert await bench.counts() == (1, 0, 0)


async def test_an_account_stores_no_more_than_it_may_and_room_comes_back(bench: Bench) -> None:
    await bench.make()
    draft = Draft(b"x" * 500)
    for _ in range(3):
        await bench.queues.send(bench.account, bench.name, [draft], most_bytes=1600)
    (refused,) = await bench.queues.send(bench.account, bench.name, [draft], most_bytes=1600)
    assert isinstance(refused, SmqError)
    assert refused.code is Code.ACCESS_DENIED
    await bench.delete(*await bench.receive(1))
    (taken,) = await bench.queues.send(bench.account, bench.name, [draft], most_bytes=1600)
    assert isinstance(taken, Sent)


async def test_a_queue_of_the_same_name_begins_empty_and_old_handles_reach_nothing_in_it(bench: Bench) -> None:
    await bench.make()
    await bench.send("old")
    (old,) = await bench.receive()
    assert await bench.queues.remove(bench.account, bench.name)
    await bench.make()
    await bench.send("new")
    (new,) = await bench.receive()
    assert new.id != old.id
    assert await bench.delete(old) == [Code.RECEIPT_HANDLE_ERROR]
    assert await bench.counts() == (0, 1, 0)


async def test_nothing_is_left_in_redis_of_a_removed_queue(bench: Bench, redis: RedisServer) -> None:
    await bench.make()
    await bench.send("a", "b")
    await bench.receive(1)
    await bench.queues.remove(bench.account, bench.name)
    connection = RedisConnection(redis.url, "look")
    await connection.start()
    keys = await connection.call("KEYS", f"smq:{bench.account}*")
    held = await connection.call("HGETALL", f"smq:{bench.account}")
    await connection.close()
    assert keys == [f"smq:{bench.account}".encode()]
    assert dict(zip(held[::2], held[1::2], strict=True)) == {b"bytes": b"0", b"messages": b"0"}


async def test_each_message_goes_to_one_of_many_receivers(bench: Bench) -> None:
    await bench.make()
    for start in range(0, 320, 16):
        await bench.send(*(str(number) for number in range(start, start + 16)))
    rounds = await asyncio.gather(*(bench.bodies(16) for _ in range(40)))
    got = [body for bodies in rounds for body in bodies]
    assert sorted(got, key=int) == [str(number) for number in range(320)]


async def test_a_delayed_message_is_shown_sooner_or_deleted_by_the_handle_of_its_send(bench: Bench) -> None:
    await bench.make()
    drafts = [Draft(body, delay=3600) for body in (b"sooner", b"never", b"later")]
    sooner, never, later = await bench.queues.send(bench.account, bench.name, drafts)
    assert isinstance(sooner, Sent)
    assert isinstance(never, Sent)
    assert isinstance(later, Sent)
    await bench.queues.hide(bench.account, bench.name, sooner.handle, 1)
    assert await bench.queues.delete(bench.account, bench.name, [never.handle]) == []
    assert await bench.counts() == (0, 0, 2)
    bench.clock.turn(1)
    assert await bench.bodies() == ["sooner"]
    bench.clock.turn(3599)
    ((_, why),) = await bench.queues.delete(bench.account, bench.name, [later.handle])
    assert why.code is Code.MESSAGE_NOT_EXIST
    assert "later" in await bench.bodies()


async def test_a_receive_finds_what_lies_behind_many_old_messages_and_lets_others_in_between(bench: Bench) -> None:
    await bench.make(MessageRetentionPeriod=60)
    for _ in range(60):
        await bench.queues.send(bench.account, bench.name, [Draft(b"old")] * 100)
    bench.clock.turn(61)
    await bench.send("new")
    await bench.redis.call("CONFIG", "RESETSTAT")
    assert await bench.bodies() == ["new"]
    statistics = (await bench.redis.call("INFO", "commandstats")).decode()
    scripts = sum(map(int, re.findall(r"cmdstat_eval(?:sha)?:calls=(\d+)", statistics)))
    assert scripts >= 3
    assert await bench.counts() == (0, 1, 0)


async def counted(bench: Bench) -> tuple[int, int]:
    """Bytes and messages of all accounts, as the scripts have counted them."""
    held, messages = await bench.redis.call("HMGET", keys.ALL_HELD, "bytes", "messages")
    return int(held) + int(messages) * keys.PLACES_BYTES, int(messages)


async def test_what_all_accounts_hold_is_counted_by_every_change(bench: Bench) -> None:
    before = await bench.queues.count()
    assert await counted(bench) == before
    await bench.make(MessageRetentionPeriod=60)
    await bench.send("a", "b", "c", "d")
    await bench.send("late", delay=30)
    grown = await counted(bench)
    assert grown[1] == before[1] + 5 and grown[0] > before[0] + 5 * keys.PLACES_BYTES
    assert await bench.queues.count() == grown
    one, *_ = await bench.receive(2)
    assert await bench.delete(one) == []
    assert (await counted(bench))[1] == before[1] + 4
    bench.clock.turn(61)
    await bench.queues.sweep(bench.account, bench.name)
    assert await counted(bench) == before
    await bench.send("again")
    await bench.queues.remove(bench.account, bench.name)
    assert await counted(bench) == await bench.queues.count() == before


async def test_all_accounts_together_hold_as_much_as_the_service_may(bench: Bench) -> None:
    await bench.make()
    other = Bench(bench.queues, bench.clock, bench.redis)
    await other.make()
    held, _ = await bench.queues.count()
    bench.queues.most_bytes = held + 3 * (keys.PLACES_BYTES + 100)
    await bench.send("x" * 60)
    drafts = [Draft(b"x" * 60), Draft(b"x" * 5000), Draft(b"x" * 60), Draft(b"x" * 60)]
    sent = await other.queues.send(other.account, other.name, drafts)
    assert [one.code if isinstance(one, SmqError) else "sent" for one in sent] == [
        "sent", Code.INTERNAL_ERROR, "sent", Code.INTERNAL_ERROR,
    ]  # fmt: skip
    (refused,) = await bench.queues.send(bench.account, bench.name, [Draft(b"x")])
    assert isinstance(refused, SmqError) and "all accounts together" in refused.message
    assert await other.counts() == (2, 0, 0)
    assert await other.delete(*(await other.receive(1))) == []
    await bench.send("room again")
    bench.queues.most_bytes = 0
    await bench.send("x" * 5000)
    for one in (bench, other):
        await one.queues.remove(one.account, one.name)


async def test_what_a_service_of_another_release_did_not_count_is_counted_at_the_next_start(bench: Bench) -> None:
    await bench.make()
    await bench.send("x" * 100)
    right = await counted(bench)
    await bench.redis.call("DEL", keys.ALL_HELD)
    assert await bench.queues.count() == right
    await bench.queues.remove(bench.account, bench.name)
