"""A cluster with 10,000 names that no account has, adopted by a real worker; JSON on standard output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import django

django.setup()

from brokercore.client import Admin  # noqa: E402
from console.accounts.actor import Actor  # noqa: E402
from console.accounts.models import TenantLimits  # noqa: E402
from console.adoption import queries, services  # noqa: E402
from console.adoption.models import Run, State  # noqa: E402
from console.adoption.preview import preview  # noqa: E402
from console.adoption.queries import Choice  # noqa: E402
from console.instances import broker  # noqa: E402
from console.topics.models import Group, Topic  # noqa: E402
from tests.bench import scale_data  # noqa: E402
from tests.support.many_names import create_groups, create_topics  # noqa: E402
from tests.support.worker import WorkerProcess  # noqa: E402

TOPICS, GROUPS = 6_000, 4_000
_LONGEST_S = 600


def main() -> None:
    """Print the rows as JSON."""
    namesrv = os.environ["GANTRY_NAMESRV"]
    with Admin(namesrv, broker.system_credentials(), timeout_ms=60_000) as admin:
        create_topics(admin, (f"topic-{number:05}" for number in range(TOPICS)), scale_data.QUEUES)
        create_groups(admin, (f"group-{number:05}" for number in range(GROUPS)))
    _, instance = scale_data.make_account(namesrv)
    TenantLimits.objects.create(tenant=instance.tenant, topics=0, groups=0)
    platform = Actor(user=scale_data.give_up(instance), channel="command")
    rows: dict[str, float] = {}
    with _beat(), _worker() as worker:
        _until(lambda: "ready" in worker.log)
        began = time.monotonic()
        names = queries.chosen(instance.cluster, Choice(include="topic-* group-*"))
        rows["asked"] = time.monotonic() - began
        if len(names) != TOPICS + GROUPS:
            raise AssertionError(f"{len(names)} names are there")
        began = time.monotonic()
        preview(names, instance.tenant, instance)
        rows["preview"] = time.monotonic() - began
        began = time.monotonic()
        run = services.adopt(actor=platform, instance=instance, names=names)
        rows["request"] = time.monotonic() - began
        rows["adopt"] = _ended(run, began)
        began = time.monotonic()
        rows["again"] = _ended(services.adopt(actor=platform, instance=instance, names=names), began)
        began = time.monotonic()
        rows["forget"] = _ended(services.undo(actor=platform, run=run), began)
        run = services.adopt(actor=platform, instance=instance, names=names)
        _until(lambda: _done(run) >= len(names) / 2)
        worker.kill()
        rows["before_kill"] = half = _done(run)
        if half == len(names):
            raise AssertionError("the worker was killed too late")
    killed = time.monotonic()
    with _beat(), _worker():
        _until(lambda: _done(run) > half)
        rows["resumed"] = time.monotonic() - killed
        rows["rest"] = _ended(run, time.monotonic())
    if (Topic.objects.count(), Group.objects.count(), _done(run)) != (TOPICS, GROUPS, TOPICS + GROUPS):
        raise AssertionError("names are missing, or there twice")
    json.dump(rows, sys.stdout)


def _done(run: Run) -> int:
    return run.names.filter(state=State.DONE).count()


def _ended(run: Run, began: float) -> float:
    _until(lambda: Run.objects.get(pk=run.pk).ended_at is not None)
    return time.monotonic() - began


def _until(condition: Callable[[], bool]) -> None:
    latest = time.monotonic() + _LONGEST_S
    while not condition():
        if time.monotonic() > latest:
            raise AssertionError("it takes too long")
        time.sleep(0.02)


@contextmanager
def _worker() -> Iterator[WorkerProcess]:
    worker = WorkerProcess({}, threads=4)
    try:
        yield worker
    except BaseException:
        print(worker.log[-3000:], file=sys.stderr)
        raise
    finally:
        worker.kill()


@contextmanager
def _beat() -> Iterator[None]:
    schedule = os.path.join(os.environ["GANTRY_HOME"], "beat-schedule")
    command = [sys.executable, "-m", "celery", "-A", "console.celery", "--quiet", "beat", "-s", schedule, "--pidfile="]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    main()
