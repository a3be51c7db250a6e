"""What brokers and the queue service tell stands in the trail of the account whose AccessKey was used."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
import redis
from django.conf import settings

from brokercore.policy.table import CHANGED, REFUSED, Changed
from console.audit import from_servers
from console.audit.models import Entry
from tests.support.cast import Cast

pytestmark = pytest.mark.django_db


@pytest.fixture
def stream() -> Any:
    client = redis.Redis.from_url(f"{settings.REDIS_URL}?db=0", decode_responses=True)
    client.delete(REFUSED, CHANGED)
    return client


def row(tenant: str, **changes: Any) -> dict[str, Any]:
    return {
        "tenant": tenant, "name": "bob@acme", "key": "LTAI1", "request": "SEND_MESSAGE_V2", "kind": "permission",
        "action": "mq:PUB", "resource": "MQ_INST_1_a%orders", "address": "10.0.0.7", "remark": "no permission",
        "count": 3, "first_ms": 1_800_000_000_000, "last_ms": 1_800_000_001_500,
    } | changes  # fmt: skip


def test_a_refusal_becomes_an_entry_once(cast: Cast, stream: Any) -> None:
    number = stream.xadd(REFUSED, {"r": orjson.dumps(row(cast.acme.uid))})
    assert from_servers.move() == 1
    assert stream.xlen(REFUSED) == 0
    entry = Entry.objects.get(channel="broker")
    assert (entry.tenant, entry.actor, entry.access_key_id, entry.source_ip) == (
        cast.acme,
        "bob@acme",
        "LTAI1",
        "10.0.0.7",
    )
    assert (entry.action, entry.resource, entry.result) == ("mq:PUB", "MQ_INST_1_a%orders", "refused")
    assert entry.detail["times"] == 3
    assert entry.detail["last"] == "2027-01-15T08:00:01.500+00:00"
    # A crash between the entry and the stream reads the row again.
    stream.xadd(REFUSED, {"r": orjson.dumps(row(cast.acme.uid))}, id="99999999999999-1")
    assert from_servers.move() == 1
    Entry.objects.get(request_id="broker/99999999999999-1")
    stream.delete(REFUSED)
    stream.xadd(REFUSED, {"r": orjson.dumps(row(cast.acme.uid))}, id=number)
    assert from_servers.move() == 0


def test_what_belongs_to_no_account_is_dropped(cast: Cast, stream: Any) -> None:
    stream.xadd(REFUSED, {"r": orjson.dumps(row("0"))})
    assert from_servers.move() == 0
    assert stream.xlen(REFUSED) == 0


def test_the_account_finds_it_by_channel(cast: Cast, stream: Any) -> None:
    stream.xadd(REFUSED, {"r": orjson.dumps(row(cast.acme.uid, action="", kind="stored_bytes"))})
    from_servers.move()
    page = cast.client("alice").get("/audit/", {"channel": "broker"}).content.decode()
    assert "broker.stored_bytes" in page
    assert "broker.stored_bytes" not in cast.client("charlie").get("/audit/", {"channel": "broker"}).content.decode()


def test_a_change_at_the_queue_service_becomes_an_entry_once(cast: Cast, stream: Any) -> None:
    change = Changed(
        cast.acme.uid, "bob@acme", "LTAI1", "queues.queue.create", f"acs:mns:*:{cast.acme.uid}:/queues/orders",
        "10.0.0.7", "A1B2", 1_800_000_000_000, {"DelaySeconds": 5},
    )  # fmt: skip
    number = stream.xadd(CHANGED, {"c": change.encode()})
    assert from_servers.move() == 1
    assert stream.xlen(CHANGED) == 0
    entry = Entry.objects.get(channel="queues")
    assert (entry.tenant, entry.actor, entry.access_key_id) == (cast.acme, "bob@acme", "LTAI1")
    assert (entry.action, entry.resource, entry.result) == ("queues.queue.create", change.resource, "success")
    assert entry.detail == {"DelaySeconds": 5, "at": "2027-01-15T08:00:00.000+00:00", "request": "A1B2"}
    stream.xadd(CHANGED, {"c": change.encode()}, id="99999999999999-1")
    assert from_servers.move() == 1
    stream.delete(CHANGED)
    stream.xadd(CHANGED, {"c": change.encode()}, id=number)
    assert from_servers.move() == 0


def test_a_refusal_of_the_queue_service_is_told_apart(cast: Cast, stream: Any) -> None:
    refused = row(cast.acme.uid, channel="queues", action="", kind="wrong_signature", resource="")
    stream.xadd(REFUSED, {"r": orjson.dumps(refused)})
    assert from_servers.move() == 1
    assert Entry.objects.get(channel="queues").action == "queues.wrong_signature"
