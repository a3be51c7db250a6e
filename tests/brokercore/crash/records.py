"""What clients in processes of their own did: one line a deed, written before the next one begins."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.support.broker import ROOT, SYSTEM_KEY, SYSTEM_SECRET, eventually

PATIENCE_SECONDS = 90.0
"""Only a failing test waits so long."""


class Record(NamedTuple):
    """One deed at `at` (epoch seconds): a message was sent, acknowledged, refused, received…; `more` says how."""

    kind: str
    at: float
    body: str
    more: str


class Notebook:
    """Where a client writes its deeds. A line is one system call: a client that is killed leaves no half of one."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, kind: str, body: str, more: str = "") -> None:
        """Add a line."""
        line = f"{kind}\t{time.time():.6f}\t{body}\t{more.replace(chr(9), ' ').replace(chr(10), ' ')}\n"
        os.write(self._file, line.encode())


class Client:
    """One client of `driver.py` in a process of its own, and what it has written."""

    def __init__(
        self,
        namesrv: str,
        role: str,
        topic: str,
        *,
        keys: tuple[str, str] = (SYSTEM_KEY, SYSTEM_SECRET),
        **options: object,
    ) -> None:
        self._path = Path(tempfile.mkdtemp(prefix="gantry-crash-")) / "records"
        self._path.touch()
        self._read = 0
        self._records: list[Record] = []
        self._counts: Counter[str] = Counter()
        arguments = {"namesrv": namesrv, "topic": topic, "records": self._path} | options
        words = [word for name, value in arguments.items() for word in (f"--{name.replace('_', '-')}", str(value))]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.brokercore.crash.driver", role, *words],
            cwd=ROOT,
            env=os.environ | {"ACCESS_KEY": keys[0], "SECRET_KEY": keys[1]},
            stdin=subprocess.PIPE,
        )

    @property
    def path(self) -> Path:
        """The file that it writes its deeds into; gone with `close`."""
        return self._path

    @property
    def records(self) -> list[Record]:
        """All deeds until now, in their order."""
        self._take()
        return self._records

    def _take(self) -> None:
        """Read what was written since the last time."""
        with self._path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.decode().splitlines():
            kind, at, body, more = line.split("\t")
            self._records.append(Record(kind, float(at), body, more))
            self._counts[kind] += 1

    def named(self, kind: str) -> list[Record]:
        """The deeds of one kind."""
        return [record for record in self.records if record.kind == kind]

    def bodies(self, kind: str) -> list[str]:
        """The messages of the deeds of one kind."""
        return [record.body for record in self.records if record.kind == kind]

    def count(self, kind: str) -> int:
        """How many deeds of one kind there are."""
        self._take()
        return self._counts[kind]

    def wait_for(self, kind: str, count: int, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until there are so many deeds of a kind."""
        eventually(lambda: self.count(kind) >= count or self._ended(), seconds)
        assert self.count(kind) >= count, f"the client ended after {self.count(kind)} of {count} {kind}"

    def wait_for_more(self, kind: str, count: int, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until there are so many more than now."""
        self.wait_for(kind, self.count(kind) + count, seconds)

    def finish(self) -> None:
        """Ask it to end in order, and wait."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(PATIENCE_SECONDS)

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin:
            self._process.stdin.close()

    def close(self) -> None:
        """End it, and throw away what it has written."""
        self.kill()
        shutil.rmtree(self._path.parent, ignore_errors=True)

    def _ended(self) -> bool:
        return self._process.poll() is not None
