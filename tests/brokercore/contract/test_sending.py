"""Every way in which our client sends, and what becomes of the message."""

from __future__ import annotations

import threading
import time

import pytest

from brokercore.client import Message, MessageQueue, SendResult, SendStatus
from brokercore.client.errors import ClientError, InvalidMessage, MessageIllegal, NoPermission, TopicNotExist
from brokercore.client.sending import Prepared, queue_of_key, send_call
from brokercore.protocol.codes import RequestCode
from brokercore.protocol.message import BatchMessage, encode_batch
from tests.brokercore.contract.cluster import TIMEOUT_MS, Cluster
from tests.brokercore.contract.differences import Differs
from tests.support.broker import eventually


def test_a_message_lies_where_the_result_says_with_all_that_was_sent(cluster: Cluster) -> None:
    topic = cluster.topic("send")
    with cluster.producer() as producer:
        before = int(time.time() * 1000)
        result = producer.send(Message(topic, "Zürich".encode(), "TagA", "k1 k2", {"colour": "blue", "city": "Zürich"}))
    (message,) = cluster.wait_stored(topic, 1)
    assert result.status is SendStatus.SEND_OK
    assert (message.topic, message.queue_id, message.queue_offset) == (result.queue.topic, result.queue.queue_id, 0)
    assert (message.unique_id, message.offset_message_id) == (result.message_id, result.offset_message_id)
    assert (message.body.decode(), message.tags, message.keys) == ("Zürich", "TagA", "k1 k2")
    assert (message.properties["colour"], message.properties["city"]) == ("blue", "Zürich")
    assert before - 1000 <= message.born_timestamp <= message.store_timestamp + 1000
    assert message.born_host[0] == "127.0.0.1"


def test_asynchronous_and_one_way_sends_arrive(cluster: Cluster) -> None:
    topic = cluster.topic("async")
    outcomes: list[tuple[SendResult | None, ClientError | None]] = []
    with cluster.producer() as producer:
        ids = [
            producer.send_async(Message(topic, b"async"), lambda *outcome: outcomes.append(outcome)) for _ in "12345"
        ]
        ids += [producer.send_oneway(Message(topic, b"oneway")) for _ in "123"]
    assert [error for _, error in outcomes if error] == []
    assert sorted(message.unique_id for message in cluster.wait_stored(topic, 8)) == sorted(ids)


def test_messages_of_a_batch_lie_one_behind_the_other_each_with_its_own_id(cluster: Cluster) -> None:
    topic = cluster.topic("batch", queues=4)
    batch = [Message(topic, b"%d" % number, "TagB", f"k{number}", {"n": str(number)}) for number in range(32)]
    with cluster.producer() as producer:
        results = producer.send_batch(batch)
    stored = cluster.wait_stored(topic, 32)
    assert [message.body for message in stored] == [message.body for message in batch]
    assert [message.unique_id for message in stored] == [result.message_id for result in results]
    assert [message.offset_message_id for message in stored] == [result.offset_message_id for result in results]
    assert (
        [message.queue_offset for message in stored] == [result.queue_offset for result in results] == list(range(32))
    )
    assert [(m.tags, m.keys, m.properties["n"]) for m in stored] == [("TagB", f"k{n}", str(n)) for n in range(32)]


def test_messages_of_a_sharding_key_keep_their_order_in_one_queue(cluster: Cluster) -> None:
    topic = cluster.topic("fifo", queues=4, message_type="FIFO")
    with cluster.producer() as producer:
        for number in range(6):
            for key in ("a", "b"):
                result = producer.send_ordered(Message(topic, f"{key}{number}".encode()), key)
                expected = MessageQueue(cluster.physical(topic), "broker-a", queue_of_key(key, 4))
                assert result.queue == expected
    bodies = [message.body.decode() for message in cluster.wait_stored(topic, 12)]
    for key in ("a", "b"):
        assert [body for body in bodies if body[0] == key] == [f"{key}{number}" for number in range(6)]


def test_a_large_body_is_compressed_on_its_way_and_whole_at_its_end(cluster: Cluster) -> None:
    topic = cluster.topic("large")
    body = b"a long body " * 100_000
    with cluster.producer() as producer:
        producer.send(Message(topic, body))
    (message,) = cluster.wait_stored(topic, 1)
    assert message.decoded_body() == body
    assert len(message.body) < len(body) / 10


def test_threads_share_a_producer(cluster: Cluster) -> None:
    topic = cluster.topic("threads")
    with cluster.producer() as producer:

        def send_some(name: str) -> None:
            for number in range(20):
                producer.send(Message(topic, f"{name}{number}".encode()))

        threads = [threading.Thread(target=send_some, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len({message.unique_id for message in cluster.wait_stored(topic, 80)}) == 80


def test_a_question_is_answered(cluster: Cluster) -> None:
    topic, group = cluster.topic("questions"), cluster.group("answers")
    with cluster.producer() as asking, cluster.producer() as answering, cluster.consuming(topic, group) as received:

        def answer() -> None:
            eventually(lambda: received.messages, 30)
            answering.reply(received.messages[0], b"re: " + received.messages[0].body)

        thread = threading.Thread(target=answer)
        thread.start()
        reply = asking.request(Message(topic, b"how much?"), timeout_ms=30_000)
        thread.join()
    assert (reply.body, received.bodies) == (b"re: how much?", ["how much?"])


def test_only_a_question_can_be_answered(cluster: Cluster) -> None:
    topic, group = cluster.topic("no-question"), cluster.group("no_question")
    with cluster.producer() as producer, cluster.consuming(topic, group) as received:
        producer.send(Message(topic, b"a statement"))
        received.wait_for("a statement")
        with pytest.raises(InvalidMessage, match="is no request"):
            producer.reply(received.messages[0], b"why?")


@pytest.mark.parametrize(
    "message",
    [
        Message("{topic}", b""),
        Message("{topic}", b"x" * (4 * 1024 * 1024 + 1)),
        Message("{topic}", b"x", properties={"long": "x" * 32_768}),
        Message("{topic}", b"x", properties={"KEYS": "reserved"}),
        Message("{topic}", b"x", delay_level=19),
        Message("x" * 128, b"x"),
    ],
    ids=["empty body", "body over 4 MiB", "properties over 32767 bytes", "reserved name", "delay level", "topic"],
)
def test_what_no_broker_would_take_is_not_sent(cluster: Cluster, message: Message) -> None:
    with cluster.producer() as producer, pytest.raises(InvalidMessage):
        producer.send(message)


def test_the_largest_body_that_is_allowed_is_taken(cluster: Cluster, body_of_4_mib: bytes) -> None:
    topic = cluster.topic("largest")
    with cluster.producer() as producer:
        producer.send(Message(topic, body_of_4_mib[: 4 * 1024 * 1024 - 1024]))
    assert len(cluster.wait_stored(topic, 1)[0].body) == 4 * 1024 * 1024 - 1024


def test_an_unknown_topic_is_said(cluster: Cluster) -> None:
    with cluster.producer() as producer, pytest.raises(TopicNotExist, match="no-such-topic"):
        producer.send(Message("no-such-topic", b"b"))


def test_a_topic_that_may_not_be_written_to_is_said(cluster: Cluster) -> None:
    topic = cluster.topic("closed")
    cluster.admin.topics.create(cluster.physical(topic), queues=2, perm=4)
    with cluster.producer() as producer:

        def refused() -> bool:
            try:
                producer.send(Message(topic, b"b"))
            except NoPermission as error:
                return topic in str(error)
            return False

        eventually(refused)


@pytest.mark.parametrize("what", ["body", "properties", "batch"])
def test_the_broker_itself_refuses_what_is_too_large(
    cluster: Cluster, differs: Differs, body_of_4_mib: bytes, what: str
) -> None:
    topic = cluster.topic("oversize")
    name = cluster.physical(topic)
    body, properties, code = b"x", "", RequestCode.SEND_MESSAGE_V2
    if what == "body":
        body = body_of_4_mib + b"x"
    elif what == "properties":
        properties = f"long\x01{'x' * 32_768}\x02"
    else:
        body, code = encode_batch([BatchMessage(0, body_of_4_mib, b"")]), RequestCode.SEND_BATCH_MESSAGE
    prepared = Prepared(name, "", body, properties, 0, int(time.time() * 1000), code)
    (address,) = cluster.admin.brokers.masters().values()
    call = send_call(prepared, "GID_sender", cluster.queues(topic)[0], address)
    refusal = differs("refusal of a batch that is too large") if what == "batch" else MessageIllegal
    with pytest.raises(refusal):
        cluster.admin.session.call(call, timeout_ms=TIMEOUT_MS)
    assert cluster.stored(topic) == []
