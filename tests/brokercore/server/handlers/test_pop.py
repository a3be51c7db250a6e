"""POP: messages are invisible while somebody works on them, and given out again when nobody says that he is done."""

from __future__ import annotations

import json
import signal
import time
from typing import Any

import pytest

from brokercore.protocol.command import Command
from brokercore.protocol.message import StoredMessage, decode_stored
from tests.brokercore.server.wire import Wire, fresh, properties
from tests.support.broker import BrokerProcess, broker_process, eventually
from tests.support.redis_server import redis_server

POP, ACK, CHANGE, NOTIFICATION, POLLING_INFO, SET_MODE, ASSIGNMENT = 200050, 200051, 200053, 200054, 200055, 401, 400


def ask(wire: Wire, group: str, topic: str, **fields: Any) -> int:
    """Send a pop and return its opaque."""
    ext = {
        "consumerGroup": group, "topic": topic, "queueId": -1, "maxMsgNums": 32, "invisibleTime": 60_000,
        "pollTime": 0, "bornTime": int(time.time() * 1000), "initMode": 0,
    } | fields  # fmt: skip
    return wire.send(POP, ext)


def pop(wire: Wire, group: str, topic: str, **fields: Any) -> tuple[Command, list[StoredMessage]]:
    answer = wire.receive(ask(wire, group, topic, **fields))
    return answer, decode_stored(answer.body) if answer.code == 0 else []


def bodies(wire: Wire, group: str, topic: str, **fields: Any) -> list[bytes]:
    return sorted(message.body for message in pop(wire, group, topic, **fields)[1])


def handle(answer: Command, message: StoredMessage) -> dict[str, Any]:
    """Header of an acknowledgement, as rocketmq-client makes the receipt handle of a message."""
    times = f"{answer.ext['popTime']} {answer.ext['invisibleTime']}"
    text = f"{message.queue_offset} {times} 0 0 broker-a {message.queue_id} {message.queue_offset}"
    return {"queueId": message.queue_id, "offset": message.queue_offset, "extraInfo": text}


def acknowledge(wire: Wire, group: str, topic: str, answer: Command, message: StoredMessage) -> int:
    return wire.call(ACK, {"consumerGroup": group, "topic": topic} | handle(answer, message)).code


@pytest.fixture
def place(wire: Wire) -> tuple[str, str]:
    """A group, and a topic of two queues with three messages in each."""
    topic, group = wire.topic(queues=2), wire.group()
    for number in range(6):
        wire.publish(topic, b"m%d" % number, properties(TAGS="even" if number % 2 == 0 else "odd"), e=number % 2)
    return group, topic


def test_what_is_popped_nobody_else_gets(wire: Wire, place: tuple[str, str]) -> None:
    first, messages = pop(wire, *place, maxMsgNums=4)
    assert len(messages) == 4
    second = bodies(wire, *place)
    assert sorted([message.body for message in messages] + second) == [b"m%d" % number for number in range(6)]
    assert pop(wire, *place)[0].code == 210
    assert first.ext["restNum"] == "2"
    offsets = {m.queue_id: sorted(o.queue_offset for o in messages if o.queue_id == m.queue_id) for m in messages}
    said = dict(part.split(" ")[1:] for part in first.ext["msgOffsetInfo"].split(";"))
    assert {int(q): [int(o) for o in given.split(",")] for q, given in said.items()} == offsets
    assert wire.pull(wire.group(), place[1]).code == 0


def test_who_comes_while_another_takes_from_the_queue_has_what_is_left_of_it_at_once(wire: Wire) -> None:
    topic, group = wire.topic(queues=1), wire.group()
    for number in range(40):
        wire.publish(topic, b"%d" % number)
    with wire.at_once():
        opaques = [ask(wire, group, topic, maxMsgNums=1, pollTime=30_000) for _ in range(40)]
    answers = [wire.receive(opaque, 10) for opaque in opaques]  # and not only when their polls end
    popped = [message.body for answer in answers for message in decode_stored(answer.body)]
    assert sorted(popped, key=int) == [b"%d" % number for number in range(40)]


def test_one_queue_can_be_named(wire: Wire, place: tuple[str, str]) -> None:
    assert bodies(wire, *place, queueId=1) == [b"m1", b"m3", b"m5"]
    assert pop(wire, *place, queueId=7)[0].code == 29


def test_what_is_not_acknowledged_comes_again_and_counts(wire: Wire, place: tuple[str, str]) -> None:
    answer, messages = pop(wire, *place, queueId=0, invisibleTime=300)
    assert acknowledge(wire, *place, answer, messages[0]) == 0
    again, repeated = pop(wire, *place, queueId=0, invisibleTime=60_000, pollTime=20_000)
    assert [message.body for message in repeated] == [b"m2", b"m4"]
    assert {message.reconsume_times for message in repeated} == {1}
    # The handle of the first delivery is over; acknowledging twice is harmless.
    assert acknowledge(wire, *place, answer, messages[1]) == 208
    for message in repeated:
        assert [acknowledge(wire, *place, again, message) for _ in range(2)] == [0, 0]
    assert wire.ok(14, {"consumerGroup": place[0], "topic": place[1], "queueId": 0}).ext["offset"] == "3"


def test_the_committed_offset_stays_before_what_is_in_flight(wire: Wire, place: tuple[str, str]) -> None:
    answer, messages = pop(wire, *place, queueId=0)
    for message in messages[1:]:
        assert acknowledge(wire, *place, answer, message) == 0
    assert wire.ok(14, {"consumerGroup": place[0], "topic": place[1], "queueId": 0}).ext["offset"] == "0"
    assert acknowledge(wire, *place, answer, messages[0]) == 0
    assert wire.ok(14, {"consumerGroup": place[0], "topic": place[1], "queueId": 0}).ext["offset"] == "3"


def test_the_invisible_time_can_be_changed(wire: Wire, place: tuple[str, str]) -> None:
    answer, (message, *_) = pop(wire, *place, queueId=0)
    names = {"consumerGroup": place[0], "topic": place[1]}
    changed = wire.ok(CHANGE, names | handle(answer, message) | {"invisibleTime": 0})
    assert wire.call(CHANGE, names | handle(answer, message) | {"invisibleTime": 9_000}).code == 208
    _, repeated = pop(wire, *place, queueId=0, pollTime=20_000)
    assert [m.body for m in repeated] == [b"m0"]
    assert acknowledge(wire, *place, changed, message) == 208


def test_a_waiting_pop_gets_the_next_message_of_any_queue(broker: BrokerProcess, wire: Wire) -> None:
    topic, group = wire.topic(queues=3), wire.group()
    opaque = ask(wire, group, topic, pollTime=20_000)
    with Wire(broker.address) as other:
        names = {"consumerGroup": group, "topic": topic, "queueId": -1}
        eventually(lambda: other.ok(POLLING_INFO, names).ext["pollingNum"] == "1")
        other.publish(topic, b"new", e=2)
    assert [message.body for message in decode_stored(wire.receive(opaque).body)] == [b"new"]


def test_a_waiting_pop_gets_what_becomes_visible(wire: Wire, place: tuple[str, str]) -> None:
    assert len(pop(wire, *place, invisibleTime=400)[1]) == 6
    assert bodies(wire, *place, pollTime=20_000) == [b"m%d" % number for number in range(6)]


def test_a_filter_passes_over_the_others(wire: Wire, place: tuple[str, str]) -> None:
    assert bodies(wire, *place, exp="odd", expType="TAG") == [b"m1", b"m3", b"m5"]
    assert pop(wire, *place, expType="TAG", exp="*")[0].code == 210
    assert pop(wire, *place, expType="SQL92", exp="a >")[0].code == 23
    group = wire.group()
    assert bodies(wire, group, place[1], expType="SQL92", exp="TAGS = 'even'") == [b"m0", b"m2", b"m4"]


def test_a_group_can_begin_at_the_end(wire: Wire, place: tuple[str, str]) -> None:
    assert pop(wire, *place, initMode=1)[0].code == 210
    wire.publish(place[1], b"later")
    assert bodies(wire, *place, initMode=1) == [b"later"]


def test_an_ordered_queue_waits_for_what_is_in_flight(wire: Wire, place: tuple[str, str]) -> None:
    fields: dict[str, Any] = {"queueId": 0, "order": "true", "maxMsgNums": 2}
    with wire.at_once():  # the second one while the first has just been answered, however slow the machine is
        taking, waiting = ask(wire, *place, invisibleTime=500, **fields), ask(wire, *place, **fields)
    answer = wire.receive(taking)
    messages = decode_stored(answer.body)
    assert [message.body for message in messages] == [b"m0", b"m2"]
    assert wire.receive(waiting).code == 210
    assert acknowledge(wire, *place, answer, messages[0]) == 0
    # The second one failed: it comes again, alone, before the third.
    answer, messages = pop(wire, *place, pollTime=20_000, **fields)
    assert [message.body for message in messages] == [b"m2"]
    assert acknowledge(wire, *place, answer, messages[0]) == 0
    assert bodies(wire, *place, **fields) == [b"m4"]


def offset_of(wire: Wire, group: str, topic: str) -> str:
    return wire.ok(14, {"consumerGroup": group, "topic": topic, "queueId": 0}).ext["offset"]


def test_what_was_acknowledged_behind_a_failure_comes_again_with_it_in_order(
    wire: Wire, place: tuple[str, str]
) -> None:
    """As from Apache RocketMQ, which commits the first offset of a batch that is not acknowledged."""
    fields: dict[str, Any] = {"queueId": 0, "order": "true"}
    answer, messages = pop(wire, *place, invisibleTime=400, **fields)
    assert [acknowledge(wire, *place, answer, message) for message in messages[1:] * 2] == [0] * 4
    assert offset_of(wire, *place) == "0"
    again, repeated = pop(wire, *place, pollTime=20_000, **fields)
    assert [(message.body, message.reconsume_times) for message in repeated] == [(b"m0", 1), (b"m2", 1), (b"m4", 1)]
    assert acknowledge(wire, *place, answer, messages[1]) == 208, "that was the delivery before"
    for message in reversed(repeated):
        assert offset_of(wire, *place) == "0"
        assert acknowledge(wire, *place, again, message) == 0
    assert offset_of(wire, *place) == "3"
    assert pop(wire, *place, **fields)[0].code == 210


def test_what_was_acknowledged_in_order_holds_nothing_up_and_has_no_handle(wire: Wire, place: tuple[str, str]) -> None:
    names = {"consumerGroup": place[0], "topic": place[1]}
    fields: dict[str, Any] = {"queueId": 0, "order": "true"}
    answer, messages = pop(wire, *place, **fields)
    assert [acknowledge(wire, *place, answer, message) for message in messages[1:]] == [0, 0]
    assert wire.call(CHANGE, names | handle(answer, messages[2]) | {"invisibleTime": 9_000}).code == 208
    wire.ok(CHANGE, names | handle(answer, messages[0]) | {"invisibleTime": 100})
    assert bodies(wire, *place, pollTime=20_000, **fields) == [b"m0", b"m2", b"m4"], "a minute is not over"


def test_of_a_batch_in_order_only_what_failed_becomes_a_dead_letter(wire: Wire) -> None:
    topic, group = wire.topic(), wire.group(retryMaxTimes=1)
    for number in range(3):
        wire.publish(topic, b"m%d" % number)
    for count in range(2):
        answer, messages = pop(wire, group, topic, order="true", invisibleTime=300, pollTime=20_000)
        assert [(message.body, message.reconsume_times) for message in messages] == [
            (b"m%d" % number, count) for number in range(3)
        ]
        assert [acknowledge(wire, group, topic, answer, message) for message in messages[1:]] == [0, 0]
    wire.publish(topic, b"next")
    assert bodies(wire, group, topic, order="true", pollTime=20_000) == [b"next"]
    dead = wire.pull(wire.group(), f"%DLQ%{group}")
    assert [message.body for message in decode_stored(dead.body)] == [b"m0"]
    assert offset_of(wire, group, topic) == "3"


def test_who_waits_for_a_queue_in_order_has_what_is_next_once_all_is_acknowledged(
    broker: BrokerProcess, wire: Wire, place: tuple[str, str]
) -> None:
    fields: dict[str, Any] = {"queueId": 0, "order": "true", "maxMsgNums": 1}
    answer, (message,) = pop(wire, *place, **fields)
    opaque = ask(wire, *place, pollTime=60_000, **fields)
    with Wire(broker.address) as other:
        names = {"consumerGroup": place[0], "topic": place[1], "queueId": -1}
        eventually(lambda: other.ok(POLLING_INFO, names).ext["pollingNum"] == "1")
        assert acknowledge(other, *place, answer, message) == 0
    waiting = wire.receive(opaque, 20)  # and not only when its poll ends
    assert [message.body for message in decode_stored(waiting.body)] == [b"m2"]


def test_a_notification_in_order_waits_for_what_is_in_flight(wire: Wire, place: tuple[str, str]) -> None:
    fields: dict[str, Any] = {"queueId": 0, "order": "true"}
    names = {"consumerGroup": place[0], "topic": place[1], "bornTime": 0, "pollTime": 0}
    assert wire.ok(NOTIFICATION, names | fields).ext["hasMsg"] == "true"
    pop(wire, *place, maxMsgNums=1, **fields)
    assert wire.ok(NOTIFICATION, names | fields).ext["hasMsg"] == "false"


def test_the_last_failure_makes_a_dead_letter(wire: Wire) -> None:
    topic, group = wire.topic(), wire.group(retryMaxTimes=1)
    wire.publish(topic, b"poison", properties(UNIQ_KEY="U1", KEYS="k"))
    for count in range(2):
        _, (message,) = pop(wire, group, topic, invisibleTime=150, pollTime=20_000)
        assert message.reconsume_times == count

    def buried() -> list[StoredMessage]:
        pop(wire, group, topic)
        dead = wire.pull(wire.group(), f"%DLQ%{group}")
        return decode_stored(dead.body) if dead.code == 0 else []

    (dead,) = eventually(buried)
    assert (dead.body, dead.unique_id, dead.properties["RETRY_TOPIC"]) == (b"poison", "U1", topic)
    assert wire.ok(14, {"consumerGroup": group, "topic": topic, "queueId": 0}).ext["offset"] == "1"


def test_a_reset_gives_out_again_from_there(wire: Wire, place: tuple[str, str]) -> None:
    answer, messages = pop(wire, *place, queueId=0)
    for message in messages:
        acknowledge(wire, *place, answer, message)
    wire.ok(222, {"topic": place[1], "group": place[0], "timestamp": 0, "isForce": "true"})
    assert len(bodies(wire, *place, queueId=0)) == 3


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"extraInfo": "rubbish"}, 29),
        ({"extraInfo": "0 1 2 0 0 broker-b 0 0"}, 29),
        ({"offset": 5}, 29),
        ({"topic": "no-topic"}, 17),
    ],
)
def test_a_receipt_handle_is_checked(wire: Wire, place: tuple[str, str], fields: dict[str, Any], code: int) -> None:
    names = {"consumerGroup": place[0], "topic": place[1], "queueId": 0, "offset": 0}
    assert wire.call(ACK, names | {"extraInfo": "0 1 2 0 0 broker-a 0 0"} | fields).code == code


@pytest.mark.parametrize("invisible", [0, 99, 12 * 3600 * 1000 + 1])
def test_the_invisible_time_has_bounds(wire: Wire, place: tuple[str, str], invisible: int) -> None:
    assert pop(wire, *place, invisibleTime=invisible)[0].code == 29


def test_a_notification_says_that_there_is_something(broker: BrokerProcess, wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    names = {"consumerGroup": group, "topic": topic, "queueId": -1, "bornTime": 0}
    assert wire.ok(NOTIFICATION, names | {"pollTime": 0}).ext["hasMsg"] == "false"
    opaque = wire.send(NOTIFICATION, names | {"pollTime": 20_000})
    with Wire(broker.address) as other:
        other.publish(topic, b"x")
    assert wire.receive(opaque).ext["hasMsg"] == "true"
    assert bodies(wire, group, topic) == [b"x"]


def test_a_client_that_leaves_takes_no_message_with_it(broker: BrokerProcess, wire: Wire) -> None:
    topic, group = wire.topic(), wire.group()
    names = {"consumerGroup": group, "topic": topic, "queueId": -1}
    with Wire(broker.address) as leaving:
        ask(leaving, group, topic, pollTime=60_000)
        eventually(lambda: wire.ok(POLLING_INFO, names).ext["pollingNum"] == "1")
    eventually(lambda: wire.ok(POLLING_INFO, names).ext["pollingNum"] == "0")
    wire.publish(topic, b"x")
    assert bodies(wire, group, topic) == [b"x"]


def test_the_broker_says_who_pops(wire: Wire) -> None:
    topic, group = wire.topic(queues=4), wire.group()
    question = {"consumerGroup": group, "topic": topic, "clientId": "c1", "messageModel": "CLUSTERING"}

    def assigned(client: str = "c1") -> list[tuple[int, str]]:
        answer = json.loads(wire.ok(ASSIGNMENT, body=json.dumps(question | {"clientId": client}).encode()).body)
        found = answer["messageQueueAssignments"]
        return sorted((item["messageQueue"]["queueId"], item["mode"]) for item in found)

    assert assigned() == []
    wire.heartbeat("c1", group, topic)
    assert assigned() == [(number, "PULL") for number in range(4)]
    mode = {"consumerGroup": group, "topic": topic, "mode": "POP", "popShareQueueNum": 0}
    wire.ok(SET_MODE, body=json.dumps(mode).encode())
    assert assigned() == [(-1, "POP")]
    assert wire.call(SET_MODE, body=json.dumps(mode | {"mode": "PUSH"}).encode()).code == 29


def test_kill_9_gives_nothing_out_twice_that_was_acknowledged() -> None:
    with redis_server() as redis, broker_process(redis) as process:
        with Wire(process.address) as wire:
            topic, group = wire.topic(name=fresh()), wire.group()
            for number in range(4):
                wire.publish(topic, b"m%d" % number)
            answer, messages = pop(wire, group, topic, maxMsgNums=3, invisibleTime=1_000)
            assert acknowledge(wire, group, topic, answer, messages[1]) == 0
        process.signal(signal.SIGKILL)
        process.kill()
        process.start()
        with Wire(process.address) as wire:
            left = eventually(lambda: bodies(wire, group, topic, pollTime=5_000), 20)
            while len(left) < 3:
                left += bodies(wire, group, topic, pollTime=5_000)
            assert sorted(left) == [b"m0", b"m2", b"m3"]


def test_kill_9_forgets_no_acknowledgement_that_waits_for_an_earlier_message() -> None:
    with redis_server() as redis, broker_process(redis) as process:
        with Wire(process.address) as wire:
            topic, group = wire.topic(name=fresh()), wire.group()
            for number in range(4):
                wire.publish(topic, b"m%d" % number)
            answer, messages = pop(wire, group, topic, maxMsgNums=3, order="true")
            assert acknowledge(wire, group, topic, answer, messages[1]) == 0
        process.signal(signal.SIGKILL)
        process.kill()
        process.start()
        with Wire(process.address) as wire:
            assert acknowledge(wire, group, topic, answer, messages[0]) == 0
            assert offset_of(wire, group, topic) == "2"
            assert acknowledge(wire, group, topic, answer, messages[2]) == 0
            assert bodies(wire, group, topic, order="true") == [b"m3"]


def test_peeking_shows_what_a_pop_would_get_and_takes_nothing(wire: Wire, place: tuple[str, str]) -> None:
    group, topic = place

    def peek(**fields: Any) -> Command:
        return wire.call(200052, {"topic": topic, "consumerGroup": group, "queueId": -1, "maxMsgNums": 32} | fields)

    assert sorted(message.body for message in decode_stored(peek().body)) == [b"m%d" % number for number in range(6)]
    assert [message.body for message in decode_stored(peek(queueId=1, maxMsgNums=1).body)] == [b"m1"]
    popped, messages = pop(wire, *place)
    assert len(messages) == 6
    assert peek().code == 19
    for message in messages[1:]:
        acknowledge(wire, *place, popped, message)
    change = {"consumerGroup": group, "topic": topic, "invisibleTime": 0} | handle(popped, messages[0])
    wire.ok(CHANGE, change)
    eventually(lambda: peek().code == 0)
    assert [message.body for message in decode_stored(peek().body)] == [messages[0].body]


def test_the_table_of_modes_names_who_pops(wire: Wire, place: tuple[str, str]) -> None:
    group, topic = place
    wire.ok(SET_MODE, body=json.dumps({"consumerGroup": group, "topic": topic, "mode": "POP"}).encode())
    table = json.loads(wire.ok(402).body)["messageRequestModeMap"]
    assert table[topic][group]["mode"] == "POP"
