"""The append-only file is written anew when little is going on, and not before."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from launcher.aof_rewrite import GIB, MIB, Bounds, Figures, is_due, when_quiet
from tests.support.broker import eventually
from tests.support.redis_server import RedisServer, redis_server

BOUNDS = Bounds()
QUIET = deque([0] * BOUNDS.quiet_looks)
BURST = deque([0] * (BOUNDS.quiet_looks - 1) + [50 * MIB])
ROOMY = 500 * GIB


def figures(size: int, needed: int, *, free: int = ROOMY, busy: bool = False) -> Figures:
    return Figures(size, needed, free, busy)


@pytest.mark.parametrize(
    ("found", "growth", "due"),
    [
        (figures(2 * GIB, GIB), QUIET, True),
        (figures(2 * GIB, GIB), BURST, False),
        (figures(2 * GIB, GIB), deque([0] * (BOUNDS.quiet_looks - 1)), False),
        (figures(2 * GIB - 1, GIB), QUIET, False),
        (figures(BOUNDS.least - 1, 1), QUIET, False),
        (figures(2 * GIB, GIB, busy=True), QUIET, False),
        # The disk gets full: now, also in a burst, if that helps and there is room for the new file.
        (figures(4 * GIB, GIB, free=2 * GIB), BURST, True),
        (figures(4 * GIB, GIB, free=4 * GIB), BURST, False),
        (figures(4 * GIB, GIB, free=GIB), QUIET, False),
        (figures(4 * GIB, 4 * GIB - 1, free=5 * GIB), BURST, False),
        # The next start would read it for more than a minute.
        (figures(18 * GIB, GIB), BURST, True),
        (figures(17 * GIB, GIB), BURST, False),
    ],
)
def test_when_the_file_is_written_anew(found: Figures, growth: deque[int], due: bool) -> None:
    assert is_due(found, growth, BOUNDS) is due


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


def info(client: Any) -> dict[str, Any]:
    return dict(client.info("persistence"))


def test_it_is_written_anew_once_a_burst_is_over_and_by_a_process_that_has_time(server: RedisServer) -> None:
    bounds = Bounds(look_seconds=0.1, quiet_looks=5, least=MIB)
    child: Any = SimpleNamespace(pid=server.pid)
    client: Any = redis.Redis(unix_socket_path=str(server.socket))

    async def burst_and_quiet() -> None:
        watching = asyncio.ensure_future(when_quiet(server.socket, server.folder, bounds)(child))
        try:
            await asyncio.to_thread(burst)
            assert info(client)["aof_rewrites"] == 0
            await asyncio.to_thread(eventually, lambda: info(client)["aof_rewrites"] == 1, 30)
            assert not watching.done()
        finally:
            watching.cancel()

    def burst() -> None:
        value = b"x" * 100_000
        for number in range(400):
            client.set("same", value)
            if number % 10 == 0:
                client.execute_command("DEBUG", "SLEEP", "0.02")

    asyncio.run(burst_and_quiet())
    eventually(lambda: info(client)["aof_current_size"] < MIB)
    assert client.get("same") == b"x" * 100_000


def test_redis_itself_never_chooses_the_moment(tmp_path: Path) -> None:
    from launcher import config, plan

    command = plan.services(config.read({"GANTRY_HOME": str(tmp_path)}))[0].command
    assert command[command.index("--auto-aof-rewrite-percentage") + 1] == "0"
    assert os.fspath(tmp_path / "redis") in command
