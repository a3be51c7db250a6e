"""The console at the size of a company: 200 accounts, 10,000 topics, 5,000 groups, 100,000 audit entries.

Each database is measured in a process of its own (`console_run.py`), with a home, a Redis and a database that are
removed afterwards.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet

from tests.bench import figures
from tests.support import postgres
from tests.support.redis_server import RedisServer, redis_server

Rows = dict[str, dict[str, Any]]


def main() -> str:
    """Measure on SQLite and, where there is one, on PostgreSQL; return the tables."""
    results: dict[str, Rows] = {}
    with redis_server() as redis:
        results["SQLite"] = _measured(redis, "")
        if postgres.binaries() is None:
            print("PostgreSQL is left out: there is none", file=sys.stderr)
        else:
            with postgres.postgres_server(durable=True) as server:
                results["PostgreSQL"] = _measured(redis, server.url())
    return "\n\n".join([_times(results), _queries(results)])


def _measured(redis: RedisServer, database_url: str) -> Rows:
    with tempfile.TemporaryDirectory(prefix="gantry-bench-") as home:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GANTRY_")} | {
            "DJANGO_SETTINGS_MODULE": "console.settings",
            "DATABASE_URL": database_url or f"sqlite:///{Path(home) / 'console.sqlite3'}",
            "REDIS_URL": redis.url,
            "GANTRY_HOME": home,
            "GANTRY_LOG_LEVEL": "WARNING",
            "GANTRY_NAMESRV": "127.0.0.1:9",  # nothing listens: no list may wait for a broker
            "GANTRY_API_QUERIES_PER_MINUTE": "0",
            "GANTRY_SECRET_KEY": secrets.token_urlsafe(48),
            "GANTRY_MASTER_KEY": Fernet.generate_key().decode(),
            "GANTRY_BROKER_ACCESS_KEY_ID": "LTAI" + secrets.token_hex(8),
            "GANTRY_BROKER_ACCESS_KEY_SECRET": secrets.token_urlsafe(24),
        }
        done = subprocess.run(
            [sys.executable, "-m", "tests.bench.console_run"], env=environment, stdout=subprocess.PIPE, check=True
        )
        rows: Rows = json.loads(done.stdout)
        return rows


def _times(results: dict[str, Rows]) -> str:
    first = next(iter(results.values()))
    head = ["ms", *(f"{name}: {figure}" for name in results for figure in ("median", "p95", "CPU")), "limit", ""]
    rows = []
    for what, row in first.items():
        if "times" not in row:
            continue
        cells = [cell for rows_of in results.values() for cell in _cells(rows_of[what])]
        worst = max(figures.percentile(rows_of[what]["times"], 50) for rows_of in results.values())
        limit = row["limit"]
        verdict = [figures.number(limit), "over" if worst > limit else "met"] if limit else ["", ""]
        rows.append([what, *cells, *verdict])
    return figures.table(head, rows)


def _cells(row: dict[str, Any]) -> list[str]:
    """Median and p95, and the median of the processor time where it was taken."""
    times = row["times"]
    digits = 3 if times[0] < 1 else 1
    cells = [f"{figures.percentile(times, percent):.{digits}f}" for percent in (50, 95)]
    return [*cells, f"{figures.percentile(row['busy'], 50):.1f}" if "busy" in row else ""]


def _queries(results: dict[str, Rows]) -> str:
    first = next(iter(results.values()))
    head = ["queries of the database", *(f"{name}: {rows} rows" for name in results for rows in (10, 200))]
    return figures.table(
        head,
        [
            [what, *(str(n) for rows_of in results.values() for n in rows_of[what]["queries"])]
            for what, row in first.items()
            if "queries" in row
        ],
    )
