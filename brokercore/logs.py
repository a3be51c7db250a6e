"""Log lines: plain, or one JSON object each (`GANTRY_LOG_FORMAT=json`), for the broker as for console and workers.

What a stranger chose (client ids, topics, remarks) may stand in a line but never ends it: control characters are
escaped, and long texts are cut. Fields beside the message are given as `extra={"fields": {…}}`.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import re
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

LONGEST = 4096
"""Characters of a text in a line; a traceback may have four times as many."""

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""What ends a line for some reader, moves its cursor or turns its reading order."""


def one_line(text: str, longest: int = LONGEST) -> str:
    """The text with unsafe characters escaped, cut after `longest` characters."""
    return _UNSAFE.sub(_escaped, cut(text, longest))


def cut(text: str, longest: int = LONGEST) -> str:
    """The text, or its beginning with a mark that more followed."""
    return text if len(text) <= longest else text[:longest] + "…"


def fields_of(record: logging.LogRecord) -> Mapping[str, Any]:
    """What is told beside the message; empty values are left out."""
    given: Mapping[str, Any] = getattr(record, "fields", None) or {}
    return {name: value for name, value in given.items() if value not in ("", None)}


class LineFormatter(logging.Formatter):
    """`time level logger: message name=value …`, always one line; the lines of a traceback are marked with `|`.

    The time is in UTC, as `2026-01-15 10:00:00,123`.
    """

    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        """The record as text."""
        words = [one_line(f"{name}={_quoted(value)}") for name, value in fields_of(record).items()]
        request = getattr(record, "request_id", "")
        middle = f" [{request}]" if request else ""
        head = f"{self.formatTime(record)} {record.levelname} {record.name}{middle if request else ':'} "
        line = " ".join([head + one_line(record.getMessage()), *words])
        for text in _trace(self, record).splitlines():
            line += f"\n  | {one_line(text)}"
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (UTC), level, event, logger, then the fields of the record."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        moment = datetime.fromtimestamp(record.created, UTC)
        row: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": cut(record.getMessage()),
            "logger": record.name,
        }
        request = getattr(record, "request_id", "-")
        if request != "-":
            row["request_id"] = request
        for name, value in fields_of(record).items():
            row[name] = cut(value) if isinstance(value, str) else value
        if trace := _trace(self, record):
            row["exception"] = trace
        return json.dumps(row, ensure_ascii=True, default=str)


class FloodFilter(logging.Filter):
    """Lets through so many lines of a kind in a time, and then says how many more there were.

    A kind is a logger, a level, the text before its values are put in, and the class of the exception. What is not even
    a warning always passes, and so does a line with `extra={"bounded": True}`: who writes it has counted already.
    """

    MOST = 20
    SECONDS = 10.0

    def __init__(self) -> None:
        super().__init__()
        self._reset()
        os.register_at_fork(after_in_child=self._reset)
        atexit.register(self.tell)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._since, self._timer = time.monotonic(), False
        self._counts: dict[tuple[Any, ...], int] = {}
        self._last: dict[tuple[Any, ...], str] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """True when the line is to be written."""
        if record.levelno < logging.WARNING or getattr(record, "bounded", False):
            return True
        failure = record.exc_info[0] if record.exc_info else None
        kind = (record.name, record.levelno, str(record.msg), failure)
        with self._lock:
            passed = time.monotonic() - self._since
            if passed > self.SECONDS and not self._timer:
                self._since, passed, self._counts = time.monotonic(), 0.0, {}
            self._counts[kind] = self._counts.get(kind, 0) + 1
            if self._counts[kind] <= self.MOST:
                return True
            self._last[kind] = record.getMessage()
            if not self._timer:
                self._timer = True
                timer = threading.Timer(max(self.SECONDS - passed, 0.0), self.tell)
                timer.daemon = True
                timer.start()
            return False

    def tell(self) -> None:
        """Log how many lines were left out since the last time, by kind, and begin anew."""
        with self._lock:
            left_out = [(kind, self._counts[kind] - self.MOST, text) for kind, text in self._last.items()]
            self._since, self._timer, self._counts, self._last = time.monotonic(), False, {}, {}
        for (name, level, _, _), count, text in left_out:
            logging.getLogger(name).log(level, "%d more lines like this one were not written: %s", count, text)


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return formatter.formatException(record.exc_info)[-4 * LONGEST :] if record.exc_info else ""


def _quoted(value: Any) -> str:
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if not text or set(text) & set(' "=') else text


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(found[0], f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


FORMATTERS: dict[str, type[logging.Formatter]] = {"text": LineFormatter, "json": JsonFormatter}
"""By the value of GANTRY_LOG_FORMAT."""
