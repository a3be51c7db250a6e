"""Real parts: a queue service, a broker, and one Spark for the package; queues and topics of a test's own."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from analytics import engine
from analytics import session as spark_session
from brokercore.client import Admin, Credentials, MessageQueue
from brokercore.smq.client import QueueClient
from tests.pipelines.jobs import Ground, left_running
from tests.support.broker import BrokerProcess
from tests.support.queue_service import QueueServiceProcess, queue_service
from tests.support.redis_server import RedisServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = itertools.count()
#: Seconds for a test here: each look of one has most of a usual test's time (jobs.PATIENCE_SECONDS).
_LONGEST_S = 900


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_LONGEST_S))


@pytest.fixture(scope="session")
def service(redis: RedisServer) -> Iterator[QueueServiceProcess]:
    """A queue service for the whole run."""
    with queue_service(redis) as process:
        yield process


@pytest.fixture(scope="package")
def spark(service: QueueServiceProcess) -> Iterator[SparkSession]:
    """The one Spark of the process, whose wall lets it reach the service."""
    before = os.environ.get("GANTRY_SMQ_PORT")
    os.environ["GANTRY_SMQ_PORT"] = str(service.port)
    yield spark_session.get()
    engine.stop()
    os.environ.pop("GANTRY_SMQ_PORT")
    if before is not None:
        os.environ["GANTRY_SMQ_PORT"] = before


@pytest.fixture(scope="package")
def ground(service: QueueServiceProcess, broker: BrokerProcess) -> Iterator[Ground]:
    """Where pipelines of tests read and write."""
    keys = service.keys("pipelines")
    credentials = Credentials(broker.access_key_id, broker.access_key_secret)
    with Admin(broker.namesrv, credentials) as admin:
        yield Ground(service.address, keys.id, keys.secret, broker.namesrv, credentials, admin)


@pytest.fixture(autouse=True)
def no_pipeline_left() -> Iterator[None]:
    """What a test started and did not end is abandoned behind it."""
    with left_running():
        yield


@pytest.fixture
def queue(ground: Ground) -> str:
    """A queue of the test's own that hides what was received for 30 s."""
    name = f"flights-{os.getpid()}-{next(_numbers)}"
    ground.queues.create_queue(name, {"VisibilityTimeout": 30})
    return name


@pytest.fixture
def topic(ground: Ground) -> str:
    """A topic of the test's own with two queues."""
    return ground.new_topic()


__all__ = ["MessageQueue", "QueueClient"]
