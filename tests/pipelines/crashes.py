"""Workers of tests in processes of their own, which are killed as by a machine that loses its power."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from analytics.pipelines.plan import Plan
from tests.pipelines.jobs import Ground
from tests.support.queue_service import QueueServiceProcess


@contextlib.contextmanager
def worker(
    plan: Plan, ground: Ground, service: QueueServiceProcess, location: str, number: int, **environment: str
) -> Iterator[subprocess.Popen[str]]:
    """A worker that runs the pipeline; killed in the end, if it lives, with its JVM."""
    environ = os.environ | {"GANTRY_SMQ_PORT": str(service.port), "SPARK_URL": "local[2]"} | environment
    command = [sys.executable, "-m", "tests.pipelines.worker", location, str(number)]
    process = subprocess.Popen(
        command, env=environ, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    tell(process, f"{plan.to_json()}\n{json.dumps(ground.secrets)}")
    try:
        assert heard(process) == "started"
        yield process
    finally:
        kill(process)


def tell(process: subprocess.Popen[str], line: str) -> None:
    """A line to the worker."""
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def heard(process: subprocess.Popen[str]) -> str:
    """The next line from the worker."""
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def kill(process: subprocess.Popen[str]) -> None:
    """End the worker, its JVM and its Python processes at once."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def numbered(number: int) -> bytes:
    """A message with a number."""
    return json.dumps({"id": number, "carrier": "UA"}).encode()


def uncommitted(state: Path, insert: str) -> bool:
    """Whether a batch of the insert has begun that is not committed."""
    begun, done = (
        {int(file.name) for file in (state / f"insert-{insert}").glob(f"{kind}/*") if file.name.isdecimal()}
        for kind in ("offsets", "commits")
    )
    return bool(begun - done)
