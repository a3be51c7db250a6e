"""A pipeline whose tasks run on a standalone cluster of the installed PySpark: what dies there costs nothing.

Folders are shared, as the cluster is on this machine. Nothing but SPARK_URL tells the worker of it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from analytics import lake
from analytics.errors import EngineBusy, PipelineFailed, PipelineFenced
from analytics.pipelines import checkpoints, executors
from analytics.pipelines.executors import Executors, Needs
from analytics.pipelines.plan import Insert, Plan, Settings
from analytics.sources.mq import Topic
from tests.pipelines.crashes import heard, kill, numbered, tell, uncommitted, worker
from tests.pipelines.jobs import Ground, lines_at, new_location, printed, until
from tests.support.product import free_ports
from tests.support.queue_service import QueueServiceProcess
from tests.support.spark import StandaloneCluster, standalone_cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
MESSAGES = 120
#: What one worker takes of the cluster.
SHARE = {"GANTRY_SPARK_CORES": "1", "GANTRY_SPARK_EXECUTOR_MEMORY": "512m"}
#: Rows that take their time, so that a batch is under way when something dies.
SLOW = "length(repeat(sha2(carrier, 512), 20000)) > 0"


@pytest.fixture(scope="module")
def cluster() -> Iterator[StandaloneCluster]:
    """Started once."""
    with standalone_cluster() as found:
        yield found


def plan_of(ground: Ground, queue: str, topic: str) -> Plan:
    """The queue into the topic; and a count of each message, where one that came in two batches counts twice."""
    columns = "id bigint, carrier string"
    sinks = ground.mq(topic, columns), printed("counted", "id bigint, times bigint")
    inserts = (
        Insert("carriers", "select id, carrier from flights", line=3),
        Insert("counted", f"select id, count(*) from flights where {SLOW} group by id", "update", line=4),
    )
    settings = Settings(checkpoint_interval_ms=2_000, batch_interval_ms=200)
    return Plan((ground.mns(queue, columns),), sinks, (), inserts, settings)


def test_a_job_goes_on_from_its_checkpoint_when_an_executor_and_when_its_worker_dies(
    ground: Ground, service: QueueServiceProcess, queue: str, topic: str, cluster: StandaloneCluster
) -> None:
    ground.queues.set_attributes(queue, {"VisibilityTimeout": 12})
    location, plan = new_location(), plan_of(ground, queue, topic)
    state = Path(lake.lake_path(location))
    environment = {"SPARK_URL": cluster.url, "SPARK_LOCAL_IP": "127.0.0.1"} | SHARE
    sent = 0

    def send(count: int) -> None:
        nonlocal sent
        ground.fill(queue, map(numbered, range(sent, sent + count)))
        sent += count

    def is_busy() -> bool:
        """Whether a batch is under way. That of messages that were sent before may be over on a busy machine."""
        if uncommitted(next(state.glob("run-*")) / "state", "counted"):
            return True
        send(1)
        return False

    with worker(plan, ground, service, location, 1, **environment) as process:
        send(MESSAGES)
        until(lambda: ground.left(queue) == 0)
        first = cluster.executors()[0]
        assert cluster.executors() == [first], "the share is one core"
        words = Path(f"/proc/{first}/cmdline").read_text().split("\0")
        assert words[words.index("--cores") + 1] == "1" and "-Xmx512M" in words
        until(is_busy)
        os.kill(first, signal.SIGKILL)
        until(lambda: ground.left(queue) == 0)
        assert process.poll() is None
        assert cluster.executors() and first not in cluster.executors()

        until(is_busy)
        kill(process)
    with worker(plan, ground, service, location, 2, **environment) as process:
        until(lambda: ground.left(queue) == 0)
        tell(process, "1")
        cluster.worker.kill()
        assert heard(process).startswith("ended: The Spark cluster has had no executor for this worker for 1 s: ")

    # The count of all is kept on the executors: it is what it was, and nothing came a second time.
    counted = {tuple(map(int, line[3:-1].split(", "))) for line in lines_at(location, "counted")}
    assert counted == {(number, 1) for number in range(sent)}
    # What is written comes at least once.
    assert {message.body for message in ground.messages(topic)} == {b"%d,UA" % number for number in range(sent)}
    assert not list(state.glob("run-*/state/source-flights/*.arrow"))


def test_a_start_tells_what_an_executor_lacks(
    ground: Ground, topic: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    (closed,) = free_ports(1)
    key = ground.credentials.access_key_id, ground.credentials.access_key_secret
    here, away = (Topic(place, topic, *key) for place in (ground.namesrv, f"127.0.0.1:{closed}"))
    held = checkpoints.claim(new_location(), 1)
    monkeypatch.setenv("SPARK_URL", "spark://127.0.0.1:7077")
    cluster = Executors(spark)

    monkeypatch.setattr(executors, "PATIENCE_S", 0.0)
    with pytest.raises(EngineBusy, match=r"no executor for this worker for 0 s: .* \(GANTRY_SPARK_CORES bounds "):
        cluster.require(held, [])  # this Spark has none: its tasks run in the driver

    monkeypatch.setattr(Executors, "_any", lambda _: True)
    cluster.require(held, [("late", here)])
    not_shared = checkpoints.claim(new_location(), 2)
    not_shared.state.rmdir()
    with pytest.raises(
        PipelineFailed, match=r"^An executor .* cannot write the folder of the job's state: GANTRY_LAKE "
    ):
        cluster.require(not_shared, [("late", here)])
    with pytest.raises(PipelineFenced):  # nothing is lacking: it is another runner's by now
        cluster.require(replace(not_shared, number=1), [])
    problem = Needs(str(held.state), (("late", away),)).problem()
    assert problem.startswith("An executor of the Spark cluster cannot reach the brokers of the table late. ")
    assert f"No connection to 127.0.0.1:{closed}" in problem
    monkeypatch.setattr(executors, "Needs", OfTests)
    with pytest.raises(
        PipelineFailed, match=r"cannot run Gantry's code \(No module named 'tests'\): it needs the same"
    ):
        cluster.require(held, [])


class OfTests(Needs):
    """Code that is on no machine where tasks run."""
