"""What calls are answered: codes of the protocol, for what is wrong with a message, a name or a right."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest

from brokercore.protocol.grpc import messaging_pb2 as pb
from brokercore.protocol.grpc.messaging_pb2 import Code
from brokercore.protocol.properties import MAX_PROPERTIES
from brokercore.server.delivery.incoming import MAX_BODY
from brokercore.server.grpc.endpoint import SERVICE
from brokercore.server.grpc.messages import MAX_USER_BYTES, MAX_USER_PROPERTIES
from tests.brokercore.server.grpc.caller import (
    READS_NOTHING_AHEAD,
    Caller,
    authorization,
    consumer_settings,
    message,
    resource,
)
from tests.brokercore.server.wire import Wire, fresh
from tests.support.broker import SYSTEM_KEY, SYSTEM_SECRET, BrokerProcess, broker_process, eventually

MINE = "MQ_INST_1234567890123456_MINE0001"
THEIRS = "MQ_INST_6543210987654321_THEIRS01"

Allow = Callable[..., Caller]


@pytest.fixture
def allow(broker: BrokerProcess) -> Iterator[Allow]:
    """Make an AccessKey of the tenant MINE that may do these actions, and call with it."""
    opened = []

    def make(*actions: str, **more: object) -> Caller:
        key = fresh("AK"), "secret of " + fresh()
        broker.allow(*key, row(*actions) | more)
        caller = Caller(broker.grpc, key)
        opened.append(caller)
        eventually(lambda: route(caller, "nowhere").status.code != Code.UNAUTHORIZED or more)
        return caller

    yield make
    for caller in opened:
        caller.channel.close()


def row(*actions: str) -> dict[str, Any]:
    statements = [{"Effect": "Allow", "Action": list(actions), "Resource": ["*"]}] if actions else []
    return {"boundary": [f"acs:mq:*:*:{MINE}%*"], "statements": statements, "grants": []}


def route(caller: Caller, topic: str) -> Any:
    return caller.call("QueryRoute", pb.QueryRouteRequest(topic=resource(topic)), pb.QueryRouteResponse)


# Messages


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        (Code.MESSAGE_BODY_EMPTY, {"body": b""}),
        (Code.MESSAGE_BODY_TOO_LARGE, {"body": bytes(MAX_BODY + 1)}),
        (Code.MESSAGE_BODY_TOO_LARGE, {"body": gzip.compress(bytes(MAX_BODY + 1)), "body_encoding": pb.Encoding.GZIP}),
        (Code.MESSAGE_CORRUPTED, {"body": b"no gzip", "body_encoding": pb.Encoding.GZIP}),
        (Code.MESSAGE_CORRUPTED, {"body": gzip.compress(b"cut off")[:-4], "body_encoding": pb.Encoding.GZIP}),
        (Code.MESSAGE_CORRUPTED, {"body_digest": pb.Digest(type=pb.DigestType.CRC32, checksum="00000000")}),
        (Code.MESSAGE_CORRUPTED, {"body_digest": pb.Digest(type=pb.DigestType.MD5, checksum="00")}),
        (Code.ILLEGAL_MESSAGE_ID, {"message_id": " "}),
        (Code.ILLEGAL_MESSAGE_TAG, {"tag": "a|b"}),
        (Code.ILLEGAL_MESSAGE_TAG, {"tag": "a\x02KEYS\x01forged"}),
        (Code.ILLEGAL_MESSAGE_KEY, {"keys": ["a\nb"]}),
        (Code.ILLEGAL_MESSAGE_GROUP, {"message_group": "g" * 65}),
        (Code.MESSAGE_PROPERTIES_TOO_LARGE, {"keys": ["k" * MAX_USER_BYTES, "k"]}),
        (Code.MESSAGE_PROPERTIES_TOO_LARGE, {"tag": "t" * (MAX_USER_BYTES + 1)}),
        (Code.MESSAGE_PROPERTIES_TOO_LARGE, {"trace_context": "t" * MAX_PROPERTIES}),
        (Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, {"message_type": pb.MessageType.FIFO}),
        (Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, {"message_type": pb.MessageType.DELAY}),
        (Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, {"message_type": pb.MessageType.TRANSACTION}),
        (Code.UNSUPPORTED, {"message_type": pb.MessageType.LITE}),
    ],
)
def test_a_message_that_is_not_acceptable_is_refused_by_its_own_code(
    caller: Caller, wire: Wire, code: Code, changes: dict[str, Any]
) -> None:
    body = changes.pop("body", b"hello")
    answer = caller.send(message(wire.topic(), body, **changes))
    assert (answer.status.code, answer.entries[0].status.code) == (code, code), answer.status.message


@pytest.mark.parametrize(
    ("code", "count", "size"),
    [
        (Code.OK, MAX_USER_PROPERTIES, 8),
        (Code.MESSAGE_PROPERTIES_TOO_LARGE, MAX_USER_PROPERTIES + 1, 8),
        (Code.OK, 4, MAX_USER_BYTES // 8 - 2),
        (Code.MESSAGE_PROPERTIES_TOO_LARGE, 4, MAX_USER_BYTES // 8 - 1),
    ],
)
def test_user_properties_have_the_limits_of_the_official_proxy(
    caller: Caller, wire: Wire, code: Code, count: int, size: int
) -> None:
    sent = message(wire.topic(), tag="t" * 8, keys=["k" * 4, "k" * 4])
    for number in range(count):
        sent.user_properties[f"{number}".rjust(size, "n")] = "ä" * (size // 2) + "v" * (size % 2)
    assert caller.send(sent).status.code == code


def test_a_delivery_time_beyond_forty_days_is_refused(caller: Caller, wire: Wire) -> None:
    late = message(wire.topic(message_type="DELAY"), message_type=pb.MessageType.DELAY)
    late.system_properties.delivery_timestamp.FromSeconds(int(time.time()) + 41 * 86_400)
    assert caller.send(late).status.code == Code.ILLEGAL_DELIVERY_TIME


@pytest.mark.parametrize(("name", "value"), [("UNIQ_KEY", "forged"), ("a\x01b", "x"), ("a", "b\x02c")])
def test_a_user_cannot_set_what_is_the_brokers(caller: Caller, wire: Wire, name: str, value: str) -> None:
    forged = message(wire.topic())
    forged.user_properties[name] = value
    assert caller.send(forged).status.code == Code.ILLEGAL_MESSAGE_PROPERTY_KEY


def test_a_packed_body_is_readable_for_all(caller: Caller, wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    packed = gzip.compress(b"hello" * 1000)
    assert caller.send(message(topic, packed, body_encoding=pb.Encoding.GZIP)).status.code == Code.OK
    assert wire.messages(group, topic)[0].body == b"hello" * 1000
    (received,) = caller.receive(wire.group(), topic)[1]
    assert (received.body, received.system_properties.body_encoding) == (b"hello" * 1000, pb.Encoding.IDENTITY)


def test_each_message_of_a_call_has_a_result_of_its_own(caller: Caller, wire: Wire) -> None:
    topic = wire.topic()
    answer = caller.send(message(topic), message(topic, b""), message(topic))
    assert answer.status.code == Code.MULTIPLE_RESULTS
    assert [entry.status.code for entry in answer.entries] == [Code.OK, Code.MESSAGE_BODY_EMPTY, Code.OK]
    assert caller.send(message(topic), message("other")).status.code == Code.MESSAGE_CORRUPTED
    assert caller.send().status.code == Code.MESSAGE_CORRUPTED


# Names


def test_unknown_and_impossible_names_are_told_apart(caller: Caller, wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    assert caller.send(message("unknown")).status.code == Code.TOPIC_NOT_FOUND
    assert route(caller, "unknown").status.code == Code.TOPIC_NOT_FOUND
    assert caller.receive(group, "unknown")[0].code == Code.TOPIC_NOT_FOUND
    assert caller.receive("unknown", topic)[0].code == Code.CONSUMER_GROUP_NOT_FOUND
    for bad in ("", "a b", "x" * 128, "RMQ_SYS_TRANS_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX"):
        assert caller.send(message(bad)).status.code == Code.ILLEGAL_TOPIC
    for bad in ("", "a b", "TOOLS_CONSUMER"):
        assert caller.receive(bad, topic)[0].code == Code.ILLEGAL_CONSUMER_GROUP


def test_a_route_names_queues_kinds_and_the_address_that_was_dialled(caller: Caller, wire: Wire) -> None:
    topic = wire.topic(3, "FIFO")
    endpoints = pb.Endpoints(scheme=pb.AddressScheme.DOMAIN_NAME, addresses=[pb.Address(host="broker.test", port=443)])
    request = pb.QueryRouteRequest(topic=resource(topic), endpoints=endpoints)
    answer = caller.call("QueryRoute", request, pb.QueryRouteResponse)
    assert [queue.id for queue in answer.message_queues] == [0, 1, 2]
    queue = answer.message_queues[0]
    assert (queue.permission, list(queue.accept_message_types)) == (pb.Permission.READ_WRITE, [pb.MessageType.FIFO])
    assert (queue.broker.name, queue.broker.endpoints) == ("broker-a", endpoints)


# Filters, times, handles


def test_what_a_receive_asks_for_is_checked(caller: Caller, wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    bad = pb.FilterExpression(type=pb.FilterType.SQL, expression="a >")
    assert caller.receive(group, topic, filter_expression=bad)[0].code == Code.ILLEGAL_FILTER_EXPRESSION
    for seconds in (0, 9, 12 * 3600 + 1):
        assert caller.receive(group, topic, invisible=seconds)[0].code == Code.ILLEGAL_INVISIBLE_TIME
    for seconds in (10, 12 * 3600):
        assert caller.receive(group, topic, invisible=seconds)[0].code == Code.MESSAGE_NOT_FOUND
    assert caller.receive(group, topic, invisible=1, auto_renew=True)[0].code == Code.MESSAGE_NOT_FOUND
    assert caller.receive(group, topic)[0].code == Code.MESSAGE_NOT_FOUND


def test_a_receive_ends_before_the_patience_of_its_client(caller: Caller, wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()

    def answered() -> Any:
        try:
            return caller.receive(group, topic, wait=30, seconds=1)[0]
        except grpc.RpcError:  # the broker has a third of a second for it, and the machine may stand still just then
            return None

    assert eventually(answered, 3).code == Code.MESSAGE_NOT_FOUND


def test_a_handle_is_of_one_delivery_of_one_message(caller: Caller, wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    caller.send(message(topic))
    (received,) = caller.receive(group, topic)[1]
    forged = pb.Message()
    forged.CopyFrom(received)
    forged.system_properties.receipt_handle = "nonsense"
    assert caller.acknowledge(group, forged).status.code == Code.INVALID_RECEIPT_HANDLE
    assert caller.acknowledge(group, received, forged).status.code == Code.MULTIPLE_RESULTS
    request = pb.ForwardMessageToDeadLetterQueueRequest(
        group=resource(group), topic=resource(topic), receipt_handle=received.system_properties.receipt_handle
    )
    answer = caller.call("ForwardMessageToDeadLetterQueue", request, pb.ForwardMessageToDeadLetterQueueResponse)
    assert answer.status.code == Code.INVALID_RECEIPT_HANDLE


def changed(caller: Caller, group: str, topic: str, handle: str, **duration: int) -> Any:
    request = pb.ChangeInvisibleDurationRequest(
        group=resource(group), topic=resource(topic), receipt_handle=handle, invisible_duration=duration
    )
    return caller.call("ChangeInvisibleDuration", request, pb.ChangeInvisibleDurationResponse)


def test_a_handle_ends_with_the_invisible_time_of_its_message(caller: Caller, wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    caller.send(message(topic))
    (received,) = caller.receive(group, topic)[1]
    received.system_properties.receipt_handle = changed(
        caller, group, topic, received.system_properties.receipt_handle, nanos=1_000_000
    ).receipt_handle
    time.sleep(0.01)  # nobody asks for it meanwhile: it is as it was, but late
    refused = caller.acknowledge(group, received).status
    assert refused.code == Code.INVALID_RECEIPT_HANDLE
    assert refused.message.startswith("INVALID_RECEIPT_HANDLE: "), "what programs look for"
    late = changed(caller, group, topic, received.system_properties.receipt_handle, seconds=30)
    assert late.status.code == Code.INVALID_RECEIPT_HANDLE
    (again,) = caller.receive(group, topic)[1]
    assert again.system_properties.delivery_attempt == 2
    assert [caller.acknowledge(group, again).status.code for _ in range(2)] == [Code.OK, Code.OK]


def test_what_becomes_a_dead_letter_does_not_come_again_with_what_was_before_it(caller: Caller, wire: Wire) -> None:
    topic, group = wire.topic(1, "FIFO"), wire.group(consumeMessageOrderly=True)
    for body in (b"first", b"second"):
        caller.send(message(topic, body, message_type=pb.MessageType.FIFO, message_group="g"))
    first, second = caller.receive(group, topic)[1]
    request = pb.ForwardMessageToDeadLetterQueueRequest(
        group=resource(group), topic=resource(topic), receipt_handle=second.system_properties.receipt_handle
    )
    answer = caller.call("ForwardMessageToDeadLetterQueue", request, pb.ForwardMessageToDeadLetterQueueResponse)
    assert answer.status.code == Code.OK
    changed(caller, group, topic, first.system_properties.receipt_handle)
    assert [item.body for item in caller.receive(group, topic, wait=10)[1]] == [b"first"]


def test_an_old_handle_makes_no_dead_letter_of_a_message_that_has_a_new_one(caller: Caller, wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    caller.send(message(topic))
    (received,) = caller.receive(group, topic)[1]
    handle = received.system_properties.receipt_handle
    longer = changed(caller, group, topic, handle, seconds=60)
    assert longer.status.code == Code.OK
    for given, code in ((handle, Code.INVALID_RECEIPT_HANDLE), (longer.receipt_handle, Code.OK)):
        request = pb.ForwardMessageToDeadLetterQueueRequest(
            group=resource(group), topic=resource(topic), receipt_handle=given
        )
        answer = caller.call("ForwardMessageToDeadLetterQueue", request, pb.ForwardMessageToDeadLetterQueueResponse)
        assert answer.status.code == code, answer.status.message
    assert wire.ok(30, {"topic": f"%DLQ%{group}", "queueId": 0}).ext["offset"] == "1"


def test_the_end_of_a_transaction_that_is_none_is_refused(caller: Caller, wire: Wire) -> None:
    topic = wire.topic(message_type="TRANSACTION")
    for number in ("", "nonsense", f"{'7F' * 16}-0"):
        request = pb.EndTransactionRequest(topic=resource(topic), transaction_id=number)
        request.resolution = pb.TransactionResolution.COMMIT
        answer = caller.call("EndTransaction", request, pb.EndTransactionResponse)
        assert answer.status.code == Code.INVALID_TRANSACTION_ID


def test_a_group_in_order_gets_nothing_more_of_a_queue_before_it_is_done(caller: Caller, wire: Wire) -> None:
    topic, group = wire.topic(4, "FIFO"), wire.group(consumeMessageOrderly=True)
    for body in (b"first", b"second"):
        caller.send(message(topic, body, message_type=pb.MessageType.FIFO, message_group="g"))
    (first,) = caller.receive(group, topic, batch_size=1)[1]
    assert (first.body, first.system_properties.message_group) == (b"first", "g")
    assert caller.receive(group, topic)[0].code == Code.MESSAGE_NOT_FOUND
    caller.acknowledge(group, first)
    (second,) = caller.receive(group, topic)[1]
    assert (second.body, second.system_properties.queue_id) == (b"second", first.system_properties.queue_id)


def test_a_group_of_ordered_topics_alone_is_in_order_by_itself_unless_it_is_told_not_to_be(
    caller: Caller, wire: Wire
) -> None:
    topic, normal, second = wire.topic(1, "FIFO"), wire.topic(), wire.topic(1, "FIFO")
    group, free = wire.group(), wire.group(orderlyBySubscriptions=False)
    for body in (b"first", b"second"):
        caller.send(message(topic, body, message_type=pb.MessageType.FIFO, message_group="g"))
    (first,) = caller.receive(group, topic, batch_size=1)[1]
    assert caller.receive(group, topic)[0].code == Code.MESSAGE_NOT_FOUND
    assert len(caller.receive(free, topic, batch_size=1)[1] + caller.receive(free, topic)[1]) == 2
    caller.acknowledge(group, first)
    stream = caller.telemetry(settings_of(group, topic, second))
    assert stream.next().settings.subscription.fifo
    (again,) = caller.receive(group, topic, batch_size=1)[1]
    assert again.body == b"second"
    stream.say(pb.TelemetryCommand(settings=settings_of(group, topic, normal)))
    assert not stream.next().settings.subscription.fifo
    caller.send(message(topic, b"third", message_type=pb.MessageType.FIFO, message_group="g"))
    assert [item.body for item in caller.receive(group, topic)[1]] == [b"third"], "it is a group of all topics now"


def settings_of(group: str, *topics: str) -> pb.Settings:
    settings = consumer_settings(group, topics[0])
    for topic in topics[1:]:
        settings.subscription.subscriptions.add(topic=resource(topic))
    return settings


def test_a_remoting_client_pops_in_order_as_its_group_is_set(wire: Wire) -> None:
    topic, group = wire.topic(1, "FIFO"), wire.group(consumeMessageOrderly=True)
    for _ in range(2):
        wire.publish(topic)
    ext = {
        "consumerGroup": group, "topic": topic, "queueId": -1, "maxMsgNums": 1, "invisibleTime": 60_000,
        "pollTime": 0, "bornTime": 0, "initMode": 0, "order": "false",
    }  # fmt: skip
    wire.ok(200050, ext)
    assert wire.call(200050, ext).code == 210


def test_a_message_goes_back_when_its_client_has_left_meanwhile(caller: Caller, wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    waiting = caller.start_receiving(group, topic, wait=15)
    eventually(lambda: wire.ok(200055, {"consumerGroup": group, "topic": topic}).ext["pollingNum"] == "1")
    waiting.cancel()
    eventually(lambda: wire.ok(200055, {"consumerGroup": group, "topic": topic}).ext["pollingNum"] == "0")
    caller.send(message(topic))
    assert len(caller.receive(group, topic, wait=5)[1]) == 1


def test_messages_that_did_not_reach_their_client_are_soon_free_again(
    broker: BrokerProcess, caller: Caller, wire: Wire
) -> None:
    topic, group = wire.topic(), wire.group()
    caller.send(message(topic, bytes(3 << 20)))
    with Caller(broker.grpc, options=READS_NOTHING_AHEAD) as leaving:
        receiving = leaving.start_receiving(group, topic, invisible=3600)
        next(receiving)
        receiving.cancel()
    status, found = caller.receive(group, topic, wait=10)
    assert (status.code, len(found)) == (Code.OK, 1), "an hour has not passed"
    assert "gRPC call ReceiveMessage failed" not in broker.log, "that a client leaves is no failure of the broker"


def test_what_is_no_message_of_the_protocol_is_told_so(caller: Caller, broker: BrokerProcess) -> None:
    for name in ("SendMessage", "AckMessage", "QueryRoute"):
        method = caller.channel.unary_unary(f"/{SERVICE}/{name}")
        answer = pb.QueryRouteResponse.FromString(method(b"\xff\xff", timeout=5, metadata=caller.metadata()))
        assert answer.status.code == Code.BAD_REQUEST
    with pytest.raises(grpc.RpcError) as error:
        caller.channel.unary_unary(f"/{SERVICE}/Unknown")(b"", timeout=5, metadata=caller.metadata())
    assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert "Traceback" not in broker.log


# Crashes


def test_a_killed_broker_knows_transactions_and_handles_again() -> None:
    with broker_process(gantry_grpc_port="0") as broker, Wire(broker.address) as wire, Caller(broker.grpc) as caller:
        deals, topic, group = wire.topic(message_type="TRANSACTION"), wire.topic(), wire.group()
        half = caller.send(message(deals, message_type=pb.MessageType.TRANSACTION)).entries[0]
        caller.send(message(topic))
        (received,) = caller.receive(group, topic)[1]
        broker.kill()
        broker.start()
        request = pb.EndTransactionRequest(topic=resource(deals), transaction_id=half.transaction_id)
        request.resolution = pb.TransactionResolution.COMMIT
        eventually(lambda: _answered(lambda: caller.call("EndTransaction", request, pb.EndTransactionResponse)))
        assert [item.system_properties.message_id for item in caller.receive(group, deals, wait=5)[1]] == [
            half.message_id
        ]
        assert caller.receive(group, topic)[1] == []
        assert caller.acknowledge(group, received).status.code == Code.OK


def _answered(call: Callable[[], Any]) -> bool:
    try:
        return bool(call().status.code == Code.OK)
    except grpc.RpcError:
        return False


# Signature and rights


def test_only_who_signs_with_a_known_key_is_served(broker: BrokerProcess, wire: Wire) -> None:
    topic = wire.topic()
    day = (datetime.now(UTC) - timedelta(hours=25)).strftime("%Y%m%dT%H%M%SZ")
    cases: list[tuple[tuple[str, str] | None, dict[str, str]]] = [
        (None, {}),
        ((SYSTEM_KEY, "wrong"), {}),
        (("LTAIunknown", SYSTEM_SECRET), {}),
        ((SYSTEM_KEY, SYSTEM_SECRET), {"authorization": "nonsense"}),
        ((SYSTEM_KEY, SYSTEM_SECRET), {"authorization": authorization(SYSTEM_KEY, SYSTEM_SECRET, "another date")}),
        ((SYSTEM_KEY, SYSTEM_SECRET), {"x-mq-date-time": day}),
    ]
    for key, extra in cases:
        with Caller(broker.grpc, key) as stranger:
            stranger.extra = extra
            assert stranger.send(message(topic)).status.code == Code.UNAUTHORIZED, (key, extra)
            assert stranger.receive("G", topic)[0].code == Code.UNAUTHORIZED
            with pytest.raises(grpc.RpcError) as error:
                stranger.telemetry(pb.Settings()).next()
            assert error.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_a_client_names_itself(caller: Caller) -> None:
    caller.extra = {"x-mq-client-id": ""}
    assert route(caller, "t").status.code == Code.CLIENT_ID_REQUIRED


def test_a_temporary_key_needs_its_token_and_ends(broker: BrokerProcess, wire: Wire, allow: Allow) -> None:
    topic = wire.topic(name=f"{MINE}%{fresh()}")
    caller = allow("mq:PUB", token="the token", expires_ms=int(time.time() * 1000) + 3_600_000)
    eventually(lambda: "token" in caller.send(message(topic)).status.message)
    caller.extra = {"x-mq-session-token": "the token"}
    eventually(lambda: caller.send(message(topic)).status.code == Code.OK)
    assert caller.key
    broker.allow(*caller.key, row("mq:PUB") | {"token": "the token", "expires_ms": int(time.time() * 1000)})
    eventually(lambda: "expired" in caller.send(message(topic)).status.message)


def test_rights_are_those_of_remoting_clients(wire: Wire, allow: Allow) -> None:
    mine, theirs = wire.topic(name=f"{MINE}%{fresh()}"), wire.topic(name=f"{THEIRS}%{fresh()}")
    group = wire.group(f"{MINE}%{fresh('GID')}")
    publisher, subscriber = allow("mq:PUB"), allow("mq:SUB")
    assert publisher.send(message(mine)).status.code == Code.OK
    assert publisher.send(message(theirs)).status.code == Code.FORBIDDEN
    assert publisher.receive(group, mine)[0].code == Code.FORBIDDEN
    assert subscriber.send(message(mine)).status.code == Code.FORBIDDEN
    assert subscriber.receive(group, theirs)[0].code == Code.FORBIDDEN
    status, (received,) = subscriber.receive(group, mine)
    assert status.code == Code.OK
    assert publisher.acknowledge(group, received).status.code == Code.FORBIDDEN
    assert subscriber.acknowledge(group, received).status.code == Code.OK


def test_rights_that_are_taken_away_end_a_receive_that_waits(broker: BrokerProcess, wire: Wire, allow: Allow) -> None:
    topic, group = wire.topic(name=f"{MINE}%{fresh()}"), wire.group(f"{MINE}%{fresh('GID')}")
    subscriber = allow("mq:SUB")
    waiting = subscriber.start_receiving(group, topic, wait=15)
    eventually(lambda: wire.ok(200055, {"consumerGroup": group, "topic": topic}).ext["pollingNum"] == "1")
    assert subscriber.key
    broker.allow(*subscriber.key, row())
    assert next(waiting).status.code == Code.FORBIDDEN
