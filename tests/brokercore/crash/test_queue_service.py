"""`kill -9` of the queue service, of its Redis, of both, while clients send, receive and delete."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from redis import Redis

from brokercore.smq.client import QueueClient, QueueServiceUnavailable
from brokercore.smq.wire.errors import Code, SmqError
from brokercore.smq.wire.messages import Draft, Sent
from tests.brokercore.crash.field import ALWAYS
from tests.brokercore.crash.figures import judge_bodies
from tests.support.broker import SYSTEM_KEY, SYSTEM_SECRET, eventually
from tests.support.queue_service import ACCOUNT, QueueServiceProcess, queue_service
from tests.support.redis_server import RedisServer, redis_server

KILLS = 3
BETWEEN = 150
"""Messages that are acknowledged between two kills."""
PATIENCE_SECONDS = 90.0
QUEUE = "orders"
LONG = 40_000
"""Seconds that no test lasts."""
_PAUSE_SECONDS = 0.05


@dataclass
class Ground:
    """A service and its Redis, which writes to disk before it answers."""

    redis: RedisServer
    service: QueueServiceProcess

    def client(self, timeout_s: float = 40) -> QueueClient:
        return QueueClient(self.service.address, SYSTEM_KEY, SYSTEM_SECRET, account=ACCOUNT, timeout_s=timeout_s)

    def kill_service(self) -> None:
        self.service.kill()
        self.service.start()

    def kill_redis(self) -> None:
        self.redis.kill()
        self.redis.start()

    def kill_both(self) -> None:
        self.service.kill()
        self.kill_redis()
        self.service.start()

    def counts(self) -> tuple[int, int, int]:
        """Active, hidden and delayed messages."""
        state = eventually(self._state, PATIENCE_SECONDS)
        return state.active, state.inactive, state.delayed

    def _state(self) -> object:
        try:
            return self.client().queue(QUEUE)
        except (SmqError, QueueServiceUnavailable):  # until it is connected to its Redis again
            return None

    def held(self) -> tuple[int, int, int]:
        """Messages and bytes that the account holds, and entries of all keys of the queue, as Redis has them."""
        with Redis.from_url(self.redis.url) as redis:
            messages, size = redis.hmget(f"smq:{ACCOUNT}", "messages", "bytes")
            kinds = {"ready": redis.zcard, "delayed": redis.zcard, "hidden": redis.zcard, "ages": redis.zcard}
            entries = sum(int(count(f"smq:{ACCOUNT}:{QUEUE}:{kind}")) for kind, count in kinds.items())
            entries += sum(int(redis.hlen(f"smq:{ACCOUNT}:{QUEUE}:{kind}")) for kind in ("bodies", "states"))
            return int(messages or 0), int(size or 0), entries


@pytest.fixture
def ground() -> Iterator[Ground]:
    with redis_server(*ALWAYS) as redis, queue_service(redis) as service:
        yield Ground(redis, service)


class Load:
    """Clients in threads, and what each of them was told."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.sent: list[str] = []
        self.acknowledged: list[str] = []
        self.received: list[str] = []
        self.deleted: set[str] = set()
        self.came_back: list[str] = []
        """Received, where the receive began after the deletion was acknowledged."""
        self.broken: list[BaseException] = []
        self._done_sending, self._done = threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(work, number), daemon=True)
            for work in (self._send, self._receive)
            for number in range(2)
        ]

    def start(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def wait_for_more(self, count: int) -> None:
        """Wait until so many more messages are acknowledged."""
        wanted = len(self.acknowledged) + count
        eventually(lambda: self.broken or len(self.acknowledged) >= wanted, PATIENCE_SECONDS)
        assert self.broken == []

    def stop_sending(self) -> None:
        self._done_sending.set()
        for thread in self._threads[:2]:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive()

    def stop(self) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive()
        assert self.broken == []

    def _run(self, work: Callable[[QueueClient, int], None], number: int) -> None:
        try:
            work(self.ground.client(), number)
        except BaseException as error:  # noqa: BLE001  a thread's failure is the test's
            self.broken.append(error)

    def _send(self, client: QueueClient, number: int) -> None:
        """One message, then a batch, and so on."""
        count = 0
        while not self._done_sending.is_set():
            bodies = [f"{number}:{count + place}" for place in range(1 if count % 2 else 6)]
            count += len(bodies)
            self.sent += bodies
            try:
                if len(bodies) == 1:
                    client.send(QUEUE, bodies[0].encode())
                    self.acknowledged += bodies
                else:
                    results = client.send_batch(QUEUE, [Draft(body.encode()) for body in bodies])
                    pairs = zip(bodies, results, strict=True)
                    self.acknowledged += [body for body, result in pairs if isinstance(result, Sent)]
            except (SmqError, QueueServiceUnavailable) as error:
                self._expected(error)

    def _receive(self, client: QueueClient, _number: int) -> None:
        while not self._done.is_set():
            gone = set(self.deleted)
            try:
                deliveries = client.receive(QUEUE, most=8, wait_s=1)
                bodies = {one.handle: one.body.decode() for one in deliveries}
                self.received += bodies.values()
                self.came_back += [body for body in bodies.values() if body in gone]
                refused = {handle for handle, _ in client.delete(QUEUE, list(bodies))}
                self.deleted |= {body for handle, body in bodies.items() if handle not in refused}
            except (SmqError, QueueServiceUnavailable) as error:
                self._expected(error)

    def _expected(self, error: SmqError | QueueServiceUnavailable) -> None:
        if isinstance(error, SmqError) and error.code is not Code.INTERNAL_ERROR:
            raise error
        self._done.wait(_PAUSE_SECONDS)


@pytest.mark.parametrize("what", ["service", "redis", "both"])
def test_nothing_acknowledged_is_lost_or_comes_back_when_it_is_killed_again_and_again(
    ground: Ground, what: str
) -> None:
    ground.client().create_queue(QUEUE, {"VisibilityTimeout": 8})
    load = Load(ground).start()
    for _ in range(KILLS):
        load.wait_for_more(BETWEEN)
        getattr(ground, f"kill_{what}")()
    load.wait_for_more(BETWEEN)
    load.stop_sending()
    names = {"service": "the queue service", "redis": "its Redis", "both": "queue service and Redis"}
    judge_bodies(
        f"kill -9 of {names[what]}, {KILLS} times", load.sent, load.acknowledged, lambda: list(load.received),
        client="queues", most_deliveries=4 + KILLS,
    )  # fmt: skip
    eventually(lambda: ground.counts() == (0, 0, 0), PATIENCE_SECONDS)
    load.stop()
    assert load.came_back == []
    assert set(load.received) <= set(load.sent)
    assert ground.held() == (0, 0, 0)


@pytest.mark.parametrize("what", ["service", "redis", "both"])
def test_counters_are_exact_and_handles_hold_after_a_kill(ground: Ground, what: str) -> None:
    client = ground.client()
    client.create_queue(QUEUE, {"VisibilityTimeout": LONG})
    for start in range(0, 48, 16):
        client.send_batch(QUEUE, [Draft(str(number).encode()) for number in range(start, start + 16)])
    delayed = [client.send(QUEUE, b"later", delay_s=LONG).handle for _ in range(10)]
    received = client.receive(QUEUE, most=16) + client.receive(QUEUE, most=4)
    assert client.delete(QUEUE, [one.handle for one in received[:5]]) == []
    before = (28, 15, 10)
    assert ground.counts() == before
    held = ground.held()
    assert held[0] == sum(before)

    getattr(ground, f"kill_{what}")()

    assert ground.counts() == before
    assert ground.held() == held
    client = ground.client()
    handles = [client.hide(QUEUE, one.handle, LONG)[0] for one in received[5:10]]
    handles += [one.handle for one in received[10:]]
    assert client.delete(QUEUE, handles) == []
    for handle in delayed[:5]:
        client.hide(QUEUE, handle, LONG)
    assert client.delete(QUEUE, delayed[5:]) == []
    for handle, why in client.delete(QUEUE, [one.handle for one in received[:5]]):
        assert why.code is Code.MESSAGE_NOT_EXIST, handle
    assert ground.counts() == (28, 0, 5)
    bodies = Counter(one.body for _ in range(2) for one in client.receive(QUEUE, most=16))
    known = {one.body for one in received}
    assert bodies.total() == len(bodies) == 28
    assert known.isdisjoint(bodies)


@pytest.mark.parametrize("what", ["service", "redis"])
def test_who_polls_while_it_is_killed_gets_what_is_sent_afterwards(ground: Ground, what: str) -> None:
    ground.client().create_queue(QUEUE)
    found: list[bytes] = []
    stopped = threading.Event()

    def poll() -> None:
        client = ground.client()
        while not found and not stopped.is_set():
            try:
                found.extend(one.body for one in client.receive(QUEUE, wait_s=20))
            except (SmqError, QueueServiceUnavailable):
                time.sleep(_PAUSE_SECONDS)

    polling = threading.Thread(target=poll, daemon=True)
    polling.start()
    with Redis.from_url(ground.redis.url) as redis:
        eventually(redis.pubsub_channels, PATIENCE_SECONDS)
    getattr(ground, f"kill_{what}")()
    assert ground.counts() == (0, 0, 0)
    ground.client().send(QUEUE, b"afterwards")
    polling.join(PATIENCE_SECONDS)
    stopped.set()
    assert found == [b"afterwards"]


def test_a_frozen_redis_is_told_within_seconds_and_what_was_acknowledged_is_there_when_it_thaws(ground: Ground) -> None:
    ground.client().create_queue(QUEUE, {"VisibilityTimeout": LONG})
    load = Load(ground).start()
    load.wait_for_more(BETWEEN)
    ground.redis.signal(signal.SIGSTOP)
    try:
        eventually(lambda: _refusal(ground.client(timeout_s=4)) == (Code.INTERNAL_ERROR, True), PATIENCE_SECONDS)
    finally:
        ground.redis.signal(signal.SIGCONT)
    load.wait_for_more(BETWEEN)
    load.stop_sending()
    eventually(lambda: set(load.acknowledged) <= set(load.received), PATIENCE_SECONDS)
    load.stop()
    assert load.came_back == []
    active, hidden, delayed = ground.counts()
    assert (active, delayed) == (0, 0)
    assert hidden <= len(set(load.received) - load.deleted)  # whose deletion was not acknowledged


def _refusal(client: QueueClient) -> tuple[Code, bool] | None:
    """The code of what is refused, and whether the sentence says what to do."""
    try:
        client.queue(QUEUE)
    except SmqError as error:
        return error.code, "try again" in error.message
    except QueueServiceUnavailable:
        return None
    return None


def test_a_queue_that_was_removed_stays_so_and_its_handles_are_of_no_other(ground: Ground) -> None:
    client = ground.client()
    client.create_queue(QUEUE)
    client.send(QUEUE, b"x")
    (received,) = client.receive(QUEUE)
    client.delete_queue(QUEUE)
    ground.kill_both()
    client = ground.client()
    assert eventually(lambda: _names(client), PATIENCE_SECONDS) == ([], "")
    client.create_queue(QUEUE)
    assert [why.code for _, why in client.delete(QUEUE, [received.handle])] == [Code.RECEIPT_HANDLE_ERROR]
    assert ground.counts() == (0, 0, 0)
    assert ground.held() == (0, 0, 0)


def _names(client: QueueClient) -> tuple[list[str], str] | None:
    try:
        return client.queue_names()
    except (SmqError, QueueServiceUnavailable):
        return None
