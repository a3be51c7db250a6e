"""Each version of Apache RocketMQ that the console is made for, in the place of the embedded broker.

Four clusters, between which all kinds of access control and of brokers are: they start one after the other while the
tests of those before run. `-k 4.9.7` runs one of them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from brokercore.client import Admin
from console.instances import broker as clients
from console.instances.models import Cluster
from tests.console.cluster.conftest import ClusterBehindConsole
from tests.console.openapi.conftest import stage
from tests.console.web.conftest import world
from tests.support.apache import Access, ApacheRocketMQ, Layout, StartError
from tests.support.broker import MASTER_KEY, SYSTEM_KEY, SYSTEM_SECRET, free_engine_ports
from tests.support.cast import Cast, console, queues, running_queues
from tests.support.cast import cast as embedded_cast
from tests.support.needs import need_tool
from tests.support.redis_server import RedisServer

__all__ = ["console", "embedded_cast", "queues", "running_queues", "stage", "world"]

LINES = ("enablePropertyFilter=true", "autoCreateTopicEnable=false", "autoCreateSubscriptionGroup=false")


@dataclass(frozen=True)
class Kind:
    """How a version is started here."""

    access: Access
    layout: Layout = "one"
    proxy: bool = False


CLUSTERS = {
    "4.9.7": Kind("acl1", "slave"),
    "5.1.4": Kind("acl1", "two-masters"),
    "5.3.3": Kind("open", proxy=True),
    "5.5.0": Kind("acl2", "controller"),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test that needs a cluster on each version, or on those that `of_kind` tells."""
    if "apache" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("of_kind")
    wanted = [name for name, kind in CLUSTERS.items() if marker is None or _fits(kind, **marker.kwargs)]
    metafunc.parametrize("apache", wanted, indirect=True, scope="package")


def _fits(kind: Kind, **wanted: Any) -> bool:
    return all(getattr(kind, name) == value for name, value in wanted.items())


class Starts:
    """Starts the clusters one after the other; a test waits for its own only."""

    def __init__(self, folder: Path, versions: list[str]) -> None:
        self._folder = folder
        self._found: dict[str, Future[ApacheRocketMQ]] = {version: Future() for version in versions}
        self._all_over = threading.Event()
        self._thread = threading.Thread(target=self._start_all, name="start of clusters", daemon=True)
        self._thread.start()

    def cluster(self, version: str) -> ApacheRocketMQ:
        """The running cluster. Raises what went wrong at its start."""
        return self._found[version].result()

    def stop(self) -> None:
        """End all that were started."""
        self._all_over.set()
        self._thread.join()
        for found in self._found.values():
            if found.done() and not found.exception():
                found.result().kill()

    def _start_all(self) -> None:
        for version, found in self._found.items():
            try:
                found.set_result(self._started(version))
            except BaseException as failure:  # noqa: BLE001 (pytest raises it where the cluster is asked for)
                found.set_exception(failure)

    def _started(self, version: str) -> ApacheRocketMQ:
        """A broker takes a second port beside its own, which somebody may have: then all get others."""
        kind, tries = CLUSTERS[version], 3
        while True:
            if self._all_over.is_set():
                raise InterruptedError(version)
            cluster = ApacheRocketMQ(
                self._folder / version,
                # Statements read messages: Spark may connect to no other ports.
                free_engine_ports(3),
                LINES,
                version=version,
                access=kind.access,
                layout=kind.layout,
                proxy=kind.proxy,
                # The queue service, whose Redis the console shares, knows the console by this pair.
                admin_key=SYSTEM_KEY,
                admin_secret=SYSTEM_SECRET,
            )
            try:
                cluster.start()
            except StartError:
                tries -= 1
                if not tries:
                    raise
            else:
                return cluster


@pytest.fixture(scope="package")
def starts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starts]:
    need_tool("java")
    need_tool("mvn")
    wanted = {item.callspec.params.get("apache") for item in request.session.items if hasattr(item, "callspec")}
    found = Starts(tmp_path_factory.mktemp("clusters"), [version for version in CLUSTERS if version in wanted])
    yield found
    found.stop()


@pytest.fixture(scope="package")
def apache(request: pytest.FixtureRequest, starts: Starts) -> Iterator[ApacheRocketMQ]:
    """A running cluster of one version."""
    cluster = starts.cluster(request.param)
    yield cluster
    cluster.kill()


@pytest.fixture(scope="package")
def broker(apache: ApacheRocketMQ, redis: RedisServer) -> ClusterBehindConsole:
    """In the place of the embedded broker."""
    return ClusterBehindConsole(redis.url, apache.namesrv, apache.admin_key, apache.admin_secret, MASTER_KEY)


@pytest.fixture
def cast(embedded_cast: Cast, settings: Any) -> Cast:
    """The console has no broker of its own here: the settings name the cluster."""
    settings.EMBEDDED_BROKER = False
    embedded_cast.bring_cluster()
    return embedded_cast


@pytest.fixture
def cluster(cast: Cast) -> Cluster:
    return cast.cluster


@pytest.fixture
def admin(cluster: Cluster) -> Admin:
    """The console's own client."""
    return clients.admin(cluster)
