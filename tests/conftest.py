"""Real servers that tests of several folders share; each is started when the first test asks for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from hypothesis import settings
from redis import utils as redis_utils

from tests.support import migrated
from tests.support.broker import BrokerProcess, broker_process
from tests.support.migrated import django_db_keepdb
from tests.support.redis_server import RedisServer, redis_server

__all__ = ["django_db_keepdb"]

#: What a test needs beyond its own process, by the fixtures that start it, and by the helpers that its body calls.
#: Who starts something in another way says so by the same marks.
NEEDS = {
    "database": {"db", "transactional_db", "live_server"},
    "broker": {
        *("redis", "broker", "cluster", "world", "pair", "victim", "ground", "limited", "changeable", "watched"),
        *("own_broker", "limited_broker", "logging_broker", "own_redis", "always", "taking", "small"),
        *("broker_process", "redis_server", "two_brokers", "RedisServer", "BrokerProcess", "field", "queue_service"),
    },
    "spark": {"spark"},
    "java": {"java", "java_home", "apache", "apache_servers", "build_programs"},
    "browser": {"browser"},
    "postgres": {"postgres", "postgres_source", "postgres_server"},
    "product": {"product", "copy", "Product"},
    "process": {
        *("launch", "subprocess", "fork", "mariadb", "mariadb_server"),
        *("s3", "on_objects", "lake_of_each_kind", "object_storage"),
    },
}  # fmt: skip
#: The folders of which every test starts the same.
FOLDERS = {
    "tests/brokercore/crash/": ("broker", "java"),
    "tests/chaos/": ("product",),
    "tests/compat/": ("broker", "java"),
    "tests/e2e/": ("product",),
    "tests/homes/": ("product",),
}

# Every Spark that a test starts, in whichever process, is told what spark-defaults.conf says there.
os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "support" / "spark-conf"))

# redis-py looks its own version up on the disk, twice for each connection that it opens.
redis_utils.get_lib_version = cache(redis_utils.get_lib_version)

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
        migrated.keep()
        migrated.fill_after_a_flush()
        cursor.execute("DELETE FROM audit_retention")
        cursor.execute("INSERT INTO audit_retention (days) VALUES (0)")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with what it needs, `unit` where that is nothing but its own process."""
    for item in items:
        names = set(getattr(item, "fixturenames", ()))
        if isinstance(item, pytest.Function):
            names.update(item.function.__code__.co_names)
        found = {mark for mark, needs in NEEDS.items() if needs & names}
        found |= {mark for folder, marks in FOLDERS.items() if item.nodeid.startswith(folder) for mark in marks}
        if item.get_closest_marker("django_db"):
            found.add("database")
        for mark in found:
            item.add_marker(mark)
        if not any(item.get_closest_marker(mark) for mark in NEEDS):
            item.add_marker("unit")


_unit: list[str] = []
"""The unit test that runs now."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """No test that is marked as `unit` starts a process."""
    _unit[:] = [item.nodeid] if item.get_closest_marker("unit") else []
    result = yield
    _unit.clear()
    return result


def _no_process(event: str, arguments: tuple[object, ...]) -> None:
    if _unit and event in ("subprocess.Popen", "os.fork", "os.posix_spawn"):
        raise AssertionError(
            f"a test without a mark starts {arguments[0]!r}: mark it as `process`, or as what it starts"
        )


sys.addaudithook(_no_process)
