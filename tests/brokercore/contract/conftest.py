"""The embedded broker, and Apache RocketMQ: 5.3.3 and 5.5.0 with ACL 2.0, 4.9.7 with ACL 1.0, each started once.

The tests of the embedded broker come first; the others start meanwhile. `-k embedded` or `-k apache-5.5.0` runs the
suite on one of them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from brokercore.client import Admin, Credentials
from tests.brokercore.contract.cluster import TIMEOUT_MS, Cluster, Kind
from tests.brokercore.contract.differences import NOT_ON_4_9_7, Differs
from tests.brokercore.contract.java_runs import JavaRuns
from tests.brokercore.contract.slow import SlowRuns
from tests.compat import servers
from tests.compat.programs import Toolbox, build_programs
from tests.compat.world import INSTANCE, World
from tests.support.apache import DEFAULT_VERSION
from tests.support.broker import eventually
from tests.support.needs import need_tool

KINDS: list[Kind] = ["embedded", "apache", "apache-4.9.7", "apache-5.5.0"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test of this folder that asks for the cluster on each kind of it."""
    if "cluster" in metafunc.fixturenames:
        metafunc.parametrize("cluster", KINDS, indirect=True, scope="package")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What 4.9.7 has not is expected to fail there."""
    for item in items:
        if "brokercore/contract" in item.nodeid and item.name in NOT_ON_4_9_7:
            item.add_marker(pytest.mark.xfail(reason=NOT_ON_4_9_7[item.name], strict=True))


class ApacheServer:
    """Starts in a thread of its own as soon as it is known that it will be needed."""

    def __init__(self, home: Path, version: str) -> None:
        self._home, self._version = home, version
        self._stack = ExitStack()
        self._server: servers.Server | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._start, name="start of Apache RocketMQ")
        self._thread.start()

    def server(self) -> servers.Server:
        """The running server. Raises what went wrong at its start."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        assert self._server is not None
        return self._server

    def stop(self) -> None:
        """Stop it."""
        self._thread.join()
        self._stack.close()

    def _start(self) -> None:
        try:
            self._server = self._stack.enter_context(servers.apache(self._home, self._version))
        except BaseException as failure:  # noqa: BLE001 (pytest raises it where the server is asked for)
            self._failure = failure


@pytest.fixture(scope="package")
def apache_servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, ApacheServer]]:
    """By kind, those that the tests of this run ask for."""
    need_tool("java")
    need_tool("mvn")
    build_programs()
    wanted = {item.callspec.params.get("cluster") for item in request.session.items if hasattr(item, "callspec")}
    found: dict[str, ApacheServer] = {
        kind: ApacheServer(tmp_path_factory.mktemp(kind) / "home", kind.partition("-")[2] or DEFAULT_VERSION)
        for kind in KINDS[1:]
        if kind in wanted
    }
    yield found
    for server in found.values():
        server.stop()


@pytest.fixture(scope="package", autouse=True)
def apache_starts_early(request: pytest.FixtureRequest) -> None:
    """Its start takes many seconds of waiting, in which the tests of the embedded broker run."""
    items = [item for item in request.session.items if "contract" in item.nodeid and "[apache" in item.nodeid]
    if items and all(_has(tool) for tool in ("java", "mvn")):
        request.getfixturevalue("apache_servers")


def _has(tool: str) -> bool:
    try:
        need_tool(tool)
    except (pytest.skip.Exception, pytest.fail.Exception):
        return False
    return True


@pytest.fixture(scope="package")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    kind: Kind = request.param
    with ExitStack() as stack:
        server: servers.Server
        if kind != "embedded":
            starting = request.getfixturevalue("apache_servers")[kind]
            stack.callback(starting.stop)
            server = starting.server()
        else:
            server = stack.enter_context(servers.embedded(tmp_path_factory.mktemp("embedded")))
        tools = Toolbox(tmp_path_factory.mktemp("java"), server.namesrv, INSTANCE)
        stack.callback(tools.kill_since, 0)
        admin = stack.enter_context(Admin(server.namesrv, Credentials(*server.system), timeout_ms=TIMEOUT_MS))
        cluster = Cluster(kind, World(tools, admin, *server.cast, embedded=server.embedded))
        eventually(cluster.knows_its_tenant)
        yield cluster


@pytest.fixture(scope="package")
def slow(cluster: Cluster) -> Iterator[SlowRuns]:
    """Scenarios that mostly wait, started together with the cluster."""
    with SlowRuns(cluster) as runs:
        yield runs


@pytest.fixture(scope="package")
def java(cluster: Cluster) -> Iterator[JavaRuns]:
    """The Java programs, all at work since the cluster started."""
    build_programs()
    with JavaRuns(cluster) as runs:
        yield runs


@pytest.fixture(autouse=True)
def slow_runs_begin_first(request: pytest.FixtureRequest) -> None:
    """Start them before the first test that needs the cluster, so that their waits pass while other tests run."""
    if "cluster" not in request.fixturenames:
        return
    request.getfixturevalue("slow")
    if any("java" in getattr(item, "fixturenames", ()) for item in request.session.items):
        with suppress(pytest.skip.Exception):  # the tests that need them say that they are skipped, and why
            request.getfixturevalue("java")


@pytest.fixture
def differs(cluster: Cluster) -> Differs:
    """What this cluster does where the two differ."""
    return Differs(cluster.kind)


@pytest.fixture(scope="package")
def body_of_4_mib() -> bytes:
    """Random, so that it cannot be compressed."""
    return os.urandom(4 * 1024 * 1024)
