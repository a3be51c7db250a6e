"""One run: start, load, harm after harm, let it settle, read everything again, and judge."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pymysql

from brokercore.client import Admin, Credentials, MessageQueue
from tests.chaos import harms
from tests.chaos.figures import Report
from tests.chaos.harms import DISK, Harm, NotBackError
from tests.chaos.load import Load
from tests.chaos.shops import postgres_shop
from tests.chaos.targets import Targets
from tests.support.disk import ROOT_ONLY, folder_or_disk
from tests.support.product import ROOT, SLOWNESS, Product, eventually, free_ports
from tests.support.sql_client import SqlClient

#: Bytes of the copy's disk. It is memory, but only what lies on it.
DISK_BYTES = 8 << 30

#: Once all harm is done: seconds without another message, ended task or notice after which no more is waited for.
SETTLING = 180.0

#: Seconds until the copy is ready, at most: the other suites of the tests may start beside it.
START = 400.0

#: Messages that are acknowledged between two harms at least, and the longest pause (seconds) after these.
BETWEEN, PAUSE = 100, 4.0

#: Where the logs and the records of a run with faults are kept.
KEPT = ROOT / "test-results" / "chaos"

Say = Callable[[str], None]


def run(deeds: Callable[[Targets], Iterable[Harm]], *, seed: int, rate: int, minutes: float, say: Say) -> Report:
    """Do `deeds` until they end or `minutes` have passed; what came of it."""
    report = Report(seed=seed)
    chance = random.Random(f"{seed} pauses")
    with postgres_shop() as shop, _copy(report) as (product, disk):
        targets = Targets(product)
        say(f"started in {product.started_in:.0f} s; seed {seed}, {rate} messages a second")
        records = product.home.with_name(f"{product.home.name}.records")
        records.mkdir()
        load = Load(product.demo, records, shop, rate=rate, seed=seed)
        try:
            began = time.monotonic()
            for harm in deeds(targets):
                load.producer.wait_for_more("acknowledged", BETWEEN)
                threading.Event().wait(chance.uniform(0, PAUSE))
                if time.monotonic() > began + minutes * 60:
                    break
                if harm.kind == DISK and disk is None:
                    report.left_out = f"disk full: {ROOT_ONLY}"
                    continue
                took = harms.do(harm, targets, disk)
                report.harmed(harm, took)
                back = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in took.items())
                say(f"{harm}{': back after ' if back else ''}{back}")
            load.producer.wait_for_more("acknowledged", BETWEEN)
            report.seconds = time.monotonic() - began
        except (NotBackError, AssertionError) as error:
            report.faults.append(str(error))
            say(str(error))
        try:
            load.stop()
            say("no more harm; waiting until all has arrived")
            _settle(load, report)
            _read_again(product.demo, load, report)
        finally:
            load.close()
            if report.verdict():
                _keep(product, load, records)
            shutil.rmtree(records)
    return report


@contextmanager
def _copy(report: Report) -> Iterator[tuple[Product, Path | None]]:
    """A running copy whose home is a disk of its own where one can be had, and that disk."""
    with folder_or_disk(DISK_BYTES) as (home, mounted):
        metrics, *_ = free_ports(1)
        # Only a disk that is slow can cost a Redis of `everysec` what it has acknowledged; a disk in memory is not.
        flush = "everysec" if mounted else "always"
        product = Product(home, {"GANTRY_METRICS_PORT": str(metrics), "GANTRY_APPENDFSYNC": flush})
        try:
            product.start(seconds=START)
            yield product, home if mounted else None
            product.stop()
            if left := product.processes():
                report.faults.append(f"left behind after the end: {left}")
        finally:
            if product.process is not None:
                product.process.kill()
                product.process.wait()
                # Its guard ends the others; a disk that is in use cannot go.
                with suppress(AssertionError):
                    eventually(lambda: not product.processes(), what="the guard has ended all")
            product.output.unlink(missing_ok=True)


def _settle(load: Load, report: Report) -> None:
    """Wait until what was acknowledged was received, every task has ended and was told; count what did not."""
    acknowledged = load.producer.bodies("acknowledged")
    wanted, tasks = set(acknowledged), set(load.statements.tasks)
    report.lost |= _what_stays(lambda: wanted - set(load.consumer.bodies("received")))
    received = Counter(load.consumer.bodies("received"))
    report.sent, report.acknowledged = load.producer.count("sent"), len(acknowledged)
    report.received, report.received_again = len(received), received.total() - len(received)
    report.tasks, report.statements_refused = len(tasks), load.statements.counts["refused"]
    report.stuck = _until_ended(load, tasks, report)
    report.missing = _what_stays(lambda: tasks - report.stuck - load.told)
    report.notices = load.notices.count("received")
    sent, queue = load.queue_sender.acknowledged, load.queue_receiver.received
    report.queue_lost = _what_stays(lambda: sent - set(queue))
    report.queue_acknowledged, report.queue_received = len(sent), queue.total()
    report.pages = load.pages.counts
    report.changes = load.inflow.settled()


def _what_stays(waiting: Callable[[], set[str]]) -> set[str]:
    """What is still waited for when for a long time nothing of it has come."""
    last, since = waiting(), time.monotonic()
    while last and time.monotonic() < since + SETTLING * SLOWNESS:
        threading.Event().wait(1)
        if len(now := waiting()) < len(last):
            since = time.monotonic()
        last = now
    return last


def _until_ended(load: Load, tasks: set[str], report: Report) -> set[str]:
    """Wait for the tasks; those that do not end. The report gets the messages of those that failed."""
    running = set(tasks)

    def look() -> set[str]:
        with suppress(pymysql.err.Error, OSError), SqlClient(load.demo, timeout=30) as client:
            for task in sorted(running):
                row = client.task(task)
                if row["status"] != "RUNNING":
                    running.discard(task)
                    if row["status"] != "SUCCESS":
                        report.failed[task] = f"{row['status']}: {row['message']}"
        return set(running)

    return _what_stays(look)


def _read_again(demo: dict[str, Any], load: Load, report: Report) -> None:
    """Every message that was acknowledged, from the place that its acknowledgement named."""
    topic = f"{demo['instance_id']}%{demo['topic']}"
    stored: dict[tuple[str, int, int], str] = {}
    keys = Credentials(demo["access_key_id"], demo["access_key_secret"])
    with Admin(demo["namesrv"], keys, timeout_ms=30_000) as admin:
        for queue in admin.routes.read_queues(topic):
            stored |= _stored(admin, queue)
    found = 0
    for record in load.producer.named("acknowledged"):
        _, broker, queue_id, offset = record.more.split()
        if stored.get((broker, int(queue_id), int(offset))) == record.body:
            found += 1
        else:
            report.lost.add(record.body)
    report.read_again = found
    copies = Counter(stored.values())
    report.stored_again = copies.total() - len(copies)


def _stored(admin: Admin, queue: MessageQueue) -> dict[tuple[str, int, int], str]:
    found = {}
    for messages in admin.messages.read_range(queue, admin.offsets.min(queue), admin.offsets.max(queue)):
        for message in messages:
            found[queue.broker_name, queue.queue_id, message.queue_offset] = message.keys
    return found


def _keep(product: Product, load: Load, records: Path) -> None:
    """What the processes and the clients wrote, for whoever looks for the fault."""
    shutil.rmtree(KEPT, ignore_errors=True)
    KEPT.mkdir(parents=True)
    shutil.copytree(product.home / "log", KEPT / "log")
    shutil.copytree(records, KEPT / "records")
    shutil.copy(product.output, KEPT / "launcher.out")
    for name, client in (("producer", load.producer), ("consumer", load.consumer), ("notices", load.notices)):
        with suppress(OSError):
            shutil.copy(client.path, KEPT / "records" / name)
