"""Topics whose names RocketMQ takes and the console would not give: statements read their messages and archives."""

from __future__ import annotations

import string

import pytest

from brokercore.client import Message
from brokercore.names import TOPIC_MAX
from console.instances import broker as clients
from console.topics.models import OrderType, Topic
from tests.console.archive.test_runs import archived, bodies
from tests.console.live import Live
from tests.support.cast import make_instance

ODD = (
    string.ascii_letters + string.digits + "%|-_", "1-begins-with-a-digit", "%begins", "|pipe|", "-dash-", "_", "a%2Fb",
    "%%", "sql-" + "t" * (TOPIC_MAX - 4),
)  # fmt: skip

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("spark")]


def test_their_messages_and_archives_are_tables(live: Live) -> None:
    assert live.actor.user is not None
    bare = make_instance(live.actor.user, live.instance.cluster, name="as-it-is", independent_naming=False)
    producer, admin = clients.producer(bare.cluster), live.admin
    for name in ODD:
        admin.topics.create(name, queues=1)
        topic = Topic.objects.create(
            instance=bare, name=name, physical_name=name, order_type=OrderType.NORMAL, queues=1, adopted=True
        )
        body = f"of {name}"
        producer.send(Message(name, body.encode()))
        assert bodies(live.actor, name) == [body]
        archive = archived(live.actor, topic)
        assert (archive.messages, archive.error) == (1, "")
        producer.send(Message(name, b"later"))
        assert bodies(live.actor, name) == sorted([body, "later"])
