"""Real servers that tests of several folders share; each is started when the first test asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from hypothesis import settings

from tests.support.broker import BrokerProcess, broker_process
from tests.support.redis_server import RedisServer, redis_server

# How long an example takes says more about the machine than about the code.
settings.register_profile("gantry", deadline=None)
settings.load_profile("gantry")


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


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> None:
    """The audit trail refuses every DELETE; the emptying of tables between tests is the exception."""
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM audit_retention")
        cursor.execute("INSERT INTO audit_retention (days) VALUES (0)")
