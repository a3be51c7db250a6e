"""`python -m tests.chaos.inflow`: changes of two databases into topics, while all that they pass is killed by turns.

Several writers change the same rows and note what was acknowledged as committed; what the topics have is judged by
reading them, never by what the product counts.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from brokercore.client import Admin, Credentials, LitePullConsumer, MessageQueue
from brokercore.client.errors import ClientError
from gantry_cli import config, transport
from gantry_cli.errors import CliError
from tests.chaos.harms import NotBackError, found
from tests.chaos.inflow_figures import Arrival, Change, Killed, Report
from tests.chaos.shops import ROWS, Shop, Writers, change_of, shops
from tests.chaos.targets import JOBS_JVM, Targets
from tests.support.disk import folder_or_disk
from tests.support.product import ROOT, SLOWNESS, Product, free_ports

#: Of the product; beside them each database is killed in its turn.
PROCESSES = (JOBS_JVM, "pipelines", "tracking", "broker", "redis")
GROUP, PASSWORD = "kills", "kills-of-13-things"
#: One kill in so many comes before all flows again after the one before.
HASTY = 5
#: Seconds: until all flows again, at most; the longest pause before the next kill; how long a database is away more.
PATIENCE, PAUSE, AWAY = 240.0, 6.0, 3.0
#: Changes a second at first, and the bounds of it: the highest is no more than a shared machine takes.
FIRST_RATE, LEAST_RATE, MOST_RATE = 100.0, 30.0, 400.0
#: Acknowledged changes that may be on their way; with more of them the rate is the least until some have arrived.
MOST_BEHIND = 4_000
#: Bytes of the home's disk. It is memory, but only what lies on it.
DISK_BYTES = 8 << 30
KEPT = ROOT / "test-results" / "chaos-inflow"


class Tasks:
    """A change tracking task and an inflow task for each database, by the management API."""

    def __init__(self, demo: dict[str, Any], watched: tuple[Shop, ...]) -> None:
        self._profile = config.Profile(
            url=demo["console"],
            region=demo["region"],
            access_key_id=demo["access_key_id"],
            access_key_secret=demo["access_key_secret"],
        )
        self._instance = demo["instance_id"]
        self._shops = watched
        self._tracking: dict[str, str] = {}

    def start(self) -> None:
        """Make topics and tasks, and start them. Raises CliError and NotBackError."""
        for shop in self._shops:
            topic = topic_of(shop)
            for name, order in ((topic, "1"), (dead_of(shop), "0")):
                self._call("topic/create", topic=name, instanceId=self._instance, orderType=order, remark="kills")
            made = self._call("tracking/create", name=topic, retentionDays="1", **shop.tracked)["data"]
            self._tracking[shop.name] = made["task"]
            self._call("tracking/createGroup", task=made["task"], group=GROUP, account=GROUP, password=PASSWORD)
        for shop in self._shops:
            self._until_normal(shop)
            told = json.dumps(self._document(shop))
            self._call("inflow/create", document=told, account=GROUP, password=PASSWORD)

    def told(self) -> dict[str, dict[str, Any]]:
        """What `tracking/get` and `inflow/get` answer of each; nothing while the console does not."""
        told = {}
        for shop in self._shops:
            with suppress(CliError):
                tracking = self._call("tracking/get", task=self._tracking[shop.name])["data"]
                told[shop.name] = {
                    "tracking": tracking,
                    "inflow": self._call("inflow/get", task=topic_of(shop))["data"],
                }
        return told

    def _document(self, shop: Shop) -> dict[str, Any]:
        return {
            "name": topic_of(shop),
            "source": {"task": self._tracking[shop.name], "group": GROUP, "messages": 200, "interval": 0},
            "sink": {
                "topic": topic_of(shop), "instanceID": self._instance, "ordered": True,
                "body": {"method": "data_extraction", "path": "$.data.after"},
            },
            # A database, a broker or a Redis may be away for longer than three further tries take.
            "retry": "exponential",
            "deadLetterTopic": dead_of(shop),
        }  # fmt: skip

    def _until_normal(self, shop: Shop) -> None:
        deadline = time.monotonic() + PATIENCE * SLOWNESS
        while (told := self._call("tracking/get", task=self._tracking[shop.name])["data"])["state"] != "Normal":
            if time.monotonic() > deadline:
                raise NotBackError(f"change tracking of {shop.name} does not begin: {told}")
            _pause(0.5)

    def _call(self, path: str, **parameters: str) -> dict[str, Any]:
        return transport.call(self._profile, path, parameters)


class Received(NamedTuple):
    """A message: its change, and when the broker stored it, epoch seconds."""

    change: Change
    at: float


class Consumer:
    """Reads the topics of both databases from their beginning, and keeps what it has received by its place."""

    def __init__(self, demo: dict[str, Any], watched: tuple[Shop, ...]) -> None:
        #: By queue and offset.
        self.received: dict[tuple[MessageQueue, int], Received] = {}
        #: Places where another message was received than before.
        self.differing: list[str] = []
        self._changes: set[Change] = set()
        self._shops = {topic_of(shop): shop.name for shop in watched}
        #: By topic and row: when the newest of its changes that has come was made, epoch seconds.
        self._newest: dict[str, dict[int, float]] = {topic: {} for topic in self._shops}
        self._client = LitePullConsumer(
            demo["namesrv"], _keys(demo), demo["group"], namespace=demo["instance_id"], auto_commit=False,
            consume_from="CONSUME_FROM_FIRST_OFFSET", timeout_ms=10_000,
        )  # fmt: skip
        self._client.assign(queue for topic in self._shops for queue in self._client.fetch_queues(topic))
        self._client.start()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="consumer", daemon=True)
        self._thread.start()

    @property
    def distinct(self) -> int:
        """How many changes have come."""
        return len(self._changes)

    def newest(self) -> float:
        """Of each database the newest change that has come; when the older one of them was made, epoch seconds."""
        return min(max(rows.values(), default=0.0) for rows in self._newest.values())

    def oldest(self) -> float:
        """The same with the newest change of each row."""
        return min(min(rows.values()) if len(rows) == ROWS else 0.0 for rows in self._newest.values())

    def arrivals(self) -> list[Arrival]:
        """All that was received, in the order of its queue."""
        return [
            Arrival(one.change, f"{queue.broker_name} {queue.queue_id}", one.at)
            for (queue, _), one in sorted(self.received.items())
        ]

    def close(self) -> None:
        """End it."""
        self._stopped.set()
        self._thread.join()
        self._client.close()

    def _work(self) -> None:
        while not self._stopped.is_set():
            for message in self._client.poll(0.5, 1000):
                row = json.loads(message.body)
                one = Received(change_of(self._shops[message.topic], row), message.store_timestamp_ms / 1000)
                place = message.queue, message.queue_offset
                if self.received.setdefault(place, one).change != one.change:
                    self.differing.append(f"{message.queue} {message.queue_offset}")
                self._changes.add(one.change)
                rows = self._newest[message.topic]
                rows[row["id"]] = max(row["made"] / 1000, rows.get(row["id"], 0.0))


@dataclass
class Campaign:
    """What is killed while what flows."""

    report: Report
    targets: Targets
    shops: tuple[Shop, ...]
    tasks: Tasks
    writers: Writers
    consumer: Consumer
    #: Changes that are to be acknowledged in all.
    changes: int
    say: Callable[[str], None]
    #: Changes a second that are wanted now.
    rate: float = FIRST_RATE

    def kill_all(self, kills: int) -> None:
        """One after the other, and then what is left of the changes. Raises NotBackError."""
        chance = random.Random(self.report.seed)
        began = time.time()
        for done, name in enumerate(self._turns(kills, chance), 1):
            self._kill(name, f"{done}. {name}", chance, is_hasty=chance.randrange(HASTY) == 0 and done < kills)
            self._let_flow(chance.uniform(0, PAUSE))
            if left := kills - done:
                wanted = (self.changes - self.writers.changes) * done / (left * (time.time() - began))
                self.rate = max(LEAST_RATE, min(MOST_RATE, wanted))
        self.rate = MOST_RATE
        while self.writers.changes < self.changes:
            self._let_flow(0.5)

    def until_flows(self, since: float) -> float:
        """When a change that was made after `since` has come out of every topic, epoch s. Raises NotBackError."""
        deadline = time.monotonic() + PATIENCE * SLOWNESS
        asked = 0.0
        while self.consumer.newest() <= since:
            if time.monotonic() - asked > 2:
                asked = time.monotonic()
                for told in self.tasks.told().values():
                    if told["inflow"]["state"] in ("Ready", "Start Failed", "Paused"):
                        raise NotBackError(f"a task has stopped: {_brief(told)}")
            if time.monotonic() > deadline:
                now = "; ".join(map(_brief, self.tasks.told().values()))
                raise NotBackError(f"not all flows within {PATIENCE:.0f} s: {now}")
            self._let_flow(0.05)
        return time.time()

    def _let_flow(self, seconds: float) -> None:
        """Time passes, and the writers keep in step with what arrives."""
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            is_behind = self.writers.changes - self.consumer.distinct > MOST_BEHIND
            self.writers.go(LEAST_RATE if is_behind else self.rate)
            _pause(min(left, 0.2))

    def _turns(self, kills: int, chance: random.Random) -> list[str]:
        kinds = [*PROCESSES, *(shop.name for shop in self.shops)]
        turns: list[str] = []
        while len(turns) < kills:
            turns += chance.sample(kinds, len(kinds))
        return turns[:kills]

    def _kill(self, name: str, told: str, chance: random.Random, *, is_hasty: bool) -> None:
        shop = next((one for one in self.shops if one.name == name), None)
        process = found(self.targets, name) if shop is None else None
        kill = Killed(name, time.time())
        self.report.kills.append(kill)
        if shop is not None:
            shop.kill()
            self._let_flow(chance.uniform(0, AWAY))
            shop.start()
        elif process is not None:
            with suppress(ProcessLookupError):  # the one before may have taken it with it
                os.kill(process.pid, signal.SIGKILL)
        if is_hasty:
            self.say(f"{told}: the next comes before all flows")
        else:
            kill.flowed = self.until_flows(kill.at) - kill.at
            self.say(f"{told}: flows after {kill.flowed:.1f} s")


def run(*, kills: int, changes: int, seed: int, say: Callable[[str], None]) -> Report:
    """Kill so often while so many changes flow, let it settle, and count."""
    report = Report(seed)
    with shops() as watched, _copy(report) as product:
        say(f"started in {product.started_in:.0f} s; seed {seed}, appendfsync {report.flush}")
        tasks = Tasks(product.demo, watched)
        writers = Writers(watched, seed)
        consumer: Consumer | None = None
        try:
            tasks.start()
            consumer = Consumer(product.demo, watched)
            campaign = Campaign(report, Targets(product), watched, tasks, writers, consumer, changes, say)
            began = time.time()
            campaign.until_flows(began)
            say(f"all flows after {time.time() - began:.1f} s")
            began = time.time()
            campaign.kill_all(kills)
            say(f"no more kills, {writers.changes:,} changes; waiting until all has arrived")
            last = time.time()
            writers.change_everything()
            _settle(consumer, last)
            report.seconds = time.time() - began
        except (NotBackError, AssertionError, CliError, ClientError) as error:
            report.faults.append(str(error))
            say(str(error))
        finally:
            writers.stop()
            if consumer is not None:
                _count(report, product.demo, watched, tasks, consumer)
                consumer.close()
            report.tried, report.acknowledged = writers.transactions, writers.acknowledged()
            report.committed = writers.committed()
            if report.verdict():
                _keep(product, report, tasks)
    return report


@contextmanager
def _copy(report: Report) -> Iterator[Product]:
    """A running copy with the settings of `make up`, on a disk of its own where one can be had.

    Only a disk that is slow can cost a Redis of `everysec` what it has acknowledged; a disk in memory is not.
    """
    with folder_or_disk(DISK_BYTES) as (folder, mounted):
        metrics, *_ = free_ports(1)
        report.flush = "everysec" if mounted else "always"
        environ = {"GANTRY_METRICS_PORT": str(metrics), "GANTRY_APPENDFSYNC": report.flush}
        product = Product(folder / "home", environ)
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


def topic_of(shop: Shop) -> str:
    """The topic of a database's changes, and the name of its tasks."""
    return f"kills-{shop.name}"


def dead_of(shop: Shop) -> str:
    """The topic of its dead letters."""
    return f"kills-{shop.name}-dead"


def _brief(told: dict[str, Any]) -> str:
    """State and reason of both tasks of a database."""
    tracking, inflow = told["tracking"], told["inflow"]
    said = [tracking[part] for part in ("state", "code", "reason")]
    said += [inflow[part] for part in ("state", "reason", "waiting")]
    return f"{inflow['task']}: {', '.join(filter(None, said))}"


def _settle(consumer: Consumer, last: float) -> None:
    """Wait until every row's last change has come, or nothing has come for a long time."""
    count, since = -1, time.monotonic()
    while consumer.oldest() < last and time.monotonic() - since < PATIENCE * SLOWNESS:
        if len(consumer.received) != count:
            count, since = len(consumer.received), time.monotonic()
        _pause(0.5)


def _count(report: Report, demo: dict[str, Any], watched: tuple[Shop, ...], tasks: Tasks, consumer: Consumer) -> None:
    """Read the topics once more, and ask for what was counted."""
    for told in tasks.told().values():
        report.counters.update(told["inflow"]["counters"])
        report.restarts += told["inflow"]["restarts"]
        if told["tracking"]["state"] != "Normal" or told["inflow"]["state"] != "Running":
            report.faults.append(f"A task does not run at the end: {_brief(told)}")
    again = Consumer(demo, watched)
    try:
        with Admin(demo["namesrv"], _keys(demo), timeout_ms=30_000) as admin:

            def stored(topic: str) -> int:
                queues = admin.routes.read_queues(f"{demo['instance_id']}%{topic}")
                return sum(admin.offsets.max(queue) - admin.offsets.min(queue) for queue in queues)

            report.dead = sum(stored(dead_of(shop)) for shop in watched)
            count = sum(stored(topic_of(shop)) for shop in watched)
        deadline = time.monotonic() + PATIENCE * SLOWNESS
        while len(again.received) < count and time.monotonic() < deadline:
            _pause(0.2)
        report.arrivals = again.arrivals()
        missing = [place for place, one in consumer.received.items() if again.received.get(place) != one]
        if missing or consumer.differing:
            text = "messages were received and are not where they were"
            report.faults.append(f"{len(missing)} {text}: {[*map(str, missing[:10]), *consumer.differing[:10]]}")
    finally:
        again.close()


def _keep(product: Product, report: Report, tasks: Tasks) -> None:
    """What the processes wrote, the tasks, their logs and states, for whoever looks for the fault."""
    shutil.rmtree(KEPT, ignore_errors=True)
    KEPT.mkdir(parents=True)
    shutil.copytree(product.home / "log", KEPT / "log")
    shutil.copy(product.output, KEPT / "launcher.out")
    for name in ("gantry-pipelines", "gantry-tracking"):
        for folder in product.home.rglob(name):
            shutil.copytree(folder, KEPT / name, dirs_exist_ok=True)
    (KEPT / "tasks.json").write_text(json.dumps(tasks.told(), indent=1), encoding="utf-8")
    kept = {
        "kills": [vars(kill) for kill in report.kills],
        "acknowledged": [[*change, at] for change, at in report.acknowledged.items()],
        "committed": sorted(report.committed),
        "arrivals": [[*one.change, one.queue, one.at] for one in report.arrivals],
    }
    (KEPT / "changes.json").write_text(json.dumps(kept), encoding="utf-8")


def _keys(demo: dict[str, Any]) -> Credentials:
    return Credentials(demo["access_key_id"], demo["access_key_secret"])


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def main() -> int:
    """Print the table; the status is 1 when anything was lost, out of order or stuck."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.inflow", description=__doc__)
    parser.add_argument("--kills", type=int, default=40, help="how many processes are killed (default 40)")
    parser.add_argument("--changes", type=int, default=200_000, help="how many are acknowledged (default 200,000)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="the same kills again")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended as after Ctrl-C
    logging.getLogger("brokercore.client").setLevel(logging.CRITICAL)  # it tells each pull that a kill has met
    report = run(
        kills=arguments.kills,
        changes=arguments.changes,
        seed=arguments.seed,
        say=lambda text: print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True),
    )
    print(f"\n{report}\n", flush=True)
    faults = report.verdict()
    for fault in faults:
        print(fault, flush=True)
    if faults:
        print(f"Logs, changes and states are in {KEPT}.", flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
