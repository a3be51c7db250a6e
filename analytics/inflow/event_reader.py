"""Reading an event log (`event_log`) while another process writes it.

Each call looks at what the writer has told in `end`, and reads nothing that stands behind it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from bisect import bisect_right
from collections import deque
from pathlib import Path
from typing import NamedTuple

from analytics.errors import AnalyticsError
from analytics.inflow.segments import (
    END,
    NEVER_MS,
    SEGMENT_BYTES,
    End,
    Entry,
    LogDamaged,
    Segment,
    file_name,
    firsts,
    latest_run,
    read_end,
)

#: Looks at a file that another process is just replacing.
_LOOKS, _LOOK_S = 50, 0.002


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
            self._require(after, end)
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

    def skim(self, after: int, most: int, most_bytes: int) -> Entry:
        """The last of the entries that `read` gives, without reading the others: there is one at least.

        Raises what `read` does, for nothing but that one.
        """
        with self._lock:
            end = self._find_end()
            self._require(after, end)
            found: Entry | None = None
            left = most_bytes
            while after < end.last and most > 0 and (left > 0 or found is None):
                try:
                    segment, last = self._segment_of(after, end)
                    entry, size = segment.skim(after, last, most, left if found else most_bytes)
                except (Trimmed, LogDamaged):
                    if found is None:
                        raise
                    break
                if found is not None and size > left:
                    break
                found, most, after, left = entry, most - (entry.sequence - after), entry.sequence, left - size
        if found is None:
            raise Ahead(end.last)
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

    def _at_time(self, time_ms: int, end: End) -> int:
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

    def _require(self, after: int, end: End) -> None:
        if after + 1 < end.first:
            raise Trimmed(end.first)
        if after > end.last:
            raise Ahead(end.last)

    def _segment_of(self, after: int, end: End) -> tuple[Segment, int]:
        """The segment with the entry behind `after`, and the last entry of it."""
        if not self._firsts or self._firsts[0] > after + 1 or end.segment > self._firsts[-1]:
            self._list(end)
            if self._firsts[0] > after + 1:
                raise Trimmed(self._firsts[0])
        first = self._firsts[bisect_right(self._firsts, after + 1) - 1]
        return self._segment(first), self._last_of(first, end)

    def _read_segment(
        self, after: int, end: End, most: int, most_bytes: int, *, is_first: bool
    ) -> tuple[list[Entry], int]:
        segment, last = self._segment_of(after, end)
        try:
            entries, size = segment.read(after, last, most, most_bytes)
        except LogDamaged as damaged:
            following = None if last >= end.last else last + 1
            raise LogDamaged(damaged.file, damaged.offset, damaged.reason, following) from None
        if not is_first and size > most_bytes:  # one event that is larger than what was left
            return [], 0
        return entries, size

    def _last_of(self, first: int, end: End) -> int:
        """The last entry of a segment: what stands behind it there does not count."""
        place = bisect_right(self._firsts, first)
        return min(self._firsts[place] - 1, end.last) if place < len(self._firsts) else end.last

    def _list(self, end: End) -> None:
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

    def _find_end(self) -> End:
        """What the writer has told. A log that nobody has begun yet is empty."""
        for _ in range(_LOOKS):
            if self._run is None:
                self._run = latest_run(self.folder)
                if self._run is None:
                    return End()
            try:
                if (end := read_end(self._run / END)) is not None:
                    return end
            except FileNotFoundError:
                if latest_run(self.folder) == self._run:
                    return End()  # it is being begun
                self._run = None
                continue
            time.sleep(_LOOK_S)
        raise LogDamaged(self.folder / END, 0, "it does not tell what is in the log")
