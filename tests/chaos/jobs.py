"""`python -m tests.chaos.jobs`: a SQL job, queue to topic, while the processes that it needs are killed by turns.

Each number is sent once. Beside the topic the job counts every number in its state, so that what its source gives twice
shows, whatever the topic's at least once does.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from brokercore.client import Admin, Credentials
from brokercore.smq.client import QueueClient, QueueServiceUnavailable
from brokercore.smq.wire.errors import SmqError
from brokercore.smq.wire.messages import Draft
from gantry_cli import config, transport
from gantry_cli.errors import CliError
from tests.brokercore.crash.records import Client
from tests.chaos.harms import NotBackError, found
from tests.chaos.job_figures import Killed, Report
from tests.chaos.targets import JOBS_JVM, Targets
from tests.support.product import ROOT, SLOWNESS, Product, free_ports

KINDS = (JOBS_JVM, "pipelines", "smq", "broker", "redis")
QUEUE = TOPIC = JOB = "job-kills"
#: How long a message that is being read is hidden, s; the least that the job's interval allows would do.
HIDDEN_S = 30
TEXT = """SET 'execution.checkpointing.interval' = '5s';
CREATE TEMPORARY TABLE numbers (n BIGINT, words STRING) WITH (
  'connector' = 'mns', 'queueName' = '{queue}', 'format' = 'json', 'messageType' = 'RAW', 'batchSize' = '16'
);
CREATE TEMPORARY TABLE written (n BIGINT, words STRING) WITH (
  'connector' = 'mq', 'topic' = '{topic}', 'instanceID' = '{instance}', 'producerGroup' = '{group}',
  'fieldDelimiter' = ','
);
CREATE TEMPORARY TABLE counted (n BIGINT, times BIGINT) WITH ('connector' = 'print');
BEGIN STATEMENT SET;
INSERT INTO written SELECT n, words FROM numbers;
INSERT INTO counted SELECT n, COUNT(*) FROM numbers GROUP BY n;
END;
"""
WORDS = "the quick brown fox jumps over the lazy dog; " * 3
#: One kill in so many comes before the job flows again after the one before.
HASTY = 5
#: Seconds: until the job flows again, at most; and the longest pause before the next kill.
PATIENCE, PAUSE = 240.0, 6.0
#: Messages a second at first, and once all kills are done; the highest, which is no more than a shared disk takes.
FIRST_RATE, MOST_RATE = 60.0, 400.0
BATCH = 16
#: Messages that are kept for after each kill, at least.
AFTER_EACH = 5 * BATCH
KEPT = ROOT / "test-results" / "chaos-jobs"
_PRINTED = re.compile(r"\+I\((\d+), (\d+)\)")


class Numbers:
    """Sends numbers, each once, until so many were acknowledged."""

    def __init__(self, demo: dict[str, Any], count: int, kept: int) -> None:
        self.rate = FIRST_RATE
        #: So many stay to be sent until it is less: after each kill something has to flow.
        self.kept = kept
        #: The highest number that was tried.
        self.tried = 0
        self.acknowledged: set[int] = set()
        self._client = queue_client(demo)
        self._count = count
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="numbers", daemon=True)
        self._thread.start()

    @property
    def left(self) -> int:
        """How many are to be acknowledged still."""
        return self._count - len(self.acknowledged)

    def finish(self) -> None:
        """Wait until all are acknowledged."""
        self.rate, self.kept = MOST_RATE, 0
        self._thread.join()

    def stop(self) -> None:
        """End after what is being sent."""
        self._stopped.set()
        self._thread.join()

    def _work(self) -> None:
        while self.left > 0 and not self._stopped.is_set():
            if self.left <= self.kept:
                self._stopped.wait(0.1)
                continue
            batch = range(self.tried + 1, self.tried + 1 + min(BATCH, self.left))
            self.tried = batch[-1]
            drafts = [Draft(json.dumps({"n": number, "words": WORDS}).encode()) for number in batch]
            # What is not acknowledged may be there all the same; nobody sends it again.
            with suppress(SmqError, QueueServiceUnavailable):
                answers = self._client.send_batch(QUEUE, drafts)
                self.acknowledged |= {
                    n for n, told in zip(batch, answers, strict=True) if not isinstance(told, SmqError)
                }
            self._stopped.wait(BATCH / self.rate)


class Arrivals:
    """What comes out of the topic while the job runs."""

    def __init__(self, demo: dict[str, Any]) -> None:
        keys = demo["access_key_id"], demo["access_key_secret"]
        self._client = Client(
            demo["namesrv"], "consume", TOPIC, group=demo["group"], namespace=demo["instance_id"], keys=keys
        )
        self._seen = 0
        self.highest = 0

    def look(self) -> int:
        """The highest number that has come."""
        records = self._client.records
        for record in records[self._seen :]:
            if record.kind == "received":
                self.highest = max(self.highest, _number(record.body))
        self._seen = len(records)
        return self.highest

    def close(self) -> None:
        """End the consumer."""
        self._client.close()


class Job:
    """The job, by the management API."""

    def __init__(self, demo: dict[str, Any]) -> None:
        self._profile = config.Profile(
            url=demo["console"],
            region=demo["region"],
            access_key_id=demo["access_key_id"],
            access_key_secret=demo["access_key_secret"],
        )
        self._demo = demo

    def start(self) -> None:
        """Make topic and job, and start it."""
        demo = self._demo
        text = TEXT.format(queue=QUEUE, topic=TOPIC, instance=demo["instance_id"], group=demo["group"])
        self._call("topic/create", topic=TOPIC, instanceId=demo["instance_id"], orderType="0", remark="kills")
        self._call("job/create", job=JOB, text=text)
        self._call("job/deploy", job=JOB, text=text)
        self._call("job/start", job=JOB, startFrom="nothing")

    def stop(self) -> None:
        """Ask for its end."""
        self._call("job/stop", job=JOB)

    def told(self) -> dict[str, Any]:
        """What `job/get` answers; nothing while the console does not."""
        with suppress(CliError):
            return dict(self._call("job/get", job=JOB)["data"])
        return {}

    def events(self) -> list[dict[str, Any]]:
        """All that happened to it."""
        return list(self._call("job/events", job=JOB, pageSize="100")["data"])

    def _call(self, path: str, **parameters: str) -> dict[str, Any]:
        return transport.call(self._profile, path, parameters)


def queue_client(demo: dict[str, Any]) -> QueueClient:
    """A client of the copy's queue service."""
    return QueueClient(demo["smq_endpoint"], demo["access_key_id"], demo["access_key_secret"], timeout_s=30)


def run(*, kills: int, messages: int, seed: int, say: Callable[[str], None]) -> Report:
    """Kill so often while so many messages flow, let it settle, and count."""
    report = Report(seed)
    with _copy(report) as product:
        say(f"started in {product.started_in:.0f} s; seed {seed}")
        demo, job = product.demo, Job(product.demo)
        queue_client(demo).create_queue(QUEUE, {"VisibilityTimeout": HIDDEN_S})
        job.start()
        arrivals = Arrivals(demo)
        numbers = Numbers(demo, messages, kept=AFTER_EACH * kills)
        try:
            began = time.time()
            _until_flows(job, arrivals, 0)
            say(f"the job flows after {time.time() - began:.1f} s")
            began = time.time()
            Campaign(report, Targets(product), job, numbers, arrivals, say).kill_all(kills)
            say("no more kills; waiting until all has arrived")
            numbers.finish()
            report.left = _until_empty(demo)
            report.seconds = time.time() - began
            _until_stopped(report, job)
        except (NotBackError, AssertionError, CliError) as error:
            report.faults.append(str(error))
            say(str(error))
        finally:
            numbers.stop()
            arrivals.close()
            report.tried, report.acknowledged = numbers.tried, numbers.acknowledged
            _count(report, product)
            if report.verdict():
                _keep(product, job)
    return report


@contextmanager
def _copy(report: Report) -> Iterator[Product]:
    folder = Path(tempfile.mkdtemp(prefix="gantry-kills-"))
    metrics, *_ = free_ports(1)
    product = Product(folder / "home", {"GANTRY_METRICS_PORT": str(metrics), "GANTRY_APPENDFSYNC": "always"})
    try:
        product.start(seconds=400)
        yield product
        product.stop()
        if left := product.processes():
            report.faults.append(f"left behind after the end: {left}")
    finally:
        if product.process is not None:
            product.process.kill()
            product.process.wait()
            deadline = time.monotonic() + 30
            while product.processes() and time.monotonic() < deadline:  # its guard ends the others
                time.sleep(0.2)
        shutil.rmtree(folder)


@dataclass
class Campaign:
    """What is killed while what flows."""

    report: Report
    targets: Targets
    job: Job
    numbers: Numbers
    arrivals: Arrivals
    say: Callable[[str], None]

    def kill_all(self, kills: int) -> None:
        """One after the other. Raises NotBackError."""
        chance = random.Random(self.report.seed)
        began = time.time()
        for done, name in enumerate(_turns(kills, chance), 1):
            self.numbers.kept = AFTER_EACH * (kills - done)
            self._kill(name, f"{done}. {name}", is_hasty=chance.randrange(HASTY) == 0 and done < kills)
            _pause(chance.uniform(0, PAUSE))
            if left := kills - done:
                wanted = self.numbers.left * done / (left * (time.time() - began))
                self.numbers.rate = max(FIRST_RATE / 4, min(MOST_RATE, wanted))

    def _kill(self, name: str, told: str, *, is_hasty: bool) -> None:
        process = found(self.targets, name)
        kill = Killed(name, time.time(), self.numbers.tried)
        self.report.kills.append(kill)
        with suppress(ProcessLookupError):  # the one before may have taken it with it
            os.kill(process.pid, signal.SIGKILL)
        if is_hasty:
            self.say(f"{told}: the next comes before it flows")
        else:
            kill.flowed = _until_flows(self.job, self.arrivals, kill.sent) - kill.at
            self.say(f"{told}: flows after {kill.flowed:.1f} s")


def _turns(kills: int, chance: random.Random) -> list[str]:
    found: list[str] = []
    while len(found) < kills:
        found += chance.sample(KINDS, len(KINDS))
    return found[:kills]


def _until_flows(job: Job, arrivals: Arrivals, sent: int) -> float:
    """When a message behind `sent` came out of the topic, epoch seconds. Raises NotBackError."""
    deadline = time.monotonic() + PATIENCE * SLOWNESS
    asked = 0.0
    while arrivals.look() <= sent:
        if time.monotonic() - asked > 2:
            asked = time.monotonic()
            told = job.told()
            if told.get("state") in ("failed", "finished", "stopped"):
                raise NotBackError(f"the job is {told['state']}: {told.get('reason')}")
        if time.monotonic() > deadline:
            raise NotBackError(f"the job does not flow within {PATIENCE:.0f} s: {job.told()}")
        _pause(0.05)
    return time.time()


def _until_empty(demo: dict[str, Any]) -> int:
    """Wait until the queue is empty; how many messages stay for a long time."""
    client = queue_client(demo)
    last, since = -1, time.monotonic()
    while True:
        with suppress(SmqError, QueueServiceUnavailable):
            state = client.queue(QUEUE)
            now = state.active + state.inactive + state.delayed
            if now != last:
                last, since = now, time.monotonic()
            if now == 0 or time.monotonic() - since > PATIENCE * SLOWNESS:
                return now
        _pause(0.5)


def _until_stopped(report: Report, job: Job) -> None:
    report.restarts = int(job.told()["restarts"])
    job.stop()
    deadline = time.monotonic() + PATIENCE * SLOWNESS
    while job.told().get("state") != "stopped":
        if time.monotonic() > deadline:
            raise NotBackError(f"the job does not stop: {job.told()}")
        _pause(0.2)


def _count(report: Report, product: Product) -> None:
    """Read the topic, and what the job has counted."""
    for file, content in product.contents():
        if file.name.startswith("print-counted."):
            for number, times in _PRINTED.findall(content.decode()):
                report.counted[int(number)] = max(int(times), report.counted.get(int(number), 0))
        elif file.match("source-numbers/state.json"):
            report.counters.update(json.loads(content)["counters"])
    demo = product.demo
    keys = Credentials(demo["access_key_id"], demo["access_key_secret"])
    with Admin(demo["namesrv"], keys, timeout_ms=30_000) as admin:
        for queue in admin.routes.read_queues(f"{demo['instance_id']}%{TOPIC}"):
            for messages in admin.messages.read_range(queue, admin.offsets.min(queue), admin.offsets.max(queue)):
                for message in messages:
                    number = _number(message.body.decode())
                    report.written.setdefault(number, []).append(message.store_timestamp / 1000)


def _number(body: str) -> int:
    return int(body.partition(",")[0])


def _keep(product: Product, job: Job) -> None:
    """What the processes wrote, the job's events and its state, for whoever looks for the fault."""
    shutil.rmtree(KEPT, ignore_errors=True)
    KEPT.mkdir(parents=True)
    shutil.copytree(product.home / "log", KEPT / "log")
    shutil.copy(product.output, KEPT / "launcher.out")
    for folder in product.home.rglob("gantry-pipelines"):
        shutil.copytree(folder, KEPT / "state", dirs_exist_ok=True)
    with suppress(CliError):
        (KEPT / "events.json").write_text(json.dumps([job.told(), *job.events()], indent=1), encoding="utf-8")


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def main() -> int:
    """Print the table; the status is 1 when anything was lost, doubled or stuck."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.jobs", description=__doc__)
    parser.add_argument("--kills", type=int, default=60, help="how many processes are killed (default 60)")
    parser.add_argument("--messages", type=int, default=100_000, help="how many are acknowledged (default 100,000)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="the same kills again")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended as after Ctrl-C
    report = run(
        kills=arguments.kills,
        messages=arguments.messages,
        seed=arguments.seed,
        say=lambda text: print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True),
    )
    print(f"\n{report}\n", flush=True)
    faults = report.verdict()
    for fault in faults:
        print(fault, flush=True)
    if faults:
        print(f"Logs, events and state are in {KEPT}.", flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
