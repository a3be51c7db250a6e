"""The vendor's clients over TLS, on the ports that take plain connections too."""

from __future__ import annotations

import pytest

from tests.compat.test_consuming import CLIENTS
from tests.compat.world import World, failures, sent

#: rocketmq-client trusts every certificate in its test mode, which is its default.
TLS = ("-Dtls.enable=true",)


@CLIENTS
def test_both_clients_speak_tls(world: World, client: str) -> None:
    if not world.embedded:
        pytest.skip("Apache RocketMQ is started without TLS here")
    topic, group = world.topic("tls"), world.group("tls")
    consumer = world.start(f"{client}Consumer", topic, group, jvm=TLS).wait_ready()
    events = world.run(f"{client}Producer", topic, group, body="secret", count=3, jvm=TLS)
    assert failures(events) == []
    consumer.wait_received([e["body"] for e in sent(events)])
    plain = world.run(f"{client}Producer", topic, group, body="plain", count=1)
    assert failures(plain) == []
    consumer.wait_received([e["body"] for e in sent(plain)])
