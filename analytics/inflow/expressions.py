"""Transforms by an expression in JMESPath or JSONata, evaluated over each event, which is `@` or `$`.

    JMESPath
    {id: id, source: source, type: type, data: data.after}     mapping
    merge(@, {gantrytopic: join('-', ['changes', subject])})   enrichment and routing; the function merge is JMESPath's
    data.rows[].{data: @}                                      splitting: an array makes an event of each element
    [@][?type == 'dts:Change']                                 … and an empty one, or null, drops the event

    JSONata
    {"id": id, "source": source, "data": data.after}
    $merge([$, {"gantrytopic": "changes-" & data.tableName}])
    $map(data.rows, function($row, $at) { $merge([$$, {"id": $$.id & "/" & $at, "data": $row}]) })
    type = "dts:Change" ? $

The result is an object, an array of objects, or null. An expression sees one event at a time, so that it is known of
which event each result was made, and that one that cannot be transformed keeps up no other.

Numbers of JSONata are those of JavaScript: a whole number beyond 2^53 is compared and counted with as if it were
rounded. One that the expression only passes on stays as it was (`expression_process`).

Expressions can be written that take any time and memory for a short text, so they are evaluated in a process that has
little of both (`expression_process`); it is ended and started again when it takes more.
"""

from __future__ import annotations

import contextlib
import os
import select
import struct
import sys
import threading
import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import IO, cast

from analytics import confined
from analytics.inflow.expression_process import FAILED, MADE, MOST_RESULT, TOO_LITTLE
from analytics.inflow.transform import Event, Transformed, TransformFailed, pieces

#: Characters of an expression.
LONGEST = 8 * 1024
#: Processor time that a batch may take, s.
BATCH_S = 5
#: How many times as long it may be until a batch is done: the process comes last for the processor, and others wait.
_PATIENCE = 6
#: How long the process may take to start and to read the expression, s.
_START_S = 20.0
#: Bytes of events that the process gets at a time: it has all of them in its memory, and one event may have more.
_PIECE_BYTES = 1 << 20
_MOST_EVENT_BYTES = 64 << 20
_PROGRAM = Path(__file__).with_name("expression_process.py")


class Language(StrEnum):
    """In what an expression is written."""

    JMESPATH = "jmespath"
    JSONATA = "jsonata"


class _Ended(Exception):  # noqa: N818
    """The process ended, or has taken too long."""


class Expression:
    """A transform by an expression. It has a process from the first batch on until it is closed."""

    def __init__(self, text: str, language: Language = Language.JMESPATH, *, batch_s: int = BATCH_S) -> None:
        """Raises TransformFailed for a text that is too long; `check` tells whether it is an expression."""
        if not text.strip() or len(text) > LONGEST:
            raise TransformFailed(f"An expression has 1 to {LONGEST:,} characters; this one has {len(text):,}.")
        self._text, self._language, self._batch_s = text, language, batch_s
        self._lock = threading.Lock()
        self._process: _Process | None = None

    def check(self) -> None:
        """Raises TransformFailed, with the place, for a text that is no expression."""
        with self._lock:
            self._started()

    def apply(self, events: Sequence[Event]) -> Transformed:
        """What a batch becomes. An event of which the expression makes nothing that is allowed is in `failed`.

        Raises TransformFailed for a text that is no expression, for a batch that takes too long, with the event that it
        was at (`index`), and for one of which too much is made.
        """
        done = Transformed()
        with self._lock:
            process = self._started()
            deadline = time.monotonic() + _PATIENCE * self._batch_s
            at = 0
            try:
                process.send(b"[]", deadline)
                for begin, piece in pieces(events, _PIECE_BYTES):
                    at = begin
                    if len(piece[0]) > _MOST_EVENT_BYTES:
                        done.failed[begin] = f"The event has more than {_MOST_EVENT_BYTES >> 20} MiB."
                        continue
                    process.send(b"[" + b",".join(piece) + b"]", deadline)
                    for at in range(begin, begin + len(piece)):
                        self._take(process, done, at, deadline)
            except _Ended as error:
                self._end()
                raise TransformFailed(
                    f"The expression takes longer than {self._batch_s} s of a processor for the batch, or too much"
                    f" memory; it was at the event {at + 1} of {len(events)}.",
                    index=at,
                ) from error
            except BaseException:
                self._end()  # it would answer what is not asked any more
                raise
            if process.is_exhausted:
                self._end()
        return done

    def _take(self, process: _Process, done: Transformed, place: int, deadline: float) -> None:
        kind, content = process.receive(deadline)
        if kind != MADE:
            done.failed[place] = f"The expression cannot be evaluated: {content.decode('utf-8', 'replace')}."
            return
        try:
            done.add(content, place, "the expression")
        except TransformFailed as failed:
            if failed.index is None:
                raise
            done.failed[place] = failed.user_message

    def close(self) -> None:
        """End the process; the next batch starts another."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None

    def _started(self) -> _Process:
        if self._process is not None and self._process.lives:
            return self._process
        self._end()
        try:
            process = _Process(self._batch_s, self._language)
        except OSError as error:
            raise TransformFailed(f"The expression cannot be evaluated now: {error}.", retryable=True) from error
        try:
            deadline = time.monotonic() + _START_S
            process.send(self._text.encode("utf-8", "replace"), deadline)
            kind, content = process.receive(deadline)
        except _Ended as error:
            process.end()
            raise TransformFailed(
                "The expression cannot be evaluated now: its process did not start.", retryable=True
            ) from error
        if kind != MADE:
            process.end()
            raise TransformFailed(f"The expression cannot be read: {content.decode('utf-8', 'replace')}.")
        self._process = process
        return process


class _Process:
    """One process."""

    def __init__(self, batch_s: int, language: Language) -> None:
        program = [sys.executable, "-I", str(_PROGRAM), str(batch_s), str(language)]
        self._process = confined.start(program, {"LANG": "C.UTF-8"}, bufsize=0)
        self._sink, self._source = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        os.set_blocking(self._sink.fileno(), False)
        self._received = bytearray()
        #: Whether it ran out of memory, and may have little of it from now on.
        self.is_exhausted = False

    @property
    def lives(self) -> bool:
        return self._process.poll() is None

    def send(self, content: bytes, deadline: float) -> None:
        """A frame. Raises _Ended."""
        left = memoryview(struct.pack(">I", len(content)) + content)
        while left:
            _wait(self._sink, select.POLLOUT, deadline)
            try:
                left = left[os.write(self._sink.fileno(), left) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise _Ended from error

    def receive(self, deadline: float) -> tuple[bytes, bytes]:
        """What the next frame is, and what it has. Raises _Ended."""
        kind, length = struct.unpack(">cI", self._read(5, deadline))
        if kind not in (MADE, FAILED, TOO_LITTLE) or length > MOST_RESULT:
            raise _Ended
        self.is_exhausted |= kind == TOO_LITTLE
        return kind, self._read(length, deadline)

    def _read(self, length: int, deadline: float) -> bytes:
        while len(self._received) < length:
            _wait(self._source, select.POLLIN, deadline)
            piece = os.read(self._source.fileno(), 1 << 16)
            if not piece:
                raise _Ended
            self._received += piece
        found = bytes(self._received[:length])
        del self._received[:length]
        return found

    def end(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._sink, self._source):
            with contextlib.suppress(OSError):
                pipe.close()


def _wait(pipe: IO[bytes], event: int, deadline: float) -> None:
    poll = select.poll()  # not select(), which knows no file beyond 1023
    poll.register(pipe, event)
    left_ms = (deadline - time.monotonic()) * 1000
    if left_ms <= 0 or not poll.poll(left_ms):
        raise _Ended
