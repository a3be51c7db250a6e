"""Changes of databases into topics, beside capture libraries alone and beside Debezium's embedded engine.

PostgreSQL, MariaDB, broker and Spark are started for it on this machine. All follow the log while as many rows change
as the database can do, in turns: the library that Python programs use, and our own capture, which only count; capture,
event log and inflow task, each in the process that it has in an installation; and Debezium's engine, whose records the
RocketMQ client for Java writes into the same broker, as many in a request as ours.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import psycopg

import tests.support.environment
from analytics import engine, lake
from analytics import session as spark_session
from analytics.pipelines import runner
from analytics.pipelines.runner import Pipeline
from brokercore.client import Admin, Credentials
from tests.bench import figures
from tests.bench.driver import note
from tests.inflow import debezium, tasks
from tests.inflow.databases import PASSWORD, listening_postgres
from tests.inflow.tasks import Log
from tests.pipelines.jobs import Ground
from tests.support import processes
from tests.support.broker import broker_process
from tests.support.mariadb import PASSWORD as ROOTS_PASSWORD
from tests.support.mariadb import MariaDbServer, mariadb_server
from tests.support.postgres import PostgresServer
from tests.support.redis_server import redis_server

#: Changes of a round, half of them new rows and half changed ones, and how many make a transaction.
_CHANGES, _TRANSACTION = 100_000, 1000
#: What each of them makes run before it is measured.
_WARM = 5000
#: Changes a second of the latency, and for how long, s; what comes in the first seconds does not count.
_PACE, _SECONDS, _SETTLING = 1000, 20, 5
_TASKS = (1, 20)
_WAIT_S, _LOOK_S = 240, 0.02
#: Of the capture library alone, and of Debezium.
BARS = (0.5, 1.0)
PARTS = ("rates", "latency", "memory")
_MB = 1e6
__all__ = ["tests"]
_COLUMNS = "id {int} PRIMARY KEY, customer varchar(40), amount decimal(12,2), state varchar(20), sent bigint, note text"


@dataclass
class Site:
    """A database, and what reads it."""

    name: str
    server: PostgresServer | MariaDbServer
    run: Callable[..., Any]
    #: The value of a row's column that tells when it was sent, epoch ms.
    now: str
    rows: str
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(1, 1 << 30)))

    @property
    def is_postgres(self) -> bool:
        return isinstance(self.server, PostgresServer)

    def source(self, name: str) -> dict[str, Any]:
        """Fields of `analytics.inflow.source.Source`."""
        told = {"host": "127.0.0.1", "address": "127.0.0.1", "port": self.server.port, "name": name}
        if self.is_postgres:
            return told | {"kind": "postgresql", "user": "reader", "password": PASSWORD, "database": "postgres"}
        return told | {"kind": "mysql", "user": "root", "password": ROOTS_PASSWORD}

    def change(self, table: str, count: int) -> None:
        """New rows, and then the same ones changed, in transactions."""
        for begin in range(0, count // 2, _TRANSACTION):
            end = min(begin + _TRANSACTION, count // 2)
            rows = self.rows.format(begin=begin + 1, end=end)
            self.run(
                f"INSERT INTO {table} SELECT n, CONCAT('customer-', n), n * 0.01, 'new', {self.now},"
                f" REPEAT('x', 200) FROM {rows}"
            )
            self.run(f"UPDATE {table} SET state = 'paid' WHERE id BETWEEN {begin + 1} AND {end}")

    def new_table(self) -> str:
        """A table that nobody has read."""
        name = f"orders{next(self.numbers)}"
        self.run(f"CREATE TABLE {self.place(name)} ({_COLUMNS.format(int='int')})")
        return name

    def place(self, table: str) -> str:
        return f"public.{table}" if self.is_postgres else f"shop.{table}"

    def end_of_log(self) -> dict[str, Any]:
        """File and position of the binlog's end; nothing of PostgreSQL, where a slot has it."""
        if isinstance(self.server, PostgresServer):
            return {}
        ((file, position, *_),) = self.server.run("SHOW MASTER STATUS")
        return {"file": file, "position": int(position)}

    def engine(self, table: str) -> dict[str, str]:
        """Settings of Debezium."""
        more = {"table.include.list": self.place(table), "snapshot.mode": "no_data"}
        if isinstance(self.server, PostgresServer):
            names = {"slot.name": f"dbz_{table}", "publication.name": f"dbz_{table}", "slot.drop.on.stop": "true"}
            return debezium.of_postgres(self.server, **more, **names, **{"publication.autocreate.mode": "filtered"})
        return debezium.of_mariadb(self.server, "shop", **more)


def main(rounds: int, parts: tuple[str, ...] = PARTS) -> str:
    """Take the figures, rates in so many rounds, and return the tables."""
    taken = {"rates": lambda ground, sites: _rates(ground, sites, rounds), "latency": _latencies, "memory": _memory}
    with _ground() as (ground, sites):
        runner.warm()
        tables = []
        for part in parts:
            note(part)
            tables.append(taken[part](ground, sites))
        return "\n\n".join(tables)


@contextmanager
def _ground() -> Iterator[tuple[Ground, list[Site]]]:
    with (
        redis_server() as redis,
        broker_process(redis) as broker,
        listening_postgres() as postgres,
        mariadb_server() as mariadb,
        psycopg.connect(
            host=str(postgres.folder), port=postgres.port, user="gantry", dbname="postgres", autocommit=True
        ) as of_postgres,
    ):
        mariadb.run("CREATE DATABASE shop")
        of_mariadb = mariadb.connect("shop")
        credentials = Credentials(broker.access_key_id, broker.access_key_secret)
        sites = [
            Site(
                "MariaDB, binlog",
                mariadb,
                of_mariadb.query,
                "CAST(UNIX_TIMESTAMP(NOW(6)) * 1000 AS SIGNED)",
                "(SELECT seq AS n FROM seq_{begin}_to_{end}) numbers",
            ),
            Site(
                "PostgreSQL, pgoutput",
                postgres,
                lambda statement: of_postgres.execute(statement.encode()),
                "(extract(epoch FROM clock_timestamp()) * 1000)::bigint",
                "generate_series({begin}, {end}) n",
            ),
        ]
        with Admin(broker.namesrv, credentials) as admin:
            try:
                yield Ground("", "", "", broker.namesrv, credentials, admin), sites
            finally:
                of_mariadb.close()
                engine.stop()


# Changes a second


def _rates(ground: Ground, sites: Sequence[Site], rounds: int) -> str:
    rows = []
    for site in sites:
        found: list[tuple[float, ...]] = []
        for _ in range(rounds):
            found.append((_by_library(site), _alone(site), _into_topic(ground, site), _by_debezium(ground, site)))
            note(f"  {site.name}: " + ", ".join(f"{rate:,.0f}" for rate in found[-1]))
        library, alone, ours, theirs = (median(column) for column in zip(*found, strict=True))
        ratios = [f"{ours / other:.2f}" for other in (library, theirs)]
        reached = [ours >= bar * other for bar, other in zip(BARS, (library, theirs), strict=True)]
        bars = " and ".join("yes" if one else "no" for one in reached)
        rows.append((site.name, *(f"{rate:,.0f}" for rate in (library, alone, ours, theirs)), *ratios, bars))
    head = (
        "changes/s",
        "library alone",
        "our capture alone",
        "into a topic",
        "Debezium",
        "of the library",
        "of Debezium",
    )
    return figures.table((*head, f"bars ({BARS[0]}, {BARS[1]:.1f})"), rows)


def _by_library(site: Site) -> float:
    """That of the capture library alone, which only counts."""
    table = site.new_table()
    name, place = f"peer_{table}", site.place(table)
    told = {"source": site.source(name), "tables": [place], "expected": _CHANGES, **site.end_of_log()}
    if site.is_postgres:
        site.run(f"CREATE PUBLICATION {name} FOR TABLE {place}")
    try:
        with _process("tests.bench.inflow_peers", told) as process:
            return _counted(site, table, process)
    finally:
        if site.is_postgres:
            _drop_slot(site, name)
            site.run(f"DROP PUBLICATION {name}")


def _alone(site: Site) -> float:
    table = site.new_table()
    with _capturing([(site, table, "", _CHANGES)]) as process:
        return _counted(site, table, process)


def _counted(site: Site, table: str, process: subprocess.Popen[str]) -> float:
    site.change(site.place(table), _CHANGES)
    assert process.stdout is not None
    return float(process.stdout.readline())


def _into_topic(ground: Ground, site: Site) -> float:
    with _flowing(ground, site) as (topic, table):
        return _measured(ground, site, topic, table)


def _by_debezium(ground: Ground, site: Site) -> float:
    topic, table = ground.new_topic(), site.new_table()
    with _engine(ground, site, topic, table):
        rate = _measured(ground, site, topic, table)
    ground.admin.topics.delete(topic)
    return rate


def _measured(ground: Ground, site: Site, topic: str, table: str) -> float:
    """Changes a second, from the first message of many to the last."""
    warm = f"{table}_warm"
    place = site.place(table)
    site.change(place, _WARM)
    _until(lambda: _stored(ground, topic) >= _WARM, warm)
    site.run(f"DELETE FROM {place}")
    _until(lambda: _stored(ground, topic) >= _WARM + _WARM // 2, warm)
    had = _stored(ground, topic)
    changing = threading.Thread(target=site.change, args=(place, _CHANGES))
    changing.start()
    _until(lambda: _stored(ground, topic) > had, topic)
    before, begun = _stored(ground, topic), time.perf_counter()
    _until(lambda: _stored(ground, topic) >= had + _CHANGES, topic)
    seconds = time.perf_counter() - begun
    changing.join()
    return (had + _CHANGES - before) / seconds


def _stored(ground: Ground, topic: str) -> int:
    return sum(queue.max_offset - queue.min_offset for queue in ground.admin.topics.stats(topic).values())


def _until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {_WAIT_S} s: {what}")
        time.sleep(_LOOK_S)


# What runs


@contextmanager
def _capturing(read: Sequence[tuple[Site, str, str, int]]) -> Iterator[subprocess.Popen[str]]:
    """A process with captures of tables: each with its event log, or counted up to so many changes."""
    told = [
        {
            "source": site.source(f"bench_{table}"),
            "tables": [site.place(table)],
            "log": log,
            "expected": expected,
        }
        for site, table, log, expected in read
    ]
    try:
        with _process("tests.bench.inflow_capture", told) as process:
            yield process
    finally:
        for site, table, *_ in read:
            if site.is_postgres:
                _drop_slot(site, f"bench_{table}")


@contextmanager
def _process(module: str, told: Any) -> Iterator[subprocess.Popen[str]]:
    """A program that follows logs, once it does; killed in the end."""
    command = [sys.executable, "-m", module, json.dumps(told)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()


def _drop_slot(site: Site, name: str) -> None:
    """As soon as the server knows that its reader is gone: it would keep its log for it."""
    deadline = time.monotonic() + _WAIT_S
    while True:
        try:
            site.run(f"SELECT pg_drop_replication_slot('{name}')")
            return
        except psycopg.errors.ObjectInUse:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        except psycopg.errors.UndefinedObject:
            return


def _started(ground: Ground, log: Log, topic: str) -> Pipeline:
    """A task with the whole event in the body and the primary key as the key, that waits for nothing."""
    told = tasks.document(
        ground,
        log,
        topic,
        source={"messages": 1000, "interval": 0},
        sink={
            "body": {"method": "complete_data"},
            "key": {"method": "data_extraction", "path": "$.data.primaryKey"},
        },
    )
    return tasks.started(ground, told)


@contextmanager
def _flowing(ground: Ground, site: Site) -> Iterator[tuple[str, str]]:
    """A capture, its log and a task; the topic and the table."""
    topic, table, log = ground.new_topic(), site.new_table(), Log()
    log.writer.close()
    with _capturing([(site, table, lake.lake_path(log.location), 0)]):
        pipeline = _started(ground, log, topic)
        try:
            yield topic, table
        finally:
            pipeline.stop()
    ground.admin.topics.delete(topic)


@contextmanager
def _engine(ground: Ground, site: Site, topic: str, table: str) -> Iterator[int]:
    """Debezium's engine, once it follows the log; its process id."""
    keys = {"ACCESS_KEY": ground.credentials.access_key_id, "SECRET_KEY": ground.credentials.access_key_secret}
    with tempfile.TemporaryDirectory(prefix="gantry-bench-dbz-") as folder:
        file = Path(folder) / "engine.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in site.engine(table).items()))
        options = ("-Xmx768m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", f"-Duser.home={folder}")
        command = ["java", *options, "-cp", debezium.class_path(), "gantry.inflow.Writer", str(file), ground.namesrv]
        with (Path(folder) / "log").open("wb") as log:
            process = subprocess.Popen([*command, topic], env=os.environ | keys, stdout=log, stderr=log)
        place = site.place(table)
        try:
            number = 0
            # It has no word for it that it follows the log: rows tell.
            while not _stored(ground, topic):
                if process.poll() is not None:
                    raise RuntimeError((Path(folder) / "log").read_text()[-3000:])
                number -= 1
                site.run(f"INSERT INTO {place} (id) VALUES ({number})")
                time.sleep(0.5)
            site.run(f"DELETE FROM {place}")
            _settle(lambda: _stored(ground, topic))
            yield process.pid
        finally:
            process.kill()
            process.wait()
            if site.is_postgres:
                _drop_slot(site, f"dbz_{table}")


def _settle(count: Callable[[], int]) -> None:
    """Wait until it stays the same for a second."""
    last, since = count(), time.monotonic()
    while time.monotonic() - since < 1:
        time.sleep(0.1)
        if (now := count()) != last:
            last, since = now, time.monotonic()


# Seconds behind


def _latencies(ground: Ground, sites: Sequence[Site]) -> str:
    rows = []
    for site in sites:
        with _flowing(ground, site) as (topic, table):
            ours = _paced(ground, site, topic, table)
        topic, table = ground.new_topic(), site.new_table()
        with _engine(ground, site, topic, table):
            theirs = _paced(ground, site, topic, table)
        ground.admin.topics.delete(topic)
        shown = [f"{figures.percentile(took, share):.2f}" for took in (ours, theirs) for share in (50, 99)]
        rows.append((site.name, *shown))
    head = (f"behind at {_PACE:,} changes/s, s", "ours, p50", "ours, p99", "Debezium, p50", "Debezium, p99")
    return figures.table(head, rows)


def _paced(ground: Ground, site: Site, topic: str, table: str) -> list[float]:
    """How long changes took, from their statement to their message in the broker, s; ten rows are a transaction."""
    place = site.place(table)
    had = _stored(ground, topic)
    begun = time.time()
    group = 10
    for number in range(0, _PACE * _SECONDS, group):
        time.sleep(max(0.0, begun + number / _PACE - time.time()))
        rows = site.rows.format(begin=number + 1, end=number + group)
        sent = round(time.time() * 1000)
        site.run(f"INSERT INTO {place} (id, sent, note) SELECT n, {sent}, REPEAT('x', 200) FROM {rows}")
    _until(lambda: _stored(ground, topic) >= had + _PACE * _SECONDS, topic)
    found = []
    for message in ground.messages(topic):
        event = json.loads(message.decoded_body())
        after = event.get("data", event)["after"]
        if after and after["sent"] and after["sent"] / 1000 - begun >= _SETTLING:
            found.append((message.store_timestamp - after["sent"]) / 1000)
    note(f"  {site.name}: {len(found)} changes")
    return found


# Memory


def _memory(ground: Ground, sites: Sequence[Site]) -> str:
    """Of captures of one process, and of the engine with as many tasks."""
    rows = []
    for count in _TASKS:
        with ExitStack() as running:
            made = [(sites[number % len(sites)], Log(), ground.new_topic()) for number in range(count)]
            for _, log, _ in made:
                log.writer.close()
            read = [(site, site.new_table(), lake.lake_path(log.location), 0) for site, log, _ in made]
            capturing = running.enter_context(_capturing(read))
            for (_, log, topic), (site, table, *_) in zip(made, read, strict=True):
                running.callback(_started(ground, log, topic).stop)
                site.change(site.place(table), 1000)
                _until(lambda name=topic: _stored(ground, name) >= 1000, topic)  # type: ignore[misc]
            jvm = spark_session.get().sparkContext._gateway.proc.pid  # type: ignore[union-attr]
            python = [pid for pid in processes.children(jvm) if Path(f"/proc/{pid}").exists()]
            sizes = [processes.resident_bytes([jvm]), processes.proportional_bytes(python)]
            captures = processes.resident_bytes([capturing.pid])
            rows.append((f"{count}", *(f"{size / _MB:,.0f}" for size in (captures, *sizes)), f"{len(python)}"))
    table = figures.table(("tasks", "captures, MB", "engine's JVM, MB", "its Python, MB", "its Python processes"), rows)
    topic, name = ground.new_topic(), sites[0].new_table()
    with _engine(ground, sites[0], topic, name) as pid:
        sites[0].change(sites[0].place(name), 1000)
        _settle(lambda: _stored(ground, topic))
        return f"{table}\n\nOne embedded engine of Debezium: {processes.resident_bytes([pid]) / _MB:,.0f} MB."
