"""Send and consume rates, latency, CPU time and memory of the embedded broker beside Apache RocketMQ.

Both are driven by the same Java client, in turn, each round from an empty store. The client takes most of a small
machine itself, so the ratio of the rates understates the difference: compare the CPU time for the same work too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from tests.bench import contenders, figures
from tests.bench.contenders import Contender, Target
from tests.support import processes
from tests.support.apache import jars
from tests.support.java import compile_java

BODY_BYTES = 1024
#: Threads and how many messages they send together: some seconds of work for a broker on 2 cores.
SENDING = {1: 5_000, 16: 30_000, 64: 60_000}
DRIVER_HEAP = "-Xmx512m"

Round = dict[str, float]


def main(rounds: int) -> str:
    """Run `rounds` interleaved rounds and return the table."""
    class_path = _driver()
    ours: list[Round] = []
    theirs: list[Round] = []
    with tempfile.TemporaryDirectory(prefix="gantry-bench-") as folder:
        for number in range(rounds):
            pair = [(contenders.embedded, ours), (contenders.apache, theirs)]
            # Who comes first changes: neither has the warmer machine every time.
            for contender, results in pair if number % 2 == 0 else reversed(pair):
                results.append(_round(contender, Path(folder) / "apache", class_path))
                print(f"round {number + 1}: {contender.__name__} {results[-1]}", file=sys.stderr, flush=True)
    return figures.table(
        ("1 KB messages, permissions on", "embedded broker", "Apache RocketMQ 5.3.3", "ours / RocketMQ"),
        [_row(name, ours, theirs) for name in ours[0]],
    )


def _driver() -> str:
    class_path = jars()
    classes = Path(class_path).parent.parent / "classes"
    compile_java([Path(__file__).parent / "java" / "LoadDriver.java"], class_path, classes)
    return f"{classes}:{class_path}"


def _round(contender: Contender, home: Path, class_path: str) -> Round:
    with contender(home) as target:
        result: Round = {}
        before = processes.cpu_seconds(target.pids)
        total = 0
        for threads, messages in SENDING.items():
            arguments = (str(threads), str(messages), str(BODY_BYTES))
            rate, p50, p99, failures, sent = _drive(target, class_path, "send", *arguments)
            if failures:
                raise RuntimeError(f"{failures:.0f} of {messages} sends failed with {threads} threads")
            total += int(sent)
            prefix = f"send, {threads} thread{'s' if threads > 1 else ''}"
            result |= {f"{prefix}: msg/s": rate, f"{prefix}: p50 ms": p50, f"{prefix}: p99 ms": p99}
        sending = processes.cpu_seconds(target.pids)
        rate, received = _drive(target, class_path, "consume", str(total))
        consuming = processes.cpu_seconds(target.pids)
        return result | {
            "consume a backlog, push: msg/s": rate,
            "CPU ms for 1,000 sends": (sending - before) * 1e6 / total,
            "CPU ms for 1,000 consumed": (consuming - sending) * 1e6 / received,
            "resident memory, MB": processes.resident_bytes(target.pids) / 1e6,
        }


def _drive(target: Target, class_path: str, mode: str, *arguments: str) -> list[float]:
    """Run the load driver and return the figures of its line."""
    names = (target.namesrv, contenders.TOPIC, contenders.GROUP)
    tenant = contenders.TENANT
    keys = {"ACCESS_KEY": tenant.access_key_id, "SECRET_KEY": tenant.access_key_secret}
    with tempfile.TemporaryDirectory(prefix="gantry-bench-home-") as home:
        java = ["java", DRIVER_HEAP, f"-Duser.home={home}", "-cp", class_path, "LoadDriver", mode]
        done = subprocess.run(
            [*java, *names, *arguments], env=os.environ | keys, capture_output=True, text=True, check=False, timeout=600
        )
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith(f"{mode} ")]
    if not lines:
        raise RuntimeError(f"the load driver printed no figures:\n{(done.stdout + done.stderr)[-3000:]}")
    return [float(word) for word in lines[0][1:]]


def _row(name: str, ours: list[Round], theirs: list[Round]) -> tuple[str, str, str, str]:
    mine, other = median(r[name] for r in ours), median(r[name] for r in theirs)
    return name, figures.number(mine), figures.number(other), f"{mine / other:.2f}"
