"""Wrong secrets, unknown keys, unsigned requests and missing rights are refused, with the reason."""

from __future__ import annotations

import pytest

from tests.compat.programs import Keys
from tests.compat.world import World, failures, sent

CLIENTS = pytest.mark.parametrize("client", ["Ons", "Apache"])


def refusal(world: World, client: str, topic: str, keys: Keys) -> str:
    """The error text of one send with `keys`, which must fail."""
    events = world.run(f"{client}Producer", topic, "GID_refused", keys=keys)
    assert sent(events) == []
    return "".join(failures(events))


@pytest.fixture(scope="module")
def topic(world: World) -> str:
    return world.topic("guarded")


@CLIENTS
def test_a_wrong_secret_is_refused(world: World, topic: str, client: str) -> None:
    before = world.message_count(topic)
    text = refusal(world, client, topic, Keys(world.tenant.access_key_id, "not-the-secret"))
    assert "signature" in text.lower() or "No route info" in text or "Can not find" in text, text
    assert world.message_count(topic) == before


@CLIENTS
def test_the_log_of_a_client_names_the_signature_where_its_exception_says_no_route(
    world: World, topic: str, client: str
) -> None:
    """A name server of Apache RocketMQ asks for no signature: there the broker's refusal is the exception."""
    if not world.embedded:
        pytest.skip("Apache RocketMQ's name server asks for no signature")
    key_id = f"LTAIlogged{client}"
    assert "No route info of this topic" in refusal(world, client, topic, Keys(key_id, "whatever"))
    said = f"CODE: 16  DESC: AccessKey {key_id} is unknown or disabled, or the signature of this request is not made"
    logs = [path.read_text(errors="replace") for path in world.tools.home.rglob("*.log")]
    assert any(said in text for text in logs)


@CLIENTS
def test_an_unknown_access_key_is_refused(world: World, topic: str, client: str) -> None:
    text = refusal(world, client, topic, Keys("LTAInobody", "whatever"))
    assert text, "the send must fail with a text"
    assert world.message_count(topic) == 0


def test_an_unsigned_request_is_refused(world: World, topic: str) -> None:
    assert refusal(world, "Apache", topic, Keys("", ""))
    assert world.message_count(topic) == 0


@CLIENTS
def test_a_key_that_may_only_read_cannot_publish_but_consumes(world: World, client: str) -> None:
    topic, group = world.topic("read-only"), world.group("read_only")
    refused = refusal(world, client, topic, world.read_only)
    assert "permission" in refused or "mq:PUB" in refused, refused
    world.run(f"{client}Producer", topic, world.group("writer"), body="allowed")
    consumer = world.start(f"{client}Consumer", topic, group, keys=world.read_only)
    consumer.wait_received(["allowed-sync-0"])


@CLIENTS
def test_another_tenant_can_neither_publish_nor_consume(world: World, client: str) -> None:
    topic, group = world.topic("private"), world.group("private")
    assert refusal(world, client, topic, world.stranger)
    world.run(f"{client}Producer", topic, world.group("writer"), body="secret", count=4)
    thief = world.start(f"{client}Consumer", topic, group, keys=world.stranger).wait_ready()
    owner = world.start(f"{client}Consumer", topic, world.group("owner"))
    owner.wait_received(f"secret-sync-{n}" for n in range(4))
    assert thief.bodies() == []
