"""Several Spark processes under one GANTRY_HOME."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from analytics.session import Scratch

pytestmark = pytest.mark.process

SCRIPT = """
import sys, pathlib
from analytics.session import Scratch
print(Scratch(pathlib.Path(sys.argv[1])).path, flush=True)
sys.stdin.read()
"""


def start(home: Path) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_each_process_has_a_folder_of_its_own(tmp_path: Path) -> None:
    process, theirs = start(tmp_path)
    ours = Scratch(tmp_path)
    assert theirs.is_dir() and ours.path.is_dir() and theirs != ours.path
    process.kill()
    process.wait()


def test_what_a_killed_process_left_is_swept_by_the_next_one(tmp_path: Path) -> None:
    process, theirs = start(tmp_path)
    (theirs / "local").mkdir()
    (theirs / "local" / "blocks").write_text("x")
    process.kill()
    process.wait()
    ours = Scratch(tmp_path)
    assert list((tmp_path / "spark").iterdir()) == [ours.path]


def test_a_process_removes_its_folder(tmp_path: Path) -> None:
    ours = Scratch(tmp_path)
    (ours.path / "warehouse").mkdir()
    ours.remove()
    assert list((tmp_path / "spark").iterdir()) == []
