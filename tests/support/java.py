"""Jars from Maven and classes from javac, each made once and kept until its sources change."""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.needs import need_tool

#: Small programs: a quick start is worth more than the last bit of speed.
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx192m")


class BuildError(Exception):
    """Maven or javac ended with an error; the text is what it printed."""


def maven_jars(pom: Path, stamp: Path, output: Path | None = None, options: Sequence[str] = ()) -> None:
    """Copy the runtime dependencies of `pom` into `output`, or to where the pom says; `stamp` tells that it is done.

    `options` are further words of Maven's command line, such as the value of a property.
    Skips the test without mvn, fails it on CI. Raises BuildError with Maven's words, e.g. without a network.
    """
    poms = sorted(pom.parent.rglob("pom.xml"))
    command = [str(need_tool("mvn")), "-q", "-B", "-f", str(pom), *options, "dependency:copy-dependencies"]
    if output is not None:
        command.append(f"-DoutputDirectory={output}")
    with _alone(stamp):
        if not _is_current(stamp, poms):
            _run(command)
            _mark(stamp, poms)


def compile_java(sources: Sequence[Path], class_path: str, into: Path) -> None:
    """Compile `sources` into the folder `into`; skips the test without a JDK, fails it on CI."""
    stamp = into / ".sources"
    javac = str(need_tool("javac"))
    options = ["--release", "17", "-nowarn", "-proc:none", "-cp", class_path, "-d", str(into)]
    with _alone(stamp):
        if not _is_current(stamp, sources):
            _run([javac, *options, *map(str, sources)])
            _mark(stamp, sources)


@contextmanager
def _alone(stamp: Path) -> Iterator[None]:
    """Hold the other test processes that want the same back until the block has made it."""
    stamp.parent.mkdir(parents=True, exist_ok=True)
    with stamp.with_name(f"{stamp.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command[:1])} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def _digest(files: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _is_current(stamp: Path, files: Sequence[Path]) -> bool:
    return stamp.exists() and stamp.read_text() == _digest(files)


def _mark(stamp: Path, files: Sequence[Path]) -> None:
    stamp.write_text(_digest(files))
