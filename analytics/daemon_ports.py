"""What every Python that the JVM starts does first, as its `sitecustomize`: takes its own PySpark, and finds the JVM.

Spark puts an archive of PySpark first on their path. Python keeps nothing compiled of what it reads from an archive,
so each process would spend a second of a processor on compiling it anew. The same PySpark is installed, and compiled.
And they do without pandas.

The wall stands between most ports, and Python processes and the JVM are brought together nevertheless.

PySpark's daemon listens on any port that is free, and the wall lets the JVM connect to none but those kept for it
(`jvm.HeldPorts`). Spark lets the daemon's module be chosen for some kinds of work only, so here, which Python imports
before it, it is changed where a daemon's one socket is bound.

A reader of a stream is no daemon: it connects to the JVM, on a port that Spark takes as it comes. It goes through
the door (`stream_door`), and proves at once that it is the process that was started: Spark waits ten seconds for
each of both, within which a busy machine may not have imported PySpark, which does the second.
"""

import os
import signal
import socket
import struct
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_ORIGINAL = socket.socket
#: What the JVM says to the right secret, with its length before it.
_ACCEPTED = struct.pack("!i", 2) + b"ok"


class _HeldSocket(_ORIGINAL):
    def bind(self, address: Any) -> None:
        host, port, *rest = address
        if port:
            super().bind(address)
            return
        kept = os.environ["PYTHON_DAEMON_PORTS"].split(",")
        self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # they are bound already, and not listened on
        for number in kept:
            try:
                super().bind((host, int(number), *rest))
                self.listen()  # several may have bound a port; one can listen
            except OSError:
                continue
            socket.socket = _ORIGINAL  # type: ignore[misc]  # the workers that it forks are not concerned
            return
        raise OSError(f"All {len(kept)} ports for daemons of Python workers are in use.")


class _LetThrough(_ORIGINAL):
    """Its connection to the JVM is the one that was made through the door, with the proof that was given there.

    PySpark gives it once more, which goes nowhere, and is answered here.
    """

    _given_already = 0
    _answer = b""

    def connect(self, address: Any) -> None:
        if _through is None or address[1] != _waited_for:
            super().connect(address)
            return
        os.dup2(_through.fileno(), self.fileno())
        _through.close()
        socket.socket = _ORIGINAL  # type: ignore[misc]
        self._given_already, self._answer = len(_proof()), _ACCEPTED

    def send(self, data: Any, *flags: Any) -> int:
        if not self._given_already:
            return super().send(data, *flags)
        taken = min(self._given_already, len(data))
        self._given_already -= taken
        return taken

    def recv_into(self, buffer: Any, *rest: Any) -> int:
        if not self._answer:
            return super().recv_into(buffer, *rest)
        answer = self._answer[: len(buffer)]
        self._answer = self._answer[len(answer) :]
        buffer[: len(answer)] = answer
        return len(answer)


def _proof() -> bytes:
    """The secret that the JVM gave to the process that it started, as it wants to hear it."""
    secret = os.environ["PYTHON_WORKER_FACTORY_SECRET"].encode()
    return struct.pack("!i", len(secret)) + secret


def _go_through(door: int, target: int) -> socket.socket:
    """A connection to the JVM's port that the JVM has accepted. Raises OSError."""
    through = _ORIGINAL(socket.AF_INET, socket.SOCK_STREAM)
    through.connect(("127.0.0.1", door))
    through.sendall(struct.pack("!H", target))
    if not through.recv(1):
        raise ConnectionRefusedError("The door to Spark stays shut.")
    through.sendall(_proof())
    if through.recv(len(_ACCEPTED), socket.MSG_WAITALL) != _ACCEPTED:
        raise ConnectionRefusedError("Spark takes this for another process than the one that it started.")
    return through


def _installed(path: Iterable[str]) -> list[str]:
    """A path of modules without the archives of an installed PySpark: what is in them is installed beside it."""
    entries = list(path)

    def is_spare(entry: str) -> bool:
        archive = Path(entry)
        return (
            archive.suffix == ".zip"
            and archive.parts[-4:-1] == ("pyspark", "python", "lib")
            and str(archive.parents[3]) in entries
            and (archive.parents[3] / archive.name.partition("-")[0].removesuffix(".zip")).is_dir()
        )

    return [entry for entry in entries if not is_spare(entry)]


class _WithoutPandas:
    """Rows go through Arrow alone, which would import pandas only to see whether a value is one of its own."""

    @staticmethod
    def find_spec(name: str, *_: Any) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("Left out here: it costs half a second and 40 MB a process.", name=name)


sys.path[:] = _installed(sys.path)
sys.meta_path.insert(0, _WithoutPandas())

if "pyspark.daemon" in sys.orig_argv and os.environ.get("PYTHON_DAEMON_PORTS"):
    socket.socket = _HeldSocket  # type: ignore[misc]

_through: socket.socket | None = None
_waited_for = int(os.environ.get("PYTHON_WORKER_FACTORY_PORT", "0"))


def _end(*_: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Spark sends it twice
    sys.exit(143)


_READS_STREAM = "pyspark.sql.streaming.python_streaming_source_runner" in sys.orig_argv
if _READS_STREAM:
    # Spark ends it so, and PySpark lets a reader stop in order only when it ends by an exception.
    signal.signal(signal.SIGTERM, _end)
if _READS_STREAM and os.environ.get("PYTHON_STREAM_DOOR"):
    _through = _go_through(int(os.environ["PYTHON_STREAM_DOOR"]), _waited_for)
    socket.socket = _LetThrough  # type: ignore[misc]
