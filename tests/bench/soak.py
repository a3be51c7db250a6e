"""What a long run near the limit does to the embedded broker: latency and memory, minute by minute.

Messages of 1 KB are sent from 16 threads at a share of the highest rate, which short bursts find, both with a
consumer beside. Messages leave after six minutes, so that the store reaches a steady size and retention works
all the time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from tests.bench import broker_lines, contenders, figures
from tests.bench.broker_lines import Course
from tests.bench.driver import Driver, class_path, note
from tests.support import processes

THREADS = 16
BYTES = 1024
BURST_SECONDS = 8
BURSTS = 3
RETENTION_HOURS = "0.1"
HEAD = ("minute", "sent a second", "received a second", "p50 ms", "p99 ms", "longest ms", "broker MB", "Redis MB")

Minute = tuple[float, ...]


def main(minutes: int, share: float) -> str:
    """Run it and return the table."""
    with tempfile.TemporaryDirectory(prefix="gantry-soak-") as folder:
        environment = {"GANTRY_STORE_RETENTION_HOURS": RETENTION_HOURS}
        with (
            contenders.embedded(Path(folder), False, **environment) as target,
            closing(Driver(class_path(), target.namesrv, contenders.TENANT)) as driver,
        ):
            course = Course(target, driver, False, 1.0)
            broker_lines.warm_up(course)
            burst = f"burst {contenders.PACED} {contenders.PACED_GROUP} {THREADS} {BURST_SECONDS} {BYTES}"
            highest = max(driver.ask(burst)[0] for _ in range(BURSTS))
            rate = int(highest * share)
            note(f"highest rate {highest:,.0f} msg/s; now {rate:,} msg/s for {minutes} minutes")
            found, totals = _soak(course, rate, minutes)
    lost = totals[0] - totals[1]
    return "\n\n".join(
        (
            f"Highest rate {highest:,.0f} msg/s; {rate:,} msg/s for {minutes} minutes: {totals[0]:,.0f} sent, "
            f"{lost:,.0f} not received, {totals[2]:,.0f} sends failed.",
            figures.table(HEAD, _rows(found)),
        )
    )


def _soak(course: Course, rate: int, minutes: int) -> tuple[list[Minute], list[float]]:
    found: list[Minute] = [(0, 0, 0, 0, 0, 0, *_megabytes(course))]
    before = [0.0, 0.0]

    def progress(line: str) -> None:
        sent, received, failures, *times = (float(word) for word in line.split()[1:])
        seconds = min(60, minutes * 60)
        rates = (sent - before[0]) / seconds, (received - before[1]) / seconds
        before[:] = sent, received
        found.append((len(found), *rates, *times, *_megabytes(course)))
        note(" | ".join(figures.number(value) for value in found[-1]) + f" | {failures:.0f} failed")

    place = f"{contenders.PACED} {contenders.PACED_GROUP} {THREADS} {rate} {minutes * 60} {BYTES}"
    totals = course.driver.ask(f"soak {place}", minutes * 60 + 180, progress)
    return found, totals


def _megabytes(course: Course) -> list[float]:
    return [processes.resident_bytes([pid]) / 1e6 for pid in course.target.pids]


def _rows(found: list[Minute]) -> Iterable[tuple[str, ...]]:
    """The start, then about ten rows to the end."""
    step = max(1, (len(found) - 1) // 10)
    for minute in found:
        if minute[0] % step == 0 or minute is found[-1]:
            yield f"{minute[0]:.0f}", *(figures.number(value) if value else "" for value in minute[1:])
