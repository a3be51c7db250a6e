"""The console over a large cluster: 20,000 topics and 10,000 groups, on the embedded broker and on Apache RocketMQ.

Each broker is measured in a process of its own (`scale_run.py`), with a home, a Redis and a database that are removed
afterwards. Four embedded brokers of that size beside it make five clusters.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from cryptography.fernet import Fernet

from tests.bench import figures
from tests.support.apache import ApacheRocketMQ
from tests.support.broker import SYSTEM_KEY, SYSTEM_SECRET, broker_process
from tests.support.product import free_ports
from tests.support.redis_server import redis_server

PERIOD_S, SHARE, PAGE_MS, PAGE_KB = 10, 15, 100, 100
OTHERS = 4
EMBEDDED, APACHE = "embedded", "Apache RocketMQ 5.3.3"
KINDS = {"embedded": EMBEDDED, "apache": APACHE}
Rows = dict[str, Any]


class _Broker(NamedTuple):
    """Where it listens, its processes, and a key that may do everything."""

    namesrv: str
    pids: Sequence[int]
    key: str
    secret: str


def main(only: Sequence[str] = ()) -> str:
    """Measure on these brokers, on all without a name; return the tables."""
    results = measured("tests.bench.scale_run", only, OTHERS)
    return "\n\n".join([_sampling(results), _pages(results)])


def measured(program: str, only: Sequence[str] = (), others: int = 0) -> dict[str, Rows]:
    """What a program prints as JSON with each of these brokers, or all of them, and so many others beside it."""
    results: dict[str, Rows] = {}
    for kind in only or tuple(KINDS):
        if kind == "apache" and (shutil.which("java") is None or shutil.which("mvn") is None):
            print("Apache RocketMQ is left out: it needs java and mvn", file=sys.stderr)
            continue
        with ExitStack() as running:
            broker = running.enter_context(_apache() if kind == "apache" else _embedded())
            beside = [running.enter_context(_embedded()) for _ in range(others)]
            results[KINDS[kind]] = _measured(broker, program, beside)
    return results


@contextmanager
def _embedded() -> Iterator[_Broker]:
    with broker_process() as server:
        yield _Broker(server.namesrv, [server.pid], SYSTEM_KEY, SYSTEM_SECRET)


@contextmanager
def _apache() -> Iterator[_Broker]:
    with tempfile.TemporaryDirectory(prefix="gantry-bench-") as home:
        first, second = free_ports(2)
        server = ApacheRocketMQ(Path(home) / "rocketmq", (first, second), measured=True)
        server.start()
        try:
            yield _Broker(server.namesrv, server.pids(), server.admin_key, server.admin_secret)
        finally:
            server.kill()


def _measured(broker: _Broker, program: str, beside: Sequence[_Broker]) -> Rows:
    with redis_server() as redis, tempfile.TemporaryDirectory(prefix="gantry-bench-") as home:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GANTRY_")} | {
            "DJANGO_SETTINGS_MODULE": "console.settings",
            "DATABASE_URL": f"sqlite:///{Path(home) / 'console.sqlite3'}",
            "REDIS_URL": redis.url,
            "GANTRY_HOME": home,
            "GANTRY_LOG_LEVEL": "WARNING",
            "GANTRY_NAMESRV": broker.namesrv,
            "GANTRY_SECRET_KEY": secrets.token_urlsafe(48),
            "GANTRY_MASTER_KEY": Fernet.generate_key().decode(),
            "GANTRY_BROKER_ACCESS_KEY_ID": broker.key,
            "GANTRY_BROKER_ACCESS_KEY_SECRET": broker.secret,
            "BENCH_BROKERS": json.dumps([one._asdict() for one in (broker, *beside)]),
        }
        done = subprocess.run([sys.executable, "-m", program], env=environment, stdout=subprocess.PIPE, check=True)
        rows: Rows = json.loads(done.stdout)
        return rows


def _sampling(results: dict[str, Rows]) -> str:
    head = ["sampling 20,000 topics and 10,000 groups", *results, "limit"]
    rows: list[list[str]] = []
    for key, name, limit in (("one", "one cluster", f"{SHARE} %"), ("five", "it and four embedded clusters", "")):
        first = [readings[key][0] for readings in results.values()]
        rows.append([f"{name}, first reading: s", *(figures.number(one["seconds"]) for one in first), str(PERIOD_S)])
        rows.append(["… s of a processor", *(figures.number(one["busy"]) for one in first), ""])
        for word, of in (("s", "seconds"), ("s of a processor", "busy"), ("s of the broker's processor", "broker")):
            later = [median(row[of] for row in readings[key][1:]) for readings in results.values()]
            bound = str(PERIOD_S) if of == "seconds" else ""
            rows.append([f"{name}, each reading: {word}", *map(figures.number, later), bound])
        rows.append([f"{name}: of a core", *(_share(readings[key][1:]) for readings in results.values()), limit])
    memory = [figures.number(readings["memory_mb"]) for readings in results.values()]
    return figures.table(head, [*rows, ["one cluster, memory that its readings take at most: MB", *memory, ""]])


def _share(readings: list[Rows]) -> str:
    return f"{100 * sum(row['busy'] for row in readings) / (PERIOD_S * len(readings)):.1f} %"


def _pages(results: dict[str, Rows]) -> str:
    head = ["page", *(f"{name}: {what}" for name in results for what in ("ms", "CPU ms", "kB", "queries"))]
    rows = []
    for page in next(iter(results.values()))["pages"]:
        cells, over = [], False
        for found in results.values():
            row = found["pages"][page]
            busy, kilobytes = median(row["busy"]), row["bytes"] / 1000
            over = over or busy > PAGE_MS or kilobytes > PAGE_KB
            cells += [f"{median(row['times']):.0f}", f"{busy:.0f}", f"{kilobytes:.0f}", str(row["queries"])]
        rows.append([page, *cells, "over" if over else "met"])
    return figures.table([*head, f"limit {PAGE_MS} ms, {PAGE_KB} kB"], rows)
