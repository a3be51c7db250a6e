"""Archives: kill -9 at any point, and no message is there twice, none is missing."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from analytics import archives, lake
from analytics.errors import LakeError, QueryFailed
from analytics.specs import ArchiveRanges, ArchiveStep, Column, TableSpec
from brokercore.client import Admin, Credentials
from tests.analytics.samples.conftest import own_lake  # noqa: F401  a fixture
from tests.analytics.sources.conftest import COLUMNS, send_batches
from tests.support.broker import BrokerProcess, eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = itertools.count()
#: Runs a step and kills itself at the second move.
_KILLED = """
import json, os, signal, sys
from analytics import archives, lake
from tests.analytics.test_archives import step

options, location = json.loads(sys.argv[1]), sys.argv[2]
move, seen = lake.move, []

def second(source, destination):
    if seen:
        os.kill(os.getpid(), signal.SIGKILL)
    seen.append(source)
    move(source, destination)

lake.move = second
archives.write_step(step(options, location, archives.plan(options, {}, 10_000)), lambda: None)
"""


@pytest.fixture(scope="module")
def admin(broker: BrokerProcess) -> Iterator[Admin]:
    with Admin(broker.namesrv, Credentials(broker.access_key_id, broker.access_key_secret)) as client:
        yield client


@pytest.fixture
def topic(admin: Admin) -> str:
    name = f"archive-test-{os.getpid()}-{next(_numbers)}"
    admin.topics.create(name, queues=2)
    eventually(lambda: name in admin.topics.names())
    for queue in range(2):
        send_batches(admin, name, queue, [b"%d-%d" % (queue, number) for number in range(60)])
    return name


@pytest.fixture
def location(topic: str) -> str:
    return f"oss://gantry-archive-test/{topic}/"


def options_of(broker: BrokerProcess, topic: str) -> dict[str, str]:
    return {
        "namesrv": broker.namesrv,
        "topic": topic,
        "accessKeyId": broker.access_key_id,
        "accessKeySecret": broker.access_key_secret,
    }


def step(options: dict[str, str], location: str, ranges: ArchiveRanges, number: int = 1) -> ArchiveStep:
    bounds = {"begin": json.dumps(ranges.begin), "end": json.dumps(ranges.end)}
    table = TableSpec(
        options["topic"],
        "",
        "mq",
        tuple(Column(name, kind) for name, kind in COLUMNS),
        options=tuple((options | bounds).items()),
    )
    return ArchiveStep(f"archive-{next(_numbers)}-{os.getpid()}", "alice", table, location, number, 120.0)


def stored(location: str) -> list[tuple[int, int, str]]:
    """Queue, offset and body of everything in the archive's files."""
    rows = []
    for file in lake.files(location):
        with lake.open_file(file.location) as opened:
            table = pq.read_table(opened, columns=["queue", "offset", "body"])
        rows += [tuple(row.values()) for row in table.to_pylist()]
    return sorted(rows)


EVERYTHING = sorted((queue, number, f"{queue}-{number}") for queue in range(2) for number in range(60))


def test_a_step_that_was_killed_while_it_moved_is_finished(
    spark: SparkSession, broker: BrokerProcess, admin: Admin, topic: str, location: str
) -> None:
    options = options_of(broker, topic) | {"taskMessages": "40"}
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED, json.dumps(options), location],
        cwd=Path(__file__).parents[2],
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    assert 0 < len(stored(location)) < len(EVERYTHING)
    admin.topics.delete(topic)  # what the list names is moved, and not read again
    ranges = ArchiveRanges({"broker-a:0": 0, "broker-a:1": 0}, {"broker-a:0": 60, "broker-a:1": 60})
    written = archives.write_step(step(options, location, ranges), lambda: None)
    assert written.messages == len(EVERYTHING)
    assert stored(location) == EVERYTHING
    archives.clean_up(location, 1)
    assert lake.files(location, hidden=True) == lake.files(location)


def test_a_step_that_was_stopped_before_its_list_begins_anew(
    spark: SparkSession, broker: BrokerProcess, topic: str, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = options_of(broker, topic)
    ranges = archives.plan(options, {}, 1000)

    def stopped(_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(archives, "_destinations", stopped)
        archives.write_step(step(options, location, ranges), lambda: None)
    assert lake.files(location, hidden=True)
    assert stored(location) == []
    assert archives.write_step(step(options, location, ranges), lambda: None).messages == len(EVERYTHING)
    assert stored(location) == EVERYTHING


def test_steps_follow_each_other_without_a_gap(
    spark: SparkSession, broker: BrokerProcess, topic: str, location: str
) -> None:
    options = options_of(broker, topic)
    reached: dict[str, int] = {}
    for number in itertools.count(1):
        ranges = archives.plan(options, reached, 50)
        if not ranges.end:
            break
        assert ranges.messages <= 50
        archives.write_step(step(options, location, ranges, number), lambda: None)
        reached |= ranges.end
    assert number == 4
    assert stored(location) == EVERYTHING


def test_a_worker_that_was_overtaken_moves_nothing(
    spark: SparkSession, broker: BrokerProcess, topic: str, location: str
) -> None:
    options = options_of(broker, topic)

    def overtaken() -> None:
        raise LakeError("another worker has it")

    with pytest.raises(LakeError, match="another worker"):
        archives.write_step(step(options, location, archives.plan(options, {}, 100)), overtaken)
    assert stored(location) == []


def test_a_topic_behind_its_archive_is_refused(broker: BrokerProcess, topic: str) -> None:
    with pytest.raises(QueryFailed, match="made anew"):
        archives.plan(options_of(broker, topic), {"broker-a:0": 61}, 10)


def test_what_the_broker_dropped_is_counted_as_missed(
    broker: BrokerProcess, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from analytics.sources import mq

    fixed = mq.fix(options_of(broker, topic))
    later = tuple(replace(found, begin=30) for found in fixed.reach)
    monkeypatch.setattr(mq, "fix", lambda _: replace(fixed, reach=later))
    ranges = archives.plan(options_of(broker, topic), {"broker-a:0": 10}, 1000)
    assert ranges.missed == 20, "of the queue that was archived before; nobody asked for the other's old messages"
    assert ranges.begin == {"broker-a:0": 30, "broker-a:1": 30}
