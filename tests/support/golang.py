"""Programs in Go, built once for each change of their sources."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
from pathlib import Path

from tests.support.needs import need_tool

_HOME = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gantry-tests" / "go"
_BUILD_S = 300


def go_program(folder: Path) -> Path:
    """The program of a folder's sources, with the modules of its go.sum. Skips the test without Go, fails it on CI.

    Raises subprocess.CalledProcessError when Go fails, e.g. without a network.
    """
    go = str(need_tool("go"))
    sources = sorted(path for path in folder.iterdir() if path.suffix in (".go", ".mod", ".sum"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    program = _HOME / digest / folder.name
    program.parent.mkdir(parents=True, exist_ok=True)
    with (program.parent / ".lock").open("w") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        if not program.exists():
            # Under its own name only when it is whole.
            part = program.with_suffix(".part")
            command = [go, "build", "-buildvcs=false", "-mod=readonly", "-o", str(part), "."]
            subprocess.run(command, cwd=folder, check=True, timeout=_BUILD_S)
            part.rename(program)
    return program
