"""The standing cast on a cluster of Apache RocketMQ instead of the embedded broker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from cryptography.fernet import Fernet

from console.accounts.models import AccessKey
from console.cluster import services
from console.instances.models import Cluster
from tests.e2e.cluster import cluster_of
from tests.support.apache import ApacheRocketMQ
from tests.support.cast import Cast
from tests.support.redis_server import RedisServer


@dataclass(frozen=True)
class ClusterBehindConsole:
    """What `tests.support.cast` asks of a broker."""

    redis_url: str
    namesrv: str
    access_key_id: str
    access_key_secret: str
    master_key: str


@pytest.fixture(scope="package")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheRocketMQ]:
    """Apache RocketMQ 5.3.3, access control on, for all tests here."""
    cluster = cluster_of(tmp_path_factory.mktemp("apache"))
    yield cluster
    cluster.stop()


@pytest.fixture(scope="package")
def broker(apache: ApacheRocketMQ, redis: RedisServer) -> ClusterBehindConsole:
    """In the place of the embedded broker."""
    key = Fernet.generate_key().decode()
    return ClusterBehindConsole(redis.url, apache.namesrv, apache.admin_key, apache.admin_secret, key)


@pytest.fixture
def carried(cast: Cast) -> Iterator[Cluster]:
    """A cluster that rights are carried over to; the users that a test made there end with it."""
    yield cast.bring_cluster()
    AccessKey.objects.all().delete()
    services.synchronise(cast.cluster, thorough=True)
