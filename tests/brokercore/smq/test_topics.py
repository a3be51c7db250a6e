"""Topics in a real Redis, with a clock that the test turns: who gets what is published, and what waits to be pushed."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator

import pytest

from brokercore.server.storage.redis_connection import RedisConnection
from brokercore.smq.storage import keys, topics
from brokercore.smq.storage.pushes import ACCOUNT_ROOM, LANE_ROOM, LEASE_MS, Lane, Push, Pushes
from brokercore.smq.storage.queues import Queues
from brokercore.smq.storage.topics import MAX_SUBSCRIPTIONS, Topics
from brokercore.smq.wire import queues as queue_attributes
from brokercore.smq.wire import topics as topic_attributes
from brokercore.smq.wire.errors import Code, SmqError
from brokercore.smq.wire.subscriptions import Format, PushResult, Strategy, Subscription
from brokercore.smq.wire.topics import Publication
from tests.brokercore.smq.test_queues import Clock, body_of
from tests.support.redis_server import RedisServer

URL = "http://127.0.0.1:1/in"


class Bench:
    """One topic, the queues of its account, and what a test does with them."""

    def __init__(self, connection: RedisConnection) -> None:
        self.redis, self.clock = connection, Clock()
        self.topics, self.queues = Topics(connection, self.clock), Queues(connection, self.clock)
        self.pushes = Pushes(connection, self.clock)
        self.account = secrets.token_hex(8)
        self.place = (self.account, "news")

    async def make(self, **attributes: int) -> None:
        assert await self.topics.create(*self.place, topic_attributes.with_defaults(attributes))

    async def queue(self, name: str, **attributes: int) -> None:
        await self.queues.create(self.account, name, queue_attributes.with_defaults(attributes))

    async def subscribe(
        self,
        name: str,
        endpoint: str = URL,
        *,
        form: Format = Format.SIMPLIFIED,
        tag: str = "",
        strategy: Strategy = Strategy.BACKOFF,
    ) -> bool:
        wanted = Subscription(secrets.token_hex(8), endpoint, strategy, form, tag)
        return await self.topics.subscribe(*self.place, name, wanted)

    def of_queue(self, name: str) -> str:
        return f"acs:mns:mq-private:{self.account}:queues/{name}"

    async def publish(self, body: str = "hello", tag: str = "", *, most_bytes: int = 0, most_messages: int = 0) -> int:
        publication = Publication(body.encode(), tag)
        return (await self.topics.publish(*self.place, publication, most_bytes, most_messages)).waiting

    async def received(self, queue: str) -> list[str]:
        return [body_of(one) for one in (await self.queues.receive(self.account, queue, 16)).deliveries]

    async def result(self, name: str) -> PushResult:
        return (await self.topics.subscription(*self.place, name)).result

    async def claim(self, name: str, most: int = 100) -> list[Push]:
        return await self.pushes.claim(Lane(*self.place, name), most)

    async def held(self) -> tuple[int, int]:
        """Messages and bytes that the account holds."""
        found = await self.redis.call("HMGET", keys.held(self.account), "messages", "bytes")
        return int(found[0] or 0), int(found[1] or 0)

    async def due(self) -> list[str]:
        """The account's subscriptions to which something is to be pushed now; other tests have theirs."""
        lanes, _ = await self.pushes.due(1_000_000)
        return [lane.subscription for lane in lanes if lane.account == self.account]


@pytest.fixture
async def bench(redis: RedisServer) -> AsyncIterator[Bench]:
    connection = RedisConnection(redis.url, "test")
    await connection.start()
    found = Bench(connection)
    yield found
    await found.topics.remove(*found.place)
    await connection.close()


# --- Topics


async def test_a_topic_is_made_once_and_again_with_the_same_attributes(bench: Bench) -> None:
    attributes = topic_attributes.with_defaults({"MaximumMessageSize": 2048})
    assert await bench.topics.create(*bench.place, attributes)
    assert not await bench.topics.create(*bench.place, attributes)
    with pytest.raises(SmqError, match="exists, with other attributes") as refused:
        await bench.topics.create(*bench.place, topic_attributes.with_defaults({}))
    assert refused.value.code is Code.TOPIC_ALREADY_EXIST


async def test_an_account_has_as_many_topics_as_it_may(bench: Bench) -> None:
    await bench.topics.create(bench.account, "news", topic_attributes.with_defaults({}), most=1)
    with pytest.raises(SmqError, match="as many as it may have"):
        await bench.topics.create(bench.account, "more", topic_attributes.with_defaults({}), most=1)


async def test_attributes_that_a_change_does_not_name_stay(bench: Bench) -> None:
    await bench.make(MaximumMessageSize=2048)
    bench.clock.turn(60)
    await bench.topics.change(*bench.place, {"LoggingEnabled": 1})
    state = await bench.topics.state(*bench.place)
    assert (state.attributes["MaximumMessageSize"], state.is_logged) == (2048, True)
    assert state.modified - state.created == 60


async def test_topics_are_listed_beside_queues_of_the_same_name(bench: Bench) -> None:
    await bench.make()
    await bench.queue("news")
    await bench.topics.create(bench.account, "old", topic_attributes.with_defaults({}))
    assert await bench.topics.names(bench.account, "", "", 1) == (["news"], "news")
    assert await bench.topics.names(bench.account, "", "news", 1) == (["old"], "")
    assert await bench.topics.names(bench.account, "ol", "", 9) == (["old"], "")
    await bench.topics.remove(bench.account, "old")
    assert await bench.topics.names(bench.account, "", "", 9) == (["news"], "")
    assert await bench.queues.names(bench.account, "", "", 9) == (["news"], "")


async def test_every_operation_on_a_missing_topic_says_so(bench: Bench) -> None:
    store, place = bench.topics, bench.place
    for work in (
        store.change(*place, {"LoggingEnabled": 1}),
        store.state(*place),
        store.publish(*place, Publication(b"x")),
        store.subscribe(*place, "s", Subscription("1", URL)),
        store.resubscribe(*place, "s", {"tag": "x"}),
        store.subscription(*place, "s"),
        store.subscriptions(*place, "", "", 10),
        store.unsubscribe(*place, "s"),
    ):
        with pytest.raises(SmqError, match="The topic news does not exist") as refused:
            await work
        assert refused.value.code is Code.TOPIC_NOT_EXIST
    assert not await store.remove(*place)


# --- Subscriptions


async def test_a_subscription_is_made_once_and_again_when_it_is_the_same(bench: Bench) -> None:
    await bench.make()
    assert await bench.subscribe("s", tag="red")
    assert not await bench.subscribe("s", tag="red")
    for differs in ({"tag": "blue"}, {"tag": "red", "form": Format.XML}, {"tag": "red", "strategy": Strategy.DECAY}):
        with pytest.raises(SmqError, match="exists, with other attributes") as refused:
            await bench.subscribe("s", **differs)  # type: ignore[arg-type]
        assert refused.value.code is Code.SUBSCRIPTION_ALREADY_EXIST


async def test_a_change_of_a_subscription_holds_from_the_next_publish_on(bench: Bench) -> None:
    await bench.make()
    await bench.queue("q")
    await bench.subscribe("s", bench.of_queue("q"), tag="red")
    await bench.publish("1", "blue")
    bench.clock.turn(5)
    await bench.topics.resubscribe(*bench.place, "s", {"tag": "blue", "strategy": Strategy.DECAY})
    await bench.publish("2", "blue")
    assert await bench.received("q") == ["2"]
    one = (await bench.topics.subscription(*bench.place, "s")).subscription
    assert (one.tag, one.strategy, one.endpoint) == ("blue", Strategy.DECAY, bench.of_queue("q"))
    assert one.modified > one.created


async def test_a_subscription_that_is_not_there_is_told_from_a_topic_that_is_not(bench: Bench) -> None:
    await bench.make()
    for work in (bench.topics.subscription(*bench.place, "s"), bench.topics.resubscribe(*bench.place, "s", {})):
        with pytest.raises(SmqError) as refused:
            await work
        assert refused.value.code is Code.SUBSCRIPTION_NOT_EXIST
    assert not await bench.topics.unsubscribe(*bench.place, "s")


async def test_subscriptions_are_listed_in_order_and_in_pages(bench: Bench) -> None:
    await bench.make()
    for name in ("b2", "a", "b1"):
        await bench.subscribe(name)

    async def listed(prefix: str, after: str, most: int) -> tuple[list[str], str]:
        found, marker = await bench.topics.subscriptions(*bench.place, prefix, after, most)
        return [state.name for state in found], marker

    assert await listed("", "", 2) == (["a", "b1"], "b1")
    assert await listed("", "b1", 2) == (["b2"], "")
    assert await listed("b", "", 9) == (["b1", "b2"], "")


async def test_a_topic_has_as_many_subscriptions_as_it_may(bench: Bench) -> None:
    await bench.make()
    await asyncio.gather(*(bench.subscribe(f"s{number}") for number in range(MAX_SUBSCRIPTIONS)))
    with pytest.raises(SmqError, match="as many as it may have"):
        await bench.subscribe("more")


# --- Into queues


async def test_a_message_goes_to_each_queue_whose_filter_lets_it(bench: Bench) -> None:
    await bench.make()
    for name, tag in (("all", ""), ("red", "red"), ("blue", "blue")):
        await bench.queue(name)
        await bench.subscribe(name, bench.of_queue(name), tag=tag)
    await bench.publish("1")
    await bench.publish("2", "red")
    assert sorted(await bench.received("all")) == ["1", "2"]
    assert await bench.received("red") == ["2"]
    assert await bench.received("blue") == []
    assert (await bench.result("all")).delivered == 2
    assert (await bench.queues.state(bench.account, "all")).inactive == 2


async def test_a_delivery_has_the_queues_delay_and_what_the_message_brought(bench: Bench) -> None:
    await bench.make()
    await bench.queue("q", DelaySeconds=10)
    await bench.subscribe("s", bench.of_queue("q"))
    await bench.topics.publish(*bench.place, Publication(b"x", extra=b"<MessageGroupId>g</MessageGroupId>"))
    assert await bench.received("q") == []
    assert (await bench.queues.state(bench.account, "q")).delayed == 1
    bench.clock.turn(10)
    (delivery,) = (await bench.queues.receive(bench.account, "q", 1)).deliveries
    assert "<MessageGroupId>g</MessageGroupId>" in delivery.leaves()


async def test_formats_are_those_of_the_subscription(bench: Bench) -> None:
    await bench.make()
    for form in Format:
        await bench.queue(form.lower())
        await bench.subscribe(form.lower(), bench.of_queue(form.lower()), form=form)
    published = await bench.topics.publish(*bench.place, Publication(b"hi"))
    assert await bench.received("simplified") == ["hi"]
    assert f"&lt;MessageId&gt;{published.id}&lt;/MessageId&gt;" in (await bench.received("xml"))[0]
    told = json.loads((await bench.received("json"))[0])
    assert (told["MessageId"], told["SubscriptionName"], told["Message"]) == (published.id, "json", "hi")


async def test_a_body_larger_than_the_topic_takes_is_refused(bench: Bench) -> None:
    await bench.make(MaximumMessageSize=1024)
    await bench.publish("x" * 1024)
    with pytest.raises(SmqError, match="1025 bytes, more than the topic's MaximumMessageSize"):
        await bench.publish("x" * 1025)


async def test_a_queue_that_cannot_take_a_message_keeps_it_from_no_other(bench: Bench) -> None:
    await bench.make()
    await bench.queue("small", MaximumMessageSize=1024)
    await bench.queue("fine")
    for name in ("small", "gone", "fine"):
        await bench.subscribe(name, bench.of_queue(name))
    body = "x" * 1025
    await bench.publish(body)
    assert await bench.received("fine") == [body]
    assert await bench.received("small") == []
    gone, small = await bench.result("gone"), await bench.result("small")
    assert (gone.status, gone.dropped, gone.error) == (404, 1, "The queue gone does not exist.")
    assert (small.status, small.dropped) == (400, 1)
    assert "MaximumMessageSize of the queue small" in small.error


async def test_a_full_account_is_refused_as_a_whole(bench: Bench) -> None:
    await bench.make()
    for name in ("a", "b"):
        await bench.queue(name)
        await bench.subscribe(name, bench.of_queue(name))
    for most_bytes, most_messages in ((50, 0), (0, 1)):
        with pytest.raises(SmqError, match="hold as much as they may") as refused:
            await bench.publish("x" * 20, most_bytes=most_bytes, most_messages=most_messages)
        assert refused.value.code is Code.ACCESS_DENIED
    assert await bench.received("a") == await bench.received("b") == []
    await bench.publish("x" * 20, most_messages=2)
    assert (await bench.held())[0] == 2


async def test_publishes_while_subscriptions_change_reach_those_who_are_there(bench: Bench) -> None:
    await bench.make()
    await bench.queue("steady")
    await bench.subscribe("steady", bench.of_queue("steady"))

    async def come_and_go(name: str) -> None:
        for _ in range(5):
            await bench.subscribe(name)
            await bench.topics.unsubscribe(*bench.place, name)

    await asyncio.gather(*(come_and_go(f"s{one}") for one in range(3)), *(bench.publish(str(n)) for n in range(10)))
    assert sorted(await bench.received("steady")) == sorted(str(number) for number in range(10))
    assert (await bench.held())[0] == 10


# --- To be pushed


async def test_what_is_published_waits_for_its_push_with_content_and_headers(bench: Bench) -> None:
    await bench.make()
    await bench.subscribe("s")
    assert await bench.publish("hi", "red") == 1
    assert await bench.due() == ["s"]
    assert (await bench.topics.state(*bench.place)).waiting == 1
    (push,) = await bench.claim("s")
    assert (push.content, push.tries, push.subscription.endpoint) == (b"hi", 1, URL)
    assert push.headers["x-mns-message-tag"] == "red"
    assert await bench.due() == []


async def test_a_push_that_arrived_is_done(bench: Bench) -> None:
    await bench.make()
    await bench.subscribe("s")
    await bench.publish()
    (push,) = await bench.claim("s")
    await bench.pushes.delivered(push, 204)
    assert await bench.result("s") == PushResult(bench.clock.now, 204, "", delivered=1)
    assert await bench.held() == (0, 0)
    bench.clock.turn(100)
    assert await bench.claim("s") == []
    assert await bench.due() == []


async def test_a_push_that_failed_comes_again_after_its_pause_and_is_given_up_at_last(bench: Bench) -> None:
    await bench.make()
    await bench.subscribe("s")
    await bench.publish()
    (push,) = await bench.claim("s")
    await bench.pushes.failed(push, 500, "The receiver answered 500.", 12)
    assert await bench.due() == []
    bench.clock.turn(11.9)
    assert await bench.claim("s") == []
    bench.clock.turn(0.1)
    assert await bench.due() == ["s"]
    (again,) = await bench.claim("s")
    assert again.tries == 2
    await bench.pushes.failed(again, 0, "It did not answer.", None)
    result = await bench.result("s")
    assert (result.failures, result.dropped, result.waiting, result.error) == (2, 1, 0, "It did not answer.")
    assert await bench.held() == (0, 0)


async def test_who_dies_with_a_push_leaves_it_to_the_next_one(bench: Bench) -> None:
    await bench.make()
    await bench.subscribe("s")
    await bench.publish()
    (lost,) = await bench.claim("s")
    bench.clock.turn(LEASE_MS / 1000 - 0.1)
    assert await bench.due() == []
    bench.clock.turn(0.1)
    assert await bench.due() == ["s"]
    (again,) = await bench.claim("s")
    assert (again.id, again.tries) == (lost.id, 2)
    # Who was only slow says what became of it: a failure is no news, a success is the end.
    await bench.pushes.failed(lost, 500, "late", None)
    assert (await bench.result("s")).dropped == 0
    await bench.pushes.delivered(lost, 200)
    await bench.pushes.delivered(again, 200)
    result = await bench.result("s")
    assert (result.delivered, result.waiting) == (1, 0)
    assert await bench.held() == (0, 0)


async def test_one_subscriber_is_pushed_to_so_often_at_a_time(bench: Bench) -> None:
    await bench.make()
    await bench.subscribe("s")
    for _ in range(LANE_ROOM + 2):
        await bench.publish()
    first = await bench.claim("s")
    assert len(first) == LANE_ROOM
    assert await bench.due() == []
    await bench.publish()
    assert await bench.due() == []  # nobody looks where no room is
    await bench.pushes.delivered(first[0], 200)
    assert await bench.due() == ["s"]
    assert len(await bench.claim("s")) == 1


async def test_one_account_is_pushed_for_so_often_at_a_time_and_looked_at_again(bench: Bench) -> None:
    await bench.make()
    names = [f"s{number}" for number in range(ACCOUNT_ROOM // LANE_ROOM + 1)]
    for name in names:
        await bench.subscribe(name)
    for _ in range(LANE_ROOM):
        await bench.publish()
    taken = [await bench.claim(name) for name in names]
    assert [len(one) for one in taken] == [LANE_ROOM] * (len(names) - 1) + [0]
    assert await bench.due() == []
    await bench.pushes.delivered(taken[0][0], 200)
    bench.clock.turn(0.2)
    assert await bench.due() == [names[-1]]
    assert len(await bench.claim(names[-1])) == 1


async def test_thousands_of_lanes_of_an_account_at_its_bound_let_another_accounts_push_pass(bench: Bench) -> None:
    await bench.make()
    for number in range(MAX_SUBSCRIPTIONS):
        await bench.subscribe(f"s{number:02}")
    await bench.publish()
    taken = [push for number in range(ACCOUNT_ROOM) for push in await bench.claim(f"s{number:02}")]
    assert len(taken) == ACCOUNT_ROOM
    lanes = [f"{bench.account}/many{number}/s" for number in range(10_000)]
    await bench.redis.call("ZADD", keys.LANES, *(word for lane in lanes for word in (bench.clock.now, lane)))
    bench.clock.turn(0.001)
    other = Bench(bench.redis)
    other.clock = bench.clock
    other.topics = Topics(bench.redis, bench.clock)
    await other.make()
    await other.subscribe("s")
    await other.publish()
    assert await bench.claim("s99") == []  # which tells that the account is at its bound
    found: list[Lane] = []
    for _ in range(12):
        found, _ = await bench.pushes.due(64)
        if other.account in {lane.account for lane in found}:
            break
    assert other.account in {lane.account for lane in found}
    await bench.redis.call("ZREM", keys.LANES, *lanes)
    await other.topics.remove(*other.place)


async def test_a_receiver_that_is_away_for_long_has_a_bounded_number_waiting(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "MAX_WAITING", 2)
    await bench.make()
    await bench.queue("q")
    await bench.subscribe("s")
    await bench.subscribe("q", bench.of_queue("q"))
    assert [await bench.publish(str(number)) for number in range(3)] == [1, 1, 0]
    result = await bench.result("s")
    assert (result.waiting, result.dropped) == (2, 1)
    assert "wait for this receiver already" in result.error
    assert len(await bench.received("q")) == 3


async def test_bytes_that_wait_for_a_receiver_are_bounded_too(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "MAX_WAITING_BYTES", 1000)
    await bench.make()
    await bench.subscribe("s")
    assert [await bench.publish("x" * 300) for _ in range(3)] == [1, 0, 0]
    assert (await bench.result("s")).dropped == 2


@pytest.mark.parametrize("how", ["unsubscribe", "remove"])
async def test_the_end_of_a_subscription_is_the_end_of_what_it_waits_for(bench: Bench, how: str) -> None:
    await bench.make()
    await bench.subscribe("s")
    for _ in range(3):
        await bench.publish()
    (push,) = await bench.claim("s", 1)
    if how == "unsubscribe":
        assert await bench.topics.unsubscribe(*bench.place, "s")
    else:
        assert await bench.topics.remove(*bench.place)
    assert await bench.held() == (0, 0)
    bench.clock.turn(100)
    assert await bench.due() == []
    assert await bench.claim("s") == []
    # What was under way comes too late, also for another subscription of the name.
    if how == "remove":
        await bench.make()
    await bench.subscribe("s")
    await bench.pushes.delivered(push, 200)
    assert await bench.result("s") == PushResult()
    left = await bench.redis.call("KEYS", f"smq:{bench.account}::topics:news:s:*")
    assert left == []


async def test_lanes_say_when_the_next_of_them_is_due(redis: RedisServer, bench: Bench) -> None:
    await bench.make()
    await bench.subscribe("s")
    await bench.publish()
    lanes, seconds = await bench.pushes.due(1)
    assert len(lanes) == 1 and seconds >= 0
    (push,) = await bench.claim("s")
    await bench.pushes.failed(push, 500, "no", 3)
    score = await bench.redis.call("ZSCORE", keys.LANES, Lane(*bench.place, "s").text)
    assert int(score) == bench.clock.now + 3000


# --- The account


async def test_the_account_has_a_bucket_and_one_order(bench: Bench) -> None:
    assert await bench.topics.bucket(bench.account) == ""
    await bench.topics.set_bucket(bench.account, "logs")
    assert await bench.topics.bucket(bench.account) == "logs"
    assert await bench.topics.order(bench.account) == await bench.topics.order(bench.account)


async def test_a_publish_has_room_for_all_of_its_notifications_or_none(bench: Bench) -> None:
    await bench.make()
    await bench.queue("a")
    await bench.subscribe("into", bench.of_queue("a"))
    await bench.subscribe("out")
    held, _ = await bench.queues.count()
    topics = Topics(bench.redis, bench.clock, most_bytes=held + 2 * (keys.PLACES_BYTES + 300))
    publication = Publication(b"x" * 20)
    assert (await topics.publish(*bench.place, publication)).waiting == 1
    with pytest.raises(SmqError, match="all accounts together") as refused:
        await topics.publish(*bench.place, publication)
    assert refused.value.code is Code.INTERNAL_ERROR
    assert await bench.received("a") == ["x" * 20]
    (push,) = await bench.claim("out")
    assert (await bench.queues.count())[0] > held
    await bench.pushes.delivered(push, 200)
    await bench.topics.unsubscribe(*bench.place, "out")
    await bench.queues.remove(bench.account, "a")
    assert (await bench.queues.count())[0] == held
