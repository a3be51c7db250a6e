"""From a message to the request."""

from __future__ import annotations

import socket
from concurrent.futures import Future

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokercore.client.errors import ClientError, InvalidMessage, RequestTimeout
from brokercore.client.messages import Message, SendResult, SendStatus
from brokercore.client.routes import Routes
from brokercore.client.sending import MAX_BODY, Sender, batch_results, prepare, prepare_batch, queue_of_key
from brokercore.client.session import Session
from brokercore.protocol.codes import ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.message import decompress, iterate_batch
from brokercore.protocol.message_queue import MessageQueue
from brokercore.protocol.properties import decode_properties
from tests.brokercore.client.peer import Peer


def test_keys_tags_and_user_properties_go_along() -> None:
    prepared = prepare(Message("t", b"b", "tag", "k1 k2", {"u": "v"}), "MQ_INST_1_a", "g")
    properties = decode_properties(prepared.properties)
    assert prepared.topic == "MQ_INST_1_a%t"
    assert properties == {
        "u": "v",
        "KEYS": "k1 k2",
        "TAGS": "tag",
        "UNIQ_KEY": prepared.message_id,
        "WAIT": "true",
        "INSTANCE_ID": "MQ_INST_1_a",
    }


def test_a_large_body_is_compressed_as_java_does_unless_that_makes_it_larger() -> None:
    prepared = prepare(Message("t", b"x" * 5000), "", "g")
    assert prepared.sys_flag == 0x301
    assert decompress(prepared.body) == b"x" * 5000
    assert prepare(Message("t", b"x" * 4000), "", "g").sys_flag == 0
    noise = bytes((number * number * 7919 >> 5) & 0xFF for number in range(256)) * 16
    assert len(prepare(Message("t", noise), "", "g").body) <= len(noise)


def test_a_half_message_names_its_group() -> None:
    prepared = prepare(Message("t", b"b"), "", "g", half=True)
    properties = decode_properties(prepared.properties)
    assert (prepared.sys_flag, properties["TRAN_MSG"], properties["PGROUP"]) == (4, "true", "g")


def test_a_delivery_time_is_written_for_the_cloud_and_for_apache() -> None:
    properties = decode_properties(prepare(Message("t", b"b", deliver_at_ms=123), "", "g").properties)
    assert properties["__STARTDELIVERTIME"] == properties["TIMER_DELIVER_MS"] == "123"


@given(
    key=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), max_size=6),
    tag=st.sampled_from(["", "tag", "ü"]),
    own=st.sampled_from([{}, {"u": "v"}]),
    namespace=st.sampled_from(["", "MQ_INST_1_a"]),
)
def test_messages_of_a_batch_have_the_properties_that_each_would_have_alone(
    key: str, tag: str, own: dict[str, str], namespace: str
) -> None:
    message = Message("t", b"b", tag, key, own)
    batch, ids = prepare_batch([message, message], namespace, "g")
    alone = prepare(message, namespace, "g")
    found = [text.decode() for _, _, text in iterate_batch(batch.body)]
    assert found == [alone.properties.replace(alone.message_id, message_id) for message_id in ids]


@pytest.mark.parametrize("message", [Message("t", b"b", keys="a\x01b"), Message("t", b"b", "a\x02")])
def test_a_separator_within_a_batch_is_refused(message: Message) -> None:
    with pytest.raises(InvalidMessage, match="U\\+0001"):
        prepare_batch([Message("t", b"b"), message], "", "g")


def test_the_longest_properties_that_a_batch_takes_are_those_of_a_message_alone() -> None:
    for size, fits in ((4096, True), (32_000, True), (32_768, False)):
        message = Message("t", b"b", keys="k" * size)
        if fits:
            assert len(prepare_batch([message], "", "g")[0].body) > size
        else:
            with pytest.raises(InvalidMessage, match="longer"):
                prepare_batch([message], "", "g")


def test_the_results_of_a_batch_lie_one_behind_the_other() -> None:
    queue = MessageQueue("t", "b", 3)
    sent = SendResult("", "A,B", queue, 7, SendStatus.FLUSH_DISK_TIMEOUT, "t", "r")
    first, second = batch_results(sent, ["1", "2"])
    assert first == SendResult("1", "A", queue, 7, SendStatus.FLUSH_DISK_TIMEOUT, "t", "r")
    assert second == SendResult("2", "B", queue, 8, SendStatus.FLUSH_DISK_TIMEOUT, "t", "r")
    assert [one.offset_message_id for one in batch_results(sent, ["1", "2", "3"])] == ["", "", ""]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Message("", b"b"), "topic"),
        (Message("t" * 128, b"b"), "topic"),
        (Message("t", b""), "body"),
        (Message("t", b"x" * (MAX_BODY + 1)), "body"),
        (Message("t", b"b", properties={"UNIQ_KEY": "x"}), "UNIQ_KEY"),
        (Message("t", b"b", properties={"a": "\x01"}), "properties"),
        (Message("t", b"b", keys="x" * 40000), "properties"),
        (Message("t", b"b", delay_level=19), "delay level"),
        (Message("t", b"b", delay_level=1, deliver_at_ms=1), "not both"),
    ],
)
def test_what_no_broker_would_take_is_refused_before_sending(message: Message, reason: str) -> None:
    with pytest.raises(InvalidMessage, match=reason):
        prepare(message, "", "g")


def test_the_queue_of_a_sharding_key_is_that_of_ons_client() -> None:
    assert queue_of_key("tagBatch", 8) == 791160896 % 8
    # The hash of this text is the smallest int, whose absolute value overflows in Java.
    assert queue_of_key("polygenelubricants", 8) == 0


@pytest.mark.parametrize(("tries", "asked"), [(1, False), (2, True)])
def test_an_asynchronous_send_is_tried_again_only_as_often_as_wanted(tries: int, asked: bool) -> None:
    late: Future[Command] = Future()
    late.set_exception(RequestTimeout("127.0.0.1:1", 100))
    queue = MessageQueue("t", "broker-a", 0)
    with Peer(refuse) as peer:
        session = Session(peer.address, None)
        sender = Sender(session, Routes(session), "g", tries)
        with pytest.raises(ClientError):
            sender.finish(late, prepare(Message("t", b"b"), "", "g"), queue, "127.0.0.1:1", 5000)
        session.close()
    assert bool(peer.received) is asked


def refuse(_peer: Peer, connection: socket.socket, command: Command) -> None:
    """There is no such topic any more: what looks for a queue is told so."""
    connection.sendall(command.response(ResponseCode.TOPIC_NOT_EXIST, "gone").encode())
