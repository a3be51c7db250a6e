"""The files of an event log (`event_log`). A segment holds entries one behind the other and is only written at its end:

    head    magic, sequence of the first entry, time and position of the entry before it, CRC-32
    frame   length and CRC-32 of what follows; sequence, time, length of the position, position, event
    frame   …

Numbers are big-endian. A frame whose length, CRC or sequence is wrong ends what can be read: whether it was being
written when its writer died, or has changed on the disk since, is known to who knows how many entries were completed
(`event_log`). What stands behind the last entry of a segment is nobody's, and is not looked at.

Where entries begin is found by an index of every 64 KiB. It is made in memory by reading the segment once, and lies
beside a segment that has ended as `<first>.index`, which is only a help: without it, or if it is damaged, the segment
is read.

The file `end` tells which entries are in the log; readers look at nothing that stands behind the last of them.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from analytics.errors import AnalyticsError

#: Bytes of an event: a row with the largest values that a database takes as one packet by default.
MOST_EVENT_BYTES = 64 << 20
#: Bytes of a position in UTF-8: a set of GTIDs has some hundred.
MOST_POSITION_BYTES = (1 << 16) - 1
#: Bytes of a segment, behind which the next one begins, and what readers ask for at a time.
SEGMENT_BYTES = 8 << 20
SEGMENT, INDEX, DRAFT, END = ".log", ".index", ".draft", "end"
#: A time before all others, epoch ms.
NEVER_MS = -(1 << 63)

_RUN = re.compile(r"run-(\d{8})")
_MAGIC, _INDEX_MAGIC, _END_MAGIC = b"gantryE1", b"gantryX1", b"gantryN1"
_HEAD = struct.Struct(">8sQqH")
_CRC = struct.Struct(">I")
_FRAME = struct.Struct(">II")
_BODY = struct.Struct(">QqH")
#: The last part of it: bytes of the position.
_WORDS = struct.Struct(">H")
_INDEX_HEAD = struct.Struct(">8sQQQqI")
_MARK = struct.Struct(">QQq")
_END = struct.Struct(">8sQQQqqI")
END_BYTES = _END.size
_MOST_BODY = _BODY.size + MOST_POSITION_BYTES + MOST_EVENT_BYTES
_STEP = 64 << 10
_ENDLESS = 1 << 63
#: What is read at a time, bytes.
_PIECE = 256 << 10


class Entry(NamedTuple):
    """An event of the log. Sequences are dense and begin at 1; the time is that of the commit, epoch ms."""

    sequence: int
    position: str
    time_ms: int
    event: bytes


class NewEntry(NamedTuple):
    """An event that is to be appended: its position in the source's own words, and when it was committed, epoch ms."""

    position: str
    time_ms: int
    event: bytes


class LogDamaged(AnalyticsError):  # noqa: N818
    """What was completed cannot be read: a file has changed since, or is missing. Entries before it can be read.

    `next_sequence` is the first entry of the next segment, from which a reader can go on that gives up what is lost;
    None in the last one.
    """

    def __init__(self, file: Path, offset: int, reason: str, next_sequence: int | None = None) -> None:
        super().__init__(f"The event log is damaged: {file.name}, byte {offset}: {reason}.")
        self.file, self.offset, self.reason, self.next_sequence = file, offset, reason, next_sequence


class Before(NamedTuple):
    """The entry in front of a segment."""

    position: str = ""
    time_ms: int = NEVER_MS


def frame(sequence: int, entry: tuple[str, int, bytes]) -> bytes:
    """An entry as it stands in a segment. Raises ValueError for one that is too large."""
    position, time_ms, event = entry
    words = position.encode()
    if len(words) > MOST_POSITION_BYTES:
        raise ValueError(f"A position has {len(words):,} bytes; {MOST_POSITION_BYTES:,} are allowed.")
    if len(event) > MOST_EVENT_BYTES:
        raise ValueError(f"The event at {position} has {len(event):,} bytes; {MOST_EVENT_BYTES:,} are allowed.")
    head = _BODY.pack(sequence, time_ms, len(words)) + words
    return _FRAME.pack(len(head) + len(event), crc32(event, crc32(head))) + head + event


def head(first: int, before: Before) -> bytes:
    """How a segment begins."""
    words = before.position.encode()
    content = _HEAD.pack(_MAGIC, first, before.time_ms, len(words)) + words
    return content + _CRC.pack(crc32(content))


def file_name(first: int, kind: str = SEGMENT) -> str:
    """Of the segment that begins with this sequence."""
    return f"{first:020}{kind}"


def firsts(folder: Path) -> list[int]:
    """The sequences with which the segments in a folder begin, in order. Raises OSError."""
    names = (name.removesuffix(SEGMENT) for name in os.listdir(folder) if name.endswith(SEGMENT))
    return sorted(int(name) for name in names if name.isdecimal())


def run_name(number: int) -> str:
    """The folder of the writer with this number."""
    return f"run-{number:08}"


def runs(folder: Path) -> dict[int, Path]:
    """Such folders by their numbers; of several the one with the highest is the log."""
    with contextlib.suppress(FileNotFoundError):
        return {int(found[1]): folder / name for name in os.listdir(folder) if (found := _RUN.fullmatch(name))}
    return {}


def latest_run(folder: Path) -> Path | None:
    """The folder with the segments; None before the log was begun."""
    found = runs(folder)
    return found[max(found)] if found else None


def read_end(file: Path) -> End | None:
    """What `end` tells; None while it is being written. Raises OSError.

    It has two places, which are written by turns, so that one stays whole whatever happens to the other.
    """
    content = file.read_bytes()
    places = (End.load(content[begin : begin + END_BYTES]) for begin in (0, END_BYTES))
    return max((end for end in places if end is not None), key=lambda end: (end.last, end.first), default=None)


class End(NamedTuple):
    """The file `end`: the entries from first to last, the segment of the last one, times of the first and the last."""

    first: int = 1
    last: int = 0
    segment: int = 1
    first_ms: int = NEVER_MS
    last_ms: int = NEVER_MS

    def dump(self) -> bytes:
        """For the file."""
        content = _END.pack(_END_MAGIC, *self, 0)[:-4]
        return content + struct.pack(">I", crc32(content))

    @classmethod
    def load(cls, content: bytes) -> End | None:
        """What `dump` gave; None for anything else."""
        if len(content) != _END.size or content[:8] != _END_MAGIC:
            return None
        *found, crc = _END.unpack(content)[1:]
        return cls(*found) if crc == crc32(content[:-4]) else None


class Index:
    """Where entries of a segment begin, as far as it was read, and the newest time before each of these places."""

    def __init__(self, first: int, offset: int) -> None:
        self._sequences, self._offsets, self._newest = [first], [offset], [NEVER_MS]
        #: The first entry that is not known yet, where it begins, and the newest time of all before it.
        self.next, self.offset, self.newest_ms = first, offset, NEVER_MS

    def add(self, time_ms: int, size: int) -> None:
        """The next entry, whose frame has `size` bytes."""
        if self.offset - self._offsets[-1] >= _STEP:
            self._sequences.append(self.next)
            self._offsets.append(self.offset)
            self._newest.append(self.newest_ms)
        self.next += 1
        self.offset += size
        self.newest_ms = max(self.newest_ms, time_ms)

    def place_of(self, sequence: int) -> tuple[int, int]:
        """An entry at or before this one, and where it begins."""
        found = bisect_right(self._sequences, sequence) - 1
        return self._sequences[found], self._offsets[found]

    def place_of_time(self, time_ms: int) -> tuple[int, int]:
        """An entry before which all are older, and where it begins: the first that is not is soon behind it."""
        found = max(0, bisect_left(self._newest, time_ms) - 1)
        return self._sequences[found], self._offsets[found]

    def dump(self) -> bytes:
        """For `<first>.index`."""
        marks = b"".join(map(_MARK.pack, self._sequences, self._offsets, self._newest))
        first = self._sequences[0]
        front = _INDEX_HEAD.pack(_INDEX_MAGIC, first, self.next, self.offset, self.newest_ms, len(self._sequences))
        return front + marks + _CRC.pack(crc32(marks, crc32(front)))

    @classmethod
    def load(cls, content: bytes, first: int) -> Index | None:
        """What `dump` gave for the segment that begins with `first`; None for anything else."""
        body = content[: -_CRC.size]
        if len(body) < _INDEX_HEAD.size or content[-_CRC.size :] != _CRC.pack(crc32(body)):
            return None
        magic, own, sequence, offset, newest, count = _INDEX_HEAD.unpack_from(body)
        if magic != _INDEX_MAGIC or own != first or len(body) != _INDEX_HEAD.size + count * _MARK.size or not count:
            return None
        marks = list(_MARK.iter_unpack(body[_INDEX_HEAD.size :]))
        index = cls(first, marks[0][1])
        index._sequences, index._offsets, index._newest = (list(column) for column in zip(*marks, strict=True))
        index.next, index.offset, index.newest_ms = sequence, offset, newest
        return index


class Segment:
    """A segment that is open for reading. Not safe in threads."""

    def __init__(self, folder: Path, first: int) -> None:
        """Raises OSError, LogDamaged for a head that is none."""
        self.file, self.first = folder / file_name(first), first
        self._opened = os.open(self.file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            begin, self.before = self._head()
            index = None
            with contextlib.suppress(OSError):
                index = Index.load((folder / file_name(first, INDEX)).read_bytes(), first)
        except BaseException:
            self.close()
            raise
        self.index = index or Index(first, begin)
        #: Behind the entry that was read last: the next entry and where it begins.
        self._at = self.index.place_of(first)

    def close(self) -> None:
        """Close the file."""
        os.close(self._opened)

    def _head(self) -> tuple[int, Before]:
        content = os.pread(self._opened, _HEAD.size + MOST_POSITION_BYTES + _CRC.size, 0)
        if len(content) >= _HEAD.size:
            magic, first, time_ms, length = _HEAD.unpack_from(content)
            end = _HEAD.size + length
            if magic == _MAGIC and first == self.first and content[end : end + 4] == _CRC.pack(crc32(content[:end])):
                return end + _CRC.size, Before(content[_HEAD.size : end].decode(), time_ms)
        raise LogDamaged(self.file, 0, "it does not begin as a segment does")

    def read(self, after: int, last: int, most: int, most_bytes: int) -> tuple[list[Entry], int]:
        """Entries behind `after` up to `last`, and the bytes of their events; one at least if there is one.

        Raises OSError, and LogDamaged if none of them can be read: what can be before a damage is told first.
        """
        known, offset = self._at if self._at[0] == after + 1 else self._place(after + 1)
        found: list[Entry] = []
        size = 0
        try:
            for entry, end in self._walk(known, offset, last):
                if entry.sequence <= after:
                    continue
                size += len(entry.event)
                if found and size > most_bytes:
                    size -= len(entry.event)
                    break
                found.append(entry)
                self._at = entry.sequence + 1, end
                if len(found) >= most or size >= most_bytes:
                    break
        except LogDamaged:
            if not found:
                raise
        return found, size

    def skim(self, after: int, last: int, most: int, most_bytes: int) -> tuple[Entry, int]:
        """The last of the entries that `read` gives, and the bytes of all their events; those before are not checked.

        There is one at least behind `after`. Raises OSError, and LogDamaged if not even that can be read.
        """
        sequence, offset = self._place(after + 1)
        size, begin, found = 0, offset, after
        try:
            for content, at, length in self._frames(sequence, offset, last):
                if sequence > after:
                    more = length - _BODY.size - _WORDS.unpack_from(content, at + _BODY.size - _WORDS.size)[0]
                    if found > after and (size + more > most_bytes or found - after >= most):
                        break
                    size, begin, found = size + more, offset, sequence
                sequence, offset = sequence + 1, offset + _FRAME.size + length
        except LogDamaged:
            if found == after:
                raise
        entry, _ = next(self._walk(found, begin, found))
        return entry, size

    def first_at(self, time_ms: int, last: int) -> int | None:
        """The first entry up to `last` of this time or a later one. Raises OSError, LogDamaged."""
        self.learn(last)
        if self.index.newest_ms < time_ms:
            return None
        for entry, _ in self._walk(*self.index.place_of_time(time_ms), last):
            if entry.time_ms >= time_ms:
                return entry.sequence
        return None

    def newest_ms(self, last: int) -> int:
        """The newest time of the entries, of which `last` is the last one. Raises OSError, LogDamaged."""
        self.learn(last)
        return self.index.newest_ms

    def learn(self, last: int) -> None:
        """Make the index up to `last`. Raises OSError, and LogDamaged at the first thing that is no entry."""
        for entry, end in self._walk(self.index.next, self.index.offset, last):
            self.index.add(entry.time_ms, end - self.index.offset)

    def find_end(self) -> tuple[Before, LogDamaged]:
        """The last entry that can be read, or the one before the segment; and what is behind it. Raises OSError."""
        try:
            self.learn(_ENDLESS)
        except LogDamaged as end:
            last = self.index.next - 1
            if last < self.first:
                return self.before, end
            ((entry,), _) = self.read(last - 1, last, 1, MOST_EVENT_BYTES)
            return Before(entry.position, entry.time_ms), end
        raise AssertionError("a file has an end")

    def _place(self, sequence: int) -> tuple[int, int]:
        if sequence >= self.index.next:
            self.learn(sequence - 1)
            return self.index.next, self.index.offset
        return self.index.place_of(sequence)

    def _walk(self, sequence: int, offset: int, last: int) -> Iterator[tuple[Entry, int]]:
        """The entries from this one, which begins at `offset`, up to `last`, each with where the next one begins."""
        for content, begin, length in self._frames(sequence, offset, last):
            end = begin + length
            if (
                length < _BODY.size
                or crc32(memoryview(content)[begin:end]) != _CRC.unpack_from(content, begin - _CRC.size)[0]
            ):
                raise LogDamaged(self.file, offset, f"the check sum of the entry {sequence} is wrong")
            own, time_ms, words = _BODY.unpack_from(content, begin)
            if own != sequence:
                raise LogDamaged(self.file, offset, f"the entry {own} is where {sequence} should be")
            front, offset = begin + _BODY.size + words, offset + _FRAME.size + length
            yield Entry(sequence, content[begin + _BODY.size : front].decode(), time_ms, content[front:end]), offset
            sequence += 1

    def _frames(self, sequence: int, offset: int, last: int) -> Iterator[tuple[bytes, int, int]]:
        """Of the entries up to `last` what they lie in, where behind their frames' heads they begin, and their length.

        Nothing of them is checked but that they are whole.
        """
        content, base, size, at = b"", offset, 0, 0
        for number in range(sequence, last + 1):
            length = _FRAME.unpack_from(content, at)[0] if size - at >= _FRAME.size else 0
            if size - at < _FRAME.size + max(length, 1):
                base, at = base + at, 0
                content = os.pread(self._opened, max(_PIECE, _FRAME.size + min(length, _MOST_BODY)), base)
                size = len(content)
                length = _FRAME.unpack_from(content)[0] if size >= _FRAME.size else 0
                if _PIECE <= size < _FRAME.size + length <= _FRAME.size + _MOST_BODY:  # longer than a piece
                    content = os.pread(self._opened, _FRAME.size + length, base)
                    size = len(content)
                if size < _FRAME.size + length or not length:
                    raise LogDamaged(self.file, base, f"the file ends before or within the entry {number}")
            yield content, at + _FRAME.size, length
            at += _FRAME.size + length
