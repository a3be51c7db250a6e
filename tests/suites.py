"""Every test of the project, a process a suite, two at a time: `python -m tests.suites`, what `make test` runs.

Most tests wait for a broker, a client or a page and leave a processor idle, so two suites side by side need little more
than half the time of one after the other. A suite's output is shown when it has ended: all of it if a test failed, else
its summary. At the end all failures are named once more, and the last line counts all tests.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue

ROOT = Path(__file__).resolve().parents[1]
AT_ONCE = 2
_LONGEST_LINE = 250
_COUNTS = re.compile(r"(\d+) (passed|failed|errors?|skipped)\b")
_FAILED = re.compile(r"^(?:FAILED|ERROR) tests/.*$", re.MULTILINE)
_SUMMARY = re.compile(r"^=+ .*\b(?:passed|failed|error|skipped|no tests ran)\b.* in [\d.]+s.*=+$", re.MULTILINE)


@dataclass(frozen=True)
class Suite:
    """What one pytest process runs: files and folders below tests/, without what another suite has of them."""

    name: str
    paths: tuple[str, ...]

    def command(self) -> list[str]:
        """The command line of its pytest."""
        others = (path for suite in SUITES if suite is not self for path in suite.paths)
        mine = [f"tests/{path}" for path in self.paths]
        ignored = [f"--ignore=tests/{path}" for path in others if any(_is_below(path, own) for own in self.paths)]
        return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--durations=5", *ignored, *mine]


def _is_below(path: str, folder: str) -> bool:
    return folder == "." or path.startswith(f"{folder}/")


#: The longest first, so that none of them is left over at the end.
SUITES = (
    Suite("the browser and the whole product", ("e2e",)),
    Suite("SQL on Spark", ("analytics",)),
    Suite("SQL of the console", ("console/sql", "console/archive", "console/metrics")),
    Suite("both brokers, one contract", ("brokercore/contract",)),
    Suite("attacks", ("security",)),
    Suite("kills of the whole product", ("chaos",)),
    Suite("the vendor's clients", ("compat",)),
    Suite("the console", ("console",)),
    Suite("the console on PostgreSQL", ("test_postgres.py",)),
    Suite("the broker", ("brokercore",)),
    Suite("crashes of the broker", ("brokercore/crash",)),
    Suite("the launcher and all else", (".",)),
)


@dataclass
class Ended:
    """How a suite ended."""

    suite: Suite
    status: int
    seconds: float
    output: str
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        summaries = _SUMMARY.findall(self.output)
        found = _COUNTS.findall(summaries[-1]) if summaries else []
        self.counts = {kind.rstrip("s") if kind.startswith("error") else kind: int(count) for count, kind in found}
        # A process that died before its summary ran no test to its end, and must not pass for one without tests.
        if self.status not in (0, 1) or (self.status == 1 and not self.count("failed", "error")):
            self.counts["error"] = self.counts.get("error", 0) + 1

    def failures(self) -> list[str]:
        """A line for each test that failed, with the beginning of why."""
        return [line[:_LONGEST_LINE] for line in _FAILED.findall(self.output)]

    def count(self, *kinds: str) -> int:
        """The number of tests that ended so."""
        return sum(self.counts.get(kind, 0) for kind in kinds)


def run(suites: tuple[Suite, ...]) -> Iterator[Ended]:
    """Run the suites, AT_ONCE at a time, and give each when it has ended."""
    waiting: SimpleQueue[Suite] = SimpleQueue()
    for suite in suites:
        waiting.put(suite)
    ended: SimpleQueue[Ended] = SimpleQueue()
    for number in range(AT_ONCE):
        threading.Thread(target=_work, args=(waiting, ended), name=f"suites {number}", daemon=True).start()
    for _ in suites:
        yield ended.get()


def _work(waiting: SimpleQueue[Suite], ended: SimpleQueue[Ended]) -> None:
    while True:
        try:
            suite = waiting.get_nowait()
        except Empty:
            return
        started = time.monotonic()
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
            done = subprocess.run(suite.command(), check=False, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
            output.seek(0)
            ended.put(Ended(suite, done.returncode, time.monotonic() - started, output.read()))


def main() -> int:
    """Run all suites and say how each ended; the status is 0 when every test passed."""
    os.environ["PYTHONUNBUFFERED"] = "1"
    done = []
    for one in run(SUITES):
        done.append(one)
        print(f"--- {one.suite.name} ({', '.join(f'tests/{path}' for path in one.suite.paths)})")
        print(one.output if one.status else _tail(one.output), flush=True)
    print("--- seconds by suite")
    for one in sorted(done, key=lambda one: -one.seconds):
        print(f"{one.seconds:7.0f}  {one.count('passed'):5} passed  {one.suite.name}")
    for one in done:
        print(*one.failures(), sep="\n", end="\n" if one.failures() else "")
    passed, skipped = (sum(one.count(kind) for one in done) for kind in ("passed", "skipped"))
    failed = sum(one.count("failed", "error") for one in done)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


def _tail(output: str) -> str:
    """What follows the dots: skipped tests with their reasons, the slowest tests and the summary."""
    start = re.search(r"^=+ (?:warnings summary|slowest|short test summary|\d+ passed)", output, re.MULTILINE)
    return output[start.start() :] if start else output[-2000:]


if __name__ == "__main__":
    sys.exit(main())
