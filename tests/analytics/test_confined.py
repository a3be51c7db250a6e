"""A process that reads what a tenant wrote has nothing of its parent, and comes last for the processor."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from analytics import confined

pytestmark = pytest.mark.process

TELL = "import os; print(os.getcwd(), dict(os.environ), os.getsid(0) == os.getpid(), flush=True); input()"


@pytest.fixture
def told() -> Iterator[tuple[int, str]]:
    process = confined.start([sys.executable, "-I", "-c", TELL], {"LANG": "C.UTF-8"})
    assert process.stdout is not None
    try:
        yield process.pid, process.stdout.readline().decode()
    finally:
        process.kill()
        process.wait()


def test_it_has_no_environment_no_folder_and_a_session_of_its_own(told: tuple[int, str]) -> None:
    folder, *environ, leads = told[1].split()
    assert (folder, leads) == ("/", "True")
    assert eval("".join(environ)).keys() <= {"LANG", "LC_CTYPE"}


def test_it_comes_last_within_its_session_and_beside_others(told: tuple[int, str]) -> None:
    pid = told[0]
    assert os.getpriority(os.PRIO_PROCESS, pid) == confined.NICENESS
    session = Path(f"/proc/{pid}/autogroup")
    if not session.exists():
        pytest.skip("Linux does not schedule by sessions here")
    assert session.read_text().split()[-1] == str(confined.NICENESS)


def test_a_program_that_has_ended_is_no_error() -> None:
    ended = confined.start(["/bin/true"], {})
    ended.wait()
    confined.come_last(ended.pid)
