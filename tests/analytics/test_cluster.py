"""The suite of statements runs a second time on Sparks beyond this process: a standalone cluster and a Connect server.

Both are started from the installed PySpark; nothing but settings tells Gantry of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import spark

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

#: A statement on a Connect server that is killed under it and started again; what becomes of it, line by line.
SCRIPT = """
import sys, threading, time
from analytics import run

def spec(task_id, sql):
    return run.QuerySpec(task_id, "alice", sql, "demo", {"demo": []}, (), f"oss://alice-lake/{task_id}.csv", 250.0)

def said(word, task_id, sql):
    try:
        print(word, run.run_query(spec(task_id, sql)).row_count, flush=True)
    except run.EngineLost as error:
        print(word, "EngineLost", error.is_remote, error.user_message, flush=True)
    except run.AnalyticsError as error:
        print(word, type(error).__name__, getattr(error, "is_outage", None), error.user_message, flush=True)

run.warm()
said("first", "q1", "select 1")
endless = threading.Thread(
    target=said, args=("lost", "q2", "select sum(hash(a.id, b.id)) from range(10000000) a cross join range(10000000) b")
)
endless.start()
while run.progress("q2") is None:
    time.sleep(0.05)
print("running", flush=True)
endless.join()
said("down", "q3", "select 1")
sys.stdin.readline()
said("again", "q4", "select 1")
run.stop()
"""


def run_suite(environment: dict[str, str], *tests: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", *tests],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, cwd=ROOT,
        env=os.environ | environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-20_000:]


def test_statements_run_on_a_standalone_cluster() -> None:
    with spark.standalone_cluster() as url:
        run_suite(
            {"SPARK_URL": url, "SPARK_LOCAL_IP": "127.0.0.1"},
            "tests/analytics/sql/test_engine.py",
            "tests/analytics/sql/test_sessions.py",
        )


@pytest.fixture(scope="module")
def server() -> Iterator[spark.ConnectServer]:
    with spark.connect_server() as server:
        yield server


def test_statements_run_on_a_spark_connect_server(server: spark.ConnectServer) -> None:
    run_suite(
        {"SPARK_URL": server.url, "GANTRY_TEST_SPARK_CONNECT_TOKEN": server.token},
        "tests/analytics/sql/test_engine.py",
        "tests/analytics/sql/test_result.py",
        "tests/analytics/sql/test_explaining.py",
        "tests/analytics/sql/test_insert.py",
        "tests/analytics/sql/test_guard.py",
        "tests/analytics/sql/test_sessions.py",
        "tests/analytics/sql/test_connect.py",
    )


def test_a_connect_server_that_dies_is_an_outage_and_the_next_one_is_found(
    server: spark.ConnectServer, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path,
        env=os.environ | server.environment | {"GANTRY_LAKE": str(tmp_path / "lake"), "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "first 1\n"
        assert process.stdout.readline() == "running\n"
        server.program.kill()
        assert process.stdout.readline().startswith("lost EngineLost True The Spark Connect server stopped while")
        assert process.stdout.readline().startswith(
            "down EngineUnavailable True The Spark Connect server sc://127.0.0.1:"
        )
        server.program.start()
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "again 1\n"
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
