"""A store of another release: an older one is brought up to date, a newer one is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import redis as redis_py

from brokercore.names import HALF_TOPIC
from brokercore.protocol.properties import SENDER_ACCOUNT, encode_properties
from brokercore.server.errors import StoreNewer
from brokercore.server.storage.index import index_record
from brokercore.server.storage.parking import Parking
from brokercore.server.storage.store import LAYOUT
from tests.brokercore.server.storage.test_recovery import opened
from tests.support.broker import BrokerProcess
from tests.support.redis_server import RedisServer, redis_server


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


def client(server: RedisServer) -> Any:
    return redis_py.Redis(unix_socket_path=str(server.socket))


def of_layout_1(server: RedisServer) -> None:
    """What a broker of long ago left: two keys of three messages, and a value of its name server."""
    own = client(server)
    own.set("gantry:broker-a:queues:last", 2)
    own.sadd("gantry:broker-a:index", "490000:some")
    places = [(1 << 40) + 7, (2 << 40) + 3, (1 << 40) + 5]
    own.zadd("gantry:broker-a:index:490000:some", {index_record("k", place): 0 for place in places})
    own.zadd("gantry:broker-a:index:490000:some", {index_record("other", places[0]): 0})
    own.hset("gantry:broker-a:kv", '["ORDER_TOPIC_CONFIG","t"]', "broker-a:8")


async def found(server: RedisServer, key: str) -> list[int]:
    store, _ = await opened(server)
    pieces = store.index.find(store.reader, "some", key, 0, 1 << 60)
    places = [place async for piece in pieces for place in piece]
    await store.close()
    return places


async def test_an_index_of_an_older_release_is_found_in_the_latest_message_first(own_redis: RedisServer) -> None:
    of_layout_1(own_redis)
    assert await found(own_redis, "k") == [(1 << 40) + 7, (1 << 40) + 5, (2 << 40) + 3]
    assert await found(own_redis, "other") == [(1 << 40) + 7]
    assert client(own_redis).get("gantry:broker-a:layout") == str(LAYOUT).encode()
    assert client(own_redis).hgetall("gantry:kv") == {b'["ORDER_TOPIC_CONFIG","t"]': b"broker-a:8"}


async def test_an_upgrade_that_was_cut_off_is_done_again_and_adds_nothing_twice(own_redis: RedisServer) -> None:
    of_layout_1(own_redis)
    client(own_redis).append("gantry:broker-a:index:490000:some:new", b"half of it")
    client(own_redis).hset("gantry:kv", '["ORDER_TOPIC_CONFIG","t"]', "changed since")
    assert await found(own_redis, "k") == [(1 << 40) + 7, (1 << 40) + 5, (2 << 40) + 3]
    assert not client(own_redis).exists("gantry:broker-a:index:490000:some:new")
    assert client(own_redis).hvals("gantry:kv") == [b"changed since"]


async def test_a_new_store_names_its_layout(own_redis: RedisServer) -> None:
    store, _ = await opened(own_redis)
    await store.close()
    assert client(own_redis).get("gantry:broker-a:layout") == str(LAYOUT).encode()


async def test_a_store_of_a_newer_release_is_refused_and_not_touched(own_redis: RedisServer) -> None:
    store, _ = await opened(own_redis)
    await store.close()
    client(own_redis).set("gantry:broker-a:layout", LAYOUT + 1)
    with pytest.raises(StoreNewer, match=rf"newer release \(layout {LAYOUT + 1}; this one knows up to {LAYOUT}\)"):
        await opened(own_redis)
    assert client(own_redis).get("gantry:broker-a:layout") == str(LAYOUT + 1).encode()


def test_a_broker_ends_with_one_sentence_on_a_store_of_a_newer_release(own_redis: RedisServer) -> None:
    client(own_redis).set("gantry:broker-a:layout", LAYOUT + 1)
    broker = BrokerProcess(own_redis.url)
    try:
        with pytest.raises(AssertionError, match="newer release"):
            broker.start()
        assert "Traceback" not in broker.log
    finally:
        broker.close()


async def test_half_messages_of_an_older_release_wait_with_their_senders(own_redis: RedisServer) -> None:
    store, topics = await opened(own_redis)
    await store.writer.call("SET", store.keys.layout, "2")
    queue = topics.get(HALF_TOPIC).queues[0]  # type: ignore[union-attr]
    for sender in ("42", "", "43", "42"):
        stored: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        properties = encode_properties({"REAL_TOPIC": "orders", SENDER_ACCOUNT: sender})
        Parking(store, store.keys.half).park(queue, 1_000, b"", properties, stored.set_result, topic="orders")
        assert await stored is None
    await store.close()
    store, _ = await opened(own_redis)
    found = {sender: await Parking(store, store.keys.half_of(sender)).due(1_000, 9) for sender in ("", "42", "43")}
    await store.close()
    assert {sender: [place - queue.base for place in places] for sender, places in found.items()} == {
        "": [1], "42": [0, 3], "43": [2],
    }  # fmt: skip
    assert client(own_redis).smembers("gantry:broker-a:half:senders") == {b"42", b"43"}
