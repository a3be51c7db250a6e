"""A grant at the broker: the other account's own clients work through it, and stop when it is revoked."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from brokercore.client import (
    Admin,
    ConsumeResult,
    Credentials,
    Message,
    MessageView,
    Producer,
    PushConsumer,
)
from brokercore.client.errors import NoPermission, TopicNotExist
from console.accounts import services as accounts
from console.instances import broker as clients
from console.rights import access_table
from console.topics import grants
from console.topics import services as topics
from console.topics.models import Topic
from tests.support.broker import eventually
from tests.support.cast import Cast, make_group, make_topic

pytestmark = pytest.mark.django_db(transaction=True)
REVOKED_SECONDS = 2
"""Within this time a right that was taken away is gone at the broker."""


@pytest.fixture
def credentials(cast: Cast) -> Credentials:
    """Charlie's AccessKey; he administers the other account."""
    key = accounts.create_access_key(actor=cast.actor("charlie"), user=cast.charlie)
    access_table.publish()
    credentials = Credentials(key.access_key_id, key.access_key_secret)

    def is_known() -> bool:
        with Admin(cast.cluster.namesrv, credentials) as admin:
            try:
                return bool(admin.brokers.masters())
            except NoPermission:
                return False

    eventually(is_known)
    return credentials


@pytest.fixture
def topic(cast: Cast) -> Topic:
    return make_topic(cast.alice, cast.instance)


@pytest.fixture
def producer(cast: Cast, credentials: Credentials) -> Iterator[Producer]:
    with Producer(cast.cluster.namesrv, credentials, "GID_umbrella", namespace=cast.instance.instance_id) as opened:
        yield opened


def _may_send(producer: Producer, topic: Topic) -> bool:
    try:
        producer.send(Message(topic.name, b"probe", tags="probe"))
    except (NoPermission, TopicNotExist):  # without any grant the topic does not exist for its account
        return False
    return True


def test_publishing_needs_the_publish_right(cast: Cast, topic: Topic, producer: Producer) -> None:
    assert not _may_send(producer, topic)
    grant = grants.create_grant(actor=cast.actor("alice"), topic=topic, relation=4, tenant=cast.charlie.tenant)
    assert not _may_send(producer, topic)
    grants.delete_grant(actor=cast.actor("alice"), grant=grant)
    grants.create_grant(actor=cast.actor("alice"), topic=topic, relation=2, tenant=cast.charlie.tenant)
    eventually(lambda: _may_send(producer, topic), REVOKED_SECONDS)


def test_revoking_ends_sending_and_a_running_consumer(
    cast: Cast, topic: Topic, credentials: Credentials, producer: Producer
) -> None:
    alice, charlie = cast.actor("alice"), cast.actor("charlie")
    grant = grants.create_grant(actor=alice, topic=topic, relation=6, tenant=charlie.tenant)
    group = topics.create_group(actor=charlie, instance=cast.instance, group_id="GID_umbrella")
    with Admin(cast.cluster.namesrv, credentials) as admin:
        eventually(lambda: group.physical_name in admin.groups.configs(), REVOKED_SECONDS)
    got: list[bytes] = []
    consumer = _consumer(cast, credentials, topic, "GID_umbrella", got)
    with consumer.start():
        _send(cast, topic, b"while granted")
        eventually(lambda: b"while granted" in got)
        eventually(lambda: _may_send(producer, topic), REVOKED_SECONDS)

        grants.delete_grant(actor=alice, grant=grant)
        # The table that refuses this send has ended the consumer's waiting pulls as well.
        eventually(lambda: not _may_send(producer, topic), REVOKED_SECONDS)
        _send(cast, topic, b"after the end")
        assert not _may_send(producer, topic)
        assert b"after the end" not in got

        grants.create_grant(actor=alice, topic=topic, relation=4, tenant=charlie.tenant)
        eventually(lambda: b"after the end" in got, 30)
    assert got.count(b"while granted") == got.count(b"after the end") == 1


def test_the_owners_group_is_not_the_receivers(cast: Cast, topic: Topic, credentials: Credentials) -> None:
    grants.create_grant(actor=cast.actor("alice"), topic=topic, relation=6, tenant=cast.charlie.tenant)
    group = make_group(cast.alice, cast.instance, "GID_acme")
    own = topics.create_group(actor=cast.actor("charlie"), instance=cast.instance, group_id="GID_umbrella")
    with Admin(cast.cluster.namesrv, credentials) as admin:
        eventually(lambda: own.physical_name in admin.groups.configs(), REVOKED_SECONDS)
        assert group.physical_name not in admin.groups.configs()
        with pytest.raises(NoPermission):
            admin.groups.stats(group.physical_name)


def _send(cast: Cast, topic: Topic, body: bytes) -> None:
    clients.producer(cast.cluster).send(Message(topic.physical_name, body, tags="wanted"))


def _consumer(cast: Cast, credentials: Credentials, topic: Topic, group_id: str, got: list[bytes]) -> PushConsumer:
    consumer = PushConsumer(
        cast.cluster.namesrv,
        credentials,
        group_id,
        namespace=cast.instance.instance_id,
        consume_from="CONSUME_FROM_FIRST_OFFSET",
    )
    lock = threading.Lock()

    def handle(message: MessageView) -> ConsumeResult:
        with lock:
            got.append(message.body)
        return ConsumeResult.SUCCESS

    consumer.subscribe(topic.name, "wanted")
    consumer.on_message(handle)
    return consumer
