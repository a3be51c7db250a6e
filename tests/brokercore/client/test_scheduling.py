"""Scheduler, Periodic and the meter."""

from __future__ import annotations

import threading
from functools import partial

from brokercore.client.consumption import ConsumeMeter
from brokercore.client.errors import RequestTimeout
from brokercore.client.threads import Periodic, Scheduler
from tests.brokercore.client.peer import until


def test_work_runs_in_order_of_its_time_and_survives_failures() -> None:
    scheduler, seen, done = Scheduler("test"), [], threading.Event()

    def fail() -> None:
        seen.append("fail")
        raise ValueError("one piece of work")

    scheduler.call(done.set, 0.1)
    scheduler.call(lambda: seen.append("later"), 0.05)
    scheduler.call(fail)
    scheduler.call(lambda: seen.append("now"))
    assert done.wait(5)
    scheduler.stop()
    scheduler.call(lambda: seen.append("after stop"))
    assert seen == ["fail", "now", "later"]


def test_periodic_work_runs_when_woken_and_goes_on_after_errors() -> None:
    runs: list[int] = []

    def work() -> None:
        runs.append(len(runs))
        if len(runs) == 1:
            raise RequestTimeout("a:1", 5)
        if len(runs) == 2:
            raise ValueError("unexpected")

    periodic = Periodic("test", 3600, work)
    periodic.start()
    for count in range(1, 4):
        periodic.wake()
        until(partial(_has_run, runs, count))
    periodic.stop()
    periodic.stop()


def test_the_meter_tells_rates_and_failures() -> None:
    meter = ConsumeMeter()
    meter.pulled("t", 30, 5.0)
    for success in (True, True, False):
        meter.consumed("t", success, 2.0)
    status = meter.status()["t"]
    assert (status.pull_tps, status.pull_ms, status.consume_ms) == (0.5, 5.0, 2.0)
    assert (status.consume_ok_tps * 60, status.consume_failed_tps * 60, status.consume_failed_messages) == (2, 1, 1)


def _has_run(runs: list[int], count: int) -> bool:
    return len(runs) == count
