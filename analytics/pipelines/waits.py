"""Pauses of a sink between its tries: told in the pipeline's state while they last, and ended with what they are for.

    state/waiting-<table>-<process>-<thread>   one request that has failed and is tried again, JSON

Its process touches the note every few seconds; one of a process that was killed is soon believed no more.

A pause may be an hour, in a process of Spark's. Who stops the pipeline does not wait for it (runner), and a sink whose
state was taken over, or a request beside which another one has failed for good, does not go on with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from analytics.pipelines.connector_errors import ConnectorFailed
from analytics.pipelines.plan import file_name

_NOTE = "waiting-"
#: Between two looks at what ends a pause, seconds.
_LOOK_S = 0.2
#: How often a process shows that a note is its own, and for how long one without a sign is believed, seconds: a try
#: lies between two pauses, and clocks of machines differ.
_TOUCH_S, _BELIEVED_S = 5.0, 60.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """A table that waits for its next try, and why. Times are epoch ms."""

    sink: str
    reason: str
    #: How many tries have failed, of how many.
    tries: int
    most: int
    since_ms: int
    next_ms: int

    @property
    def sentence(self) -> str:
        """For the owner of the pipeline, without times."""
        return f"The table {self.sink} waits to be written, before try {self.tries + 1} of {self.most}: {self.reason}"


class Pauses:
    """Those of one request. Without a state nothing is told."""

    def __init__(self, state: str, sink: str, most: int, given_up: threading.Event) -> None:
        self._state, self._given_up = state, given_up
        self._waiting = Waiting(sink, "", 0, most, 0, 0)
        self._note = Path(state) / f"{_NOTE}{file_name(sink)}-{os.getpid()}-{threading.get_ident()}" if state else None

    def take(self, pause_ms: int, tries: int, reason: str) -> None:
        """Wait, after so many tries. Raises ConnectorFailed when there is nothing to wait for any more."""
        now_ms = int(time.time() * 1000)
        since_ms = self._waiting.since_ms or now_ms
        self._waiting = replace(self._waiting, reason=reason, tries=tries, since_ms=since_ms, next_ms=now_ms + pause_ms)
        self._write()
        deadline, touched = time.monotonic() + pause_ms / 1000, time.monotonic()
        while True:
            if self._state and not os.path.isdir(self._state):
                raise ConnectorFailed(f"The table {self._waiting.sink} is written by another worker now.")
            now = time.monotonic()
            if now - touched >= _TOUCH_S:
                touched = now
                self._touch()
            left = deadline - now
            if self._given_up.wait(max(0.0, min(left, _LOOK_S))):
                raise ConnectorFailed(f"The table {self._waiting.sink} is not written any more.")
            if left <= 0:
                return

    def _write(self) -> None:
        if self._note is None:
            return
        draft = self._note.with_name(f".{self._note.name}")
        with contextlib.suppress(OSError):  # a full disk, or a state that is gone, which is seen where it is waited
            draft.write_text(json.dumps(asdict(self._waiting)), encoding="utf-8")
            draft.replace(self._note)  # whole, or as it was before

    def _touch(self) -> None:
        if self._note is not None:
            with contextlib.suppress(OSError):
                os.utime(self._note)

    def end(self) -> None:
        """The request has come to its end, whichever it is."""
        if self._note is not None and self._waiting.tries:
            with contextlib.suppress(OSError):
                self._note.unlink()


def told(state: Path) -> tuple[Waiting, ...]:
    """The tables that wait, each as its request that waits for the longest time tells."""
    found: dict[str, Waiting] = {}
    for _, waiting in _believed(state):
        earlier = found.get(waiting.sink)
        if earlier is None or waiting.since_ms < earlier.since_ms:
            found[waiting.sink] = waiting
    return tuple(found[sink] for sink in sorted(found))


def processes(state: Path) -> Mapping[str, int]:
    """How many processes, each of which does the work of one task, wait for each of the tables that do."""
    return Counter(sink for sink, _ in {(one.sink, note.name.split("-")[-2]) for note, one in _believed(state)})


def _believed(state: Path) -> Iterator[tuple[Path, Waiting]]:
    for note in _notes(state):
        with contextlib.suppress(OSError, ValueError):  # it ends, or is no note
            if note.stat().st_mtime >= time.time() - _BELIEVED_S:
                yield note, Waiting(**json.loads(note.read_text(encoding="utf-8")))


def forget(state: Path) -> None:
    """Remove what killed processes have left, before there are others."""
    for note in (*_notes(state), *state.glob(f".{_NOTE}*")):
        note.unlink(missing_ok=True)


def _notes(state: Path) -> list[Path]:
    return sorted(state.glob(f"{_NOTE}*"))


class Together:
    """What one task does at once: once a part of it has failed the pauses of all end, and all raise that failure."""

    def __init__(self) -> None:
        self.given_up = threading.Event()
        self._failures: list[BaseException] = []

    def __enter__(self) -> None:
        """A part begins."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._failures.append(error)
            self.given_up.set()
            if self._failures[0] is not error:
                raise self._failures[0] from None
