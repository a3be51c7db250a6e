"""A durable log of events in a folder: one process appends, any number of others read.

    <folder>/
      claim                  locked while a writer takes the log over
      writer-00000007        locked by the writer with the number 7 for as long as it lives
      run-00000007/          renamed to the number of the writer that takes over
        end                  what is in the log: first and last entry, and their times
        00000000000000000001.log, .index    segments (`segments`)

What is appended is on the disk before `append` returns, and is told in `end` after that: readers see nothing that a
crash could take back. After a crash the next writer finds what was completed, and cuts what was not.

A writer takes over from one with a lower number, whether that lives or not, by renaming the folder: from then on the
older one has nowhere to begin a file, and is told so before it calls anything durable (`LogFenced`). It may still
write to the file that it has open. So no writer goes on in a segment that it has not begun itself, and no segment
counts further than where the next one begins.

The lake's file system has to be a local one, or one whose locks and renames are those of a local one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from analytics.errors import AnalyticsError
from analytics.inflow.segments import (
    DRAFT,
    END,
    END_BYTES,
    INDEX,
    NEVER_MS,
    SEGMENT,
    SEGMENT_BYTES,
    Before,
    End,
    Index,
    LogDamaged,
    Segment,
    file_name,
    firsts,
    frame,
    head,
    read_end,
    run_name,
    runs,
)

#: How long after its beginning a segment ends, however short it is, s: the log is trimmed by segments.
SEGMENT_S = 600.0
_LOCK = re.compile(r"writer-(\d{8})")
_CLAIM = "claim"
#: How long another writer may take to take the log over, and between two looks, s.
_CLAIM_S, _LOOK_S = 10.0, 0.002


class LogHeld(AnalyticsError):  # noqa: N818
    """Another process writes the log."""


class LogFenced(AnalyticsError):  # noqa: N818
    """A writer with a higher number has the log; this one must end. What it could not append is not in the log."""


@dataclass(frozen=True, slots=True)
class _Own:
    """A segment that a writer has begun: its file, when that was on the monotonic clock, and its index."""

    file: int
    begun: float
    index: Index


class EventLog:
    """The writer of a log. Safe in threads."""

    def __init__(
        self,
        folder: Path,
        number: int | None = None,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        segment_s: float = SEGMENT_S,
    ) -> None:
        """Take the log over, and begin it if there is none.

        A writer with a lower number loses the log. Without `number` it is the one that the log has, so that only a
        writer that has ended is followed. Raises LogHeld while another process writes under the same number, LogFenced
        when a higher one has the log, LogDamaged when its last segment cannot be read, and OSError.
        """
        self.folder = folder
        self._segment_bytes, self._segment_s = segment_bytes, segment_s
        self._lock = threading.Lock()
        self._held: int | None
        self.number, self._held = _claim(folder, number)
        self._run = folder / run_name(self.number)
        #: The segment that this writer has begun, and the index of the last one, whoever has begun it.
        self._own: _Own | None = None
        self._index: Index | None = None
        self._end_file: int | None = None
        #: Where the next End is written.
        self._place = 0
        #: The newest times of segments that are over, by their first entry.
        self._newest: dict[int, int] = {}
        try:
            self._recover()
        except BaseException:
            self.close()
            raise

    def _recover(self) -> None:
        """Find the end of the log, and cut what was not completed."""
        told = None
        with contextlib.suppress(FileNotFoundError):
            told = read_end(self._run / END)
        told = told or End()
        for name in os.listdir(self._run):
            if name.endswith(DRAFT):
                (self._run / name).unlink()
        self._firsts = firsts(self._run)
        while len(self._firsts) > 1 and self._firsts[1] <= told.first:  # a trim that was interrupted
            self._remove_first()
        self._before, last, first_ms = Before(), 0, NEVER_MS
        if self._firsts:
            last = self._cut(told.last)
            first_ms = self._first_time(last)
        first, segment = (self._firsts[0], self._firsts[-1]) if self._firsts else (1, 1)
        self._end = End(first, last, segment, first_ms, self._before.time_ms)
        draft = self._run / f"{END}{DRAFT}"
        self._end_file = os.open(draft, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        _write(self._end_file, self._end.dump() * 2, 0)
        os.fsync(self._end_file)
        draft.rename(self._run / END)
        _sync_folder(self._run)

    def _cut(self, told: int) -> int:
        """Let the last segment end behind its last entry, whose number is returned; `told` was completed."""
        with contextlib.closing(Segment(self._run, self._firsts[-1])) as segment:
            self._before, end = segment.find_end()
            self._index = segment.index
        if self._index.next <= told:
            raise end
        if end.file.stat().st_size > end.offset:
            with end.file.open("rb+") as opened:
                opened.truncate(end.offset)
                os.fsync(opened.fileno())
        return self._index.next - 1

    def _first_time(self, last: int) -> int:
        """The time of the oldest entry, for those who ask for it; a damage is told to who reads it."""
        with contextlib.suppress(LogDamaged), contextlib.closing(Segment(self._run, self._firsts[0])) as segment:
            found, _ = segment.read(segment.first - 1, last, 1, 1)
            return found[0].time_ms if found else NEVER_MS
        return NEVER_MS

    def close(self) -> None:
        """Let another process write."""
        with self._lock:
            self._leave_segment()
            files = [file for file in (self._end_file, self._held) if file is not None]
            self._end_file = self._held = None
            for file in files:
                os.close(file)

    def __enter__(self) -> EventLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def first(self) -> int:
        """The number of the first entry that is still here, or would be."""
        return self._end.first

    @property
    def last(self) -> int:
        """The number of the last entry; 0 before the first."""
        return self._end.last

    def last_position(self) -> str:
        """The position of the last entry, also when it was trimmed since; empty before the first."""
        return self._before.position

    def append(self, entries: Iterable[tuple[str, int, bytes]]) -> int:
        """Append `NewEntry`s, all or none as far as readers see; the sequence of the last one, when they are durable.

        Raises ValueError for an entry that is too large, LogFenced, and OSError, such as for a full disk: then nothing
        was appended, and the next call may be. If the process ends right after an OSError, the next writer may find
        what it was about in the log, whole or its beginning: it has to ask for the last position.
        """
        with self._lock:
            self._require_open()
            sequence, position, time_ms = self._end.last, "", NEVER_MS
            times, pieces = [], []
            for entry in entries:
                sequence += 1
                pieces.append(frame(sequence, entry))
                position, time_ms, _ = entry
                times.append(time_ms)
            if not pieces:
                return sequence
            own = self._current()
            end = self._end._replace(last=sequence, segment=self._firsts[-1], last_ms=time_ms)
            if self._end.last < self._end.first:
                end = end._replace(first_ms=times[0])
            try:
                _write(own.file, b"".join(pieces), own.index.offset)
                os.fdatasync(own.file)
                self._tell(end)
            except BaseException:
                # What the kernel kept of it is not known, and it is not cut: a writer that has taken over may count on
                # it already. A segment that begins with the same entry makes it void.
                self._leave_segment()
                raise
            self._before = Before(position, time_ms)
            for one, piece in zip(times, pieces, strict=True):
                own.index.add(one, len(piece))
            return sequence

    def _tell(self, end: End) -> None:
        """Readers may see it, unless another writer has the log by now, which has looked at the files after that."""
        self._require_held()
        if self._end_file is not None:
            _write(self._end_file, end.dump(), self._place)
        self._end, self._place = end, END_BYTES - self._place

    def _require_open(self) -> None:
        if self._end_file is None:
            raise ValueError("The log was closed.")

    def _require_held(self) -> None:
        try:
            os.stat(self._run)
        except FileNotFoundError:
            self._leave_segment()
            raise LogFenced(
                f"The event log in {self.folder} was taken over from the writer with the number {self.number}."
            ) from None

    # Segments

    def _current(self) -> _Own:
        """The segment of the next entry."""
        own = self._own
        if own is not None and own.index.next > self._firsts[-1]:  # an empty one is never over
            is_long = time.monotonic() - own.begun >= self._segment_s
            if is_long or own.index.offset >= self._segment_bytes:
                return self._begin()
        return own or self._begin()

    def _begin(self) -> _Own:
        """Begin a segment, and end the one before. Raises OSError, LogFenced."""
        self._leave_segment()
        self._require_held()
        first = self._end.last + 1
        if self._index is not None and self._firsts[-1] < first:
            self._newest[self._firsts[-1]] = self._index.newest_ms
            with contextlib.suppress(OSError):  # the segment can be read without it
                (self._run / file_name(self._firsts[-1], INDEX)).write_bytes(self._index.dump())
        content = head(first, self._before)
        draft = self._run / file_name(first, DRAFT)
        opened = os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_RDWR | os.O_CLOEXEC, 0o644)
        try:
            _write(opened, content, 0)
            os.fsync(opened)
            draft.rename(self._run / file_name(first))  # in place of one of which nothing counts
            _sync_folder(self._run)
        except BaseException:
            os.close(opened)
            with contextlib.suppress(OSError):
                draft.unlink()
            raise
        self._index = Index(first, len(content))
        self._own = _Own(opened, time.monotonic(), self._index)
        if first not in self._firsts:
            self._firsts.append(first)
        return self._own

    def _leave_segment(self) -> None:
        """Write nothing more to the segment that was begun."""
        if self._own is not None:
            os.close(self._own.file)
            self._own = None

    # Retention

    def trim(
        self, *, before_ms: int | None = None, most_bytes: int | None = None, keep_after: int | None = None
    ) -> int:
        """Remove what is old or too much, whole segments at a time; the first entry that is still here.

        Segments go whose newest entry is of before `before_ms`, and the oldest ones until the log has `most_bytes` or
        one segment. None goes with entries behind `keep_after`. Raises OSError, LogDamaged, LogFenced.
        """
        with self._lock:
            self._require_open()
            self._require_held()
            self._leave_last(before_ms, keep_after)
            sizes = {first: (self._run / file_name(first)).stat().st_size for first in self._firsts}
            left, kept = sum(sizes.values()), 0
            for first, following in zip(self._firsts, self._firsts[1:], strict=False):
                is_needed = keep_after is not None and following - 1 > keep_after
                is_old = before_ms is not None and self._newest_of(first, following - 1) < before_ms
                if is_needed or not (is_old or (most_bytes is not None and left > most_bytes)):
                    break
                left -= sizes[first]
                kept += 1
            if kept:
                gone = self._firsts[:kept]
                self._firsts = self._firsts[kept:]
                # Told first, and for good: what is left of a removal that is interrupted is removed by the next writer.
                first_ms = self._first_time(self._end.last)
                self._tell(self._end._replace(first=self._firsts[0], segment=self._firsts[-1], first_ms=first_ms))
                os.fdatasync(self._end_file)  # type: ignore[arg-type]
                for first in gone:
                    self._remove(first)
            return self._end.first

    def _leave_last(self, before_ms: int | None, keep_after: int | None) -> None:
        """Begin a segment when all entries of the last one are old."""
        if before_ms is None or self._index is None or self._index.next == self._firsts[-1]:
            return
        if self._index.newest_ms < before_ms and (keep_after is None or keep_after >= self._end.last):
            with contextlib.suppress(OSError):  # such as for a full disk: the others go, which makes room
                self._begin()

    def _newest_of(self, first: int, last: int) -> int:
        if first not in self._newest:
            try:
                with contextlib.closing(Segment(self._run, first)) as segment:
                    self._newest[first] = segment.newest_ms(last)
            except LogDamaged:  # it goes when its time has come, by what the next one says of its last entry
                with contextlib.closing(Segment(self._run, last + 1)) as following:
                    self._newest[first] = following.before.time_ms
        return self._newest[first]

    def _remove_first(self) -> None:
        self._remove(self._firsts.pop(0))

    def _remove(self, first: int) -> None:
        self._newest.pop(first, None)
        for kind in (INDEX, SEGMENT):
            (self._run / file_name(first, kind)).unlink(missing_ok=True)


def _claim(folder: Path, number: int | None) -> tuple[int, int]:
    """Make the log's folder that of this writer; its number, and the file whose lock says that it lives."""
    folder.mkdir(parents=True, exist_ok=True)
    claim = _locked(folder / _CLAIM, _CLAIM_S)
    if claim is None:
        raise LogHeld(f"The event log in {folder} is being taken over by another process.")
    try:
        found_runs = runs(folder)
        latest = max(found_runs, default=None)
        wanted = number if number is not None else (latest or 1)
        if latest is not None and latest > wanted:
            raise LogFenced(
                f"The event log in {folder} is held by the writer with the number {latest}; {wanted} is too low."
            )
        held = _locked(folder / f"writer-{wanted:08}", 0)
        if held is None:
            raise LogHeld(f"The event log in {folder} is written by another process.")
        try:
            run = folder / run_name(wanted)
            if latest is None:
                run.mkdir()
            elif latest < wanted:
                found_runs[latest].rename(run)
            _sync_folder(folder)
            for name in os.listdir(folder):  # a writer that lives on keeps its lock on a file that nobody finds
                if (found := _LOCK.fullmatch(name)) and int(found[1]) < wanted:
                    (folder / name).unlink()
        except BaseException:
            os.close(held)
            raise
        return wanted, held
    finally:
        os.close(claim)


def _locked(file: Path, wait_s: float) -> int | None:
    """The file, locked until it is closed; None when another process keeps it locked for so long."""
    opened = os.open(file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(opened)
                return None
            time.sleep(_LOOK_S)
        except BaseException:
            os.close(opened)
            raise
        else:
            return opened


def _write(file: int, content: bytes, offset: int) -> None:
    left = memoryview(content)
    while left:
        written = os.pwrite(file, left, offset)
        left, offset = left[written:], offset + written


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
