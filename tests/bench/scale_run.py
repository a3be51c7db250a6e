"""A large cluster in one process: fill it, sample it, time each list; JSON on standard output."""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import django

django.setup()

from django.db import connection  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import CaptureQueriesContext  # noqa: E402
from django.urls import reverse  # noqa: E402

from analytics.samples import files  # noqa: E402
from analytics.specs import Sample  # noqa: E402
from brokercore.client import Admin, Credentials  # noqa: E402
from console.accounts.models import User  # noqa: E402
from console.drift import sweep  # noqa: E402
from console.instances import broker  # noqa: E402
from console.instances.models import Cluster  # noqa: E402
from console.metrics import sampler  # noqa: E402
from tests.bench import scale_data  # noqa: E402

PERIOD_S, LEAST_PAUSE_S = 10, 5
READINGS = 7
"""After the first one; a minute's samples go to the lake meanwhile."""
ACTIVE = 1000
"""Topics that get a message between two readings, others each time."""
WARM_UP, VISITS = 3, 20
MOST_MS = 5_000
TICKS = os.sysconf("SC_CLK_TCK")
Rows = dict[str, Any]


def main() -> None:
    """Print the rows as JSON."""
    own, *others = brokers = json.loads(os.environ["BENCH_BROKERS"])
    with ThreadPoolExecutor(len(brokers)) as workers:
        list(workers.map(_fill, brokers))
    user, instance = scale_data.make_account(
        own["namesrv"], [(one["namesrv"], one["key"], one["secret"]) for one in others]
    )
    files.append([Sample(int(time.time() * 1000), "in", "*nothing", "", 0, 1.0)])  # what a worker loads once
    told("the clusters are filled")
    large, *rest = Cluster.objects.order_by("pk")
    before = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
    rows: Rows = {"one": _readings([large], own["pids"])}
    rows["memory_mb"] = _memory("VmHWM") - before
    rows["five"] = _readings([large, *rest], [pid for one in brokers for pid in one["pids"]])
    for one in (instance, *(scale_data.on_another(instance, cluster) for cluster in rest)):
        scale_data.fill_database(one)
    told("the database is filled")
    rows["pages"] = _pages(user, instance.instance_id)
    member = scale_data.make_member(instance.tenant)
    topics, groups = (reverse(name, args=[instance.instance_id]) for name in ("topics.list", "groups.list"))
    rows["pages"] |= _timed(member, {"topics, RAM user": topics})
    limited = scale_data.make_limited_member(instance.tenant)
    rows["pages"] |= _timed(limited, {"topics, RAM user, 50 denials": topics, "groups, RAM user, 50 denials": groups})
    scale_data.lose_topics(instance)
    sweep.sweep(large)
    rows["pages"] |= _timed(user, {"drift, 20,000 differences": reverse("drift.index")})
    platform = scale_data.give_up(instance)
    rows["pages"] |= _timed(
        platform,
        {"unowned names": reverse("adoption.unowned", args=[large.pk]), "clusters": reverse("platform.clusters")},
    )
    json.dump(rows, sys.stdout)


def _fill(one: Rows) -> None:
    with Admin(one["namesrv"], Credentials(one["key"], one["secret"]), timeout_ms=60_000) as admin:
        scale_data.fill_cluster(admin)


def told(text: str) -> None:
    """Progress, for who waits."""
    print(text, file=sys.stderr, flush=True)


def _readings(clusters: list[Cluster], pids: list[int]) -> list[Rows]:
    """Readings of these clusters at once: seconds of the clock, and processor time of this process and the brokers."""
    names, taken = scale_data.topic_names(), list[Rows]()
    began = time.time()
    with ThreadPoolExecutor(len(clusters)) as workers:
        for number in range(READINGS + 1):
            if number:
                for cluster in clusters:
                    scale_data.send(broker.producer(cluster), names[number :: len(names) // ACTIVE])
            time.sleep(max(LEAST_PAUSE_S, began + PERIOD_S - time.time()))
            began, busy, theirs = time.time(), time.process_time(), _busy(pids)
            if not all(workers.map(sampler.sample_cluster, clusters)):
                raise AssertionError("a cluster was not sampled")
            seconds = time.time() - began
            taken.append({"seconds": seconds, "busy": time.process_time() - busy, "broker": _busy(pids) - theirs})
            told(f"{len(clusters)} sampled: {taken[-1]}")
    return taken


def _memory(name: str) -> float:
    """A figure of this process's memory in MB, after what nobody needs is given back."""
    gc.collect()
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:"))


def _busy(pids: Iterable[int]) -> float:
    """Processor seconds that these processes have used."""
    found = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        found += int(fields[11]) + int(fields[12])
    return found / TICKS


def _pages(user: User, instance: str) -> Rows:
    statistics, topic, group = reverse("metrics.index", args=[instance]), "topic-00007", "GID_00007"
    return _timed(
        user,
        {
            "overview": reverse("instances.overview"),
            "overview, figures": reverse("instances.overview_figures"),
            "overview, picture": reverse("instances.overview_history"),
            "topics": reverse("topics.list", args=[instance]),
            "topics, the last page": reverse("topics.list", args=[instance]) + "?page=1000",
            "topics, a search": reverse("topics.list", args=[instance]) + "?q=999",
            "groups": reverse("groups.list", args=[instance]),
            "statistics of topics": statistics,
            "statistics of groups": f"{statistics}?tab=groups",
            "a topic's curve": reverse("metrics.topic", args=[instance, topic]),
            "dead letters": reverse("messaging.dead_letter_index", args=[instance]),
            "dead letters of a group": reverse("messaging.dead_letters", args=[instance, group]),
            "consumer status": reverse("messaging.status", args=[instance, group]),
            "message search": reverse("messaging.search", args=[instance]),
            "shared topics": reverse("grants.index") + "?tab=by",
            "drift, no difference": reverse("drift.index"),
        },
    )


def _timed(user: User, addresses: dict[str, str]) -> Rows:
    """Milliseconds of the clock and of this process, bytes and queries of each page, through all middleware."""
    browser = Client(headers={"host": "127.0.0.1"})
    browser.force_login(user, "allauth.account.auth_backends.AuthenticationBackend")
    return {name: _page(browser, address) for name, address in addresses.items()}


def _page(browser: Client, address: str) -> Rows:
    times: list[float] = []
    busy: list[float] = []
    for _ in range(WARM_UP + VISITS):
        began, began_busy = time.perf_counter(), time.process_time()
        answer = browser.get(address)
        times.append((time.perf_counter() - began) * 1000)
        busy.append((time.process_time() - began_busy) * 1000)
        if answer.status_code != 200:
            raise AssertionError(f"{address}: {answer.status_code}")
        if len(times) > WARM_UP and sum(times) > MOST_MS:
            break  # far over the limit already
    with CaptureQueriesContext(connection) as captured:
        answer = browser.get(address)
    told(f"{address}: {median(busy[WARM_UP:]):.0f} ms of a processor, {len(answer.content)} bytes")
    return {"times": times[WARM_UP:], "busy": busy[WARM_UP:], "bytes": len(answer.content), "queries": len(captured)}


if __name__ == "__main__":
    main()
