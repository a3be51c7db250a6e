"""What one account notices while another does its worst within its limits, at each door of a running copy.

The copy is started for it, with two accounts. What the victim notices is measured in quiet first, then beside each
attack. The machine is shared by the product, the probes and the attack, whose process has little priority.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import IO, Any, NamedTuple

from tests.bench import figures
from tests.bench.driver import note
from tests.bench.fairness_attacks import ATTACKS
from tests.bench.fairness_probes import PROBES
from tests.support.product import ROOT, Product

SECONDS = 15.0
"""Of each measurement."""

QUIET_SECONDS = 30.0
WARM_UP_SECONDS = 20.0
RAMP_SECONDS = 3.0
"""Between the full strength of an attack and the measurement."""

AFTER_SECONDS = 90.0
"""At most so long after an attack, until a small query is answered as in quiet."""

SEND_RATIO, SEND_MS, PAGE_MS, QUERY_SECONDS = 3.0, 50.0, 500.0, 5.0
HEAD = (
    "attack", "send p50 ms", "send p99 ms", "to quiet", "page p99 ms", "small query at most, s",
    "broker waits for a processor, %", "held",
)  # fmt: skip

#: Run in the copy's own environment: two accounts, each with an instance, a topic, a group, a key and a schema.
_CODE = """
import json
from console.accounts import services as accounts
from console.accounts.actor import Actor
from console.accounts.models import Organization
from console.instances import services as instances
from console.instances.models import Cluster
from console.catalog.models import Bucket, ExternalTable, Schema
from console.topics import services as topics

organization, _ = Organization.objects.get_or_create(parent=None, name="bench")
known = ExternalTable.objects.get(schema__name="demo", name="flights")
found = {}
for name in ("victim", "attacker"):
    password = accounts.draw_password()
    user = accounts.create_tenant(name=name, organization=organization, password=password)
    actor = Actor(user)
    cluster = Cluster.objects.first().name
    instance = instances.create_instance(actor=actor, cluster=cluster, name="bench", independent_naming=True)
    topic = topics.create_topic(actor=actor, instance=instance, name="orders", order_type=0)
    group = topics.create_group(actor=actor, instance=instance, group_id="GID_orders")
    key = accounts.create_access_key(actor=actor, user=user)
    Bucket.objects.create(tenant=user.tenant, name=f"fairness-{name}")
    schema = Schema.objects.create(tenant=user.tenant, name="bench", location=f"oss://fairness-{name}/bench/")
    ExternalTable.objects.create(
        schema=schema, name="flights", location=f"oss://fairness-{name}/bench/flights/", columns=known.columns,
        format=known.format, partitions=known.partitions, options=known.options,
    )
    physical = topic.physical_name
    found[name] = {
        "username": user.username, "password": password, "key": [key.access_key_id, key.access_key_secret],
        "topic": physical, "group": instance.physical_name("GID_orders"), "instance": physical.partition("%")[0],
    }
print("ACCOUNTS " + json.dumps(found))
"""


class Noticed(NamedTuple):
    """What the victim noticed: durations in ms."""

    send: list[float]
    page: list[float]
    query: list[float]
    waiting: float
    """Percent of the time in which the broker had something to do that no processor was free for it."""

    @property
    def send_p99(self) -> float:
        """Of a send of 1 KB, in ms."""
        return figures.percentile(self.send, 99)

    @property
    def page_p99(self) -> float:
        """Of a page, in ms."""
        return figures.percentile(self.page, 99)

    @property
    def longest_query(self) -> float:
        """Of a small query, in seconds."""
        return max(self.query) / 1000


def main(only: Sequence[str] = ()) -> str:
    """Attack and return the table."""
    rows = []
    with _copy() as (accounts, broker), ExitStack() as stack:
        probes = [stack.enter_context(_probe(kind, accounts["victim"])) for kind in PROBES]
        _ask(probes, WARM_UP_SECONDS, broker)
        quiet = _ask(probes, QUIET_SECONDS, broker)
        note(f"quiet: {_words(quiet)}; load {_load()}")
        rows.append(("(quiet)", *_figures(quiet, quiet), ""))
        for name in only or ATTACKS:
            with _attack(name, accounts["attacker"]):
                time.sleep(RAMP_SECONDS)
                noticed = _ask(probes, SECONDS, broker)
            broken = broken_bounds(noticed, quiet)
            note(f"{name}: {_words(noticed)}; load {_load()}; {'; '.join(broken) or 'held'}")
            rows.append((name, *_figures(noticed, quiet), "no: " + ", ".join(broken) if broken else "yes"))
            _recovered(probes, quiet, broker)
    return figures.table(HEAD, rows) + f"\n\nLoad of the machine at the end (1, 5, 15 minutes): {_load()}"


def broken_bounds(noticed: Noticed, quiet: Noticed) -> list[str]:
    """Which bounds do not hold, in words."""
    broken = []
    if noticed.send_p99 > min(SEND_MS, SEND_RATIO * quiet.send_p99):
        broken.append("send")
    if noticed.page_p99 > PAGE_MS:
        broken.append("page")
    if noticed.longest_query > QUERY_SECONDS:
        broken.append("query")
    return broken


def _figures(noticed: Noticed, quiet: Noticed) -> tuple[str, ...]:
    values = (
        median(noticed.send), noticed.send_p99, noticed.send_p99 / quiet.send_p99, noticed.page_p99,
        noticed.longest_query, noticed.waiting,
    )  # fmt: skip
    return tuple(map(figures.number, values))


def _words(noticed: Noticed) -> str:
    return (
        f"send p50 {median(noticed.send):.1f} p99 {noticed.send_p99:.1f} ms, page p50 {median(noticed.page):.0f}"
        f" p99 {noticed.page_p99:.0f} ms, query p50 {median(noticed.query) / 1000:.2f}"
        f" longest {noticed.longest_query:.2f} s"
    )


def _load() -> str:
    return " ".join(Path("/proc/loadavg").read_text().split()[:3])


@contextmanager
def _copy() -> Iterator[tuple[dict[str, Any], int]]:
    """A copy of its own: its two accounts with where they find everything, and its broker's process id."""
    with tempfile.TemporaryDirectory(prefix="gantry-bench-") as folder:
        product = Product(Path(folder) / "home").start()
        try:
            lake = product.home / "lake"
            for name in ("victim", "attacker"):
                shutil.copytree(lake / "gantry-demo" / "demo" / "flights", lake / f"fairness-{name}/bench/flights")
            done = product.manage("shell", "--no-imports", "-c", _CODE)
            lines = [line for line in done.stdout.splitlines() if line.startswith("ACCOUNTS ")]
            if not lines:
                raise RuntimeError(f"the accounts were not made: {done.stdout}{done.stderr}")
            demo = product.demo
            where = {"console": demo["console"], "sql": demo["sql"], "broker": demo["namesrv"]}
            rows = json.loads(lines[0].removeprefix("ACCOUNTS "))
            yield {name: row | where for name, row in rows.items()}, product.pid_of("-m brokercore")
        finally:
            product.stop()


@contextmanager
def _child(module: str, word: str, account: dict[str, Any]) -> Iterator[tuple[IO[str], IO[str]]]:
    """A process of the bench with its account: its input and its output."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"tests.bench.{module}", word],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(account) + "\n")
        process.stdin.flush()
        yield process.stdin, process.stdout
    finally:
        process.stdin.close()
        try:
            process.wait(150)
        except subprocess.TimeoutExpired:
            process.kill()


@contextmanager
def _probe(kind: str, account: dict[str, Any]) -> Iterator[tuple[IO[str], IO[str]]]:
    with _child("fairness_probes", kind, account) as pipes:
        yield pipes


@contextmanager
def _attack(name: str, account: dict[str, Any]) -> Iterator[None]:
    with _child("fairness_attacks", name, account) as (into, out):
        if out.readline().strip() != "ready":
            raise RuntimeError(f"the attack {name!r} did not begin")
        yield
        into.close()
        note(f"{name}: it did {out.readline().strip()}")


def _ask(probes: list[tuple[IO[str], IO[str]]], seconds: float, broker: int) -> Noticed:
    """Let all probes measure at the same time."""
    ran, waited = _processor_seconds(broker)
    for into, _ in probes:
        into.write(f"{seconds}\n")
        into.flush()
    send, page, query = (json.loads(out.readline()) for _, out in probes)
    ran, waited = (after - before for after, before in zip(_processor_seconds(broker), (ran, waited), strict=True))
    return Noticed(send, page, query, 100 * waited / (ran + waited))


def _processor_seconds(pid: int) -> tuple[float, float]:
    """How long the first thread of a process has run, and how long it could have run but no processor was free."""
    ran, waited = Path(f"/proc/{pid}/schedstat").read_text().split()[:2]
    return int(ran) / 1e9, int(waited) / 1e9


def _recovered(probes: list[tuple[IO[str], IO[str]]], quiet: Noticed, broker: int) -> None:
    """Wait until a small query is answered as in quiet again: the next attack is measured by itself."""
    end = time.monotonic() + AFTER_SECONDS
    while time.monotonic() < end:
        if _ask(probes, 1.0, broker).longest_query <= 2 * quiet.longest_query:
            return
