"""One broker for the whole suite; scenarios that mostly wait are started before the first test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from brokercore.client import Admin, Credentials
from tests.compat import long_runs, servers
from tests.compat.programs import Toolbox, build_programs
from tests.compat.world import INSTANCE, World
from tests.console.live import live
from tests.support.cast import cast, console

__all__ = ["cast", "console", "live"]


@pytest.fixture(scope="session")
def java_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The user's home of all JVMs: the clients keep logs and broadcast offsets there."""
    return tmp_path_factory.mktemp("java")


@pytest.fixture(scope="session")
def world(java_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    build_programs()
    run_server = servers.apache if servers.wants_apache() else servers.embedded
    with run_server(tmp_path_factory.mktemp("broker")) as server:
        tools = Toolbox(java_home, server.namesrv, INSTANCE)
        with Admin(server.namesrv, Credentials(*server.system), timeout_ms=10_000) as admin:
            try:
                yield World(tools, admin, *server.cast, embedded=server.embedded)
            finally:
                tools.kill_since(0)


@pytest.fixture(autouse=True)
def clients_of_the_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """Ends the clients that a test started, so that they do not take the machine from the next one."""
    if "world" not in request.fixturenames:
        yield
        return
    tools = request.getfixturevalue("world").tools
    before = len(tools.running)
    yield
    tools.kill_since(before)


@pytest.fixture(scope="session")
def retry_runs(world: World) -> dict[str, long_runs.Retry]:
    return {client: long_runs.start_retry(world, client, n) for client, n in (("Ons", 1), ("Apache", 2))}


@pytest.fixture(scope="session")
def transaction_runs(world: World) -> dict[str, long_runs.Transaction]:
    return {
        "Ons": long_runs.start_transaction(world, "Ons"),
        "Apache": long_runs.start_transaction(world, "Apache", check="rollback"),
    }


@pytest.fixture(scope="session", autouse=True)
def long_runs_come_first(request: pytest.FixtureRequest) -> None:
    """Starts the scenarios that selected tests judge, so that their waits pass while other tests run.

    One that cannot start fails those tests only: pytest raises its exception again for each of them.
    """
    for name in ("retry_runs", "transaction_runs"):
        if any(name in getattr(item, "fixturenames", ()) for item in request.session.items):
            with suppress(Exception):
                request.getfixturevalue(name)
