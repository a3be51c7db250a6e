"""Telemetry and heartbeats: what clients are told, how they are asked, and when they are gone."""

from __future__ import annotations

import json

import grpc
import pytest

from brokercore.protocol.grpc import messaging_pb2 as pb
from brokercore.protocol.grpc.messaging_pb2 import Code
from tests.brokercore.server.grpc.caller import Caller, consumer_settings, message, producer_settings, resource
from tests.brokercore.server.wire import Wire
from tests.support.broker import BrokerProcess, eventually


def heartbeat(
    caller: Caller, group: str = "", kind: pb.ClientType = pb.ClientType.PUSH_CONSUMER
) -> pb.HeartbeatResponse:
    request = pb.HeartbeatRequest(group=resource(group) if group else None, client_type=kind)
    answer: pb.HeartbeatResponse = caller.call("Heartbeat", request, pb.HeartbeatResponse)
    return answer


def is_online(wire: Wire, group: str, client_id: str) -> bool:
    answer = wire.call(203, {"consumerGroup": group})
    return answer.code == 0 and client_id.encode() in answer.body


def test_a_consumer_is_told_what_its_group_is_set_to(caller: Caller, wire: Wire) -> None:
    group = wire.group(consumeMessageOrderly=True, retryMaxTimes=4)
    answer = caller.telemetry(consumer_settings(group, wire.topic())).next()
    assert (answer.status.code, answer.settings.subscription.fifo) == (Code.OK, True)
    assert answer.settings.backoff_policy.max_attempts == 5
    assert [item.ToSeconds() for item in answer.settings.backoff_policy.customized_backoff.next[:3]] == [1, 5, 10]
    assert answer.settings.subscription.long_polling_timeout.ToSeconds() == 20


def test_a_producer_is_told_the_limits(caller: Caller, wire: Wire) -> None:
    answer = caller.telemetry(producer_settings(wire.topic())).next()
    assert (answer.settings.publishing.max_body_size, answer.settings.publishing.validate_message_type) == (
        4 << 20,
        True,
    )
    assert answer.settings.backoff_policy.max_attempts == 3


def test_a_client_is_online_while_its_stream_is(caller: Caller, wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    stream = caller.telemetry(consumer_settings(group, topic, "a || b"))
    stream.next()
    body = wire.ok(203, {"consumerGroup": group}).body
    assert caller.client_id.encode() in body
    assert b'"a || b"' in body
    stream.end()
    eventually(lambda: not is_online(wire, group, caller.client_id))


def test_a_new_stream_of_a_client_takes_the_place_of_the_old_one(caller: Caller, wire: Wire) -> None:
    group = wire.group()
    first = caller.telemetry(consumer_settings(group, wire.topic()))
    first.next()
    second = caller.telemetry(consumer_settings(group, wire.topic()))
    second.next()
    first.end()
    assert heartbeat(caller, group).status.code == Code.OK
    assert is_online(wire, group, caller.client_id)


def test_a_heartbeat_makes_a_restarted_broker_know_a_consumer_again(caller: Caller, wire: Wire) -> None:
    group = wire.group()
    assert heartbeat(caller, group).status.code == Code.OK
    assert is_online(wire, group, caller.client_id)
    request = pb.NotifyClientTerminationRequest(group=resource(group))
    answer = caller.call("NotifyClientTermination", request, pb.NotifyClientTerminationResponse)
    assert answer.status.code == Code.OK
    assert not is_online(wire, group, caller.client_id)


def test_a_heartbeat_without_a_client_type_is_of_what_the_settings_say(caller: Caller, wire: Wire) -> None:
    """Producers of the Java client 5.0.3 send none."""
    unknown = pb.ClientType.CLIENT_TYPE_UNSPECIFIED
    assert heartbeat(caller, kind=unknown).status.code == Code.UNRECOGNIZED_CLIENT_TYPE
    settings = producer_settings(wire.topic())
    settings.ClearField("client_type")
    stream = caller.telemetry(settings)
    stream.next()
    assert heartbeat(caller, kind=unknown).status.code == Code.OK


def test_a_consumer_too_may_leave_its_type_to_its_settings(caller: Caller, wire: Wire) -> None:
    group = wire.group()
    stream = caller.telemetry(consumer_settings(group, wire.topic()))
    stream.next()
    assert heartbeat(caller, kind=pb.ClientType.CLIENT_TYPE_UNSPECIFIED).status.code == Code.OK
    assert is_online(wire, group, caller.client_id)


def test_a_topic_made_without_a_kind_takes_normal_messages_only(caller: Caller, wire: Wire) -> None:
    """As the proxy of Apache RocketMQ has it."""
    topic = wire.topic(message_type="")
    assert caller.send(message(topic, b"plain")).status.code == Code.OK
    grouped = message(topic, b"ordered")
    grouped.system_properties.message_type = pb.MessageType.FIFO
    grouped.system_properties.message_group = "g"
    assert caller.send(grouped).entries[0].status.code == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE


def test_client_types_that_are_not_served_are_told_so(caller: Caller, wire: Wire) -> None:
    kind = pb.ClientType.LITE_PUSH_CONSUMER
    assert heartbeat(caller, wire.group(), kind).status.code == Code.UNRECOGNIZED_CLIENT_TYPE
    with pytest.raises(grpc.RpcError) as error:
        caller.telemetry(pb.Settings(client_type=kind)).next()
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_a_clients_threads_are_shown(caller: Caller, wire: Wire) -> None:
    group = wire.group()
    stream = caller.telemetry(consumer_settings(group, wire.topic()))
    stream.next()
    ext = {"consumerGroup": group, "clientId": caller.client_id, "jstackEnable": "true"}
    asked = wire.send(307, ext)
    nonce = stream.next().print_thread_stack_trace_command.nonce
    stream.say(
        pb.TelemetryCommand(thread_stack_trace=pb.ThreadStackTrace(nonce=nonce, thread_stack_trace="at Main.main"))
    )
    assert json.loads(wire.receive(asked).body)["jstack"] == "at Main.main"


def test_a_message_is_handed_to_one_client(caller: Caller, wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    stored = wire.publish(topic, b"look at me").ext["msgId"]
    stream = caller.telemetry(consumer_settings(group, topic))
    stream.next()
    asked = wire.send(309, {"consumerGroup": group, "clientId": caller.client_id, "msgId": stored})
    command = stream.next().verify_message_command
    assert command.message.body == b"look at me"
    status = pb.Status(code=Code.FAILED_TO_CONSUME_MESSAGE, message="not now")
    result = pb.VerifyMessageResult(nonce=command.nonce)
    stream.say(pb.TelemetryCommand(status=status, verify_message_result=result))
    assert json.loads(wire.receive(asked).body)["consumeResult"] == "CR_LATER"


def test_a_half_message_is_shown_only_to_who_may_publish(broker: BrokerProcess, caller: Caller, wire: Wire) -> None:
    topic = wire.topic(message_type="TRANSACTION")
    broker.allow("AKwatcher", "secret", {"boundary": ["*"], "statements": [], "grants": []})
    with Caller(broker.grpc, ("AKwatcher", "secret")) as watcher:
        eventually(lambda: heartbeat(watcher, kind=pb.ClientType.PRODUCER).status.code == Code.OK)
        watching = watcher.telemetry(producer_settings(topic))
        assert watching.next().HasField("settings")
        assert wire.call(204, {"producerGroup": topic}).code != 0
        stream = caller.telemetry(producer_settings(topic))
        stream.next()
        sent = caller.send(message(topic, message_type=pb.MessageType.TRANSACTION)).entries[0]
        question = stream.next().recover_orphaned_transaction_command
        assert question.transaction_id == sent.transaction_id
        assert question.message.system_properties.message_id == sent.message_id


def test_what_a_client_worked_on_is_free_again_soon_after_it_went(caller: Caller, wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    stream = caller.telemetry(consumer_settings(group, topic))
    stream.next()
    caller.send(message(topic))
    (received,) = caller.receive(group, topic, auto_renew=True, invisible=None)[1]
    assert received.system_properties.invisible_duration.ToSeconds() == 60
    stream.end()
    (again,) = caller.receive(group, topic, wait=15)[1]
    assert again.system_properties.delivery_attempt == 2


def test_a_push_consumer_that_is_not_known_keeps_what_it_works_on(caller: Caller, wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    caller.send(message(topic))
    assert len(caller.receive(group, topic, auto_renew=True, invisible=None)[1]) == 1
    assert is_online(wire, group, caller.client_id)
