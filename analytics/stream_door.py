"""The door by which a reader of a stream, a Python process behind the wall, reaches the JVM that started it.

Spark starts such a reader by itself and waits for it on a port that the system has chosen, which the wall cannot name
beforehand. So the reader (`daemon_ports`) comes to this process instead, which is outside of the wall, says where it is
waited for, and everything is handed on. Only what the JVM itself listens on is behind the door: what stands behind the
wall gets nowhere by it.
"""

import contextlib
import logging
import os
import socket
import struct
import threading
from pathlib import Path

log = logging.getLogger(__name__)

#: The variable that tells a reader where the door is.
VARIABLE = "PYTHON_STREAM_DOOR"
_TARGET = struct.Struct("!H")
_OPEN = b"\1"
_LISTENING = "0A"
_CHUNK = 1 << 18
#: A reader says at once where it wants to go, s.
_PATIENCE_S = 10.0


class StreamDoor:
    """Listens from its making on; serves from `open` on, until `close`."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._pid = 0

    def open(self, pid: int) -> None:
        """Let readers through to the process `pid`, which is the JVM."""
        self._pid = pid
        threading.Thread(target=self._serve, name="stream door", daemon=True).start()

    def close(self) -> None:
        """Let nobody in any more; who is through stays."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # or the thread that accepts would keep it open
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                reader, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._let_through, args=(reader,), name="stream reader", daemon=True).start()

    def _let_through(self, reader: socket.socket) -> None:
        with reader:
            try:
                reader.settimeout(_PATIENCE_S)
                (port,) = _TARGET.unpack(_exactly(reader, _TARGET.size))
                if not listens(self._pid, port):
                    log.warning("a reader of a stream asked for port %s, on which Spark does not listen", port)
                    return
                with socket.create_connection(("127.0.0.1", port), _PATIENCE_S) as spark:
                    reader.sendall(_OPEN)
                    reader.settimeout(None)
                    spark.settimeout(None)
                    back = threading.Thread(target=_hand_on, args=(spark, reader), name="stream answers", daemon=True)
                    back.start()
                    _hand_on(reader, spark)
                    back.join()
            except OSError as error:
                log.info("a reader of a stream did not get through: %s", error)


def listens(pid: int, port: int) -> bool:
    """Whether the process listens on the TCP port of this machine."""
    inodes = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(FileNotFoundError), Path(f"/proc/{pid}/net/{table}").open(encoding="ascii") as lines:
            for line in list(lines)[1:]:
                _, local, _, state, *rest = line.split()
                if state == _LISTENING and int(local.rpartition(":")[2], 16) == port:
                    inodes.add(f"socket:[{rest[5]}]")
    return any(_link(entry) in inodes for entry in os.scandir(f"/proc/{pid}/fd"))


def _link(entry: "os.DirEntry[str]") -> str:
    try:
        return os.readlink(entry.path)
    except OSError:  # closed meanwhile
        return ""


def _exactly(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = source.recv(size - len(data))
        if not part:
            raise ConnectionResetError("it closed the connection")
        data += part
    return data


def _hand_on(source: socket.socket, target: socket.socket) -> None:
    """All that comes, until an end closes; then the other is told."""
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
