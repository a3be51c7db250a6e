"""A few processes that parse SQL for this one, which can be ended: a parser's time and memory are not ours to lend.

A text may keep sqlglot busy for minutes, and a thread cannot be ended. Each process reads one text at a time
(`parser_process`); one that takes too long is ended by the kernel, and another started for the next text. One account
never holds all of them, nor lets more than a few threads wait for them, and over all processes of the product it has so
much of their time a minute as its limit says (`parsing_time`).
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import struct
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any, cast

from sqlglot import serde

from analytics import confined
from analytics.places import Places
from console.sql.parser_process import LONGEST_CPU_S
from console.sql.parsing_time import Budget
from console.web.errors import Refused

#: Processes at most; each takes about 40 MB. One account uses all but one of them.
MOST = 3
#: How long an answer may take, and how long a free process is waited for, s. The limit of processor time comes first,
#: unless the machine is very busy.
_LONGEST_S = 15.0
#: Threads of one account that wait for a process at a time.
MOST_WAITING = 32
_PROGRAM = Path(__file__).with_name("parser_process.py")


class ParserEnded(Exception):  # noqa: N818
    """The process ended, or was ended, over a text."""


class Parser:
    """One process."""

    def __init__(self) -> None:
        self._process = confined.start([sys.executable, "-I", str(_PROGRAM)], {"LANG": "C.UTF-8"})
        self._source, self._sink = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        #: Processor time of the last text, s.
        self.cpu_s = 0.0

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def lives(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def ask(self, text: str, deadline: float) -> tuple[str, Any]:
        """The outcome for a text, as `parser_process` tells it. Raises ParserEnded; then this one is of no use."""
        request = text.encode("utf-8", "replace")
        try:
            self._source.write(struct.pack(">I", len(request)) + request)
            self._source.flush()
            (length,) = struct.unpack(">I", self._read(4, deadline))
            kind, found, self.cpu_s = json.loads(self._read(length, deadline), object_hook=_checked)
            outcome = kind, [serde.load(tree) for tree in found] if kind == "trees" else found
        except (OSError, ValueError, ParserEnded) as error:
            self.end()
            raise ParserEnded from error
        return outcome

    def _read(self, length: int, deadline: float) -> bytes:
        file = self._sink.fileno()
        pieces = bytearray()
        poll = select.poll()  # not select(), which knows no file beyond 1023
        poll.register(file, select.POLLIN)
        while len(pieces) < length:
            left_ms = (deadline - time.monotonic()) * 1000
            if left_ms <= 0 or not poll.poll(left_ms):
                raise ParserEnded
            piece = os.read(file, length - len(pieces))
            if not piece:
                raise ParserEnded
            pieces += piece
        return bytes(pieces)

    def end(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._source, self._sink):
            with contextlib.suppress(OSError):  # what was not written has no reader any more
                pipe.close()


def _checked(node: dict[str, Any]) -> dict[str, Any]:
    """A node of a tree as the process tells it, which may name classes of expressions and nothing else."""
    name = node.get(serde.CLASS, "")
    if "." in name and name != serde.DATA_TYPE and not name.startswith("sqlglot.expressions."):
        raise ValueError(f"{name} is no expression")
    return node


class Parsers:
    """The processes of this one, started when first needed."""

    def __init__(self, budget: Budget | None = None) -> None:
        self._budget = budget
        self.forget()

    def forget(self) -> None:
        """Begin anew, without the processes that there were."""
        self._places = Places(MOST, most_waiting=MOST_WAITING)
        self._lock = threading.Lock()
        self._idle: list[Parser] = []

    def ask(self, text: str, holder: str) -> tuple[str, Any]:
        """The outcome for a text of `holder`, an account.

        Raises Refused when it takes too long, when none gets free, and when the account has had its time.
        """
        if self._budget is not None:
            self._budget.require(holder)
        deadline = time.monotonic() + _LONGEST_S
        parser = self._take(holder, deadline)
        try:
            outcome = parser.ask(text, deadline)
        except ParserEnded as error:
            self._give_back(holder, None)
            self._charge(holder, LONGEST_CPU_S)
            raise Refused(
                "STATEMENT_TIME_LIMIT",
                f"To read the statement takes longer than {LONGEST_CPU_S} s or too much memory; divide it.",
                "text",
            ) from error
        except BaseException:
            parser.end()
            self._give_back(holder, None)
            raise
        self._give_back(holder, parser)
        self._charge(holder, parser.cpu_s)
        return outcome

    def _charge(self, holder: str, seconds: float) -> None:
        if self._budget is not None:
            self._budget.charge(holder, seconds)

    def warm(self) -> None:
        """Start one, so that the first statement does not wait for it."""
        with self._lock:
            if not self._idle and self._places.are_free:
                self._idle.append(Parser())

    def _take(self, holder: str, deadline: float) -> Parser:
        if not self._places.take(holder, deadline):
            raise Refused("TOO_MANY_WAITING", "Too many statements are being read at the moment; try again.", "text")
        try:
            return self._idle_one() or Parser()
        except BaseException:
            self._give_back(holder, None)
            raise

    def _idle_one(self) -> Parser | None:
        with self._lock:
            while self._idle:
                parser = self._idle.pop()
                if parser.lives:
                    return parser
                parser.end()
        return None

    def _give_back(self, holder: str, parser: Parser | None) -> None:
        if parser is not None:
            with self._lock:
                self._idle.append(parser)
        self._places.give_back(holder)


parsers = Parsers(Budget())
# A process that was forked from this one has threads and pipes of its own to make.
os.register_at_fork(after_in_child=parsers.forget)
