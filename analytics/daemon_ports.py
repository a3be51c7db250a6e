"""Puts Spark's daemons of Python workers on ports that the JVM may connect to.

PySpark's daemon listens on any port that is free, and the wall lets the JVM connect to none but those kept for it
(`jvm.HeldPorts`). Spark lets the daemon's module be chosen for some kinds of work only, so this is the `sitecustomize`
of every Python that the JVM starts: Python imports it first, and in a daemon it changes where the one socket is bound.
"""

import os
import socket
import sys
from typing import Any

_ORIGINAL = socket.socket


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


if "pyspark.daemon" in sys.orig_argv and os.environ.get("PYTHON_DAEMON_PORTS"):
    socket.socket = _HeldSocket  # type: ignore[misc]
