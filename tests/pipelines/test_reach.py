"""How pipelines reach brokers: over TLS that the cluster's own authority vouches for, and unsigned where none asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from analytics.inflow.topics import TopicTarget
from analytics.pipelines.connectors import _topic
from analytics.pipelines.inflow_targets import _address
from analytics.pipelines.plan import Value
from analytics.sources import trust
from brokercore.client import Message
from brokercore.client.errors import ClientError
from tests.support.broker import BrokerProcess, broker_process
from tests.support.redis_server import RedisServer


@pytest.fixture(scope="module")
def secure(
    redis: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[BrokerProcess, dict[str, Value]]]:
    """A broker that takes nothing but TLS, and how a pipeline is told to reach it."""
    home = tmp_path_factory.mktemp("home")
    with broker_process(gantry_home=str(home), gantry_broker_tls="enforcing") as broker:
        ca = Path(home / "tls" / "broker.crt").read_text()
        key = {"accessId": broker.access_key_id, "accessKey": broker.access_key_secret}
        yield broker, {"endpoint": broker.namesrv, "topic": "secure", "ca": ca, **key}


def test_a_source_and_a_sink_speak_tls_as_they_are_told(secure: tuple[BrokerProcess, dict[str, Value]]) -> None:
    _, options = secure
    with _topic(options).admin() as admin:
        admin.topics.create("secure", queues=1)
        address = _address(options, ("endpoint", "accessId", "accessKey", "ca"))
        TopicTarget(address, "secure").require()
        address.producer().send(Message("secure", b"over TLS"))
        assert sum(queue.max_offset for queue in admin.topics.stats("secure").values()) == 1
    without = {name: value for name, value in options.items() if name != "ca"}
    with _topic(without).admin() as admin, pytest.raises(ClientError):
        admin.topics.names()


def test_without_a_key_requests_are_not_signed() -> None:
    topic = _topic({"endpoint": "127.0.0.1:1", "topic": "late"})
    assert (topic.key_id, topic.secret, topic.ca) == ("", "", "")
    assert trust.credentials("", "") is None and trust.tls("") is None
    assert trust.tls(trust.SYSTEM) is not None
