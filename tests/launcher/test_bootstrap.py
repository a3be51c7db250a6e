from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.config import ROOT

pytestmark = pytest.mark.process


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with what bootstrap.py reads, and no virtual environment."""
    (tmp_path / "launcher").mkdir()
    shutil.copy(ROOT / "launcher" / "bootstrap.py", tmp_path / "launcher")
    for name in ("Makefile", "uv.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def bootstrap(checkout: Path, before: str = "") -> subprocess.CompletedProcess[str]:
    """Run bootstrap.py as a script, after `before` has changed what it finds."""
    run = "sys.argv = ['bootstrap.py']; runpy.run_path('launcher/bootstrap.py', run_name='__main__')"
    code = f"import runpy, sys\n{before}\n{run}"
    return subprocess.run([sys.executable, "-c", code], cwd=checkout, capture_output=True, text=True, check=False)


def test_a_python_that_is_too_old_is_told_in_one_line(checkout: Path) -> None:
    done = bootstrap(checkout, "sys.version_info = (3, 9, 2, 'final', 0)")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "is Python 3.9 and Gantry needs 3.11 or later" in done.stderr
    assert not (checkout / ".venv").exists()


def test_a_python_without_venv_is_told_in_one_line(checkout: Path) -> None:
    done = bootstrap(checkout, "sys.modules['ensurepip'] = None")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "apt-get install python3-venv" in done.stderr


def test_an_environment_that_is_what_the_lock_file_says_is_left_alone(checkout: Path) -> None:
    # Given an environment whose stamp is right, but in which nothing could be installed
    (checkout / ".venv" / "bin").mkdir(parents=True)
    (checkout / ".venv" / "bin" / "python").write_text("#!/bin/sh\nexit 9\n")
    digest = "import runpy; print(runpy.run_path('launcher/bootstrap.py')['lock_digest']())"
    said = subprocess.run([sys.executable, "-c", digest], cwd=checkout, capture_output=True, text=True, check=True)
    stamp = checkout / ".venv" / "gantry-synced"
    stamp.write_text(f"dev {said.stdout.strip()}")
    # It does nothing, with the tools of development there or not asked for
    assert bootstrap(checkout).returncode == 0
    # And it renews the environment when the lock file changes
    os.chmod(checkout / ".venv" / "bin" / "python", 0o755)
    with (checkout / "uv.lock").open("a") as file:
        file.write("# changed\n")
    done = bootstrap(checkout)
    assert done.returncode == 1
    assert "pip could not be installed" in done.stderr


def test_make_help_names_every_target(checkout: Path) -> None:
    said = subprocess.run(["make"], cwd=checkout, capture_output=True, text=True, check=True).stdout
    for target in ("help", "up", "traffic", "test", "lint", "types", "bench", "clean", "fmt"):
        assert f"make {target} " in said
