"""Messages of a queue that were received and are not deleted yet, in the state of their pipeline.

    <state>/source-<name>/
      000000000017.arrow     the rows of batch 17
      000000000017.json      its messages: {"ids": [...], "handles": [...]}; a batch without it is none
      state.json             the last number given, ids that could not be deleted, and the counters
      reached.json           of an inflow task, where it stands (reaches)

A queue has no offsets: what was received once can come again, and what was deleted never does. So a batch is written
here before Spark hears of it, is read again as often as Spark wants, and is deleted in the queue when every insert that
reads it has committed it, and only then. Its ids tell what comes again meanwhile.

Nobody makes the folder here but the one who starts the pipeline: after another runner took the state over, it is gone,
and every write fails.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
from pyarrow import ipc

#: An id that could not be deleted is remembered for as long as a queue keeps a message at most, and a day.
_REMEMBERED_MS = (15 + 1) * 86_400_000
#: Rows that a reader hands on at once.
_ROWS_AT_ONCE = 1000
_ROWS, _MESSAGES, _DRAFT, _STATE, _LOCK = ".arrow", ".json", ".draft", "state.json", "lock"
COUNTERS = (
    "duplicateMessages",
    "deletedMessages",
    "failedDeletes",
    "deserializationErrors",
    "skippedMessages",
    "droppedEvents",
)
"""The four of the vendor, then messages from before `startTimeMs`, and further events of one notification."""


@dataclass(slots=True)
class Batch:
    """Messages of a batch: handles by id, the latest that is known of each."""

    number: int
    handles: dict[str, str]


@dataclass(slots=True)
class _State:
    last: int = 0
    #: Ids that could not be deleted, with when that was, epoch ms.
    undeleted: dict[str, int] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0))


class Spool:
    """The spool of one source. One process leads it, the others read; safe in threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.RLock()
        self._leader: int | None = None
        self._state = _State()
        #: Batches that are here, by number, and in which one an id is.
        self.batches: dict[int, Batch] = {}
        self._known: dict[str, int] = {}
        #: Messages that were deleted, and the last request whose answer may still have a copy of each.
        self._gone: dict[str, int] = {}

    def lead(self) -> bool:
        """Become the process that receives and deletes, until this one ends; False while another is. Raises OSError."""
        with self._lock:
            if self._leader is None:
                opened = os.open(self.folder / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
                try:
                    fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    os.close(opened)
                    return False
                self._leader = opened
                self._load()
            return True

    def release(self) -> None:
        """Let another process lead."""
        with self._lock:
            if self._leader is not None:
                os.close(self._leader)
                self._leader = None

    def _load(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            found = orjson.loads((self.folder / _STATE).read_bytes())
            self._state = _State(found["last"], found["undeleted"], self._state.counters | found["counters"])
        numbers = self.numbers()
        self._clear(set(numbers))
        for number in numbers:
            found = orjson.loads(self._file(number, _MESSAGES).read_bytes())
            self.batches[number] = Batch(number, dict(zip(found["ids"], found["handles"], strict=True)))
            self._known.update(dict.fromkeys(found["ids"], number))
            self._state.last = max(self._state.last, number)
        old = round(time.time() * 1000) - _REMEMBERED_MS
        self._state.undeleted = {name: when for name, when in self._state.undeleted.items() if when > old}

    def _clear(self, batches: set[int]) -> None:
        """Remove what a leader that was killed left of a batch: half of a new one, or the rows of one that was done."""
        for file in self.folder.iterdir():
            # Only what this class wrote: readers keep drafts of their own here.
            is_numbered = file.stem.isdecimal()
            if is_numbered and (file.suffix == _DRAFT or (file.suffix == _ROWS and int(file.stem) not in batches)):
                file.unlink(missing_ok=True)

    def numbers(self) -> list[int]:
        """The batches that are here, in order, whoever has written them."""
        names = (name.removesuffix(_MESSAGES) for name in os.listdir(self.folder) if name.endswith(_MESSAGES))
        return sorted(int(name) for name in names if name.isdecimal())

    @property
    def last(self) -> int:
        """The number that was given last, also when its batch has gone since."""
        with contextlib.suppress(FileNotFoundError):
            found = orjson.loads((self.folder / _STATE).read_bytes())
            return max([int(found["last"]), *self.numbers()])
        return max(self.numbers(), default=0)

    def counters(self) -> dict[str, int]:
        """As of the last write."""
        with contextlib.suppress(FileNotFoundError):
            found = orjson.loads((self.folder / _STATE).read_bytes())
            return {name: int(found["counters"].get(name, 0)) for name in COUNTERS}
        return dict.fromkeys(COUNTERS, 0)

    def count(self, name: str, times: int = 1) -> None:
        """Add to a counter; it is kept with the next write."""
        with self._lock:
            self._state.counters[name] += times

    # What the leader does

    def seen(self, message: str, handle: str) -> bool:
        """Whether the message is here already, for whose deletion the new handle counts from now on."""
        with self._lock:
            number = self._known.get(message)
            if number is None:
                return False
            self.batches[number].handles[message] = handle
            return True

    def has(self, message: str) -> bool:
        """Whether the message is in a batch that is here."""
        return message in self._known

    def is_done(self, message: str) -> bool:
        """Whether the message was committed and could not be deleted."""
        return message in self._state.undeleted

    def is_gone(self, message: str) -> bool:
        """Whether the message was deleted: a copy was received before that."""
        return message in self._gone

    def forget_gone(self, until: int) -> None:
        """The answers up to this request were gone through: there are no copies in them any more."""
        with self._lock:
            self._gone = {message: last for message, last in self._gone.items() if last > until}

    def add(self, rows: pa.RecordBatch, handles: Mapping[str, str], *, above: int = 0) -> int:
        """Keep a batch; returns its number, higher than all before and than `above`. Raises OSError."""
        with self._lock:
            number = max(self._state.last, above) + 1
            draft = self._file(number, _DRAFT)
            with draft.open("wb") as opened:
                with ipc.new_file(opened, rows.schema) as writer:
                    writer.write_table(pa.Table.from_batches([rows]), _ROWS_AT_ONCE)
                opened.flush()
                os.fsync(opened.fileno())
            draft.rename(self._file(number, _ROWS))
            batch = Batch(number, dict(handles))
            messages = {"ids": list(batch.handles), "handles": list(batch.handles.values())}
            _write(self._file(number, _MESSAGES), messages)
            self.batches[number] = batch
            self._known.update(dict.fromkeys(batch.handles, number))
            self._state.last = number
            self.keep()
            return number

    def remove(self, number: int, undeleted: Sequence[str], asked: int = 0) -> None:
        """A batch was deleted in the queue, but for these ids; `asked` is the last request to the queue before.

        Raises OSError.
        """
        with self._lock:
            batch = self.batches.pop(number)
            for message in batch.handles:
                self._known.pop(message, None)
            now = round(time.time() * 1000)
            self._gone.update(dict.fromkeys(batch.handles.keys() - set(undeleted), asked))
            self._state.undeleted.update(dict.fromkeys(undeleted, now))
            self.keep()
            for kind in (_MESSAGES, _ROWS):
                with contextlib.suppress(FileNotFoundError):
                    self._file(number, kind).unlink()

    def forget(self, message: str, asked: int = 0) -> None:
        """A message that could not be deleted has been deleted after all; `asked` as in `remove`."""
        with self._lock:
            self._gone[message] = asked
            self._state.undeleted.pop(message, None)

    def keep(self) -> None:
        """Write the state. Raises OSError."""
        with self._lock:
            state = {"last": self._state.last, "undeleted": self._state.undeleted, "counters": self._state.counters}
            _write(self.folder / _STATE, state)

    # What everybody does

    def rows(self, after: int, until: int) -> list[int]:
        """The batches behind one number up to another."""
        return [number for number in self.numbers() if after < number <= until]

    def read(self, number: int) -> Iterator[pa.RecordBatch]:
        """The rows of a batch. Raises OSError."""
        with pa.memory_map(str(self._file(number, _ROWS))) as source:
            reader = ipc.open_file(source)
            for index in range(reader.num_record_batches):
                yield reader.get_batch(index)

    def _file(self, number: int, kind: str) -> Path:
        return self.folder / f"{number:012}{kind}"


def _write(file: Path, content: Any) -> None:
    """Whole or not at all, and on disk before anybody is told of it."""
    draft = file.with_suffix(_DRAFT)
    with draft.open("wb") as opened:
        opened.write(orjson.dumps(content))
        opened.flush()
        os.fsync(opened.fileno())
    draft.rename(file)
