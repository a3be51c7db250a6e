"""Where lines go: to the terminal behind the name of their process, and to a log file of that process."""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
import queue
import re
import sys
import threading
from datetime import UTC, datetime
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

#: A line that has its time already, in the one format of all log files, or is an object of GANTRY_LOG_FORMAT=json.
TIMED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} |\{")

#: How Redis begins a line: process, role, and its own form of the time.
OF_REDIS = re.compile(r"(\d+:[A-Z]) \d\d \w{3} \d{4} \d\d:\d\d:\d\d\.\d{3} ")

#: Seconds that the terminal gets at the end to take what still waits.
FLUSH_LIMIT = 2.0


class LogFile(RotatingFileHandler):
    """A log file; what it cannot take, as on a full disk, is counted and told once it takes lines again."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=LOG_BYTES, backupCount=LOG_KEPT, encoding="utf-8")
        self._dropped, self._failed, self._reason = 0, False, ""

    def line(self, text: str) -> str:
        """Write a line; returns what is to be said about lines that were dropped, if anything."""
        self._failed = False
        self.emit(logging.makeLogRecord({"msg": timed(text, datetime.now(UTC))}))
        if self._failed:
            self._dropped += 1
            return f"{self._trouble()}; its lines are dropped and counted" if self._dropped == 1 else ""
        if not self._dropped:
            return ""
        told = f"{self._dropped} lines were not written: {self._trouble()}"
        self._dropped = 0
        self.emit(logging.makeLogRecord({"msg": timed(told, datetime.now(UTC))}))
        return told

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (logging's name)
        """Remember the reason; a traceback a line would fill the terminal."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        self._failed, self._reason = True, error.strerror or str(error)
        with contextlib.suppress(OSError, ValueError):
            self.close()  # with what its buffer holds; the next line opens it again
        self.stream = None

    def _trouble(self) -> str:
        folder = Path(self.baseFilename).parent
        full = self._reason in {os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT)}
        return f"The disk of {folder} is full" if full else f"{self.baseFilename} cannot be written ({self._reason})"


class Output:
    """The terminal, shared by all children, and their log files."""

    def __init__(self, folder: Path, stream: TextIO, *, colour: bool) -> None:
        self._folder, self._stream, self._colour = folder, stream, colour
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal of ASCII must not stop for a path with an ö
        self._files: dict[str, LogFile] = {}
        self._hushed = False
        self._waiting: queue.Queue[str | None] = queue.Queue(BACKLOG)
        self._writer = threading.Thread(target=self._write, name="terminal", daemon=True)
        self._writer.start()

    def line(self, name: str, text: str) -> None:
        """Show one line of the process `name` and keep it in its log."""
        if told := self._file(name).line(text):
            self.banner(f"{self._painted(OWN)} log of {name}: {told}.")
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

    def _file(self, name: str) -> LogFile:
        if name not in self._files:
            path = self._folder / f"{name}.log"
            self._files[name] = LogFile(path)
            path.chmod(0o600)
        return self._files[name]


def timed(text: str, now: datetime) -> str:
    """The line with its time (UTC, ms) in front, `2026-01-15 10:00:00,123`, unless it has one in that form."""
    if TIMED.match(text):
        return text
    said = OF_REDIS.sub(r"\1 ", text, count=1)
    return f"{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03} {said}"
