"""What becomes of a message whose handler fails, comes too late, or loses its queue; beside a broker that refuses."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from brokercore.client import ConsumeResult, MessageView, consumption
from brokercore.client.consumption import ConcurrentConsumption, ConsumeMeter, Handler, Handling, OrderedConsumption
from brokercore.client.process_queue import ProcessQueue
from brokercore.client.routes import Routes
from brokercore.client.session import Session
from brokercore.client.threads import Scheduler
from brokercore.protocol.bodies.route import BrokerData, ClusterInfo
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.message import StoredMessage
from brokercore.protocol.message_queue import MessageQueue
from tests.brokercore.client.peer import Peer, until

QUEUE = MessageQueue("t", "broker-a", 0)
SEND_BACK = RequestCode.CONSUMER_SEND_MSG_BACK


@dataclass
class Broker:
    """Name server and broker in one; takes messages back unless `refuses`."""

    refuses: bool = False
    sent_back: list[Command] = field(default_factory=list)

    def answer(self, peer: Peer, connection: socket.socket, command: Command) -> None:
        if command.code == RequestCode.GET_BROKER_CLUSTER_INFO:
            cluster = ClusterInfo({"broker-a": BrokerData("c", "broker-a", {"0": peer.address})}, {"c": ["broker-a"]})
            connection.sendall(command.response(0, body=cluster.to_json()).encode())
        elif command.code == SEND_BACK:
            self.sent_back.append(command)
            code = ResponseCode.SYSTEM_ERROR if self.refuses else ResponseCode.SUCCESS
            connection.sendall(command.response(code, "not now").encode())


@contextmanager
def consuming(broker: Broker, handler: Handler, timeout_s: float = 900) -> Iterator[ConcurrentConsumption]:
    """Concurrent consumption in one thread, its broker beside it."""
    with handled(broker, handler) as (handling, scheduler):
        consumption = ConcurrentConsumption(handling, scheduler, broadcasting=False, threads=1, timeout_s=timeout_s)
        try:
            yield consumption
        finally:
            consumption.stop(5)


@contextmanager
def handled(broker: Broker, handler: Handler, most_times: int = 16) -> Iterator[tuple[Handling, Scheduler]]:
    """The handler of a group, its broker beside it."""
    with Peer(broker.answer) as peer:
        session, scheduler = Session(peer.address, None), Scheduler("test")
        try:
            yield Handling(
                session=session, routes=Routes(session), meter=ConsumeMeter(), group="g", namespace="",
                max_reconsume_times=most_times, handler=handler,
            ), scheduler  # fmt: skip
        finally:
            scheduler.stop()
            session.close()


def owned(message: StoredMessage) -> ProcessQueue:
    """The queue with one message that was pulled."""
    item = ProcessQueue(QUEUE, message.queue_offset)
    item.add([message], message.queue_offset + 1)
    return item


def test_what_the_broker_does_not_take_back_is_consumed_here_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumption, "CONSUME_AGAIN_S", 0.01)
    broker, seen, offsets = Broker(refuses=True), list[int](), list[int]()
    message = StoredMessage("t", b"body", queue_offset=7, total_size=10)
    item = owned(message)

    def handle(view: MessageView) -> ConsumeResult:
        seen.append(view.reconsume_times)
        offsets.append(item.commit_offset)
        return ConsumeResult.SUCCESS if len(seen) == 3 else ConsumeResult.RECONSUME_LATER

    with consuming(broker, handle) as consumption_:
        consumption_.deliver(item, message)
        until(lambda: item.commit_offset == 8)
    assert (seen, offsets, len(broker.sent_back)) == ([0, 1, 2], [7, 7, 7], 2)


def test_what_the_broker_takes_back_is_done_here() -> None:
    broker, message = Broker(), StoredMessage("t", b"body", queue_offset=7, total_size=10)
    item = owned(message)
    with consuming(broker, lambda _: ConsumeResult.RECONSUME_LATER) as consumption_:
        consumption_.deliver(item, message)
        until(lambda: item.commit_offset == 8)
    assert len(broker.sent_back) == 1


def test_a_handler_that_took_too_long_has_no_say_any_more() -> None:
    """Its message went back to the broker once, whatever the handler says in the end."""
    broker, entered, may_go = Broker(), threading.Event(), threading.Event()
    message = StoredMessage("t", b"body", queue_offset=7, total_size=10)
    item = owned(message)

    def handle(_view: MessageView) -> ConsumeResult:
        entered.set()
        may_go.wait(20)
        return ConsumeResult.RECONSUME_LATER

    with consuming(broker, handle, timeout_s=0) as consumption_:
        consumption_.deliver(item, message)
        assert entered.wait(20)
        consumption_.expire()
        assert (item.commit_offset, len(broker.sent_back)) == (8, 1)
        may_go.set()
        assert consumption_.stop(20)
    assert len(broker.sent_back) == 1


@pytest.mark.parametrize("result", list(ConsumeResult))
def test_a_queue_that_was_given_up_is_not_touched_by_its_last_handler(result: ConsumeResult) -> None:
    """Another consumer has the queue: it will get the message, so nothing is sent back or committed here."""
    broker, entered, may_go = Broker(), threading.Event(), threading.Event()
    message = StoredMessage("t", b"body", queue_offset=7, total_size=10)
    item = owned(message)

    def handle(_view: MessageView) -> ConsumeResult:
        entered.set()
        may_go.wait(20)
        return result

    with consuming(broker, handle) as consumption_:
        consumption_.deliver(item, message)
        assert entered.wait(20)
        item.dropped = True
        may_go.set()
        assert consumption_.stop(20)
    assert (item.commit_offset, broker.sent_back) == (7, [])


def test_an_overdue_message_of_a_queue_that_was_given_up_is_not_sent_back() -> None:
    broker, entered, may_go = Broker(), threading.Event(), threading.Event()
    message = StoredMessage("t", b"body", queue_offset=7, total_size=10)
    item = owned(message)

    def handle(_view: MessageView) -> ConsumeResult:
        entered.set()
        may_go.wait(20)
        return ConsumeResult.SUCCESS

    with consuming(broker, handle, timeout_s=0) as consumption_:
        consumption_.deliver(item, message)
        assert entered.wait(20)
        item.dropped = True
        consumption_.expire()
        may_go.set()
        assert consumption_.stop(20)
    assert broker.sent_back == []


def test_an_ordered_message_that_the_broker_does_not_take_as_a_dead_letter_holds_up_its_queue() -> None:
    broker, seen = Broker(refuses=True), list[int]()
    messages = [StoredMessage("t", b"body", queue_offset=offset, total_size=10) for offset in (7, 8)]
    item = ProcessQueue(QUEUE, 7)
    item.add(messages, 9)

    def handle(view: MessageView) -> ConsumeResult:
        seen.append(view.queue_offset)
        broker.refuses = len(seen) < 3
        return ConsumeResult.SUCCESS if view.queue_offset == 8 else ConsumeResult.RECONSUME_LATER

    with handled(broker, handle, most_times=0) as (handling, scheduler):
        ordered = OrderedConsumption(handling, scheduler, threads=1, suspend_s=0.01, locks=False)
        for message in messages:
            ordered.deliver(item, message)
        until(lambda: item.commit_offset == 9)
        ordered.stop(5)
    assert (seen, len(broker.sent_back)) == ([7, 7, 7, 8], 3)
