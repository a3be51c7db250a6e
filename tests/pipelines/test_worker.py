"""The worker of pipelines as `make up` starts it, on real parts: text, plan, claim, Spark; and what stays after kills.

Worker, JVM and readers are killed as by a machine that loses its power; the next worker goes on from the checkpoint.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings as django_settings
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from analytics import wall
from brokercore.smq.client import QueueClient
from brokercore.smq.wire.messages import Draft
from console.accounts.crypto import encrypt
from console.instances import broker as clients
from console.instances.models import Cluster
from console.jobs import services as jobs
from console.pipelines import journal, lifecycle, queries, samples, services, suspects
from console.pipelines.models import Pipeline, StartFrom, State
from tests.console.beside import OTHER_KEY, OTHER_SECRET, other_broker
from tests.support.broker import BrokerProcess, eventually
from tests.support.cast import Cast, cast, console, make_instance, make_topic, queues, running_queues
from tests.support.queue_service import QueueServiceProcess

__all__ = ["cast", "console", "other_broker", "queues", "running_queues"]
pytestmark = [pytest.mark.spark, pytest.mark.django_db(transaction=True), pytest.mark.timeout(1200)]
PATIENCE_SECONDS = 180.0
ENGINE_LOST = 70
TEXT = """SET 'execution.checkpointing.interval' = '2s';
SET 'execution.batch-interval' = '500ms';
CREATE TEMPORARY TABLE numbers (n STRING) WITH ('connector' = 'mns', 'queueName' = 'numbers', 'format' = 'raw',
  'batchSize' = '16', 'pollingWaitTime' = '1s');
CREATE TEMPORARY TABLE seen (n STRING, times BIGINT) WITH ('connector' = 'print');
INSERT INTO seen SELECT n, COUNT(*) FROM numbers GROUP BY n;
"""
ENDLESS = """CREATE TEMPORARY TABLE made (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1');
CREATE TEMPORARY TABLE nowhere (n BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO nowhere SELECT n FROM made;
"""
ENDS = """SET 'execution.runtime-mode' = 'batch';
CREATE TEMPORARY TABLE made (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '5',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '5');
CREATE TEMPORARY TABLE seen (n BIGINT) WITH ('connector' = 'print');
INSERT INTO seen SELECT n FROM made;
"""
#: Sends to a topic of the account's own, which the next ones name.
SENDS = """SET 'execution.runtime-mode' = 'batch';
CREATE TEMPORARY TABLE made (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '5',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '5');
CREATE TEMPORARY TABLE sent (n BIGINT) WITH ('connector' = 'mq', 'instanceID' = '{}', 'topic' = '{}',
  'producerGroup' = 'GID_sends', 'fieldDelimiter' = ',');
INSERT INTO sent SELECT n FROM made;
"""
#: Each row takes two gigabytes, which is more than the engine has.
EXHAUSTS = """CREATE TEMPORARY TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '5',
  'fields.n.min' = '1', 'fields.n.max' = '9');
CREATE TEMPORARY TABLE dropped (n INT) WITH ('connector' = 'blackhole');
INSERT INTO dropped SELECT CHAR_LENGTH(REPEAT(REPEAT(CAST(n AS STRING), 1000000), 2000)) FROM ticks;
"""


class WorkerProcess:
    """`celery worker -Q pipelines` on the test's database."""

    def __init__(self, broker: BrokerProcess, queues: QueueServiceProcess, **environment: str) -> None:
        self._log = tempfile.NamedTemporaryFile("w+", prefix="gantry-worker-", suffix=".log")  # noqa: SIM115
        environ = (
            os.environ
            | {
                "DATABASE_URL": f"sqlite:///{connection.settings_dict['NAME']}",
                "REDIS_URL": broker.redis_url,
                "GANTRY_NAMESRV": broker.namesrv,
                "GANTRY_EMBEDDED_BROKER": "true",
                "GANTRY_MASTER_KEY": broker.master_key,
                "GANTRY_BROKER_ACCESS_KEY_ID": broker.access_key_id,
                "GANTRY_BROKER_ACCESS_KEY_SECRET": broker.access_key_secret,
                "GANTRY_SMQ_ADDRESS": queues.address,
                "GANTRY_SMQ_PORT": str(queues.port),
                "GANTRY_WARM_PIPELINES": "true",
                "CELERY_SKIP_CHECKS": "true",
                "SPARK_URL": "local[2]",
            }
            | environment
        )
        command = [sys.executable, "-m", "celery", "-A", "console.celery", "--quiet", "worker", "-Q", "pipelines"]
        command += ["-P", "threads", "-c", "2", "-n", f"pipelines-{uuid.uuid4().hex}@%h", "--loglevel", "INFO"]
        command += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        self.process = subprocess.Popen(
            command,
            env=environ,
            cwd=django_settings.BASE_DIR,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    @property
    def log(self) -> str:
        return Path(self._log.name).read_text(encoding="utf-8", errors="replace")

    def jvm(self) -> int | None:
        """Process id of the JVM below the worker."""
        return next((pid for pid in _below(self.process.pid) if _name(pid) == "java"), None)

    def kill(self) -> None:
        """End it with all below it, at once."""
        for pid in [*_below(self.process.pid), self.process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


def _below(pid: int) -> list[int]:
    """All processes that it has started, and those that they have."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *_below(child)]
    return found


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


@pytest.fixture
def start_worker(broker: BrokerProcess, queues: QueueServiceProcess) -> Iterator[Callable[..., WorkerProcess]]:
    """Starts workers; all are killed at the end."""
    workers: list[WorkerProcess] = []

    def start(**environment: str) -> WorkerProcess:
        workers.append(WorkerProcess(broker, queues, **environment))
        return workers[-1]

    yield start
    for worker in workers:
        worker.kill()


@pytest.fixture
def numbers(cast: Cast, queues: QueueServiceProcess) -> Iterator[QueueClient]:
    """A queue of acme's own."""
    client = QueueClient(
        queues.address, queues.access_key_id, queues.access_key_secret, account=cast.acme.uid, timeout_s=40
    )
    client.create_queue("numbers", {"VisibilityTimeout": 10})
    yield client
    client.close()


def started(cast: Cast, text: str, name: str) -> Pipeline:
    actor = cast.actor("alice")
    job = services.create(actor=actor, name=name)
    jobs.deploy(actor=actor, pipeline=job, text=text)
    job = Pipeline.objects.select_related("version", "tenant").get(pk=job.pk)
    jobs.start(actor=actor, pipeline=job, start_from=StartFrom.NOTHING)
    job.refresh_from_db()
    return job


def fill(client: QueueClient, numbers: range) -> None:
    for begin in range(numbers.start, numbers.stop, 16):
        client.send_batch("numbers", [Draft(b"%d" % n) for n in range(begin, min(begin + 16, numbers.stop))])


def left(client: QueueClient) -> int:
    found = client.queue("numbers")
    return found.active + found.inactive + found.delayed


def is_in(job: Pipeline, state: State) -> bool:
    lifecycle.sweep()  # as the beat does
    job.refresh_from_db()
    return job.state == state


def wait(condition: Callable[[], bool], worker: WorkerProcess) -> None:
    def met() -> bool:
        assert worker.process.poll() is None, worker.log[-4000:]
        return condition()

    try:
        eventually(met, PATIENCE_SECONDS)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{worker.log[-4000:]}") from error


def printed(job: Pipeline) -> set[str]:
    return {line.text for line in journal.lines(job.pk) if line.level == "print"}


def test_a_killed_worker_or_engine_costs_no_message_and_none_counts_twice(
    cast: Cast, numbers: QueueClient, start_worker: Callable[[], WorkerProcess]
) -> None:
    job = started(cast, TEXT, "counts")
    fill(numbers, range(40))
    first = start_worker()
    wait(lambda: is_in(job, State.RUNNING) and left(numbers) == 0, first)

    fill(numbers, range(40, 80))
    first.kill()
    # The lease of a dead worker ends after a while; here it ends at once.
    Pipeline.objects.filter(pk=job.pk).update(heartbeat_at=timezone.now() - lifecycle.LEASE - timedelta(seconds=1))
    second = start_worker()
    wait(lambda: is_in(job, State.RUNNING) and left(numbers) == 0, second)
    assert job.restarts >= 1

    jvm = second.jvm()
    assert jvm is not None
    fill(numbers, range(80, 120))
    os.kill(jvm, signal.SIGKILL)
    assert second.process.wait(PATIENCE_SECONDS) == ENGINE_LOST, second.log[-4000:]
    job.refresh_from_db()
    assert (job.state, job.worker) == (State.STARTING, "")
    assert (job.losses, job.deaths) == (1, 0), "who is killed from outside is not to blame"
    third = start_worker()
    wait(lambda: is_in(job, State.RUNNING) and left(numbers) == 0, third)
    wait(lambda: printed(job) >= {f"+I({n}, 1)" for n in range(120)}, third)
    assert printed(job) == {f"+I({n}, 1)" for n in range(120)}

    services.stop(actor=cast.actor("alice"), pipeline=job, with_savepoint=True)
    wait(lambda: is_in(job, State.STOPPED), third)
    savepoint = job.savepoints.get()
    fences = [event.fence for event in job.events.filter(kind="claimed").order_by("pk")]
    assert fences == list(range(1, len(fences) + 1)) and len(fences) >= 3
    now = samples.latest([job.pk])[job.pk]
    assert now.point.state_rows == 120

    fill(numbers, range(120, 130))
    jobs.start(actor=cast.actor("alice"), pipeline=job, start_from=StartFrom.SAVEPOINT, savepoint=savepoint)
    wait(lambda: is_in(job, State.RUNNING) and left(numbers) == 0, third)
    wait(lambda: f"+I({129}, 1)" in printed(job), third)
    third.process.send_signal(signal.SIGTERM)
    assert third.process.wait(PATIENCE_SECONDS) == 0, third.log[-4000:]
    job.refresh_from_db()
    assert (job.state, job.worker) == (State.STARTING, "")


def test_a_batch_job_runs_to_its_end_and_a_refused_one_fails_for_good(
    cast: Cast, numbers: QueueClient, start_worker: Callable[[], WorkerProcess]
) -> None:
    job = started(cast, ENDS, "ends")
    refused = started(cast, TEXT, "refused")
    numbers.delete_queue("numbers")
    worker = start_worker()
    wait(lambda: is_in(job, State.FINISHED), worker)
    wait(lambda: printed(job) == {f"+I({n})" for n in range(1, 6)}, worker)
    wait(lambda: is_in(refused, State.FAILED), worker)
    assert refused.reason.startswith("The queue numbers of the table numbers cannot be read: ")
    assert refused.restarts == 0


def test_a_worker_of_one_job_has_a_jvm_for_it_alone_and_a_third_job_waits(
    cast: Cast, start_worker: Callable[..., WorkerProcess], settings: Settings
) -> None:
    settings.PIPELINES_PER_WORKER = 1  # of the web processes, whose pages tell what a job waits for
    workers = [start_worker(GANTRY_PIPELINES_PER_WORKER="1") for _ in range(2)]
    by_process = {worker.process.pid: worker for worker in workers}
    every = [started(cast, ENDLESS, name) for name in ("first", "second", "third")]

    def held() -> list[Pipeline]:
        return [job for job in every if is_in(job, State.RUNNING)]

    wait(lambda: len(held()) == 2, workers[0])
    (one, other), (third,) = held(), [job for job in every if job.state != State.RUNNING]
    of_one, of_other = (by_process[int(job.worker.split(":")[1])] for job in (one, other))
    assert of_one is not of_other
    jvms = of_one.jvm(), of_other.jvm()
    assert None not in jvms and jvms[0] != jvms[1]
    wait(lambda: queries.waits_for(third) != "", of_other)
    assert queries.waits_for(third) == (
        "It waits for a worker with a free place; each runs one job at a time (GANTRY_PIPELINES_PER_WORKER)."
    )
    third.refresh_from_db()
    assert (third.state, third.worker, third.fence) == (State.STARTING, "", 0)

    assert jvms[0] is not None
    os.kill(jvms[0], signal.SIGKILL)
    assert of_one.process.wait(PATIENCE_SECONDS) == ENGINE_LOST, of_one.log[-4000:]
    assert is_in(one, State.STARTING) and one.losses == 1
    assert is_in(other, State.RUNNING) and (other.fence, of_other.jvm()) == (1, jvms[1])

    services.stop(actor=cast.actor("alice"), pipeline=other)
    wait(lambda: is_in(other, State.STOPPED) and is_in(third, State.RUNNING), of_other)
    assert is_in(one, State.STARTING) and of_other.jvm() == jvms[1]


@pytest.mark.skipif(not wall.is_available() or bool(wall.shortcoming()), reason="the wall is not whole")
def test_a_cluster_that_is_added_is_reached_by_an_engine_that_starts_again_once_nothing_runs_in_it(
    cast: Cast, other_broker: BrokerProcess, start_worker: Callable[..., WorkerProcess]
) -> None:
    busy = started(cast, ENDLESS, "busy")
    worker = start_worker(GANTRY_ENGINE_PORTS="")
    wait(lambda: is_in(busy, State.RUNNING), worker)
    first = worker.jvm()

    added = Cluster.objects.create(
        name="added", region=cast.cluster.region, namesrv=other_broker.namesrv,
        access_key_id=OTHER_KEY, secret_encrypted=encrypt(OTHER_SECRET),
    )  # fmt: skip
    topic = make_topic(cast.alice, make_instance(cast.alice, added, name="there"), "sent")
    sends = started(cast, SENDS.format(topic.instance.instance_id, topic.name), "sends")

    def sent() -> int:
        stats = clients.admin(added).topics.stats(topic.physical_name)
        return sum(queue.max_offset for queue in stats.values())

    wait(lambda: is_in(sends, State.STARTING) and sends.reason != "", worker)
    assert sends.reason.startswith("The engine started before these brokers were known, and may not connect to them")
    assert (sends.failures, sent()) == (0, 0)
    assert is_in(busy, State.RUNNING) and (busy.restarts, worker.jvm()) == (0, first), "nobody is disturbed for it"

    services.stop(actor=cast.actor("alice"), pipeline=busy)
    wait(lambda: is_in(busy, State.STOPPED), worker)
    Pipeline.objects.filter(pk=sends.pk).update(due_at=None)
    wait(lambda: is_in(sends, State.FINISHED), worker)
    assert (sends.failures, sent()) == (0, 5)
    assert worker.jvm() not in (None, first)
    jobs.start(actor=cast.actor("alice"), pipeline=busy, start_from=StartFrom.NOTHING)
    wait(lambda: is_in(busy, State.RUNNING), worker)


@pytest.mark.timeout(1800)
def test_a_job_that_ends_its_engine_each_time_fails_and_the_one_beside_it_loses_nothing(
    cast: Cast, numbers: QueueClient, start_worker: Callable[[], WorkerProcess]
) -> None:
    healthy, killer = started(cast, TEXT, "counts"), started(cast, EXHAUSTS, "exhausts")
    workers = [start_worker()]
    sent = range(0, 20)
    fill(numbers, sent)

    def is_found() -> bool:
        nonlocal sent
        status = workers[-1].process.poll()
        if is_in(killer, State.FAILED):  # which is written before the process ends
            return True
        if status is not None:
            assert status == ENGINE_LOST, workers[-1].log[-4000:]
            fill(numbers, range(sent.stop, sent.stop + 20))
            sent = range(sent.stop + 20)
            workers.append(start_worker())
        return False

    eventually(is_found, 8 * PATIENCE_SECONDS)
    assert killer.reason.startswith(f"Its engine ended {suspects.MOST_DEATHS} times in a row soon after it had begun")
    workers[-1].process.wait(PATIENCE_SECONDS)
    workers.append(start_worker())
    wait(lambda: is_in(healthy, State.RUNNING) and left(numbers) == 0, workers[-1])
    wait(lambda: printed(healthy) >= {f"+I({n}, 1)" for n in sent}, workers[-1])
    assert printed(healthy) == {f"+I({n}, 1)" for n in sent}
    assert healthy.restarts <= suspects.SUSPECT_AFTER + 1, "it waits while the other one ends engines alone"
    assert len(workers) >= suspects.MOST_DEATHS + 1
