"""How long the broker keeps a message for a push consumer that works on it; against a real Redis."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace

import pytest

from brokercore.protocol.ids import Receipt
from brokercore.server.grpc.sessions import LONGEST_MS, RENEWED_MS, Renewals
from brokercore.server.pop.in_flight import FlightTable
from brokercore.server.settings import Settings
from brokercore.server.storage.keys import Keys
from brokercore.server.storage.offsets import OffsetTable
from brokercore.server.storage.store import MessageStore
from tests.brokercore.server.wire import fresh
from tests.support.redis_server import RedisServer

PLACE, CLIENT = ("GID_a", "orders", 0), ("key", "client")


@pytest.fixture
async def store(redis: RedisServer) -> AsyncIterator[MessageStore]:
    settings = replace(Settings(redis.url), broker_name=fresh("broker"))
    store = MessageStore(settings, bytes(8), Keys(settings.broker_name))
    await store.start()
    yield store
    await store.close()


async def test_a_message_is_kept_for_its_client_for_three_hours_and_no_longer(store: MessageStore) -> None:
    flights = FlightTable(store.writer, store.keys, OffsetTable(store.writer, store.keys))
    renewals = Renewals(SimpleNamespace(flights=flights), lambda _client: True)  # type: ignore[arg-type]
    state, now_ms = flights.begin(PLACE, 0), int(time.time() * 1000)
    popped_ms = {0: now_ms - LONGEST_MS - 1, 1: now_ms - LONGEST_MS + 600_000}
    for offset, popped in popped_ms.items():
        await flights.claim(
            PLACE, state, [(offset, 0)], next_offset=offset + 1, now_ms=popped, visible_ms=now_ms + 1000
        )
        renewals.add(CLIENT, PLACE, offset, popped)
    renewals.look()
    assert state.flights[0].visible_ms == now_ms + 1000, "a client that hangs has lost it"
    assert state.flights[1].visible_ms >= now_ms + RENEWED_MS
    handles = [Receipt(offset, popped_ms[offset], 1000, "broker-a", 0, offset) for offset in (0, 1)]
    assert [flights.is_late(PLACE, handle, now_ms + 1000) for handle in handles] == [True, False]
