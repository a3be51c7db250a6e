"""What brokers refused stands in the trail of the account whose AccessKey was used."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
import redis
from django.conf import settings

from console.audit import broker_refusals
from console.audit.models import Entry
from tests.support.cast import Cast

pytestmark = pytest.mark.django_db


@pytest.fixture
def stream() -> Any:
    client = redis.Redis.from_url(f"{settings.REDIS_URL}?db=0", decode_responses=True)
    client.delete(broker_refusals.STREAM)
    return client


def row(tenant: str, **changes: Any) -> dict[str, Any]:
    return {
        "tenant": tenant, "name": "bob@acme", "key": "LTAI1", "request": "SEND_MESSAGE_V2", "kind": "permission",
        "action": "mq:PUB", "resource": "MQ_INST_1_a%orders", "address": "10.0.0.7", "remark": "no permission",
        "count": 3, "first_ms": 1_800_000_000_000, "last_ms": 1_800_000_001_500,
    } | changes  # fmt: skip


def test_a_refusal_becomes_an_entry_once(cast: Cast, stream: Any) -> None:
    number = stream.xadd(broker_refusals.STREAM, {"r": orjson.dumps(row(cast.acme.uid))})
    assert broker_refusals.move() == 1
    assert stream.xlen(broker_refusals.STREAM) == 0
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
    stream.xadd(broker_refusals.STREAM, {"r": orjson.dumps(row(cast.acme.uid))}, id="99999999999999-1")
    assert broker_refusals.move() == 1
    Entry.objects.get(request_id="broker/99999999999999-1")
    stream.delete(broker_refusals.STREAM)
    stream.xadd(broker_refusals.STREAM, {"r": orjson.dumps(row(cast.acme.uid))}, id=number)
    assert broker_refusals.move() == 0


def test_what_belongs_to_no_account_is_dropped(cast: Cast, stream: Any) -> None:
    stream.xadd(broker_refusals.STREAM, {"r": orjson.dumps(row("0"))})
    assert broker_refusals.move() == 0
    assert stream.xlen(broker_refusals.STREAM) == 0


def test_the_account_finds_it_by_channel(cast: Cast, stream: Any) -> None:
    stream.xadd(broker_refusals.STREAM, {"r": orjson.dumps(row(cast.acme.uid, action="", kind="stored_bytes"))})
    broker_refusals.move()
    page = cast.client("alice").get("/audit/", {"channel": "broker"}).content.decode()
    assert "broker.stored_bytes" in page
    assert "broker.stored_bytes" not in cast.client("charlie").get("/audit/", {"channel": "broker"}).content.decode()
