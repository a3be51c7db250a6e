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

from brokercore.client.errors import ClientError
from gantry_cli.errors import CliError
from tests.chaos.harms import NotBackError, found
from tests.chaos.inflow_figures import Killed, Report
from tests.chaos.inflow_load import PATIENCE, Consumer, Tasks, brief, judge, settle
from tests.chaos.shops import Shop, Writers, shops
from tests.chaos.targets import JOBS_JVM, Targets
from tests.support.disk import folder_or_disk
from tests.support.product import ROOT, SLOWNESS, Product, free_ports

#: Of the product; beside them each database is killed in its turn.
PROCESSES = (JOBS_JVM, "pipelines", "tracking", "broker", "redis")
#: One kill in so many comes before all flows again after the one before.
HASTY = 5
#: Seconds: the longest pause before the next kill; how long a database is away more.
PAUSE, AWAY = 6.0, 3.0
#: Acknowledged changes that may be on their way, and changes a second: with more on their way it is the lower rate.
MOST_BEHIND = 4_000
RATE, RATE_BEHIND = 400.0, 30.0
#: Bytes of the home's disk. It is memory, but only what lies on it.
DISK_BYTES = 8 << 30
KEPT = ROOT / "test-results" / "chaos-inflow"


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

    def kill_all(self, kills: int) -> None:
        """One after the other, each when its part of the changes has flowed, and then the last part.

        Raises NotBackError.
        """
        chance = random.Random(self.report.seed)
        for done, name in enumerate(self._turns(kills, chance), 1):
            is_hasty = chance.randrange(HASTY) == 0 and done < kills
            self._kill(name, f"{done}. {name}", chance, is_hasty=is_hasty)
            self._let_flow(chance.uniform(0, PAUSE))
            while not is_hasty and self.writers.changes < self.changes * done / kills:
                self._let_flow(0.2)

    def until_flows(self, since: float) -> float:
        """When a change that was made after `since` has come out of every topic, epoch s. Raises NotBackError."""
        deadline = time.monotonic() + PATIENCE * SLOWNESS
        asked = 0.0
        while self.consumer.newest() <= since:
            if time.monotonic() - asked > 2:
                asked = time.monotonic()
                for told in self.tasks.told().values():
                    if told["inflow"]["state"] in ("Ready", "Start Failed", "Paused"):
                        raise NotBackError(f"a task has stopped: {brief(told)}")
            if time.monotonic() > deadline:
                now = "; ".join(map(brief, self.tasks.told().values()))
                raise NotBackError(f"not all flows within {PATIENCE:.0f} s: {now}")
            self._let_flow(0.05)
        return time.time()

    def _let_flow(self, seconds: float) -> None:
        """Time passes, and the writers keep in step with what arrives."""
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            is_behind = self.writers.changes - self.consumer.distinct > MOST_BEHIND
            self.writers.go(RATE_BEHIND if is_behind else RATE)
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
            settle(consumer, last)
            report.seconds = time.time() - began
        except (NotBackError, AssertionError, CliError, ClientError) as error:
            report.faults.append(str(error))
            say(str(error))
        finally:
            writers.stop()
            if consumer is not None:
                judge(report, product.demo, watched, tasks, consumer)
                consumer.close()
            writers.tell(report)
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
