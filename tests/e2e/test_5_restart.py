"""Stop, start again: everything that was there is there."""

from __future__ import annotations

import signal

from brokercore.client import Admin, Credentials, Message, Producer
from tests.support.product import Product


def test_everything_is_there_after_a_restart(product: Product) -> None:
    demo = product.demo
    credentials = Credentials(demo["access_key_id"], demo["access_key_secret"])
    topic = f"{demo['instance_id']}%flights"
    with Producer(demo["namesrv"], credentials, "GID_flights", namespace=demo["instance_id"]) as producer:
        sent = producer.send(Message("flights", b"before the restart", keys="restart"))
    product.stop(signal.SIGINT)
    assert product.processes() == {}
    product.start()
    assert product.demo == demo
    with Admin(demo["namesrv"], credentials) as admin:
        found = admin.messages.query(topic, sent.message_id, unique=True)
    assert [message.body for message in found] == [b"before the restart"]
