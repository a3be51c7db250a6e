"""What a client may make the broker hold: no request fills the machine's memory, and no name is kept for nobody."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
import pytest

from brokercore.protocol.bodies.config import MAX_CONFIG
from brokercore.protocol.codes import RequestCode as Code
from brokercore.protocol.codes import ResponseCode
from brokercore.protocol.grpc import messaging_pb2 as pb
from brokercore.protocol.ids import RecallHandle
from brokercore.protocol.message import StoredMessage, decode_stored
from brokercore.server.grpc.endpoint import SERVICE
from brokercore.server.grpc.listener import STRANGER_BYTES
from brokercore.server.grpc.receiving import MOST_ANSWERING
from brokercore.server.handlers.clients import MAX_NAME, MAX_SUBSCRIPTIONS, MOST_GROUPS
from brokercore.server.rights.account import MOST_INCOMING, MOST_UNREAD
from tests.brokercore.server.grpc.caller import Caller, resource
from tests.brokercore.server.wire import Wire, fresh, properties
from tests.support.broker import BrokerProcess, broker_process, eventually

OWNER, GUEST = "91", "92"
INSTANCE = f"MQ_INST_{OWNER}_memory01"
ATTACKER, STRANGER = ("LTAImemory", "secret of the attacker"), ("LTAIguest", "secret of the guest")

LARGE = bytes(4 << 20)
COUNT = 40
"""Large messages of one attack: 160 MiB."""

MOST_GROWN = 120 << 20
"""Bytes by which a broker may grow meanwhile: a few pieces of what is read, and what its allocator keeps."""


@pytest.fixture(scope="module")
def victim() -> Iterator[BrokerProcess]:
    with broker_process(
        gantry_grpc_port="0",
        gantry_store_hot_bytes=str(8 << 20),
        gantry_store_max_bytes=str(4 << 30),
        gantry_transaction_check_seconds="1",
    ) as process:
        own = f"acs:mq:*:*:MQ_INST_{OWNER}_*"
        everything = [{"Effect": "Allow", "Action": ["mq:*"], "Resource": "*"}]
        process.allow(*ATTACKER, {"tenant": OWNER, "boundary": [own], "statements": everything})
        grants = [{"Effect": "Allow", "Action": ["mq:PUB"], "Resource": own}]
        row = {"tenant": GUEST, "boundary": [f"acs:mq:*:*:MQ_INST_{GUEST}_*"], "statements": everything}
        process.allow(*STRANGER, row | {"delegated": grants})
        for key in (ATTACKER, STRANGER):
            with Wire(process.address, key) as wire:
                eventually(lambda wire=wire: wire.call(Code.GET_BROKER_CLUSTER_INFO).code == 0)
        yield process


@pytest.fixture
def attacker(victim: BrokerProcess) -> Iterator[Wire]:
    with Wire(victim.address, ATTACKER) as wire:
        wire.socket.settimeout(120)
        yield wire


def name() -> str:
    return f"{INSTANCE}%{fresh()}"


@pytest.fixture
def group(attacker: Wire) -> str:
    return attacker.group(name())


def memory(process: BrokerProcess, field: str) -> int:
    """Bytes that the broker holds now (VmRSS), or held at the most (VmHWM)."""
    lines = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii").splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(field)).split()[1])


@contextmanager
def bounded(process: BrokerProcess, most: int = MOST_GROWN) -> Iterator[None]:
    """Meanwhile the broker grows by less than `most`, at any moment, and answers others."""
    Path(f"/proc/{process.pid}/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
    before = memory(process, "VmRSS")
    yield
    grown = memory(process, "VmHWM") - before
    print(f"\ngrown by {grown >> 20} MiB")
    assert grown < most
    with Wire(process.address) as system:
        system.ok(Code.GET_BROKER_CLUSTER_INFO)


def fill(wire: Wire, topic: str, **given: str) -> list[str]:
    """Store large messages; their offset ids."""
    ids = []
    for _ in range(COUNT):
        answer = wire.publish(topic, LARGE, properties(UNIQ_KEY=fresh("U"), **given))
        assert answer.code == 0, answer.remark
        ids.append(answer.ext["msgId"])
    return ids


def test_a_consumer_that_reads_nothing_is_not_handed_messages_without_end(
    victim: BrokerProcess, attacker: Wire, group: str
) -> None:
    topic = attacker.topic(name=name())
    message_id = attacker.publish(topic, LARGE).ext["msgId"]
    with Wire(victim.address, ATTACKER) as consumer, bounded(victim):
        consumer.heartbeat("reads-nothing", group, topic)
        ext = {"consumerGroup": group, "clientId": "reads-nothing", "msgId": message_id}
        with attacker.at_once():
            opaques = [attacker.send(Code.CONSUME_MESSAGE_DIRECTLY, ext) for _ in range(COUNT)]
        assert {attacker.receive(opaque, 60).code for opaque in opaques} >= {ResponseCode.SYSTEM_BUSY}


def test_who_may_only_subscribe_hands_no_message_of_its_own_to_a_consumer(
    victim: BrokerProcess, attacker: Wire, group: str
) -> None:
    topic = attacker.topic(name=name())
    key = fresh("LTAI"), "secret"
    subscribes = [{"Effect": "Allow", "Action": ["mq:SUB", "mq:Query*"], "Resource": "*"}]
    victim.allow(*key, {"tenant": OWNER, "boundary": [f"acs:mq:*:*:MQ_INST_{OWNER}_*"], "statements": subscribes})
    forged = StoredMessage(topic, b"forged", {"UNIQ_KEY": "F"}).encode()
    with Wire(victim.address, ATTACKER) as consumer, Wire(victim.address, key) as weak:
        eventually(lambda: weak.call(Code.GET_BROKER_CLUSTER_INFO).code == 0)
        consumer.heartbeat("victim", group, topic)
        answer = weak.call(Code.CONSUME_MESSAGE_DIRECTLY, {"consumerGroup": group, "clientId": "victim"}, forged)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "msgId" in str(answer.remark)
        assert not [asked for asked in consumer.pushed if asked.code == Code.CONSUME_MESSAGE_DIRECTLY]


def test_a_key_that_many_large_messages_have_is_searched_in_pieces(victim: BrokerProcess, attacker: Wire) -> None:
    topic = attacker.topic(name=name())
    fill(attacker, topic, KEYS="same")
    now = int(time.time() * 1000)
    ext = {"topic": topic, "key": "same", "maxNum": 64, "beginTimestamp": now, "endTimestamp": now}
    with bounded(victim):
        opaques = [attacker.send(Code.QUERY_MESSAGE, ext) for _ in range(4)]
        for opaque in opaques:
            assert attacker.receive(opaque, 120).code == ResponseCode.QUERY_NOT_FOUND


def test_small_messages_before_large_ones_make_no_pull_read_all_of_them(
    victim: BrokerProcess, attacker: Wire, group: str
) -> None:
    topic = attacker.topic(name=name())
    for _ in range(1500):  # they make the average small
        attacker.send(
            Code.SEND_MESSAGE_V2, {"a": "P", "b": topic, "c": "", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}, b"x", flag=2
        )
    ids = fill(attacker, topic)
    first = int(ids[0][16:], 16) & ((1 << 40) - 1)
    with bounded(victim):
        answer = attacker.receive(attacker.start_pull(group, topic, first, subscription="none"), 60)
        assert answer.code in (20, 21)


def test_many_large_messages_of_one_time_are_delivered_in_pieces(victim: BrokerProcess, attacker: Wire) -> None:
    topic = attacker.topic(name=name(), message_type="DELAY")
    due_ms = int(time.time() * 1000) + 20_000
    fill(attacker, topic, TIMER_DELIVER_MS=str(due_ms))
    handle = str(RecallHandle(topic, "broker-a", due_ms, "not-there"))
    with bounded(victim):
        opaques = [attacker.send(Code.RECALL_MESSAGE, {"topic": topic, "recallHandle": handle}) for _ in range(4)]
        assert {attacker.receive(opaque, 60).code for opaque in opaques} == {ResponseCode.ILLEGAL_OPERATION}
        eventually(
            lambda: attacker.ok(Code.GET_MAX_OFFSET, {"topic": topic, "queueId": 0}).ext["offset"] == str(COUNT), 90
        )


def test_many_large_half_messages_are_asked_about_in_pieces(victim: BrokerProcess, attacker: Wire) -> None:
    topic = attacker.topic(name=name(), message_type="TRANSACTION")
    fill(attacker, topic, TRAN_MSG="true", PGROUP="nobody")
    with bounded(victim):
        asked = properties(UNIQ_KEY=fresh("U"), TRAN_MSG="true", PGROUP="somebody")
        with Wire(victim.address, ATTACKER) as producer:
            producer.heartbeat("p", producer="somebody")
            assert producer.publish(topic, b"half", asked).code == 0
            producer.next_push(Code.CHECK_TRANSACTION_STATE, 60)


def test_the_progress_of_a_group_on_many_large_messages_is_told_in_pieces(
    victim: BrokerProcess, attacker: Wire, group: str
) -> None:
    topic = attacker.topic(queues=COUNT, name=name())
    for number in range(COUNT):
        assert attacker.publish(topic, LARGE, e=str(number)).code == 0
        ext = {"consumerGroup": group, "topic": topic, "queueId": number, "commitOffset": 1}
        attacker.ok(Code.UPDATE_CONSUMER_OFFSET, ext)
    with bounded(victim):
        opaques = [attacker.send(Code.GET_CONSUME_STATS, {"consumerGroup": group, "topic": topic}) for _ in range(4)]
        for opaque in opaques:
            assert attacker.receive(opaque, 60).code == 0


def topic_with_attributes(wire: Wire) -> tuple[int, str]:
    """Attributes that are added to those of before, again and again."""
    topic = wire.topic(name=name())
    answers = []
    for number in range(20):
        more = f"+a{number}={'v' * 1000}"
        answers.append(
            wire.call(17, {"topic": topic, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "attributes": more})
        )
    assert len(wire.ok(Code.GET_TOPIC_CONFIG, {"topic": topic}).body) <= MAX_CONFIG
    return answers[-1].code, str(answers[-1].remark)


def group_with_attributes(wire: Wire) -> tuple[int, str]:
    """A group's configuration of most of a megabyte."""
    body = {"groupName": name(), "attributes": {str(number): "v" * 9000 for number in range(100)}}
    answer = wire.call(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, orjson.dumps(body))
    return answer.code, str(answer.remark)


def order_of_no_topic(wire: Wire) -> tuple[int, str]:
    """A value for a topic that there is not."""
    ext = {"namespace": "ORDER_TOPIC_CONFIG", "key": name(), "value": "broker-a:1"}
    answer = wire.call(Code.PUT_KV_CONFIG, ext)
    return answer.code, str(answer.remark)


def order_of_any_size(wire: Wire) -> tuple[int, str]:
    """A value that says nothing, of 200 KB."""
    ext = {"namespace": "ORDER_TOPIC_CONFIG", "key": wire.topic(name=name()), "value": "x" * 200_000}
    answer = wire.call(Code.PUT_KV_CONFIG, ext)
    return answer.code, str(answer.remark)


def closed_to_no_group(wire: Wire) -> tuple[int, str]:
    """A topic is closed to a group that there is not."""
    ext = {"group": name(), "topic": f"{INSTANCE}%{'t' * 100}", "readable": "false"}
    answer = wire.call(Code.UPDATE_AND_GET_GROUP_FORBIDDEN, ext)
    return answer.code, str(answer.remark)


def beat(wire: Wire, **fields: Any) -> tuple[int, str]:
    answer = wire.call(Code.HEART_BEAT, {}, orjson.dumps({"clientID": "c"} | fields))
    return answer.code, str(answer.remark)


def producers_without_end(wire: Wire) -> tuple[int, str]:
    """Each heartbeat names other producer groups."""
    found = 0, ""
    for number in range(3):
        groups = [{"groupName": f"{number}-{each}"} for each in range(MOST_GROUPS // 2)]
        found = beat(wire, producerDataSet=groups)
    return found


def producer_with_a_long_name(wire: Wire) -> tuple[int, str]:
    """A producer group of 900 KB."""
    return beat(wire, producerDataSet=[{"groupName": "p" * 900_000}])


def client_with_a_long_name(wire: Wire) -> tuple[int, str]:
    """A client id that is longer than a group's name may be."""
    return beat(wire, clientID="c" * (MAX_NAME + 1), producerDataSet=[{"groupName": "p"}])


def subscription_of_any_size(wire: Wire) -> tuple[int, str]:
    """An expression of most of a megabyte."""
    data = {"topic": name(), "subString": "s" * (MAX_SUBSCRIPTIONS + 1)}
    return beat(wire, consumerDataSet=[{"groupName": wire.group(name()), "subscriptionDataSet": [data]}])


@pytest.mark.parametrize(
    ("attack", "told"),
    [
        (topic_with_attributes, "bytes; allowed are"), (group_with_attributes, "bytes; allowed are"),
        (order_of_no_topic, "does not exist"), (order_of_any_size, "allowed is broker-a:8"),
        (closed_to_no_group, "does not exist"), (producers_without_end, "producer groups; allowed are"),
        (producer_with_a_long_name, "characters; allowed are"), (client_with_a_long_name, "characters; allowed are"),
        (subscription_of_any_size, "characters; allowed are"),
    ],
)  # fmt: skip
def test_what_a_client_may_have_kept_is_bounded_and_of_something_that_there_is(
    attacker: Wire, attack: Any, told: str
) -> None:
    code, remark = attack(attacker)
    assert code != 0
    assert told in remark


def test_what_was_closed_to_a_group_goes_with_its_topic(attacker: Wire, group: str) -> None:
    topic = attacker.topic(name=name())
    pair = {"group": group, "topic": topic}
    attacker.ok(Code.UPDATE_AND_GET_GROUP_FORBIDDEN, pair | {"readable": "false"})
    attacker.ok(Code.DELETE_TOPIC_IN_BROKER, {"topic": topic})
    assert orjson.loads(attacker.ok(Code.UPDATE_AND_GET_GROUP_FORBIDDEN, pair).body)["readable"] is True


@pytest.mark.parametrize("kind", ["publishing", "subscription"])
def test_settings_of_a_grpc_client_name_no_more_topics_than_a_heartbeat(
    victim: BrokerProcess, attacker: Wire, group: str, kind: str
) -> None:
    topics = [resource(f"{INSTANCE}%{number:x}") for number in range(MOST_GROUPS + 1)]
    if kind == "publishing":
        settings = pb.Settings(client_type=pb.ClientType.PRODUCER, publishing=pb.Publishing(topics=topics))
    else:
        entries = [pb.SubscriptionEntry(topic=topic) for topic in topics]
        subscription = pb.Subscription(group=resource(group), subscriptions=entries)
        settings = pb.Settings(client_type=pb.ClientType.PUSH_CONSUMER, subscription=subscription)
    with Caller(victim.grpc, ATTACKER) as client, pytest.raises(Exception, match="topics; allowed are"):
        client.telemetry(settings).next()


def test_a_guest_that_may_publish_to_a_topic_neither_reads_nor_ends_what_others_prepare(
    victim: BrokerProcess, attacker: Wire, group: str
) -> None:
    topic = attacker.topic(name=name(), message_type="TRANSACTION")
    producers = fresh("PG")
    with Wire(victim.address, STRANGER) as guest:
        guest.heartbeat("guest", producer=producers)  # the latest of the group
        secret = properties(UNIQ_KEY=fresh("U"), TRAN_MSG="true", PGROUP=producers)
        half = attacker.publish(topic, b"secret", secret)
        ext = {
            "producerGroup": producers, "commitOrRollback": 12, "commitLogOffset": int(half.ext["msgId"][16:], 16),
            "tranStateTableOffset": half.ext["queueOffset"],
        }  # fmt: skip
        refused = guest.call(Code.END_TRANSACTION, ext)
        assert refused.code == ResponseCode.SYSTEM_ERROR
        attacker.heartbeat("owner", producer=producers)
        guest.heartbeat("guest", producer=producers)
        question = attacker.next_push(Code.CHECK_TRANSACTION_STATE, 60)
        (asked,) = decode_stored(question.body)
        assert asked.body == b"secret"
        assert "__SENDER_ACCOUNT" not in asked.properties
        guest.call(Code.GET_BROKER_CLUSTER_INFO)
        assert not guest.pushed, "the guest was asked, and so was told the message"
        attacker.ok(Code.END_TRANSACTION, ext | {"commitOrRollback": 8})
        (message,) = attacker.messages(group, topic)
        assert "__SENDER_ACCOUNT" not in message.properties


def test_a_guest_hears_of_no_group_of_its_host(victim: BrokerProcess, attacker: Wire, group: str) -> None:
    topic = attacker.topic(name=name())
    attacker.publish(topic)
    attacker.ok(Code.UPDATE_CONSUMER_OFFSET, {"consumerGroup": group, "topic": topic, "queueId": 0, "commitOffset": 1})
    key = fresh("LTAI"), "secret"
    lets = [{"Effect": "Allow", "Action": ["mq:SUB", "mq:QueryTopic"], "Resource": f"acs:mq:*:*:{topic}"}]
    everything = [{"Effect": "Allow", "Action": ["mq:*"], "Resource": "*"}]
    victim.allow(*key, {"tenant": GUEST, "boundary": [], "statements": everything, "delegated": lets})
    with Wire(victim.address, key) as guest:
        eventually(lambda: guest.call(Code.GET_BROKER_CLUSTER_INFO).code == 0)
        assert orjson.loads(guest.ok(Code.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic}).body) == {"groupList": []}
    own = attacker.ok(Code.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic})
    assert orjson.loads(own.body) == {"groupList": [group]}


def test_connections_that_read_nothing_are_closed_when_they_hold_too_much(
    victim: BrokerProcess, attacker: Wire
) -> None:
    topic = attacker.topic(name=name())
    offset = int(attacker.publish(topic, LARGE).ext["msgId"][16:], 16)
    with ExitStack() as stack, bounded(victim, most=2 * MOST_UNREAD + MOST_GROWN):
        for _ in range(2 * MOST_UNREAD // len(LARGE) + 20):
            wire = stack.enter_context(Wire(victim.address, ATTACKER))
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            with wire.at_once():
                for _ in range(2):
                    wire.send(Code.VIEW_MESSAGE_BY_ID, {"topic": topic, "offset": offset})
        eventually(lambda: "read nothing of what they ask for" in victim.log, 30)


def test_frames_that_are_begun_and_not_ended_are_bounded_for_an_account(victim: BrokerProcess) -> None:
    begun = (15 << 20).to_bytes(4, "big") + bytes(14 << 20)
    with ExitStack() as stack, bounded(victim, most=MOST_INCOMING + MOST_GROWN):
        for _ in range(MOST_INCOMING // len(begun) + 2):
            wire = stack.enter_context(Wire(victim.address, ATTACKER))
            wire.ok(Code.GET_BROKER_CLUSTER_INFO)
            wire.socket.settimeout(60)  # a busy machine takes its time for so much
            with suppress(ConnectionError):  # one that has sent most of its own is closed, and this may be the one
                wire.socket.sendall(begun)
        eventually(lambda: "has begun more requests than it may send" in victim.log, 30)


Text = tuple[str, str]


class Http2:
    """A peer that speaks HTTP/2 itself: it begins calls, sends all that it may of their requests, and ends none."""

    _HEAD = (
        (":method", "POST"), (":scheme", "http"), (":authority", "x"),
        ("content-type", "application/grpc"), ("te", "trailers"),
    )  # fmt: skip

    def __init__(self, address: str, calls: int, call: str = "SendMessage", metadata: Sequence[Text] = ()) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=20)
        self.windows = dict.fromkeys([0, *range(1, 2 * calls, 2)], 65_535)
        pairs = [*self._HEAD, (":path", f"/{SERVICE}/{call}"), *metadata]
        pairs.sort(key=lambda pair: not pair[0].startswith(":"))
        head = b"".join(b"\0%c%b%c%b" % (len(key), key.encode(), len(value), value.encode()) for key, value in pairs)
        begin = b"".join(self._frame(1, 4, stream, head) for stream in list(self.windows)[1:])
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + self._frame(4, 0, 0, b"") + begin)

    def ask(self, request: bytes) -> None:
        """Send the whole request of each call, and read nothing of any answer."""
        body = b"\0" + len(request).to_bytes(4, "big") + request
        self.socket.sendall(b"".join(self._frame(0, 1, stream, body) for stream in list(self.windows)[1:]))

    def flood(self, most: int) -> int:
        """Send up to so many bytes; how many it was, when the broker closed before."""
        sent, first, kept = 0, dict.fromkeys(self.windows, True), b""
        try:
            while sent < most:
                for stream in list(self.windows)[1:]:
                    size = min(self.windows[0], self.windows[stream], 16_384)
                    if size < 5:
                        continue
                    body = b"\0" + (8 << 20).to_bytes(4, "big") + bytes(size - 5) if first[stream] else bytes(size)
                    first[stream] = False
                    self.socket.sendall(self._frame(0, 0, stream, body))
                    self.windows[0] -= size
                    self.windows[stream] -= size
                    sent += size
                data = self.socket.recv(1 << 16)
                if not data:
                    break
                kept = self._read(kept + data)
        except OSError:
            pass  # closed, or nothing more may be sent
        return sent

    def _read(self, data: bytes) -> bytes:
        while len(data) >= 9 and len(data) >= (end := 9 + int.from_bytes(data[:3], "big")):
            kind, stream, payload = data[3], int.from_bytes(data[5:9], "big"), data[9:end]
            if kind == 8:
                self.windows[stream] = self.windows.get(stream, 0) + int.from_bytes(payload, "big")
            elif kind == 6:
                self.socket.sendall(self._frame(6, 1, 0, payload))
            data = data[end:]
        return data

    @staticmethod
    def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
        return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def test_a_stranger_that_begins_a_hundred_grpc_calls_makes_the_broker_hold_little(victim: BrokerProcess) -> None:
    with bounded(victim):
        for _ in range(3):
            stranger = Http2(victim.grpc, 100)
            assert stranger.flood(400 << 20) < 2 * STRANGER_BYTES
            stranger.socket.close()


def test_calls_that_read_nothing_of_their_answers_are_bounded_for_an_account(
    victim: BrokerProcess, attacker: Wire, group: str
) -> None:
    topic, calls = attacker.topic(name=name()), MOST_ANSWERING // len(LARGE)
    fill(attacker, topic)
    request = pb.ReceiveMessageRequest(
        group=resource(group), message_queue=pb.MessageQueue(topic=resource(topic)), batch_size=1
    )
    request.invisible_duration.FromSeconds(60)
    request.long_polling_timeout.FromSeconds(20)
    with Caller(victim.grpc, ATTACKER) as client, ExitStack() as stack:
        with bounded(victim):
            for _ in range(calls):
                idle = Http2(victim.grpc, 1, "ReceiveMessage", client.metadata())
                stack.callback(idle.socket.close)
                idle.ask(request.SerializeToString())
                eventually(lambda idle=idle: len(idle.socket.recv(1 << 16, socket.MSG_PEEK)) > 200)
            assert next(client.start_receiving(group, topic, batch_size=1)).status.code == pb.Code.TOO_MANY_REQUESTS
        stack.close()
        eventually(
            lambda: next(client.start_receiving(group, topic, batch_size=1)).status.code != pb.Code.TOO_MANY_REQUESTS,
            30,
        )
