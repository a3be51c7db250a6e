"""Scenarios of our client that mostly wait: begun with the cluster, judged by tests that come late.

A first retry comes after 10 s; an open transaction is asked about after 5 s or so.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from brokercore.client import ConsumeResult, Message, MessageView, SendResult, TransactionState
from tests.brokercore.contract.cluster import Cluster, Received

SLOW_SECONDS = 60.0
DELAYS_S = {"level 1": 1, "level 3": 10, "timer 3 s": 3, "over": 0}


@dataclass
class Retries:
    """Messages that failed: `once`, or `always` until they were dead letters after one retry; `late` took too long."""

    topic: str
    group: str
    sent: dict[str, SendResult]
    received: Received


@dataclass
class Transactions:
    """One transaction of each outcome, by body."""

    topic: str
    group: str
    sent: dict[str, SendResult]
    checked: list[MessageView]


@dataclass
class Delays:
    """Messages put off, by body, and when each was sent (epoch ms)."""

    sent_ms: dict[str, int]
    received: Received


class SlowRuns:
    """Starts all of them; a context manager."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with self._stack as stack:
            self.retries = self._begin_retries(stack)
            self.transactions = self._begin_transactions(stack)
            self.delays = self._begin_delays(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _begin_retries(self, stack: ExitStack) -> Retries:
        cluster = self._cluster
        topic, group = cluster.topic("retry"), cluster.group("retry")

        def decide(message: MessageView) -> ConsumeResult:
            if message.body == b"late" and not message.reconsume_times:
                time.sleep(4)  # longer than the consumer allows
            failed = message.body == b"always" or (message.body == b"once" and not message.reconsume_times)
            return ConsumeResult.RECONSUME_LATER if failed else ConsumeResult.SUCCESS

        consuming = cluster.consuming(topic, group, decide=decide, max_reconsume_times=1, consume_timeout_s=2.0)
        received = stack.enter_context(consuming)
        with cluster.producer() as producer:
            sent = {
                body: producer.send(Message(topic, body.encode(), "TagA", f"key-{body}", {"colour": "blue"}))
                for body in ("once", "always", "late")
            }
        return Retries(topic, group, sent, received)

    def _begin_transactions(self, stack: ExitStack) -> Transactions:
        topic, group = self._cluster.topic("tx", message_type="TRANSACTION"), "GID_contract_tx"
        checked: list[MessageView] = []

        def check(message: MessageView) -> TransactionState:
            checked.append(message)
            return TransactionState.COMMIT if message.body == b"open" else TransactionState.ROLLBACK

        producer = stack.enter_context(self._cluster.producer(group, transaction_check=check))
        states = {
            "commit": TransactionState.COMMIT,
            "rollback": TransactionState.ROLLBACK,
            "open": TransactionState.UNKNOWN,
            "doubtful": TransactionState.UNKNOWN,
        }
        sent = {}
        for body, state in states.items():
            # One that ends by itself must have done so before anybody asks: on a busy machine that takes seconds.
            immunity = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "1" if state is TransactionState.UNKNOWN else "60"}
            message = Message(topic, body.encode(), properties=immunity)
            sent[body] = producer.send_transaction(message, lambda _message, _id, state=state: state)  # type: ignore[misc]
        return Transactions(topic, group, sent, checked)

    def _begin_delays(self, stack: ExitStack) -> Delays:
        cluster = self._cluster
        topic, group = cluster.topic("delay", message_type="DELAY"), cluster.group("delay")
        received = stack.enter_context(cluster.consuming(topic, group))
        now = int(time.time() * 1000)
        messages = [
            Message(topic, b"level 1", delay_level=1),
            Message(topic, b"level 3", delay_level=3),
            Message(topic, b"timer 3 s", deliver_at_ms=now + 3000),
            Message(topic, b"over", deliver_at_ms=now - 3000),
        ]
        sent_ms = {}
        with cluster.producer() as producer:
            for message in messages:
                sent_ms[message.body.decode()] = int(time.time() * 1000)
                producer.send(message)
        return Delays(sent_ms, received)
