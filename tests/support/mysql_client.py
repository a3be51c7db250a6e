"""MySQL's own command line, in the version that Debian's unstable has: fetched by apt, and run with its own libraries.

Stable Debian has MariaDB's only. Nothing is installed: apt works on folders of its own, the packages are unpacked, and
the program is started by their loader. Unstable changes every day, so nothing here may name a version, and whoever
cannot get it is told why and goes on without.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

_SOURCE = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian sid main\n"
_PACKAGE = "mysql-client-core"
_HOME = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gantry-tests" / "mysql"


def mysql_of_mysql() -> list[str]:
    """The beginning of its command line, which goes on with options. Skips the test where it cannot be had."""
    ready = _HOME / "ready"
    if not ready.is_file():
        try:
            _fetch()
        except (OSError, subprocess.SubprocessError) as error:
            detail = getattr(error, "stderr", None) or str(error)
            pytest.skip(f"MySQL's own command line cannot be fetched from Debian's unstable: {detail[-300:]}")
    loader, libraries, program = ready.read_text().splitlines()
    return [loader, "--library-path", libraries, program]


def _fetch() -> None:
    shutil.rmtree(_HOME, ignore_errors=True)
    for folder in ("lists/partial", "archives/partial", "parts", "root"):
        (_HOME / folder).mkdir(parents=True)
    (_HOME / "sources.list").write_text(_SOURCE)
    (_HOME / "status").touch()  # as if nothing were installed: every library comes along
    settings = {
        "Dir::State::lists": _HOME / "lists",
        "Dir::State::status": _HOME / "status",
        "Dir::Cache": _HOME,
        "Dir::Cache::archives": _HOME / "archives",
        "Dir::Etc::sourcelist": _HOME / "sources.list",
        "Dir::Etc::sourceparts": _HOME / "parts",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
        "Acquire::Languages": "none",
        "Acquire::Retries": "3",
        "APT::Sandbox::User": "",
        "APT::Install-Recommends": "false",
        "Debug::NoLocking": "true",
    }
    options = [f"--option={name}={value}" for name, value in settings.items()]
    _run("apt-get", *options, "update")
    _run("apt-get", *options, "install", "--yes", "--download-only", _PACKAGE)
    for package in sorted((_HOME / "archives").glob("*.deb")):
        _run("dpkg-deb", "--extract", str(package), str(_HOME / "root"))
    loader = next((_HOME / "root").rglob("ld-linux-*.so.*"))
    libraries = next((_HOME / "root").rglob("libc.so.6")).parent
    program = _HOME / "root" / "usr" / "bin" / "mysql"
    _run(str(loader), "--library-path", str(libraries), str(program), "--version")
    for folder in ("lists", "archives"):
        shutil.rmtree(_HOME / folder)
    (_HOME / "ready").write_text(f"{loader}\n{libraries}\n{program}\n")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
