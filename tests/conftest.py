"""Real servers that tests of several folders share; each is started when the first test asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.broker import BrokerProcess, broker_process
from tests.support.redis_server import RedisServer, redis_server


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisServer]:
    """One Redis for the whole run. Tests that stop or fill it start their own."""
    with redis_server() as server:
        yield server


@pytest.fixture(scope="session")
def broker(redis: RedisServer) -> Iterator[BrokerProcess]:
    """One broker for the whole run. Tests use topics and groups of their own; those that end it start their own."""
    with broker_process(redis, gantry_transaction_check_seconds="1") as process:
        yield process
