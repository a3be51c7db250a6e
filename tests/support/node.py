"""Packages of Node, installed once by npm from a lock file, and kept until that changes."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from tests.support.needs import need_tool

_HOME = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gantry-tests" / "node"


def node_modules(folder: Path) -> Path:
    """Where the packages of a folder's package-lock.json are. Skips the test without Node, fails it on CI.

    Raises subprocess.CalledProcessError when npm fails, e.g. without a network.
    """
    need_tool("node")
    npm = str(need_tool("npm"))
    lock = folder / "package-lock.json"
    home = _HOME / hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    home.mkdir(parents=True, exist_ok=True)
    with (home / ".lock").open("w") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        if not (home / "ready").exists():
            for name in ("package.json", "package-lock.json"):
                shutil.copy(folder / name, home / name)
            command = [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
            subprocess.run(command, cwd=home, check=True, timeout=300)
            (home / "ready").touch()
    return home / "node_modules"
