"""Where lines go: to the terminal behind the name of their process, and to a log file of that process."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import threading
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TextIO

#: Bytes a log file grows to before it is set aside, and how many set-aside ones are kept.
LOG_BYTES, LOG_KEPT = 5 * 1024 * 1024, 3

#: ANSI colours by turn; red is left for trouble.
COLOURS = (36, 32, 33, 35, 34, 96, 92, 93, 95, 94)

#: Characters of the longest process name.
WIDTH = 7

#: What the launcher calls itself.
OWN = "gantry"

#: Lines that wait for a terminal that does not take them. A stopped terminal must not stop the broker, so what is
#: more than this is shown nowhere but in the log file.
BACKLOG = 10_000

#: Seconds that the terminal gets at the end to take what still waits.
FLUSH_LIMIT = 2.0


class Output:
    """The terminal, shared by all children, and their log files."""

    def __init__(self, folder: Path, stream: TextIO, *, colour: bool) -> None:
        self._folder, self._stream, self._colour = folder, stream, colour
        self._files: dict[str, RotatingFileHandler] = {}
        self._hushed = False
        self._waiting: queue.Queue[str | None] = queue.Queue(BACKLOG)
        self._writer = threading.Thread(target=self._write, name="terminal", daemon=True)
        self._writer.start()

    def line(self, name: str, text: str) -> None:
        """Show one line of the process `name` and keep it in its log."""
        self._file(name).emit(logging.makeLogRecord({"msg": text}))
        if name == OWN or not self._hushed:
            self.banner(f"{self._painted(name)} {text}")

    def hush(self) -> None:
        """Show only the launcher's own lines from now on: what processes say while they stop is for their logs."""
        self._hushed = True

    def say(self, text: str) -> None:
        """Show and keep a line of the launcher's own."""
        self.line(OWN, text)

    def banner(self, text: str) -> None:
        """Show lines without keeping them: the welcome holds a password."""
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(text)

    def close(self) -> None:
        """Write what waits, as far as the terminal takes it, and close the log files."""
        with contextlib.suppress(queue.Full):
            self._waiting.put(None, timeout=FLUSH_LIMIT)
        self._writer.join(FLUSH_LIMIT)
        for file in self._files.values():
            file.close()

    def _write(self) -> None:
        while (text := self._waiting.get()) is not None:
            try:
                self._stream.write(text + "\n")
                self._stream.flush()
            except OSError:
                # The terminal or the pipe behind us is gone: the rest goes nowhere, the logs go on.
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())

    def _painted(self, name: str) -> str:
        label = f"{name:<{WIDTH}} |"
        if not self._colour:
            return label
        code = 1 if name == OWN else COLOURS[list(self._files).index(name) % len(COLOURS)]
        return f"\x1b[{code}m{label}\x1b[0m"

    def _file(self, name: str) -> RotatingFileHandler:
        if name not in self._files:
            path = self._folder / f"{name}.log"
            self._files[name] = RotatingFileHandler(path, maxBytes=LOG_BYTES, backupCount=LOG_KEPT, encoding="utf-8")
            path.chmod(0o600)
        return self._files[name]
