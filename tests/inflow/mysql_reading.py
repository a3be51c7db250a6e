"""What the tests of MySQL's capture share: a database of their own, and reading until what is wanted is there."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

from analytics.inflow.changes import Change
from analytics.inflow.mysql import MySqlCapture, open_capture
from tests.support.mariadb import MariaDbServer

WAIT_SECONDS = 30
_numbers = itertools.count(1)


def new_database(server: MariaDbServer, *statements: str) -> str:
    """A database of its own, in which the statements have run; its name."""
    name = f"shop{next(_numbers)}"
    server.run(f"CREATE DATABASE {name}")
    if statements:
        server.run(*statements, database=name)
    return name


def capture(
    server: MariaDbServer, database: str, position: str | None = None, *, snapshot: bool = False
) -> MySqlCapture:
    """A capture of all tables of a database."""
    return open_capture(server.address(), [f"{database}.*"], position, snapshot=snapshot, source="test")


def read(reader: MySqlCapture, count: int) -> list[Change]:
    """Changes until there are `count`, and those that come with the last."""
    found: list[Change] = []
    deadline = time.monotonic() + WAIT_SECONDS
    while len(found) < count:
        found += reader.changes(1)
        assert time.monotonic() < deadline, [change.event["data"] for change in found[-3:]]
    return found


def read_until(reader: MySqlCapture, is_last: Callable[[dict[str, Any]], bool]) -> list[Change]:
    """Changes until one is the last."""
    found: list[Change] = []
    deadline = time.monotonic() + WAIT_SECONDS
    while not (found and is_last(found[-1].event["data"])):
        found += reader.changes(1)
        assert time.monotonic() < deadline
    return found


def brief(changes: list[Change]) -> list[tuple[str, Any, Any]]:
    """Operation, before and after of each."""
    datas = [change.event["data"] for change in changes]
    return [(data["operation"], data["before"], data["after"]) for data in datas]
