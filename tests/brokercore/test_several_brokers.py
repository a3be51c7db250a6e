"""Two broker processes on one Redis are one cluster: for the name server, for clients, when one dies or joins."""

from __future__ import annotations

import itertools
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from brokercore.client import Admin, ConsumeResult, Message, MessageView, Producer, PushConsumer, TransactionState
from brokercore.client.errors import BrokerNotExist, ClientError, TopicNotExist
from brokercore.client.session import Call
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.grpc import messaging_pb2 as pb
from tests.brokercore.server.grpc.caller import Caller, resource
from tests.brokercore.server.wire import Wire
from tests.support.broker import BrokerProcess, eventually
from tests.support.brokers import CREDENTIALS, Pair, two_brokers

_numbers = itertools.count()


@pytest.fixture(scope="module")
def running() -> Iterator[Pair]:
    with two_brokers(gantry_transaction_check_seconds="1", gantry_grpc_port="0") as pair:
        yield pair


@pytest.fixture
def pair(running: Pair) -> Pair:
    """Both brokers serve, whatever the test before did."""
    for broker in (running.a, running.b):
        if not broker.running:
            broker.start()
    running.whole()
    return running


class Received:
    """Bodies that a consumer got, with the broker of each."""

    def __init__(self) -> None:
        self.views: list[MessageView] = []

    def __call__(self, view: MessageView) -> ConsumeResult:
        self.views.append(view)
        return ConsumeResult.SUCCESS

    @property
    def bodies(self) -> Counter[bytes]:
        return Counter(view.body for view in list(self.views))

    @property
    def brokers(self) -> set[str]:
        return {view.queue.broker_name for view in list(self.views)}


def a_topic(pair: Pair, message_type: str = "NORMAL", **options: bool) -> str:
    name = f"topic-{next(_numbers)}"
    pair.admin.topics.create(name, queues=2, message_type=message_type, **options)
    return name


@contextmanager
def consuming(pair: Pair, *topics: str) -> Iterator[Received]:
    group = f"GID-{next(_numbers)}"
    pair.admin.groups.create(group)
    received = Received()
    consumer = PushConsumer(pair.namesrv, CREDENTIALS, group, consume_from="CONSUME_FROM_FIRST_OFFSET")
    for topic in topics:
        consumer.subscribe(topic)
    consumer.on_message(received)
    with consumer.start():
        yield received


@contextmanager
def producing(pair: Pair) -> Iterator[Producer]:
    with Producer(
        pair.namesrv, CREDENTIALS, "PID-several", transaction_check=lambda _: TransactionState.COMMIT
    ) as producer:
        yield producer


# Routes


def test_the_name_server_shows_both_brokers_whichever_answers(pair: Pair) -> None:
    topic = a_topic(pair)
    for address in (pair.namesrv, pair.a.address, pair.b.address):
        with Admin(address, CREDENTIALS) as admin:
            route = admin.topics.route(topic)
            assert [(queue.broker_name, queue.write_queues) for queue in route.queues] == [
                ("broker-a", 2),
                ("broker-b", 2),
            ]
            assert admin.brokers.cluster().brokers == {"broker-a": pair.a.address, "broker-b": pair.b.address}
            assert topic in admin.topics.names()


def test_a_topic_of_one_broker_has_a_route_and_is_listed_everywhere(pair: Pair) -> None:
    ext = {
        "topic": "of-b-only", "readQueueNums": "3", "writeQueueNums": "3", "perm": "6", "order": "false"
    }  # fmt: skip
    pair.admin.session.call(Call(pair.b.address, RequestCode.UPDATE_AND_CREATE_TOPIC, ext))
    with Admin(pair.a.address, CREDENTIALS) as admin:
        assert [queue.broker_name for queue in admin.topics.route("of-b-only").queues] == ["broker-b"]
        assert "of-b-only" in admin.topics.names()


def test_key_values_are_the_same_whichever_broker_answers(pair: Pair) -> None:
    ext = {"namespace": "ORDER_TOPIC_CONFIG", "key": "shared", "value": "broker-a:8;broker-b:8"}
    pair.admin.session.call(Call(pair.a.address, RequestCode.PUT_KV_CONFIG, ext))
    for address in (pair.a.address, pair.b.address):
        answer = pair.admin.session.call(Call(address, RequestCode.GET_KV_CONFIG, ext))
        assert answer.ext["value"] == "broker-a:8;broker-b:8"


def test_a_deleted_topic_has_no_route_at_once(pair: Pair) -> None:
    topic = a_topic(pair)
    pair.admin.topics.delete(topic)
    for address in (pair.a.address, pair.b.address):
        with Admin(address, CREDENTIALS) as admin, pytest.raises(TopicNotExist):
            admin.topics.route(topic)


def test_clients_of_grpc_are_told_the_grpc_ports_of_both(pair: Pair) -> None:
    topic, group = a_topic(pair), f"GID-{next(_numbers)}"
    pair.admin.groups.create(group)
    ports = {"broker-a": int(pair.a.grpc.rpartition(":")[2]), "broker-b": int(pair.b.grpc.rpartition(":")[2])}
    for broker in (pair.a, pair.b):
        with Caller(broker.grpc) as caller:
            request = pb.QueryRouteRequest(topic=resource(topic))
            route = caller.call("QueryRoute", request, pb.QueryRouteResponse)
            found = {queue.broker.name: queue.broker.endpoints.addresses[0].port for queue in route.message_queues}
            assert (found, len(route.message_queues)) == (ports, 4)
            asked = pb.QueryAssignmentRequest(topic=resource(topic), group=resource(group))
            assigned = caller.call("QueryAssignment", asked, pb.QueryAssignmentResponse).assignments
            assert {item.message_queue.broker.name for item in assigned} == {"broker-a", "broker-b"}


# Messages


def test_messages_spread_over_both_brokers_and_are_consumed_from_both(pair: Pair) -> None:
    topic = a_topic(pair)
    bodies = [b"%d" % number for number in range(16)]
    with producing(pair) as producer:
        sent = {producer.send(Message(topic, body)).queue.broker_name for body in bodies}
    assert sent == {"broker-a", "broker-b"}
    with consuming(pair, topic) as received:
        eventually(lambda: len(received.bodies) == 16, 20)
    assert received.bodies == Counter(bodies)
    assert received.brokers == {"broker-a", "broker-b"}
    stats = pair.admin.topics.stats(topic)
    assert {queue.broker_name for queue in stats} == {"broker-a", "broker-b"}
    assert sum(item.max_offset for item in stats.values()) == 16


def test_messages_of_both_brokers_are_found_by_key_and_by_id(pair: Pair) -> None:
    topic = a_topic(pair)
    with producing(pair) as producer:
        sent = [producer.send(Message(topic, b"x", keys="booking-7")) for _ in range(4)]
    found = pair.admin.messages.query(topic, "booking-7")
    assert {message.unique_id for message in found} == {result.message_id for result in sent}
    assert {message.store_host[1] for message in found} == {
        int(broker.address.rpartition(":")[2]) for broker in (pair.a, pair.b)
    }
    for result in sent:
        assert pair.admin.messages.view(result.offset_message_id, topic).unique_id == result.message_id


def test_a_reply_is_sent_to_the_broker_that_has_the_question(pair: Pair) -> None:
    topic = a_topic(pair)
    with producing(pair) as producer:
        for _ in range(4):
            sent = producer.send(Message(topic, b"?"))
            question = pair.admin.messages.view(sent.offset_message_id, topic)
            route = pair.admin.topics.route(f"{question.properties['CLUSTER']}_REPLY_TOPIC")
            assert [queue.broker_name for queue in route.queues] == [sent.queue.broker_name]
    both = pair.admin.topics.route("DefaultCluster_REPLY_TOPIC")
    assert [queue.broker_name for queue in both.queues] == ["broker-a", "broker-b"]


def test_delayed_and_transactional_messages_are_delivered_by_their_broker(pair: Pair) -> None:
    delayed, half = a_topic(pair, "DELAY"), a_topic(pair, "TRANSACTION")
    with consuming(pair, delayed) as first, consuming(pair, half) as second, producing(pair) as producer:
        at = int(time.time() * 1000) + 300
        for number in range(4):
            producer.send(Message(delayed, b"%d" % number, deliver_at_ms=at))
            producer.send_transaction(Message(half, b"%d" % number), lambda *_: TransactionState.COMMIT)
        eventually(lambda: len(first.bodies) == len(second.bodies) == 4, 20)
    assert first.brokers == second.brokers == {"broker-a", "broker-b"}


def test_an_ordered_topic_keeps_its_queues_while_a_broker_is_away(pair: Pair) -> None:
    topic = a_topic(pair, "FIFO", order=True)
    assert pair.admin.topics.route(topic).order_conf == "broker-a:2;broker-b:2"
    with producing(pair) as producer:
        queues = {key: producer.send_ordered(Message(topic, b"1"), key).queue for key in "abcdefgh"}
        assert {queue.broker_name for queue in queues.values()} == {"broker-a", "broker-b"}
        pair.b.kill()
        pair.alone("broker-a")
        for key, queue in queues.items():
            if queue.broker_name == "broker-a":
                assert producer.send_ordered(Message(topic, b"2"), key).queue == queue
            else:
                with pytest.raises(ClientError):
                    producer.send_ordered(Message(topic, b"2"), key)


def test_a_topic_that_is_ordered_overall_lies_on_one_broker(pair: Pair) -> None:
    topics = [f"overall-{number}" for number in range(8)]
    homes = {}
    for topic in topics:
        for _ in range(2):  # changed later, it stays where it is
            pair.admin.topics.create(topic, queues=1, message_type="FIFO", order=True, one_broker=True)
        homes[topic] = [queue.broker_name for queue in pair.admin.topics.route(topic).queues]
    assert sorted({tuple(home) for home in homes.values()}) == [("broker-a",), ("broker-b",)]
    pair.b.kill()
    pair.alone("broker-a")
    with pytest.raises(BrokerNotExist):
        pair.admin.topics.create(
            next(topic for topic in topics if homes[topic] == ["broker-b"]), queues=1, order=True, one_broker=True
        )


# Failures


@pytest.mark.parametrize("name", ["broker-a", "broker-b"])
def test_nothing_acknowledged_is_lost_when_a_broker_is_killed_and_sends_go_on(pair: Pair, name: str) -> None:
    victim, other = (pair.a, "broker-b") if name == "broker-a" else (pair.b, "broker-a")
    topic, half = a_topic(pair), a_topic(pair, "TRANSACTION")
    acknowledged: list[tuple[bytes, str]] = []
    refused: list[ClientError] = []
    stop = threading.Event()

    def send(producer: Producer) -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            body = b"%d" % number
            try:
                if number % 2:
                    result = producer.send(Message(topic, body))
                else:
                    result = producer.send_transaction(Message(half, body), lambda *_: TransactionState.COMMIT)
                acknowledged.append((body, result.queue.broker_name))
            except ClientError as error:
                refused.append(error)

    # The producer stays: a broker that was killed before it heard the end of a transaction asks for it.
    with producing(pair) as producer, consuming(pair, topic, half) as received:
        sender = threading.Thread(target=send, args=(producer,))
        sender.start()
        try:
            eventually(lambda: len({broker for _, broker in acknowledged}) == 2, 20)
            victim.kill()
            after = len(acknowledged)
            eventually(lambda: sum(broker == other for _, broker in acknowledged[after:]) >= 50, 20)
            pair.alone(other)  # the name server answers for the one that is left
            victim.start()
            pair.whole()
        finally:
            stop.set()
            sender.join(20)
        eventually(lambda: {body for body, _ in acknowledged} <= set(received.bodies), 90)
    assert refused == []


def test_a_frozen_broker_leaves_the_routes_and_comes_back(pair: Pair) -> None:
    pair.b.signal(signal.SIGSTOP)
    try:
        eventually(lambda: pair.names(pair.a.address) == ["broker-a"], 20)
        assert pair.names() == ["broker-a"]  # new connections are accepted by the one that runs
    finally:
        pair.b.signal(signal.SIGCONT)
    pair.whole()


def test_a_redis_that_takes_no_writes_or_hangs_makes_no_broker_vanish(pair: Pair) -> None:
    _redis(pair, "CONFIG", "SET", "maxmemory", "1")
    try:
        _beats_stand_still_for(pair, seconds=6)
        assert pair.names(pair.a.address) == pair.names(pair.b.address) == ["broker-a", "broker-b"]
    finally:
        _redis(pair, "CONFIG", "SET", "maxmemory", "0")
    topic = a_topic(pair)
    for address in (pair.a.address, pair.b.address):
        with Admin(address, CREDENTIALS) as admin:
            admin.topics.route(topic)
    pair.redis.signal(signal.SIGSTOP)
    try:
        for address in (pair.a.address, pair.b.address):
            with Admin(address, CREDENTIALS, timeout_ms=5000) as admin:
                assert [queue.broker_name for queue in admin.topics.route(topic).queues] == ["broker-a", "broker-b"]
    finally:
        pair.redis.signal(signal.SIGCONT)
    pair.whole()


def test_a_broker_that_is_stopped_is_known_as_stopped_and_a_killed_one_as_silent(pair: Pair) -> None:
    pair.b.stop()
    pair.alone("broker-a")
    assert pair.admin.brokers.runtime_info()["broker-a"]["gantryBrokers"] == "broker-b=stopped"
    pair.b.start()
    pair.whole()
    pair.b.kill()
    pair.alone("broker-a")
    assert pair.admin.brokers.runtime_info()["broker-a"]["gantryBrokers"] == "broker-b=silent"


# Joining


def test_a_broker_takes_over_what_was_made_and_deleted_without_it(pair: Pair) -> None:
    gone, again = a_topic(pair), a_topic(pair)
    gone_group, kept_group = f"GID-{next(_numbers)}", f"GID-{next(_numbers)}"
    for name in (gone_group, kept_group):
        pair.admin.groups.create(name, retry_max_times=5)
    with producing(pair) as producer:
        for _ in range(4):
            producer.send(Message(again, b"of its first life"))
    pair.b.kill()
    pair.alone("broker-a")
    made, group, ordered = a_topic(pair, "FIFO"), f"GID-{next(_numbers)}", a_topic(pair, "FIFO", order=True)
    pair.admin.groups.create(group, retry_max_times=3)
    pair.admin.topics.delete(gone)
    pair.admin.groups.delete(gone_group)
    pair.admin.topics.delete(f"%RETRY%{kept_group}")
    pair.admin.topics.delete(again)
    pair.admin.topics.create(again, queues=5)
    pair.b.start()
    pair.whole()
    topics = pair.admin.topics.configs_by_broker()["broker-b"]
    groups = pair.admin.groups.configs_by_broker()["broker-b"]
    assert gone not in topics and gone_group not in groups and f"%RETRY%{gone_group}" not in topics
    assert (topics[made].message_type, topics[again].write_queues) == ("FIFO", 5)
    assert groups[kept_group].retry_max_times == 5
    assert groups[group].retry_max_times == 3 and f"%RETRY%{group}" in topics
    assert ordered not in topics  # further queues would break its order
    of_b = {queue: stats for queue, stats in pair.admin.topics.stats(again).items() if queue.broker_name == "broker-b"}
    assert {stats.max_offset for stats in of_b.values()} == {0}


def test_a_broker_that_is_new_is_given_messages_at_once(pair: Pair) -> None:
    topic = a_topic(pair)
    third = BrokerProcess(pair.redis.url, gantry_broker_name="broker-c")
    try:
        third.start()
        queues = pair.admin.topics.route(topic).queues
        assert [queue.broker_name for queue in queues] == ["broker-a", "broker-b", "broker-c"]
        with producing(pair) as producer:
            sent = {producer.send(Message(topic, b"x")).queue.broker_name for _ in range(12)}
        assert sent == {"broker-a", "broker-b", "broker-c"}
        third.stop()
    finally:
        third.close()


def test_consumed_directly_is_the_message_of_the_broker_that_its_id_names(pair: Pair) -> None:
    topic = a_topic(pair)
    with producing(pair) as producer:
        sent = [producer.send(Message(topic, b"%d" % number)) for number in range(8)]
    with consuming(pair, topic) as received:
        eventually(lambda: len(received.bodies) == 8, 20)
        group = f"GID-{next(_numbers) - 1}"
        client = pair.admin.clients.consumers(group).connections[0].client_id
        for number, result in enumerate(sent):
            received.views.clear()
            pair.admin.clients.consume_directly(group, client, result.offset_message_id, topic)
            assert received.bodies == Counter([b"%d" % number])


def _redis(pair: Pair, *words: str) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5)
        connection.connect(str(pair.redis.socket))
        parts = "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
        connection.sendall(f"*{len(words)}\r\n{parts}".encode())
        return connection.recv(4096)


def _beats_stand_still_for(pair: Pair, seconds: float) -> None:
    """Watch for so long that the beats in Redis do not change: longer than a silent broker stays in the routes."""
    beats: Callable[[], bytes] = lambda: _redis(pair, "HGETALL", "gantry:brokers:beats")  # noqa: E731
    before, deadline = beats(), time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert beats() == before
        assert pair.names() == ["broker-a", "broker-b"]


def test_each_broker_holds_its_part_of_an_instances_rate(pair: Pair) -> None:
    key, instance = ("AKrated", "a rated secret"), "MQ_INST_4711_ratedaaa"
    statements = [{"Effect": "Allow", "Action": "*", "Resource": "*"}]
    pair.a.allow(*key, {"tenant": "4711", "boundary": [f"acs:mq:*:*:{instance}%*"], "statements": statements})
    topic = f"{instance}%rated"
    pair.admin.topics.create(topic, queues=1)
    pair.a.rate(instance, instance, sent=10)
    for broker in (pair.a, pair.b):
        with Wire(broker.address, key) as wire:

            def is_told(wire: Wire = wire) -> bool:
                answer = wire.publish(topic)
                told = "may send 10 messages a second, 5 of them at this broker"
                return answer.code == ResponseCode.FLOW_CONTROL and told in str(answer.remark)

            # A broker of a test before may count for some seconds more.
            eventually(is_told, 30)
