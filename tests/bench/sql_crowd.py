"""Figures of many statements at a time: a large result, a crowd of accounts, long scans, cancelling, a dead JVM."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from statistics import median

from tests.bench import figures, sql_setup
from tests.bench import sql_statements as statements
from tests.support import processes
from tests.support.product import Product, eventually
from tests.support.sql_client import SqlClient

FIFTY = 50
CANCELS = 10
SHORTS = 10
Rows = list[tuple[str, str, str]]
Key = tuple[str, str]


def client_of(product: Product, key: Key) -> SqlClient:
    """A client of one of the bench's accounts."""
    return SqlClient(product.demo, user=key[0], password=key[1], database="bench")


def large_result(product: Product, mine: SqlClient, other: Key) -> tuple[float, Rows]:
    """Seconds for a result of 5,000,000 rows; memory around it, and another account's short queries meanwhile."""
    worker, jvm = _worker_and_jvm(product)
    before = {pid: processes.resident_bytes([pid]) for pid in (worker, jvm)}
    peaks = dict(before)
    with client_of(product, other) as short, _beside(lambda: _short(short)) as waits:
        task = mine.submit(statements.RESULT)
        while (row := mine.task(task))["status"] == "RUNNING":
            peaks = {pid: max(peak, processes.resident_bytes([pid])) for pid, peak in peaks.items()}
            time.sleep(0.1)
    if row["status"] != "SUCCESS" or row["row_count"] != sql_setup.RESULT_ROWS:
        raise RuntimeError(f"the large result failed: {row['message']}")
    name = f"result of {sql_setup.RESULT_ROWS:,} rows"
    rows = [
        (f"{name}: {what}, MB before", _megabytes(before[pid]), f"{_megabytes(peaks[pid])} at most meanwhile")
        for what, pid in (("JVM", jvm), ("worker process", worker))
    ]
    rows.append((f"{name}: another account's short query; median, s", *_median_and_most(waits)))
    alone = mine.ended(mine.submit(statements.RESULT), seconds=300)
    return float(alone["elapse_time"]) / 1000, rows


def fifty(product: Product, keys: list[Key]) -> Rows:
    """50 small queries, the first account's 32 before two of each other account: total, and when each has its own."""
    with ExitStack() as stack:
        clients = [stack.enter_context(client_of(product, key)) for key in keys]
        others = len(clients) - 1
        numbers = [FIFTY - 2 * others] + [2] * others
        began = time.monotonic()
        tasks = [
            [client.submit(statements.small(number)) for number in range(count)]
            for client, count in zip(clients, numbers, strict=True)
        ]
        with ThreadPoolExecutor(len(clients)) as threads:
            done = list(threads.map(_finish_times, clients, tasks, [began] * len(clients)))
    small = sorted(times[-1] for times in done[1:])
    return [
        (f"{FIFTY} queries of {len(clients)} accounts at once; s", figures.number(max(map(max, done))), ""),
        (f"of them 2 of each of {others} accounts: both done; s, median", *_median_and_most(small)),
        (f"of them {numbers[0]} of one account, submitted before; s", figures.number(done[0][-1]), ""),
    ]


def _finish_times(client: SqlClient, ids: list[str], began: float) -> list[float]:
    """Seconds from `began` to the end of each task."""
    times = []
    for task in ids:
        client.ended(task, seconds=300, every=0.02)
        times.append(time.monotonic() - began)
    return times


def short_beside_scans(product: Product, mine: SqlClient, other: Key) -> Rows:
    """An account's short query while another one scans twice."""
    scans = [mine.submit(statements.scan()) for _ in range(2)]
    eventually(lambda: all(mine.task(task)["mpp_query_id"] for task in scans))
    with client_of(product, other) as short:
        waits = [_short(short) for _ in range(SHORTS)]
    if any(mine.task(task)["status"] != "RUNNING" for task in scans):
        raise RuntimeError("the scans ended before the short queries")
    for task in scans:
        mine.cancel(task)
        mine.ended(task)
    return [("short query beside two long scans of another account; median, s", *_median_and_most(waits, bar=2.0))]


def cancelling(mine: SqlClient) -> Rows:
    """From the request to the end of the task, with its jobs running."""
    times = []
    for _ in range(CANCELS):
        task = mine.submit(statements.scan())
        eventually(lambda task=task: mine.task(task)["mpp_query_id"])  # type: ignore[misc]
        time.sleep(1)
        began = time.monotonic()
        mine.cancel(task)
        if mine.ended(task, every=0.02)["status"] != "CANCELLED":
            raise RuntimeError("a statement ended before it was cancelled")
        times.append(time.monotonic() - began)
    return [("cancelled; median of 10, s", *_median_and_most(times, bar=2.0))]


def after_a_death(product: Product, client: SqlClient) -> Rows:
    """From the death of the JVM to the next statement's success."""
    _, jvm = _worker_and_jvm(product)
    task = client.submit(statements.scan("flights", "tailnum"))
    eventually(lambda: client.task(task)["mpp_query_id"])
    os.kill(jvm, signal.SIGKILL)
    began = time.monotonic()
    row = client.ended(client.submit(statements.small(1)), seconds=120)
    seconds = time.monotonic() - began
    client.cancel(task)
    if row["status"] != "SUCCESS":
        raise RuntimeError(f"the statement after the death failed: {row['message']}")
    return [("death of the JVM to the next success; s", figures.number(seconds), "20")]


def _short(client: SqlClient) -> float:
    began = time.monotonic()
    if client.ended(client.submit(statements.SHORT), every=0.02)["status"] != "SUCCESS":
        raise RuntimeError("a short query failed")
    return time.monotonic() - began


@contextmanager
def _beside(work: Callable[[], float]) -> Iterator[list[float]]:
    """Do `work` again and again in a thread while the block runs; gives the list of what it returned."""
    answers: list[float] = []
    over = threading.Event()

    def repeat() -> None:
        while not over.is_set():
            answers.append(work())

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield answers
    finally:
        over.set()
        thread.join()


def _worker_and_jvm(product: Product) -> tuple[int, int]:
    """The Spark worker and its JVM: the largest process under it."""
    worker = product.pid_of("-Q spark")
    return worker, max(processes.children(worker), key=lambda pid: processes.resident_bytes([pid]))


def _median_and_most(seconds: list[float], bar: float | None = None) -> tuple[str, str]:
    most = f"{figures.number(max(seconds))} at most"
    return figures.number(median(seconds)), f"{most}; bar {bar:g}" if bar else most


def _megabytes(number: int) -> str:
    return figures.number(number / 1e6)
