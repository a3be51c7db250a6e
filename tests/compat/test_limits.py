"""What users of the Java clients see when their account has reached a limit of the embedded broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from brokercore.client import Admin, Credentials
from tests.compat import servers
from tests.compat.programs import Keys, Toolbox, build_programs
from tests.compat.test_consuming import CLIENTS
from tests.compat.world import failures, sent
from tests.support.broker import SYSTEM_KEY, SYSTEM_SECRET, BrokerProcess, broker_process

ACCOUNT, INSTANCE = "4242", "MQ_INST_4242_LIMITS01"
KEYS = Keys("LTAIlimited", "a-limited-secret")


@pytest.fixture(scope="module")
def limited() -> Iterator[BrokerProcess]:
    if servers.wants_apache():
        pytest.skip("Apache RocketMQ knows no limits of accounts")
    build_programs()
    statements = [{"Effect": "Allow", "Action": "*", "Resource": "*"}]
    row = {"tenant": ACCOUNT, "boundary": [f"acs:mq:*:*:{INSTANCE}%*"], "statements": statements}
    with broker_process() as broker:
        broker.allow(*KEYS, row)
        with Admin(broker.namesrv, Credentials(SYSTEM_KEY, SYSTEM_SECRET)) as admin:
            for name in ("fast", "full", "rated"):
                admin.topics.create(f"{INSTANCE}%{name}", queues=2)
            admin.groups.create(f"{INSTANCE}%GID_limits")
        yield broker


@pytest.fixture
def tools(limited: BrokerProcess, java_home: Path) -> Iterator[Toolbox]:
    box = Toolbox(java_home, limited.namesrv, INSTANCE)
    yield box
    box.kill_since()


@CLIENTS
def test_a_producer_that_is_too_fast_fails_with_flow_control_at_once(
    limited: BrokerProcess, tools: Toolbox, client: str
) -> None:
    limited.limit(ACCOUNT, messages_per_second=5)
    events = tools.run(f"{client}Producer", KEYS, topic="fast", group="GID_limits", count=60)
    (error,) = failures(events)[:1]
    assert 0 < len(sent(events)) < 40  # fewer than 5 when the client before has left nothing of this second
    assert "215" in error
    assert f"account {ACCOUNT} may send 5 messages a second" in error


@CLIENTS
def test_a_producer_beyond_the_rate_of_its_instance_is_told_so_and_its_consumer_gets_all(
    limited: BrokerProcess, tools: Toolbox, client: str
) -> None:
    limited.rate(INSTANCE, INSTANCE, sent=5, received=5)
    limited.limit(ACCOUNT)
    consumer = tools.start(f"{client}Consumer", KEYS, topic="rated", group="GID_limits").wait_ready()
    events = tools.run(f"{client}Producer", KEYS, topic="rated", group="GID_limits", count=60, body=f"{client}-rated")
    (error,) = failures(events)[:1]
    assert "215" in error
    assert f"instance {INSTANCE} may send 5 messages a second" in error
    consumer.wait_received([e["body"] for e in sent(events)])
    limited.rate(INSTANCE, INSTANCE)


@CLIENTS
def test_a_producer_of_an_account_without_room_is_told_so_and_its_consumer_goes_on(
    limited: BrokerProcess, tools: Toolbox, client: str
) -> None:
    limited.limit(ACCOUNT)
    consumer = tools.start(f"{client}Consumer", KEYS, topic="full", group="GID_limits").wait_ready()
    events = tools.run(f"{client}Producer", KEYS, topic="full", group="GID_limits", count=3, size=2_000, body=client)
    assert failures(events) == []
    limited.limit(ACCOUNT, stored_bytes=3_000)
    full = tools.run(f"{client}Producer", KEYS, topic="full", group="GID_limits", count=60, size=2_000, body="more")
    (error,) = failures(full)[:1]
    assert "which owns" in error
    assert "allowed are 3000" in error
    consumer.wait_received([e["body"] for e in sent(events)])
