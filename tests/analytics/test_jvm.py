"""A JVM ends with the process that started it, also before it has told how it is reached."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.broker import eventually
from tests.support.processes import children

#: A program that never tells its port, and reads nothing: so is a JVM that could not write to a full disk.
STUCK = """
import sys, threading
from pathlib import Path
from analytics import jvm
threading.Thread(target=jvm._started, args=(["sleep", "600"], {}, Path(sys.argv[1]) / "told" / "gateway")).start()
"""


def test_a_jvm_that_is_stuck_ends_with_its_process(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", STUCK, str(tmp_path)], env=os.environ)
    try:
        (stuck,) = eventually(lambda: [pid for pid in children(process.pid) if name_of(pid) == "sleep"], 60)
    finally:
        process.kill()
        process.wait()
    eventually(lambda: name_of(stuck) != "sleep", 10)


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
