"""The cluster the client is tested against: the embedded broker, or the one GANTRY_TEST_NAMESRV names."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from brokercore.client import Admin, Credentials
from brokercore.client.errors import TopicNotExist
from tests.brokercore.client.peer import until
from tests.support.broker import broker_process


@dataclass(frozen=True)
class ClusterUnderTest:
    """Where it is and how to sign; `embedded` is False for an Apache RocketMQ cluster."""

    namesrv: str
    credentials: Credentials | None
    embedded: bool


MakeTopic = Callable[..., str]

_numbers = itertools.count()


@pytest.fixture(scope="session")
def cluster() -> Iterator[ClusterUnderTest]:
    given = os.environ.get("GANTRY_TEST_NAMESRV")
    if given:
        yield ClusterUnderTest(given, None, embedded=False)
        return
    with broker_process() as broker:
        credentials = Credentials(broker.access_key_id, broker.access_key_secret)
        yield ClusterUnderTest(broker.namesrv, credentials, embedded=True)


@pytest.fixture(scope="session")
def admin(cluster: ClusterUnderTest) -> Iterator[Admin]:
    with Admin(cluster.namesrv, cluster.credentials) as admin:
        yield admin


def unique_name(prefix: str) -> str:
    """A name no other test run uses."""
    return f"{prefix}-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def make_topic(admin: Admin) -> MakeTopic:
    """Creates a topic with options of Admin.topics.create and waits for its route."""

    def make(prefix: str = "topic", **options: object) -> str:
        topic = unique_name(prefix)
        create = {"queues": 2} | options
        admin.topics.create(topic, **create)  # type: ignore[arg-type]
        until(lambda: _has_route(admin, topic))
        return topic

    return make


@pytest.fixture
def make_group(admin: Admin) -> Callable[[], str]:
    """Creates a consumer group."""

    def make() -> str:
        group = unique_name("GID")
        admin.groups.create(group)
        return group

    return make


def _has_route(admin: Admin, topic: str) -> bool:
    try:
        admin.topics.route(topic)
    except TopicNotExist:
        return False
    return True
