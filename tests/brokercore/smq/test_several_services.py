"""Two real processes of the service on one Redis: they share all queues, and wake each other's polls."""

from __future__ import annotations

import http.client
import secrets
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing

import pytest
from redis import Redis

from brokercore.smq.client import QueueClient
from brokercore.smq.wire.errors import Code, SmqError
from brokercore.smq.wire.messages import Draft
from tests.support.broker import SYSTEM_KEY, SYSTEM_SECRET, eventually
from tests.support.queue_service import ACCOUNT, QueueServiceProcess, queue_service
from tests.support.redis_server import RedisServer, redis_server

pytestmark = pytest.mark.process
PATIENCE_SECONDS = 60.0
WAIT_S = 30


def client_of(service: QueueServiceProcess) -> QueueClient:
    return QueueClient(service.address, SYSTEM_KEY, SYSTEM_SECRET, account=ACCOUNT, timeout_s=40)


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture(scope="module")
def services(redis: RedisServer) -> Iterator[tuple[QueueServiceProcess, QueueServiceProcess]]:
    with queue_service(redis) as here, queue_service(redis) as there:
        yield here, there


@pytest.fixture
def here(services: tuple[QueueServiceProcess, QueueServiceProcess]) -> QueueClient:
    return client_of(services[0])


@pytest.fixture
def there(services: tuple[QueueServiceProcess, QueueServiceProcess]) -> QueueClient:
    return client_of(services[1])


@pytest.fixture
def queue(here: QueueClient) -> str:
    name = f"q-{secrets.token_hex(5)}"
    here.create_queue(name)
    return name


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(50) as pool:
        yield pool


def polling(threads: ThreadPoolExecutor, client: QueueClient, queue: str, redis: RedisServer) -> Future[list[bytes]]:
    """A receive that waits at the service of the client."""
    with Redis.from_url(redis.url) as connection:
        channel = f"smq:{ACCOUNT}:{queue}:news"
        (before,) = connection.pubsub_numsub(channel)
        poll = threads.submit(lambda: [one.body for one in client.receive(queue, wait_s=WAIT_S)])
        eventually(lambda: connection.pubsub_numsub(channel)[0][1] > before[1], PATIENCE_SECONDS)
    return poll


def test_what_one_does_the_other_knows(here: QueueClient, there: QueueClient, queue: str) -> None:
    there.set_attributes(queue, {"VisibilityTimeout": 77})
    assert here.queue(queue).attributes["VisibilityTimeout"] == 77
    here.send(queue, b"x")
    (received,) = there.receive(queue)
    assert here.receive(queue) == []
    handle, _ = here.hide(queue, received.handle, 500)
    (refused,) = there.delete(queue, [received.handle])
    assert refused[1].code is Code.MESSAGE_NOT_EXIST
    assert there.delete(queue, [handle]) == []
    assert here.queue(queue).inactive == 0


def test_a_poll_at_one_is_woken_by_a_send_at_the_other(
    here: QueueClient, there: QueueClient, queue: str, threads: ThreadPoolExecutor, redis: RedisServer
) -> None:
    poll = polling(threads, here, queue, redis)
    there.send(queue, b"woken")
    assert poll.result(PATIENCE_SECONDS) == [b"woken"]


def test_a_poll_at_one_is_woken_when_a_delay_or_a_hiding_ends_that_the_other_began(
    here: QueueClient, there: QueueClient, queue: str, threads: ThreadPoolExecutor, redis: RedisServer
) -> None:
    poll = polling(threads, here, queue, redis)
    there.send(queue, b"delayed", delay_s=1)
    assert poll.result(PATIENCE_SECONDS) == [b"delayed"]
    there.set_attributes(queue, {"VisibilityTimeout": 1})
    there.send(queue, b"hidden")
    assert [one.body for one in there.receive(queue)] == [b"hidden"]
    again = threads.submit(lambda: [one.body for one in here.receive(queue, wait_s=WAIT_S)])
    assert again.result(PATIENCE_SECONDS) == [b"hidden"]


def test_a_poll_at_one_ends_when_the_other_removes_the_queue(
    here: QueueClient, there: QueueClient, queue: str, threads: ThreadPoolExecutor, redis: RedisServer
) -> None:
    poll = polling(threads, here, queue, redis)
    there.delete_queue(queue)
    with pytest.raises(SmqError) as gone:
        poll.result(PATIENCE_SECONDS)
    assert gone.value.code is Code.QUEUE_NOT_EXIST


def test_many_consumers_of_both_get_each_message_once(
    here: QueueClient, there: QueueClient, queue: str, threads: ThreadPoolExecutor
) -> None:
    here.set_attributes(queue, {"VisibilityTimeout": 10_000})
    found: Counter[bytes] = Counter()
    lock, all_there = threading.Lock(), threading.Event()
    total = 800

    def consume(client: QueueClient) -> None:
        while not all_there.is_set():
            deliveries = client.receive(queue, most=5, wait_s=1)
            assert client.delete(queue, [one.handle for one in deliveries]) == []
            with lock:
                found.update(one.body for one in deliveries)
                if found.total() >= total:
                    all_there.set()

    consumers = [threads.submit(consume, (here, there)[number % 2]) for number in range(20)]
    for start in range(0, total, 16):
        client = (here, there)[start // 16 % 2]
        client.send_batch(queue, [Draft(str(number).encode()) for number in range(start, start + 16)])
    for consumer in consumers:
        consumer.result(PATIENCE_SECONDS)
    assert sorted(map(int, found)) == list(range(total))
    assert found.total() == total
    state = here.queue(queue)
    assert (state.active, state.inactive, state.delayed) == (0, 0, 0)


def test_one_goes_on_while_the_other_is_killed_with_polls_that_wait_there(
    redis: RedisServer, here: QueueClient, queue: str, threads: ThreadPoolExecutor
) -> None:
    with queue_service(redis) as other:
        lost = polling(threads, client_of(other), queue, redis)
        poll = polling(threads, here, queue, redis)
        other.kill()
        assert lost.exception(PATIENCE_SECONDS) is not None
        here.send(queue, b"for who is left")
        assert poll.result(PATIENCE_SECONDS) == [b"for who is left"]
        other.start()
        poll = threads.submit(lambda: [one.body for one in client_of(other).receive(queue, wait_s=WAIT_S)])
        here.send(queue, b"and for who is back")
        assert poll.result(PATIENCE_SECONDS) == [b"and for who is back"]


def test_a_stop_in_order_answers_who_waits_and_closes_who_does_not(
    redis: RedisServer, threads: ThreadPoolExecutor
) -> None:
    with queue_service(redis) as service:
        client = client_of(service)
        name = f"q-{secrets.token_hex(5)}"
        client.create_queue(name)
        with closing(http.client.HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE_SECONDS)) as idle:
            idle.request("GET", "/healthz")
            assert idle.getresponse().read()
            poll = polling(threads, client, name, redis)
            assert service.stop(PATIENCE_SECONDS) == 0
            assert poll.result(PATIENCE_SECONDS) == []
            assert idle.sock.recv(1) == b""
        assert "a task ended" not in service.log
