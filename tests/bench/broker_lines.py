"""The lines of the comparison of brokers: what is asked of a running broker, and which figures come of it.

A step yields figures under the names of its lines. The messages of a step are chosen so that it takes some seconds on
2 cores; what comes before it warms up both the broker and the client's own code.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.bench import contenders
from tests.bench.contenders import Target
from tests.bench.driver import Driver, LineFailedError
from tests.support import processes

BATCH = 32
BATCH_THREADS = 16
BACKLOG_MESSAGES = 200_000
PACED_RATE = 500
CONSUMERS = 200
TOPICS = 1000
TOPIC_QUEUES = 4
SEND_BYTES = {"128 B": 128, "1 KB": 1024, "64 KB": 65_536}
SENDS = {1: (1_500, 1_500, 400), 16: (8_000, 8_000, 1_000), 64: (12_000, 12_000, 1_200)}
"""Threads, and messages for each size."""

SYNCHRONOUS_SHARE = 0.4
"""With synchronous flush so many of them are sent: each takes longer."""


class Figure(NamedTuple):
    """A figure of one round. `cpu` is CPU time in ms for 1,000 messages, None where it makes no sense."""

    value: float
    high_is_better: bool
    cpu: float | None = None


Figures = dict[str, Figure]


class Course(NamedTuple):
    """One broker under one driver; `share` is the part of the messages that is sent (a quick run takes fewer)."""

    target: Target
    driver: Driver
    synchronous: bool
    share: float

    def count(self, messages: int) -> int:
        """So many messages, in this run."""
        return max(64, int(messages * self.share * (SYNCHRONOUS_SHARE if self.synchronous else 1.0)))

    def cpu_ms(self) -> float:
        """CPU time of the broker's processes so far."""
        return processes.cpu_seconds(self.target.pids) * 1000

    def megabytes(self) -> float:
        """Resident memory of the broker's processes."""
        return processes.resident_bytes(self.target.pids) / 1e6


def warm_up(course: Course) -> Figures:
    """Sends of every kind that count for nothing."""
    for threads, messages, size in ((16, 6000, 1024), (1, 600, 128), (16, 200, 65_536), (64, 4000, 1024)):
        course.driver.ask(f"send {contenders.LOAD} {threads} {course.count(messages)} {size}")
    return {}


def idle_memory(course: Course) -> Figures:
    """Start-up time, and memory before anything was sent."""
    time.sleep(1)
    return {
        "start-up; s": Figure(course.target.start_seconds, False),
        "memory, idle; MB": Figure(course.megabytes(), False),
    }


def sends(size: str) -> Callable[[Course], Figures]:
    """Synchronous sends of one size from 1, 16 and 64 threads."""

    def step(course: Course) -> Figures:
        found: Figures = {}
        for threads, counts in SENDS.items():
            number = course.count(counts[list(SEND_BYTES).index(size)])
            command = f"send {contenders.LOAD} {threads} {number} {SEND_BYTES[size]}"
            with _cpu(course) as cpu:
                rate, p50, p99, failures = course.driver.ask(command)
            _none_failed(course, failures)
            name = f"send {size}, {threads} thread{'s' if threads > 1 else ''}"
            found[f"{name}; msg/s"] = Figure(rate, True, cpu[0] * 1000 / number)
            found[f"({name}; p50 ms)"] = Figure(p50, False)
            found[f"({name}; p99 ms)"] = Figure(p99, False)
        return found

    return step


def batches(course: Course) -> Figures:
    """Batches of 32 messages of 1 KB, until the backlog is there; the memory it takes."""
    wanted = course.count(BACKLOG_MESSAGES) // BATCH // BATCH_THREADS * BATCH_THREADS
    first = wanted // 10 // BATCH_THREADS * BATCH_THREADS
    command = f"batch {contenders.BACKLOG} {BATCH_THREADS} {{}} 1024 {BATCH}"
    _none_failed(course, course.driver.ask(command.format(first))[3])
    with _cpu(course) as cpu:
        rate, _, _, failures = course.driver.ask(command.format(wanted - first))
    _none_failed(course, failures)
    line = {f"send batches of {BATCH}, 1 KB; msg/s": Figure(rate, True, cpu[0] * 1000 / ((wanted - first) * BATCH))}
    if course.synchronous:
        return line
    return line | {f"memory with {wanted * BATCH // 1000},000 messages; MB": Figure(course.megabytes(), False)}


def consumption(course: Course) -> Figures:
    """A push consumer takes the backlog."""
    wanted = course.count(BACKLOG_MESSAGES) // BATCH // BATCH_THREADS * BATCH_THREADS * BATCH
    with _cpu(course) as cpu:
        rate, received = course.driver.ask(f"consume {contenders.BACKLOG} {contenders.GROUP} {wanted}")
    return {"consume the backlog, push; msg/s": Figure(rate, True, cpu[0] * 1000 / received)}


def latency(course: Course) -> Figures:
    """From the time a message was due to its delivery, at a moderate rate."""
    seconds = max(2, round((4 if course.synchronous else 6) * course.share))
    topic, group = contenders.PACED, contenders.PACED_GROUP
    with _cpu(course) as cpu:
        p50, p99, p999, missing = course.driver.ask(f"latency {topic} {group} {PACED_RATE} {seconds} 1024")
    if missing:
        raise LineFailedError(f"{missing:.0f} messages did not come")
    name, spent = f"end to end at {PACED_RATE} msg/s", cpu[0] * 1000 / (PACED_RATE * (seconds + 2))
    return {
        f"{name}, p50; ms": Figure(p50, False, spent),
        f"{name}, p99; ms": Figure(p99, False),
        f"{name}, p99.9; ms": Figure(p999, False),
    }


def idle_consumers(course: Course) -> Figures:
    """What many consumers that only wait cost, and what a sender beside them notices."""
    place = f"{contenders.IDLE} {contenders.IDLE_GROUP} {CONSUMERS} {contenders.QUEUES}"
    course.driver.ask(f"idle {place} {course.target.broker}")
    try:
        time.sleep(1)
        with _cpu(course) as cpu:
            begin = time.monotonic()
            time.sleep(max(1.0, 5 * course.share))
            seconds = time.monotonic() - begin
        megabytes = course.megabytes()
        _, p50, p99, failures = course.driver.ask(f"send {contenders.LOAD} 1 {course.count(1500)} 1024")
    finally:
        course.driver.ask("leave")
    _none_failed(course, failures)
    name = f"{CONSUMERS} waiting consumers"
    return {
        # A tick of the clock at least: what did not use any is not infinitely better.
        f"{name}: CPU ms a second": Figure(max(cpu[0], 10.0) / seconds, False),
        f"{name}: memory; MB": Figure(megabytes, False),
        f"{name}: send 1 KB, p50; ms": Figure(p50, False),
        f"{name}: send 1 KB, p99; ms": Figure(p99, False),
    }


def many_topics(course: Course) -> Figures:
    """Many topics are created, their routes are read, and messages are sent over all of them."""
    topics, prefix = int(TOPICS * min(1.0, course.share)), f"{contenders.PREFIX}many"
    course.driver.ask(f"create {prefix}warm 50 {TOPIC_QUEUES}")
    created, failures = course.driver.ask(f"create {prefix} {topics} {TOPIC_QUEUES}")
    _none_failed(course, failures)
    read, failures = course.driver.ask(f"route {prefix} {topics}")
    _none_failed(course, failures)
    spread = f"spread {prefix} {topics} 16 {{}} 1024"
    course.driver.ask(spread.format(2 * topics))  # the producer learns the routes
    number = course.count(8000)
    with _cpu(course) as cpu:
        rate, _, _, failures = course.driver.ask(spread.format(number))
    _none_failed(course, failures)
    name = f"{topics:,} topics"
    return {
        f"{name}: created a second": Figure(created, True),
        f"{name}: routes read a second": Figure(read, True),
        f"{name}: send 1 KB, 16 threads; msg/s": Figure(rate, True, cpu[0] * 1000 / number),
    }


Step = Callable[[Course], Figures]

#: Steps by the word that chooses them; all in this order, since the first need an empty store.
STEPS: dict[str, tuple[Step, ...]] = {
    "start": (idle_memory,),
    "batch": (batches,),
    "consume": (consumption,),
    "send": tuple(sends(size) for size in SEND_BYTES),
    "latency": (latency,),
    "idle": (idle_consumers,),
    "topics": (many_topics,),
}
SYNCHRONOUS_STEPS = ("batch", "send", "latency")
"""The others write nothing, or nothing that has to be on disk."""


@contextmanager
def _cpu(course: Course) -> Iterator[list[float]]:
    """CPU ms that the broker's processes use inside."""
    found = [0.0]
    before = course.cpu_ms()
    yield found
    found[0] = course.cpu_ms() - before


def _none_failed(course: Course, failures: float) -> None:
    if failures:
        raise LineFailedError(f"{failures:.0f} requests failed: {course.driver.last_errors()}")
