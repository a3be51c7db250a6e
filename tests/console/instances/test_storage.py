"""The brokers on the overview: how full they are, and which are away."""

from __future__ import annotations

import time
from collections.abc import Iterator

import orjson
import pytest
import redis
from django.urls import reverse

from tests.console.live import Live, live
from tests.support.broker import eventually
from tests.support.cast import Cast

__all__ = ["live"]


@pytest.fixture
def stopped_broker(live: Live) -> Iterator[str]:
    """Another broker of the cluster, as its row in Redis tells after it was stopped."""
    row = {
        "address": "127.0.0.1:1",
        "cluster": "DefaultCluster",
        "since": int(time.time() * 1000),
        "storeHost": "7f00000100000001",
        "stopped": True,
    }
    store = redis.Redis.from_url(live.broker.redis_url)
    store.hset("gantry:brokers", "broker-z", orjson.dumps(row))
    eventually(lambda: "broker-z=stopped" in live.admin.brokers.runtime_info()["broker-a"]["gantryBrokers"])
    yield "broker-z"
    store.hdel("gantry:brokers", "broker-z")


def test_a_broker_that_was_stopped_is_shown_beside_those_that_answer(cast: Cast, stopped_broker: str) -> None:
    response = cast.client("alice").get(reverse("instances.overview_storage"))
    shown = {broker.name: broker.absence for broker in response.context["brokers"]}
    assert shown == {"broker-a": "", stopped_broker: "stopped"}
    assert "Its messages are kept" in response.content.decode()
