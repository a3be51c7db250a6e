"""Messages of inflow tasks into queues of a real queue service."""

from __future__ import annotations

import base64
import json
import os
import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from analytics.inflow import queues
from analytics.inflow.delivery import CUT, REASON, TASK, TRIES, Delivery, Flow, Misset, Outgoing, Undelivered
from analytics.inflow.fields import Fields, Message
from analytics.inflow.queues import MOST_BODY, QueueTarget, Service
from analytics.pipelines.inflow_targets import Target
from tests.inflow.test_delivery import Clock
from tests.pipelines.jobs import Ground
from tests.support.queue_service import ACCOUNT, QueueServiceProcess

LETTER = {REASON: "It is wrong.", TASK: "t", TRIES: "2"}


@pytest.fixture
def queue(ground: Ground, request: pytest.FixtureRequest) -> str:
    """A queue of the test's own."""
    name = f"in-{os.getpid()}-{abs(hash(request.node.name))}"
    ground.queues.create_queue(name)
    return name


@pytest.fixture(autouse=True)
def no_client_left() -> Iterator[None]:
    yield
    while queues._clients:
        queues._clients.popitem()[1].close()


def target(ground: Ground, queue: str, **more: Any) -> QueueTarget:
    return QueueTarget(Service(ground.endpoint, ground.key_id, ground.secret), queue, **more)


def outgoing(*found: bytes) -> list[Outgoing]:
    return [Outgoing(Message(body, {}, None, None)) for body in found]


def numbers(most: int) -> list[Outgoing]:
    return outgoing(*(b"%d" % number for number in range(most)))


def failed(to: QueueTarget, messages: Sequence[Outgoing]) -> Undelivered:
    with pytest.raises(Undelivered) as found:
        to.send(messages)
    return found.value


def bodies(ground: Ground, queue: str) -> list[bytes]:
    """All that a queue has, which is empty then."""
    found: list[bytes] = []
    while received := ground.queues.receive(queue, 16):
        found += [one.body for one in received]
        ground.queues.delete(queue, [one.handle for one in received])
    return found


def test_messages_are_delivered_in_batches(ground: Ground, queue: str) -> None:
    target(ground, queue).send(numbers(500))
    assert sorted(map(int, bodies(ground, queue))) == list(range(500))


def test_a_message_has_the_priority_delay_and_encoding_of_the_task(ground: Ground, queue: str) -> None:
    target(ground, queue, priority=3, base64=True).send(outgoing(b"\0 any"))
    (one,) = ground.queues.receive(queue)
    assert (base64.b64decode(one.body), one.priority) == (b"\0 any", 3)
    target(ground, queue, delay_s=600).send(numbers(2))
    state = ground.queues.queue(queue)
    assert (state.delayed, state.active) == (2, 0)


def test_what_no_queue_takes_is_refused_and_the_rest_delivered(ground: Ground, queue: str) -> None:
    wrong = [b"x" * (MOST_BODY + 1), b"\0", b""]
    error = failed(target(ground, queue), outgoing(b"1", *wrong, b"2"))
    assert error.done == {0, 4} and not error.may_pass
    assert error.refused == {
        1: f"The queue {queue} cannot be written to: the body has 65,537 bytes, and a queue takes 65,536 at most.",
        2: f"The queue {queue} cannot be written to: the body has a character that no XML has, such as U+0000; in"
        " Base64 it may have any.",
        3: f"The queue {queue} cannot be written to: MessageBody is missing or empty.",
    }
    assert sorted(bodies(ground, queue)) == [b"1", b"2"]


def test_a_queue_may_take_less_than_others(ground: Ground, queue: str) -> None:
    ground.queues.set_attributes(queue, {"MaximumMessageSize": 1024})
    error = failed(target(ground, queue), outgoing(b"1", b"x" * 1025))
    assert error.done == {0} and "more than the queue's MaximumMessageSize" in error.refused[1]


def test_a_queue_that_is_not_there_is_misset(ground: Ground) -> None:
    gone = target(ground, "nobody-has-it")
    for act in (gone.require, lambda: gone.send(numbers(1)), lambda: gone.send_dead(b"{}", LETTER)):
        with pytest.raises(Misset, match=r"The queue nobody-has-it cannot be written to: .*does not exist\."):
            act()


def test_a_key_without_the_right_to_send_is_misset(ground: Ground, service: QueueServiceProcess, queue: str) -> None:
    reader = service.keys("reader", "mns:ReceiveMessage", account=ACCOUNT)
    to = QueueTarget(Service(ground.endpoint, reader.id, reader.secret), queue)
    to.require()  # whether it is there such a key may not ask
    with pytest.raises(Misset, match=f"The queue {queue} cannot be written to: "):
        to.send(numbers(1))


def test_a_service_that_is_away_is_tried_again(ground: Ground, queue: str) -> None:
    away = QueueTarget(Service("http://127.0.0.1:1", "a", "b"), queue)
    away.require()
    error = failed(away, numbers(40))
    assert error.may_pass and not error.done and "does not answer" in error.user_message


def test_a_service_within_the_platform_is_written_to_by_nobody_elses_task(ground: Ground, queue: str) -> None:
    inside = QueueTarget(Service(ground.endpoint, ground.key_id, ground.secret, networks=""), queue)
    assert "has no public address" in failed(inside, numbers(1)).user_message
    allowed = QueueTarget(Service(ground.endpoint, ground.key_id, ground.secret, networks="127.0.0.0/8"), queue)
    allowed.send(numbers(1))
    assert bodies(ground, queue) == [b"0"]


def test_a_dead_letter_has_the_event_and_the_reason(ground: Ground, queue: str) -> None:
    to = target(ground, queue)
    to.send_dead('{"id": "e1", "data": "ä"}'.encode(), LETTER)
    to.send_dead(b"no \0 json", LETTER | {CUT: "9000000"})
    large = {"id": "e2", "source": "s", "data": "x" * MOST_BODY}
    to.send_dead(json.dumps(large).encode(), LETTER)
    told = {"task": "t", "reason": "It is wrong.", "tries": 2}
    found = sorted((json.loads(body) for body in bodies(ground, queue)), key=lambda one: str(one["event"]))
    assert found == [
        told | {"event": "no \ufffd json", "cutBytes": 9_000_000},
        told | {"event": {"id": "e1", "data": "ä"}},
        told | {"event": {"id": "e2", "source": "s"}, "cutBytes": len(json.dumps(large))},
    ]


def test_a_dead_letter_that_the_queue_refuses_is_told(ground: Ground, queue: str) -> None:
    ground.queues.set_attributes(queue, {"MaximumMessageSize": 1024})
    with pytest.raises(Undelivered, match="MaximumMessageSize") as error:
        target(ground, queue).send_dead(b'{"data": "%s"}' % (b"x" * 1100), LETTER)
    assert not error.value.may_pass


def test_a_refused_message_is_a_dead_letter_and_the_others_are_delivered(ground: Ground, queue: str) -> None:
    fields = Fields.compile({"body": {"method": "data_extraction", "path": "$.data"}})
    letters = f"{queue}-dead"
    ground.queues.create_queue(letters)
    to = Target(target(ground, queue), target(ground, letters))
    events = [{"id": str(one), "data": "x" * (1 if one != 20 else MOST_BODY + 1)} for one in range(40)]
    with Delivery(Flow("t", fields, has_dead_letters=True), to, Clock()) as delivery:
        delivery.deliver([json.dumps(one).encode() for one in events])
    assert len(bodies(ground, queue)) == 39
    (letter,) = (json.loads(body) for body in bodies(ground, letters))
    assert (letter["event"], letter["cutBytes"]) == ({"id": "20"}, len(json.dumps(events[20])))
    assert "the body has 65,537 bytes" in letter["reason"] and letter["tries"] == 1


def test_no_text_of_a_target_has_its_secret(ground: Ground) -> None:
    to = QueueTarget(Service("http://127.0.0.1:1", "id", "very secret"), "q")
    assert "very secret" not in repr(to)
    assert pickle.loads(pickle.dumps(to)) == to
