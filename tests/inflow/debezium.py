"""Debezium's embedded engine beside our captures: its program, its settings, and what it has printed."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.inflow.databases import PASSWORD as READERS_PASSWORD
from tests.support.java import QUICK_START, compile_java, maven_jars
from tests.support.mariadb import PASSWORD, MariaDbServer
from tests.support.needs import need_tool
from tests.support.patience import Patience
from tests.support.postgres import PostgresServer

_JAVA = Path(__file__).parent / "java"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gantry-tests"
_WAIT_S = 40
#: Those of Debezium that its records are compared with; all others are as they are by themselves.
SETTINGS = {
    "name": "beside",
    "topic.prefix": "shop",
    "converter.schemas.enable": "false",
    "decimal.handling.mode": "string",
    "binary.handling.mode": "base64",
    "skipped.operations": "none",
    "tombstones.on.delete": "false",
    "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
    "schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory",
    "poll.interval.ms": "20",
}


class Record(NamedTuple):
    """A record that the engine gave."""

    key: dict[str, Any] | None
    value: dict[str, Any]


def class_path() -> str:
    """Of the program, which is built for it. Skips without Java and Maven, fails on CI."""
    need_tool("java")
    jars, classes = _CACHE / "debezium", _CACHE / "debezium-classes"
    maven_jars(_JAVA / "pom.xml", _CACHE / "debezium.stamp", jars)
    compile_java(sorted(_JAVA.rglob("*.java")), f"{jars}/*", classes)
    return f"{classes}:{jars}/*"


def of_postgres(server: PostgresServer, database: str = "postgres", **more: str) -> dict[str, str]:
    """Settings for a server of `databases.listening_postgres`."""
    return SETTINGS | {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "reader",
        "database.password": READERS_PASSWORD,
        "database.dbname": database,
        "slot.name": "debezium",
        **more,
    }


def of_mariadb(server: MariaDbServer, database: str, **more: str) -> dict[str, str]:
    """Settings for one database."""
    return SETTINGS | {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "root",
        "database.password": PASSWORD,
        "database.server.id": "4712",
        "database.include.list": database,
        "include.schema.changes": "false",
        **more,
    }


class Engine:
    """One JVM with the engine."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        file = folder / "engine.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        options = ("-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
        self._lines: list[str] = []
        self._errors = (folder / "engine.log").open("w+")
        self._process = subprocess.Popen(
            ["java", *QUICK_START, *options, "-cp", class_path(), "gantry.inflow.Engine", str(file)],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, count: int) -> list[Record]:
        """The records, once there are so many."""
        patience = Patience(_WAIT_S, 0.05)
        while len(found := [line for line in self._lines if not line.startswith("#")]) < count:
            if patience.is_over() or self._process.poll() is not None:
                self._errors.seek(0)
                said = self._errors.read()[-3000:]
                raise AssertionError(f"{len(found)} of {count} records came; {self._lines[-2:]}\n{said}")
            time.sleep(0.02)
        return [_record(line) for line in found]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._errors.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line.rstrip("\n"))


@contextmanager
def engine(folder: Path, settings: dict[str, str]) -> Iterator[Engine]:
    """The engine, with its files in a folder."""
    started = Engine(folder, settings)
    try:
        yield started
    finally:
        started.kill()


def _record(line: str) -> Record:
    _, key, value = line.split("\t")
    return Record(None if key == "null" else json.loads(key), json.loads(value))
