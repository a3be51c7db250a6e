"""Clients over a restart of their broker."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from brokercore.client import Admin, ConsumeResult, Credentials, Message, MessageView, Producer, PushConsumer
from brokercore.client.errors import ClientError, ConsumerNotOnline
from tests.brokercore.client.peer import until
from tests.support.broker import BrokerProcess, broker_process

pytestmark = pytest.mark.real


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
        admin.create_topic("orders", queues=2)
        admin.create_group("GID_c")

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
            admin.topic_names()
        broker.start()
        assert "orders" in admin.topic_names()
        begun = time.monotonic()
        producer.send(Message("orders", b"after"))
        until(lambda: b"after" in received, 20)
        assert time.monotonic() - begun < 15
        until(lambda: _online(admin, "GID_c") == [consumer.client_id])


def _online(admin: Admin, group: str) -> list[str]:
    try:
        return [connection.client_id for connection in admin.consumer_connection(group).connections]
    except ConsumerNotOnline:
        return []
