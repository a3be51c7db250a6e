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
import struct
import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from analytics.errors import AnalyticsError
from analytics.inflow.segments import (
    DRAFT,
    INDEX,
    NEVER_MS,
    SEGMENT,
    Before,
    Entry,
    Index,
    LogDamaged,
    NewEntry,
    Segment,
    file_name,
    firsts,
    frame,
    head,
)

__all__ = ["Ahead", "Entry", "EventLog", "LogDamaged", "LogFenced", "LogHeld", "NewEntry", "Range", "Reader", "Trimmed"]

#: A segment ends when it has so many bytes, or was begun so long ago: the log is trimmed by segments.
SEGMENT_BYTES, SEGMENT_S = 8 << 20, 600.0
_RUN = re.compile(r"run-(\d{8})")
_LOCK = re.compile(r"writer-(\d{8})")
_CLAIM, _END = "claim", "end"
#: How long another writer may take to take the log over, s.
_CLAIM_S = 10.0
_MAGIC = b"gantryN1"
_END_FORMAT = struct.Struct(">8sQQQqqI")
#: Looks at a file that another process is just replacing.
_LOOKS, _LOOK_S = 50, 0.002


class LogHeld(AnalyticsError):  # noqa: N818
    """Another process writes the log."""


class LogFenced(AnalyticsError):  # noqa: N818
    """A writer with a higher number has the log; this one must end. What it could not append is not in the log."""


class Trimmed(AnalyticsError):  # noqa: N818
    """What was asked for has been removed; `first` is the oldest entry that is still here."""

    def __init__(self, first: int) -> None:
        super().__init__(f"The events before number {first} have been removed from the log.")
        self.first = first


class Ahead(AnalyticsError):  # noqa: N818
    """What was asked for is behind the end of the log: it is not the log that it was. `last` is its last entry."""

    def __init__(self, last: int) -> None:
        super().__init__(f"The log ends with the event number {last}: it was replaced since it was read last.")
        self.last = last


class Range(NamedTuple):
    """What is in a log. In an empty one `last` is `first` - 1, and there are no times. Times are epoch ms."""

    first: int = 1
    last: int = 0
    first_ms: int | None = None
    last_ms: int | None = None


class _End(NamedTuple):
    """The file `end`: the entries from first to last, the segment of the last one, times of the first and the last."""

    first: int = 1
    last: int = 0
    segment: int = 1
    first_ms: int = NEVER_MS
    last_ms: int = NEVER_MS

    def dump(self) -> bytes:
        content = _END_FORMAT.pack(_MAGIC, *self, 0)[:-4]
        return content + struct.pack(">I", crc32(content))

    @classmethod
    def load(cls, content: bytes) -> _End | None:
        if len(content) != _END_FORMAT.size or content[:8] != _MAGIC:
            return None
        *found, crc = _END_FORMAT.unpack(content)[1:]
        return cls(*found) if crc == crc32(content[:-4]) else None


class _Own(NamedTuple):
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
        self._run = folder / _run_name(self.number)
        #: The segment that this writer has begun, and the index of the last one, whoever has begun it.
        self._own: _Own | None = None
        self._index: Index | None = None
        self._end_file: int | None = None
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
            told = _read_end(self._run / _END)
        told = told or _End()
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
        self._end = _End(first, last, segment, first_ms, self._before.time_ms)
        draft = self._run / f"{_END}{DRAFT}"
        self._end_file = os.open(draft, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        _write(self._end_file, self._end.dump(), 0)
        os.fsync(self._end_file)
        draft.rename(self._run / _END)
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

    def _tell(self, end: _End) -> None:
        """Readers may see it, unless another writer has the log by now, which has looked at the files after that."""
        self._require_held()
        if self._end_file is not None:
            _write(self._end_file, end.dump(), 0)
        self._end = end

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


class Reader:
    """Reads a log that any process writes. Safe in threads; a process that is forked from this one makes its own."""

    #: Segments that are open at a time.
    _MOST_OPEN = 4

    def __init__(self, folder: Path) -> None:
        """The log need not be there yet."""
        self.folder = folder
        self._lock = threading.Lock()
        self._run: Path | None = None
        self._firsts: list[int] = []
        self._open: dict[int, Segment] = {}
        self._newest: dict[int, int] = {}

    def close(self) -> None:
        """Close what is open; the next call opens it again."""
        with self._lock:
            for segment in self._open.values():
                segment.close()
            self._open = {}

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def range(self) -> Range:
        """What is in the log now. Raises OSError, LogDamaged."""
        with self._lock:
            end = self._find_end()
        if end.last < end.first:
            return Range(end.first, end.last)
        times = (None if time_ms == NEVER_MS else time_ms for time_ms in (end.first_ms, end.last_ms))
        return Range(end.first, end.last, *times)

    def read(self, after: int, most: int = 1000, most_bytes: int = SEGMENT_BYTES) -> list[Entry]:
        """Entries behind `after`, 0 for all: one at least if there is one, however large. None at the end of the log.

        Raises Trimmed when the first of them has been removed, Ahead when the log ends before `after`, LogDamaged when
        the first of them cannot be read, and OSError.
        """
        with self._lock:
            end = self._find_end()
            if after + 1 < end.first:
                raise Trimmed(end.first)
            if after > end.last:
                raise Ahead(end.last)
            found: list[Entry] = []
            left = most_bytes
            while after < end.last and len(found) < most and (left > 0 or not found):
                try:
                    entries, size = self._read_segment(after, end, most - len(found), left, is_first=not found)
                except (Trimmed, LogDamaged):
                    if not found:
                        raise
                    break
                if not entries:
                    break
                found += entries
                after, left = entries[-1].sequence, left - size
            return found

    def tail(self, count: int, most_bytes: int = SEGMENT_BYTES) -> list[Entry]:
        """The last entries, oldest first: `count` at most, and none that would make it more bytes than `most_bytes`.

        Raises OSError, LogDamaged.
        """
        while True:
            now = self.range()
            after = max(now.first - 1, now.last - count)
            found: deque[Entry] = deque()
            size = 0
            try:
                while after < now.last:
                    more = self.read(after, now.last - after, most_bytes)
                    after = more[-1].sequence
                    found += more
                    size += sum(len(entry.event) for entry in more)
                    while size > most_bytes:
                        size -= len(found.popleft().event)
            except Trimmed:
                continue
            return list(found)

    def at_time(self, time_ms: int) -> int:
        """The first entry of this time or a later one, epoch ms; the next that will be appended if there is none.

        Raises OSError, LogDamaged.
        """
        with self._lock:
            while True:
                end = self._find_end()
                try:
                    return self._at_time(time_ms, end)
                except Trimmed:
                    continue

    def _at_time(self, time_ms: int, end: _End) -> int:
        if end.last < end.first:
            return end.first
        self._list(end)
        for first in self._firsts:
            if first > end.segment:
                break
            last = self._last_of(first, end)
            is_over = last < end.last
            newest = self._newest.get(first)
            if newest is None:
                newest = self._segment(first).newest_ms(last)
                if is_over:
                    self._newest[first] = newest
            if newest >= time_ms and (found := self._segment(first).first_at(time_ms, last)) is not None:
                return found
        return end.last + 1

    def _read_segment(
        self, after: int, end: _End, most: int, most_bytes: int, *, is_first: bool
    ) -> tuple[list[Entry], int]:
        if not self._firsts or self._firsts[0] > after + 1 or end.segment > self._firsts[-1]:
            self._list(end)
            if self._firsts[0] > after + 1:
                raise Trimmed(self._firsts[0])
        first = self._firsts[bisect_right(self._firsts, after + 1) - 1]
        last = self._last_of(first, end)
        try:
            entries, size = self._segment(first).read(after, last, most, most_bytes)
        except LogDamaged as damaged:
            following = None if last >= end.last else last + 1
            raise LogDamaged(damaged.file, damaged.offset, damaged.reason, following) from None
        if not is_first and size > most_bytes:  # one event that is larger than what was left
            return [], 0
        return entries, size

    def _last_of(self, first: int, end: _End) -> int:
        """The last entry of a segment: what stands behind it there does not count."""
        place = bisect_right(self._firsts, first)
        return min(self._firsts[place] - 1, end.last) if place < len(self._firsts) else end.last

    def _list(self, end: _End) -> None:
        """Learn which segments there are. A later writer may be renaming their folder."""
        for _ in range(_LOOKS):
            with contextlib.suppress(FileNotFoundError):
                self._firsts = [first for first in firsts(self._run or self.folder) if first >= end.first]
                if self._firsts and self._firsts[0] == end.first:
                    for first in [first for first in self._open if first < end.first]:
                        self._open.pop(first).close()
                    self._newest = {first: time_ms for first, time_ms in self._newest.items() if first >= end.first}
                    return
            time.sleep(_LOOK_S)
            end = self._find_end()
        raise LogDamaged(self.folder / file_name(end.first), 0, "the file is missing")

    def _segment(self, first: int) -> Segment:
        segment = self._open.pop(first, None)
        for _ in range(_LOOKS):
            if segment is not None:
                break
            with contextlib.suppress(FileNotFoundError):
                segment = Segment(self._run or self.folder, first)
                break
            time.sleep(_LOOK_S)
            end = self._find_end()  # finds the folder, too
            if first < end.first:
                raise Trimmed(end.first)
        if segment is None:
            raise LogDamaged((self._run or self.folder) / file_name(first), 0, "the file is missing")
        while len(self._open) >= self._MOST_OPEN:
            self._open.pop(next(iter(self._open))).close()
        self._open[first] = segment
        return segment

    def _find_end(self) -> _End:
        """What the writer has told. A log that nobody has begun yet is empty."""
        for _ in range(_LOOKS):
            if self._run is None:
                self._run = _latest_run(self.folder)
                if self._run is None:
                    return _End()
            try:
                if (end := _read_end(self._run / _END)) is not None:
                    return end
            except FileNotFoundError:
                if _latest_run(self.folder) == self._run:
                    return _End()  # it is being begun
                self._run = None
                continue
            time.sleep(_LOOK_S)
        raise LogDamaged(self.folder / _END, 0, "it does not tell what is in the log")


def _run_name(number: int) -> str:
    return f"run-{number:08}"


def _runs(folder: Path) -> dict[int, Path]:
    with contextlib.suppress(FileNotFoundError):
        return {int(found[1]): folder / name for name in os.listdir(folder) if (found := _RUN.fullmatch(name))}
    return {}


def _latest_run(folder: Path) -> Path | None:
    runs = _runs(folder)
    return runs[max(runs)] if runs else None


def _claim(folder: Path, number: int | None) -> tuple[int, int]:
    """Make the log's folder that of this writer; its number, and the file whose lock says that it lives."""
    folder.mkdir(parents=True, exist_ok=True)
    claim = _locked(folder / _CLAIM, _CLAIM_S)
    if claim is None:
        raise LogHeld(f"The event log in {folder} is being taken over by another process.")
    try:
        runs = _runs(folder)
        latest = max(runs, default=None)
        wanted = number if number is not None else (latest or 1)
        if latest is not None and latest > wanted:
            raise LogFenced(
                f"The event log in {folder} is held by the writer with the number {latest}; {wanted} is too low."
            )
        held = _locked(folder / f"writer-{wanted:08}", 0)
        if held is None:
            raise LogHeld(f"The event log in {folder} is written by another process.")
        try:
            run = folder / _run_name(wanted)
            if latest is None:
                run.mkdir()
            elif latest < wanted:
                runs[latest].rename(run)
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


def _read_end(file: Path) -> _End | None:
    """Raises OSError; FileNotFoundError too."""
    return _End.load(file.read_bytes())


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
