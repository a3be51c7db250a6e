"""A granted topic: the Java clients of the receiving account use it, and no longer once the grant is revoked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from brokercore.client import Message
from console.accounts import services as accounts
from console.instances import broker as clients
from console.topics import grants
from console.topics import services as topics
from console.topics.models import Topic
from tests.compat.programs import Keys, Toolbox, build_programs
from tests.compat.world import failures, sent
from tests.support.broker import eventually
from tests.support.cast import Cast, make_topic

pytestmark = pytest.mark.django_db(transaction=True)
OWN_GROUP = "GID_umbrella"


@pytest.fixture
def tools(cast: Cast, java_home: Path) -> Iterator[Toolbox]:
    build_programs()
    toolbox = Toolbox(java_home, cast.cluster.namesrv, cast.instance.instance_id)
    yield toolbox
    toolbox.kill_since(0)


@pytest.fixture
def keys(cast: Cast) -> Keys:
    """Of Charlie, who administers the account that receives the grant."""
    key = accounts.create_access_key(actor=cast.actor("charlie"), user=cast.charlie)
    return Keys(key.access_key_id, key.access_key_secret)


def _owner_sends(cast: Cast, topic: Topic, body: bytes) -> None:
    clients.producer(cast.cluster).send(Message(topic.physical_name, body))


@pytest.mark.parametrize("client", ["Ons", "Apache"])
def test_a_running_consumer_works_by_the_grant_and_stops_with_it(
    cast: Cast, tools: Toolbox, keys: Keys, client: str
) -> None:
    alice, charlie = cast.actor("alice"), cast.actor("charlie")
    topic = make_topic(cast.alice, cast.instance)
    grant = grants.create_grant(actor=alice, topic=topic, relation=6, tenant=charlie.tenant)
    topics.create_group(actor=charlie, instance=cast.instance, group_id=OWN_GROUP)
    _owner_sends(cast, topic, b"while-granted")
    consumer = tools.start(f"{client}Consumer", keys, topic=topic.name, group=OWN_GROUP)
    consumer.wait_received(["while-granted"])
    produced = tools.run(f"{client}Producer", keys, topic=topic.name, group=OWN_GROUP, body="by-grant")
    assert sent(produced)

    grants.delete_grant(actor=alice, grant=grant)
    eventually(lambda: _refused(tools, client, topic, keys), 90)
    _owner_sends(cast, topic, b"after-the-end")
    eventually(lambda: _refused(tools, client, topic, keys), 90)
    assert "after-the-end" not in consumer.bodies()

    grants.create_grant(actor=alice, topic=topic, relation=4, tenant=charlie.tenant)
    consumer.wait_received(["after-the-end"])


def _refused(tools: Toolbox, client: str, topic: Topic, keys: Keys) -> bool:
    """True when a send was refused as for a topic that is not there; a busy machine's time-out says nothing."""
    events = tools.run(f"{client}Producer", keys, topic=topic.name, group=OWN_GROUP, body="too-late")
    return not sent(events) and "No route info of this topic" in "".join(failures(events))
