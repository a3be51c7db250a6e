from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from launcher import lock
from launcher.config import ROOT
from launcher.errors import LauncherError


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path


def test_a_second_start_on_the_same_home_is_refused(home: Path) -> None:
    held = lock.take(home)
    with pytest.raises(LauncherError, match=rf"already runs on {home} \(process {os.getpid()}\): stop it first"):
        lock.take(home)
    os.close(held)


def test_what_a_killed_start_left_does_not_hinder_the_next(home: Path) -> None:
    code = f"import os; from pathlib import Path; from launcher import lock; lock.take(Path({str(home)!r})); os.abort()"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)
    os.close(lock.take(home))
    assert (home / "run" / "launcher.lock").read_text() == f"{os.getpid()}\n"


def test_it_waits_for_the_guard_of_a_killed_start(home: Path) -> None:
    # Given a dead launcher in the file, and a guard that holds the lock for a moment longer
    held = lock.take(home)
    (home / "run" / "launcher.lock").write_text("999999999\n")
    guard = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.5)"], pass_fds=[held])
    os.close(held)
    # A new start gets it once the guard has ended
    os.close(lock.take(home))
    assert guard.wait(10) == 0
