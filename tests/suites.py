"""Every test of the project, a process a suite, three at a time: `python -m tests.suites`, what `make test` runs
(`--fast`: `make test-fast`). What looks at the code without running it is a suite too, and runs beside the others.

Many tests wait for a broker, a client or a page: a suite keeps one processor busy for half to nine tenths of its time,
so that three of them fill two; where its tests wait for most of it, for a third. Where the time that something takes
is what a test looks at, its suite has one neighbour at the most, and one of those that wait. A suite's output is shown
when it has ended: all of it if a test failed, else its summary. At the end all failures are named once more, and the
last line counts all tests.

Each test has patience, and still one in ten thousand may run out of it beside two other suites. So a few failures are
looked at again: each of these tests runs once more, alone, or its whole file where what the file's tests share broke.
What fails then has failed; what passes is named in the summary with the reason of the first time, for a test that
passes only alone is a fault of the product or its own. A suite whose pytest ended before its summary, or whose JVM
did, runs once more as a whole, if it is the only one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parents[1]
#: How many suites there are at once: three usual ones, or two of which one needs quiet, and one that waits for most of
#: its time or only fills gaps.
PLACES, USUAL, QUIET, WAITING, FILLING = 6, 2, 3, 1, 1
#: So many tests, or walks, may have failed for want of a processor; more are no accident, and none is tried again.
MOST_AGAIN = 6
_LONGEST_LINE = 250
#: What py4j says once the JVM at the other end has ended.
_JVM_GONE = "Answer from Java side is empty"
_COUNTS = re.compile(r"(\d+) (passed|failed|errors?|skipped)\b")
_FAILED = re.compile(r"^(?:FAILED|ERROR) tests/.*$", re.MULTILINE)
_SUMMARY = re.compile(r"^=+ .*\b(?:passed|failed|errors?|skipped|no tests ran)\b.* in [\d.]+s.*=+$", re.MULTILINE)


@dataclass(frozen=True)
class Suite:
    """What one pytest process runs: files and folders below tests/, without what another suite has of them."""

    name: str
    paths: tuple[str, ...]
    places: int = USUAL
    instead: tuple[str, ...] = ()
    """The command that runs in place of pytest; its status tells whether it passed."""

    def command(self, marks: str = "") -> list[str]:
        """The command line of its pytest, for the tests with these marks (an expression of `-m`)."""
        if self.instead:
            return list(self.instead)
        others = (path for suite in SUITES if suite is not self for path in suite.paths)
        mine = [f"tests/{path}" for path in self.paths]
        ignored = [f"--ignore=tests/{path}" for path in others if any(_is_below(path, own) for own in self.paths)]
        chosen = ["-m", marks] if marks else []
        return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--durations=5", *chosen, *ignored, *mine]


def _is_below(path: str, folder: str) -> bool:
    return folder == "." or path.startswith(f"{folder}/")


#: Those that need quiet first, beside the longest of all, which keeps a processor busy; then the longest first, so that
#: none of them is left over at the end.
SUITES = (
    Suite("the vendor's clients", ("compat",), QUIET),
    Suite("the console", ("console",)),
    Suite("the broker", ("brokercore",), WAITING),
    Suite("both brokers, one contract", ("brokercore/contract",), QUIET),
    # Its JVMs keep both processors busy while they start.
    Suite("each version of Apache RocketMQ", ("clusters",), QUIET),
    Suite("crashes of the broker", ("brokercore/crash",), WAITING),
    Suite("the vendor's clients of queues", ("compat/queues",), WAITING),
    Suite("the browser and the whole product", ("e2e",)),
    Suite("SQL jobs on Spark", ("pipelines",)),
    Suite("attacks", ("security",)),
    Suite("inflow tasks", ("inflow",)),
    Suite("the console on PostgreSQL", ("test_postgres.py",)),
    Suite("the launcher and all else", (".",)),
    Suite("SQL on Spark", ("analytics",)),
    Suite(
        "SQL of the console",
        tuple(f"console/{app}" for app in ("statements", "catalog", "sql", "archive", "metrics")),
    ),
    Suite("kills of the whole product", ("chaos",)),
    # They get what of a processor the others leave, so that who needs quiet does not notice them.
    Suite("types", (), FILLING, ("nice", "-n", "19", "make", "types")),
    Suite("rules, law of imports, Django's checks", (), FILLING, ("nice", "-n", "19", "make", "checks")),
)
#: What `make test-fast` runs: these suites, and of them what takes no long start.
FAST_PATHS = {"console", "console/sql", "brokercore", "pipelines", "inflow", "."}
FAST = "not (spark or java or browser or postgres or product or slow)"


@dataclass
class Ended:
    """How a suite ended."""

    suite: Suite
    status: int
    seconds: float
    output: str
    used: float = 0.0
    """Seconds of a processor, with those of all processes that it started and saw end."""
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        summaries = _SUMMARY.findall(self.output)
        found = _COUNTS.findall(summaries[-1]) if summaries else []
        self.counts = {kind.rstrip("s") if kind.startswith("error") else kind: int(count) for count, kind in found}
        # A process that died before its summary ran no test to its end, and must not pass for one without tests.
        if self.status not in (0, 1) or (self.status == 1 and not self.count("failed", "error")):
            self.counts["error"] = self.counts.get("error", 0) + 1

    @property
    def has_died(self) -> bool:
        """Whether pytest itself ended before its tests did, or the JVM that they share: all others fail."""
        lost = _JVM_GONE in self.output and self.count("failed", "error") > MOST_AGAIN
        return not self.suite.instead and (lost or self.status not in (0, 1))

    def failures(self) -> list[str]:
        """A line for each test that failed, with the beginning of why."""
        return [line[:_LONGEST_LINE] for line in _FAILED.findall(self.output)]

    def failed_tests(self) -> list[str]:
        """The tests that failed, as pytest takes them."""
        return [line.split(" - ")[0].split(" ", 1)[1] for line in _FAILED.findall(self.output)]

    def count(self, *kinds: str) -> int:
        """The number of tests that ended so."""
        return sum(self.counts.get(kind, 0) for kind in kinds)


def run(suites: Sequence[Suite], marks: str = "") -> Iterator[Ended]:
    """Run the suites' tests with these marks, as many suites at a time as have places, and give each when it ends."""
    waiting, running = list(suites), 0
    ended: SimpleQueue[Ended] = SimpleQueue()
    while waiting or running:
        while suite := next((suite for suite in waiting if suite.places <= PLACES - running), None):
            waiting.remove(suite)
            running += suite.places
            threading.Thread(target=_run, args=(suite, marks, ended), name=suite.name, daemon=True).start()
        one = ended.get()
        running -= one.suite.places
        yield one


def _run(suite: Suite, marks: str, ended: SimpleQueue[Ended]) -> None:
    started = time.monotonic()
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(suite.command(marks), cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - started
        output.seek(0)
        ended.put(Ended(suite, process.returncode, seconds, output.read(), used.ru_utime + used.ru_stime))


def with_the_dead_again(done: Sequence[Ended]) -> list[Ended]:
    """Run the one suite that died once more, alone, in the place of its first run; of several none."""
    dead = [one for one in done if one.has_died]
    if len(dead) != 1:
        return list(done)
    print(f"--- once more, alone: {dead[0].suite.name}, whose pytest ended with {dead[0].status}", flush=True)
    (again,) = run([dead[0].suite])
    print(again.output if again.status else _tail(again.output), flush=True)
    return [again if one is dead[0] else one for one in done]


def passed_alone(done: Sequence[Ended]) -> list[str]:
    """Run the tests that failed once more, each alone, and tell which passed; none when there are too many.

    A suite that died, and an error that belongs to no test, cannot be tried again: nothing is then.
    """
    tests = sorted({test for one in done for test in one.failed_tests()})
    targets = _targets(done)
    # One test counts twice when what it leaves behind fails too.
    named = sum(len(one.failures()) for one in done)
    all_are_named = 0 < sum(one.count("failed", "error") for one in done) == named
    if not all_are_named or len(set(targets.values())) > MOST_AGAIN:
        return []
    passed: list[str] = []
    for target, of_it in groupby(tests, targets.__getitem__):
        print(f"--- once more, alone: {target}", flush=True)
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", target]
        if subprocess.run(command, cwd=ROOT, check=False).returncode == 0:
            passed += of_it
    return passed


def _targets(done: Sequence[Ended]) -> dict[str, str]:
    """What is run again for each test that failed: itself, or its whole file.

    A walk through the product goes on from the tests before it in its file, and a fixture that a file's tests share
    is one fault, however many of them lack it.
    """
    lines = [line for one in done for line in _FAILED.findall(one.output)]
    without_fixture = Counter(line.split("::")[0].split()[1] for line in lines if line.startswith("ERROR "))
    targets = {}
    for test in (test for one in done for test in one.failed_tests()):
        file = test.partition("::")[0]
        targets[test] = file if file.startswith("tests/e2e/") or without_fixture[file] > 1 else test
    return targets


def _build() -> None:
    """Build the S3 server of the tests where it is not (minutes of a processor, once a machine).

    A test that began to would run out of its time beside two other suites. Where it cannot be built, they say why.
    """
    subprocess.run([sys.executable, "-m", "tests.support.object_storage"], cwd=ROOT, check=False)


def main(*arguments: str) -> int:
    """Run all suites, or the fast tests of some with `--fast`, and say how each ended; 0 when every test passed."""
    os.environ["PYTHONUNBUFFERED"] = "1"
    done = []
    fast = "--fast" in arguments
    if not fast:
        _build()
    suites = tuple(suite for suite in SUITES if not fast or FAST_PATHS.intersection(suite.paths))
    for one in run(suites, FAST if fast else ""):
        done.append(one)
        print(f"--- {one.suite.name} ({', '.join(f'tests/{path}' for path in one.suite.paths)})")
        print(one.output if one.status else _tail(one.output), flush=True)
    print("--- seconds by suite, those of a processor beside them")
    for one in sorted(done, key=lambda one: -one.seconds):
        print(f"{one.seconds:7.0f} {one.used:7.0f}  {one.count('passed'):5} passed  {one.suite.name}")
    if not fast:
        done = with_the_dead_again(done)
    for one in done:
        print(*one.failures(), sep="\n", end="\n" if one.failures() else "")
    alone = passed_alone(done)
    for test in alone:
        print(f"PASSED ONLY ALONE {test}")
    passed, skipped = (sum(one.count(kind) for one in done) for kind in ("passed", "skipped"))
    told = [test for one in done for test in one.failed_tests()]
    failed = sum(one.count("failed", "error") for one in done) - sum(test in alone for test in told)
    passed += len(alone)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


def _tail(output: str) -> str:
    """What follows the dots: skipped tests with their reasons, the slowest tests and the summary."""
    start = re.search(r"^=+ (?:warnings summary|slowest|short test summary|\d+ passed)", output, re.MULTILINE)
    return output[start.start() :] if start else output[-2000:]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
