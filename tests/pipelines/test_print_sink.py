"""What is printed to one file by several processes of Spark's at once. No Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from analytics.pipelines import checkpoints
from tests.pipelines.jobs import new_location

PROCESSES, TIMES, BOUND = 4, 40, 2_000
#: Prints a batch of ten rows again and again; a file may have BOUND bytes, and the machine takes its time behind them.
PRINTS = f"""
import os, sys, time
import pyarrow as pa
from analytics.pipelines import print_sink
print_sink._MOST_BYTES = {BOUND}
replace = os.replace
os.replace = lambda *files: (time.sleep(0.01), replace(*files))
lines = print_sink.Lines(sys.argv[1], "")
batch = pa.record_batch([pa.array([sys.argv[2] * 20] * 10)], names=["c0"])
print("ready", flush=True)
sys.stdin.readline()
for _ in lines.print(batch for _ in range({TIMES})):
    pass
"""


@pytest.mark.process
def test_several_processes_print_to_one_file_beyond_its_bound(tmp_path: Path) -> None:
    file = tmp_path / "print-o.log"
    printing = [
        subprocess.Popen(
            [sys.executable, "-c", PRINTS, str(file), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    for process in printing:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in printing:
        assert process.stdin is not None
        process.stdin.write("begin\n")
        process.stdin.flush()
    for process in printing:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said

    one = len(f"+I({'0' * 20})\n") * 10
    former = file.with_suffix(".1").read_bytes()
    assert BOUND < len(former) <= BOUND + one
    latest = file.read_bytes() if file.exists() else b""
    lines = (former + latest).decode().splitlines()
    assert set(lines) <= {f"+I({str(number) * 20})" for number in range(PROCESSES)}
    assert (len(former) + len(latest)) % one == 0


def test_a_process_that_stands_still_does_not_keep_the_next_runner_from_printing() -> None:
    held = checkpoints.claim(new_location(), 1)
    lock = held.state / "print-o.lock"
    lock.touch()
    taken = checkpoints.claim(held.location, 2)
    assert not (taken.state / lock.name).exists()
