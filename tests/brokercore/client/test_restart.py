"""Clients over a restart of their broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from brokercore.client import (
    Admin,
    ConsumeResult,
    Credentials,
    LitePullConsumer,
    Message,
    MessageView,
    Producer,
    PushConsumer,
    TransactionState,
)
from brokercore.client.errors import ClientError, ConsumerNotOnline
from tests.brokercore.client.peer import until
from tests.support.broker import BrokerProcess, broker_process

pytestmark = pytest.mark.broker


@pytest.fixture
def broker() -> Iterator[BrokerProcess]:
    """A broker of this test's own: it is killed."""
    with broker_process() as broker:
        yield broker


def test_admin_producer_and_consumer_go_on_after_a_crash_of_the_broker(broker: BrokerProcess) -> None:
    credentials = Credentials(broker.access_key_id, broker.access_key_secret)
    received: list[bytes] = []
    with (
        Admin(broker.namesrv, credentials) as admin,
        Producer(broker.namesrv, credentials, "GID_p") as producer,
        PushConsumer(broker.namesrv, credentials, "GID_c") as consumer,
    ):
        admin.topics.create("orders", queues=2)
        admin.groups.create("GID_c")

        @consumer.on_message
        def handle(message: MessageView) -> ConsumeResult:
            received.append(message.body)
            return ConsumeResult.SUCCESS

        consumer.subscribe("orders").start()
        producer.send(Message("orders", b"before"))
        until(lambda: received == [b"before"])
        broker.kill()
        with pytest.raises(ClientError):
            producer.send(Message("orders", b"while down"))
        with pytest.raises(ClientError):
            admin.topics.names()
        broker.start()
        assert "orders" in admin.topics.names()
        begun = time.monotonic()
        producer.send(Message("orders", b"after"))
        until(lambda: b"after" in received, 20)
        assert time.monotonic() - begun < 15
        until(lambda: _online(admin, "GID_c") == [consumer.client_id])


def test_every_kind_of_client_goes_on_after_the_broker_was_killed(broker: BrokerProcess, tmp_path: Path) -> None:
    credentials = Credentials(broker.access_key_id, broker.access_key_secret)
    received: dict[str, list[bytes]] = {kind: [] for kind in ("ordered", "broadcasting", "asked")}
    with ExitStack() as stack:
        admin = stack.enter_context(Admin(broker.namesrv, credentials))
        for topic, kind in (("orders", "NORMAL"), ("bookings", "TRANSACTION"), ("questions", "NORMAL")):
            admin.topics.create(topic, queues=2, message_type=kind)
        for group in ("ordered", "broadcasting", "asked", "lite"):
            admin.groups.create(f"GID_{group}")
        check = TransactionState.COMMIT
        producer = stack.enter_context(
            Producer(broker.namesrv, credentials, "GID_p", transaction_check=lambda _message: check)
        )

        def consume(kind: str, topic: str, **options: Any) -> None:
            consumer = stack.enter_context(PushConsumer(broker.namesrv, credentials, f"GID_{kind}", **options))

            @consumer.on_message
            def handle(message: MessageView) -> ConsumeResult:
                received[kind].append(message.body)
                if kind == "asked":
                    producer.reply(message, b"re: " + message.body)
                return ConsumeResult.SUCCESS

            consumer.subscribe(topic).start()

        consume("ordered", "orders", ordered=True)
        consume("broadcasting", "orders", model="BROADCASTING", offset_file=tmp_path / "offsets.json")
        consume("asked", "questions")
        lite = stack.enter_context(
            LitePullConsumer(broker.namesrv, credentials, "GID_lite").subscribe("orders").start()
        )
        polled: list[bytes] = []

        def arrived(*bodies: bytes) -> bool:
            polled.extend(message.body for message in lite.poll(0.1))
            return all(set(bodies) <= set(got) for got in (received["ordered"], received["broadcasting"], polled))

        def delivered(topic: str) -> int:
            return sum(stats.max_offset for stats in admin.topics.stats(topic).values())

        producer.send(Message("orders", b"before"))
        producer.request(Message("questions", b"before"), timeout_ms=10_000)
        producer.send_transaction(Message("bookings", b"before"), lambda *_: TransactionState.COMMIT)
        until(lambda: arrived(b"before") and delivered("bookings") == 1)  # the end of a transaction has no answer
        broker.kill()
        assert lite.poll(0.1) == []
        broker.start()
        producer.send(Message("orders", b"after"))
        until(lambda: arrived(b"before", b"after"), 30)
        reply = producer.request(Message("questions", b"after"), timeout_ms=20_000)
        assert reply.body == b"re: after"
        producer.send_transaction(Message("bookings", b"after"), lambda *_: TransactionState.COMMIT)
        until(lambda: delivered("bookings") == 2)


def _online(admin: Admin, group: str) -> list[str]:
    try:
        return [connection.client_id for connection in admin.clients.consumers(group).connections]
    except ConsumerNotOnline:
        return []
