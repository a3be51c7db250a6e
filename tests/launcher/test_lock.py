from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from launcher import lock
from launcher.config import ROOT, LauncherError


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path


def test_a_second_start_on_the_same_home_is_refused(home: Path) -> None:
    held = lock.acquire(home)
    with pytest.raises(LauncherError, match=rf"already runs on {home} \(process {os.getpid()}\): stop it first"):
        lock.acquire(home)
    held.release()


def test_what_a_killed_start_left_does_not_hinder_the_next(home: Path) -> None:
    code = (
        f"import os; from pathlib import Path; from launcher import lock; lock.acquire(Path({str(home)!r})); os.abort()"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)
    lock.acquire(home).release()
    assert (home / "run" / "launcher.lock").read_text() == f"{os.getpid()}\n"


def test_it_waits_for_the_guard_of_a_killed_start(home: Path) -> None:
    # Given a dead launcher in the file, and a guard that holds the lock for a moment longer
    held = lock.acquire(home)
    (home / "run" / "launcher.lock").write_text("999999999\n")
    guard = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.5)"], pass_fds=held.descriptors)
    held.release()
    # A new start gets it once the guard has ended
    lock.acquire(home).release()
    assert guard.wait(10) == 0


def test_a_store_is_not_taken_while_somebody_writes_there_without_a_lock(home: Path) -> None:
    """As a Redis that an older release started does, or one on a file system that locks no folders."""
    file = home / "appendonly.aof"
    file.touch()
    writer = subprocess.Popen(["sleep", "60"], stdout=file.open("a"))
    try:
        with pytest.raises(LauncherError, match=rf"is held by sleep \(process {writer.pid}\): end it"):
            lock.acquire_store(home, given_up=lambda: True)
    finally:
        writer.kill()
        writer.wait()
    os.close(lock.acquire_store(home))
