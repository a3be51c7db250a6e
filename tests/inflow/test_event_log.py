"""What a log has told to be durable is there, once and in order, whatever becomes of its writers and its disk."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from analytics.inflow import event_log, segments
from analytics.inflow.event_log import EventLog, LogFenced, LogHeld
from analytics.inflow.event_reader import Ahead, Range, Reader, Trimmed
from analytics.inflow.segments import Entry, LogDamaged, NewEntry, file_name
from tests.support.disk import resize, small_disk
from tests.support.patience import Patience

ROOT = Path(__file__).resolve().parents[2]
KILLS = 20
#: A segment of some four entries.
SMALL = 250


def new(number: int, time_ms: int | None = None, size: int = 0) -> NewEntry:
    return NewEntry(f"0/{number:X}", 1_000 + number if time_ms is None else time_ms, b'{"n":%d}' % number + b" " * size)


def entry(sequence: int) -> Entry:
    return Entry(sequence, *new(sequence))


def everything(reader: Reader, after: int = 0, most: int = 7) -> list[Entry]:
    found: list[Entry] = []
    while more := reader.read(found[-1].sequence if found else after, most):
        found += more
    return found


def segment(folder: Path, first: int = 1) -> Path:
    (run,) = folder.glob("run-*")
    return run / file_name(first)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def log(folder: Path) -> Iterator[EventLog]:
    with EventLog(folder, segment_bytes=SMALL) as opened:
        yield opened


@pytest.fixture
def reader(folder: Path) -> Iterator[Reader]:
    with Reader(folder) as opened:
        yield opened


def test_entries_are_numbered_from_one_and_read_as_they_were_appended(log: EventLog, reader: Reader) -> None:
    assert log.append([new(1), new(2)]) == 2
    assert log.append([]) == 2
    assert log.append([NewEntry("Lübeck:4711", 7, b"\0\xff")]) == 3
    assert reader.read(0) == [entry(1), entry(2), Entry(3, "Lübeck:4711", 7, b"\0\xff")]
    assert reader.read(1, 1) == [entry(2)]
    assert reader.read(3) == []
    assert log.last_position() == "Lübeck:4711"
    assert reader.range() == Range(1, 3, 1_001, 7)


def test_a_log_that_nobody_has_begun_is_empty(folder: Path, reader: Reader) -> None:
    assert (reader.range(), reader.read(0), reader.tail(5), reader.at_time(0)) == (Range(), [], [], 1)
    with EventLog(folder) as log:
        assert (log.last, log.last_position()) == (0, "")
        assert (reader.range(), reader.read(0), reader.at_time(0)) == (Range(), [], 1)


def test_a_reader_asks_for_so_many_entries_and_bytes_and_gets_one_at_least(log: EventLog, reader: Reader) -> None:
    log.append([new(number, size=90) for number in range(1, 31)])
    for number in range(31, 41):
        log.append([new(number, size=90)])
    assert len(segments.firsts(segment(log.folder).parent)) > 3
    assert [len(reader.read(0, most)) for most in (1, 29, 35)] == [1, 29, 35]
    assert [len(reader.read(0, 100, most_bytes)) for most_bytes in (1, 97, 98, 200, 1000)] == [1, 1, 1, 2, 10]
    assert [found.sequence for found in reader.read(27, 100, 500)] == [28, 29, 30, 31, 32]


@given(
    sizes=st.lists(st.sampled_from([0, 0, 0, 5, 60, 300]), min_size=1, max_size=30),
    after=st.integers(0, 28),
    most=st.integers(1, 40),
    most_bytes=st.sampled_from([1, 20, 64, 65, 200, 1000, 1 << 20]),
)
@settings(deadline=None)
def test_the_last_of_the_entries_that_it_would_read_is_found_without_reading_them(
    sizes: list[int], after: int, most: int, most_bytes: int
) -> None:
    assume(after < len(sizes))
    with tempfile.TemporaryDirectory() as place, EventLog(Path(place), segment_bytes=SMALL) as log:
        log.append(new(number, size=size) for number, size in enumerate(sizes, 1))
        with Reader(Path(place)) as reader:
            assert reader.skim(after, most, most_bytes) == reader.read(after, most, most_bytes)[-1]


def test_what_cannot_be_skimmed_is_told(log: EventLog, reader: Reader) -> None:
    log.append(map(new, range(1, 6)))
    with pytest.raises(Ahead):
        reader.skim(5, 10, 1000)
    with pytest.raises(Ahead):
        reader.skim(6, 10, 1000)
    log.trim(before_ms=1_000 + 6)
    log.append([new(6)])
    with pytest.raises(Trimmed):
        reader.skim(0, 10, 1000)


def test_a_position_and_an_event_that_are_too_large_are_refused(log: EventLog, reader: Reader) -> None:
    with pytest.raises(ValueError, match="65,535 are allowed"):
        log.append([new(1), NewEntry("x" * 65_536, 1, b"{}")])
    with pytest.raises(ValueError, match="67,108,864 are allowed"):
        log.append([NewEntry("", 1, bytes(segments.MOST_EVENT_BYTES + 1))])
    assert log.append([NewEntry("x" * 65_535, 1, bytes(5 << 20))]) == 1
    assert len(reader.read(0)[0].event) == 5 << 20


def test_it_goes_on_where_it_ended(folder: Path, reader: Reader) -> None:
    for number in range(1, 30):
        with EventLog(folder, segment_bytes=SMALL) as log:
            assert (log.last, log.last_position()) == (number - 1, f"0/{number - 1:X}" if number > 1 else "")
            log.append([new(number)])
    assert everything(reader) == [entry(number) for number in range(1, 30)]


def test_a_segment_ends_by_its_age_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    with EventLog(folder) as log:
        for number, now in enumerate((0, 599, 600, 1199, 1300), 1):
            clock[0] = now
            log.append([new(number)])
    assert segments.firsts(segment(folder).parent) == [1, 3, 5]


def test_the_first_entry_at_a_time_or_after_it_is_found_even_if_times_go_back(log: EventLog, reader: Reader) -> None:
    times = [random.Random(3).randrange(1000) for _ in range(200)]
    for number, time_ms in enumerate(times, 1):
        log.append([new(number, time_ms)])
    cold = Reader(log.folder)
    for wanted in range(-1, 1002, 7):
        expected = next((number for number, time_ms in enumerate(times, 1) if time_ms >= wanted), len(times) + 1)
        assert (reader.at_time(wanted), cold.at_time(wanted)) == (expected, expected)
    cold.close()


def test_the_tail_is_the_last_entries_within_so_many_bytes(log: EventLog, reader: Reader) -> None:
    log.append([new(number) for number in range(1, 31)])
    assert reader.tail(3) == [entry(28), entry(29), entry(30)]
    assert len(reader.tail(100)) == 30
    assert reader.tail(100, 2 * len(new(30).event)) == [entry(29), entry(30)]


# Retention


def test_old_segments_are_removed_and_readers_are_told(log: EventLog, reader: Reader) -> None:
    for number in range(1, 41):
        log.append([new(number)])
    assert reader.read(4, 1) == [entry(5)]
    first = log.trim(before_ms=1_020)
    assert 15 < first <= 20
    with pytest.raises(Trimmed) as trimmed:
        reader.read(4, 1)
    assert trimmed.value.first == first
    assert reader.range() == Range(first, 40, 1_000 + first, 1_040)
    assert everything(reader, first - 1) == [entry(number) for number in range(first, 41)]
    assert reader.at_time(0) == first
    assert len(reader.tail(100)) == 41 - first


def test_all_can_be_removed_and_the_log_still_knows_where_it_was(folder: Path, reader: Reader) -> None:
    with EventLog(folder, segment_bytes=SMALL) as log:
        log.append([new(number) for number in range(1, 11)])
        assert log.trim(before_ms=10_000) == 11
        assert log.trim(before_ms=10_000) == 11
    assert (reader.range(), reader.read(10), reader.at_time(0)) == (Range(11, 10), [], 11)
    with EventLog(folder) as log:
        assert (log.last, log.last_position()) == (10, "0/A")
        log.append([new(11)])
    assert reader.read(10) == [entry(11)]
    assert reader.range() == Range(11, 11, 1_011, 1_011)


def test_the_log_has_so_many_bytes_and_a_segment(log: EventLog, reader: Reader) -> None:
    for number in range(1, 101):
        log.append([new(number)])
    log.trim(most_bytes=3 * SMALL)
    files = list(segment(log.folder, 0).parent.glob("*.log"))
    assert sum(file.stat().st_size for file in files) <= 3 * SMALL
    assert len(files) >= 2
    assert log.trim(most_bytes=0) == reader.range().first
    assert len(list(files[0].parent.glob("*.log"))) == 1


def test_what_a_reader_still_needs_stays(log: EventLog, reader: Reader) -> None:
    for number in range(1, 41):
        log.append([new(number)])
    assert log.trim(before_ms=10_000, most_bytes=0, keep_after=0) == 1
    assert log.trim(before_ms=10_000, most_bytes=0, keep_after=13) <= 14
    assert reader.read(13, 1) == [entry(14)]
    assert log.trim(before_ms=10_000, keep_after=40) == 41


def test_a_removal_that_was_interrupted_is_finished(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with EventLog(folder, segment_bytes=SMALL) as log:
        for number in range(1, 41):
            log.append([new(number)])
        monkeypatch.setattr(EventLog, "_remove", _fail)
        with pytest.raises(OSError, match="input/output"):
            log.trim(before_ms=1_020)
        monkeypatch.undo()
    with Reader(folder) as reader, EventLog(folder):
        first = reader.range().first
        assert segments.firsts(segment(folder).parent)[0] == first > 15
        assert everything(reader, first - 1) == [entry(number) for number in range(first, 41)]


def _fail(*_: object) -> int:
    raise OSError(errno.EIO, "input/output")


def test_a_reader_that_is_ahead_of_the_log_is_told(log: EventLog, reader: Reader) -> None:
    log.append([new(1)])
    with pytest.raises(Ahead) as ahead:
        reader.read(2)
    assert ahead.value.last == 1


# Damage


@pytest.mark.parametrize("lost", range(1, 37))
def test_a_torn_tail_is_cut(folder: Path, reader: Reader, lost: int) -> None:
    with EventLog(folder) as log:
        log.append([new(1), new(2)])
        whole = segment(folder).read_bytes()
        log.append([new(3)])
    # As after a crash within the write: `end` was not told of it.
    (segment(folder).parent / "end").write_bytes(segments.End(1, 2, 1, 1_001, 1_002).dump())
    os.truncate(segment(folder), len(segment(folder).read_bytes()) - lost)
    with EventLog(folder) as log:
        assert (log.last, log.last_position()) == (2, "0/2")
        assert segment(folder).read_bytes() == whole
        log.append([new(3)])
    assert everything(reader) == [entry(1), entry(2), entry(3)]


def test_what_was_written_and_not_told_is_found(folder: Path, reader: Reader) -> None:
    with EventLog(folder) as log:
        log.append([new(1)])
        before = (segment(folder).parent / "end").read_bytes()
        log.append([new(2)])
    (segment(folder).parent / "end").write_bytes(before)
    assert reader.read(0) == [entry(1)]
    with EventLog(folder) as log:
        assert (log.last, log.last_position()) == (2, "0/2")
    assert reader.read(0) == [entry(1), entry(2)]


@pytest.mark.parametrize("is_last", [True, False])
def test_a_flipped_bit_is_told_with_its_place_and_what_is_before_it_can_be_read(
    folder: Path, reader: Reader, is_last: bool
) -> None:
    with EventLog(folder, segment_bytes=1 if not is_last else 1 << 20) as log:
        log.append([new(1), new(2), new(3)])
        log.append([new(4)])
    file = segment(folder)
    content = bytearray(file.read_bytes())
    place = content.index(b'{"n":2}')
    content[place] ^= 4
    file.write_bytes(content)
    assert reader.read(0) == [entry(1)]
    with pytest.raises(LogDamaged) as damaged:
        reader.read(1)
    assert damaged.value.file == file
    assert place - 40 < damaged.value.offset < place
    assert f"{file.name}, byte {damaged.value.offset}: the check sum of the entry 2 is wrong" in str(damaged.value)
    assert damaged.value.next_sequence == (None if is_last else 4)
    if is_last:
        with pytest.raises(LogDamaged, match="entry 2"):
            EventLog(folder)
    else:
        assert reader.read(3) == [entry(4)]
        with EventLog(folder) as log:
            (segment(folder).with_suffix(".index")).unlink()
            assert log.trim(before_ms=1_004) == 4  # it does not stay for ever


def test_a_missing_segment_is_told(folder: Path, reader: Reader) -> None:
    with EventLog(folder, segment_bytes=1) as log:
        for number in range(1, 4):
            log.append([new(number)])
    segment(folder, 2).unlink()
    assert reader.read(0) == [entry(1)]
    with pytest.raises(LogDamaged, match=r"00001\.log, byte \d+: the file ends before or within the entry 2"):
        reader.read(1)


def test_a_damaged_index_is_not_used(folder: Path) -> None:
    with EventLog(folder, segment_bytes=100_000) as log:
        for begin in range(1, 5_001, 100):
            log.append([new(number, size=100) for number in range(begin, begin + 100)])
    indexes = sorted(segment(folder).parent.glob("*.index"))
    assert len(indexes) > 3
    for damage in (bytes(40), b"", b"x", indexes[1].read_bytes()):
        indexes[0].write_bytes(damage)
        with Reader(folder) as reader:
            assert [reader.read(after, 1)[0].sequence for after in (700, 3, 4_999)] == [701, 4, 5_000]
            assert reader.at_time(1_500) == 500


def test_a_full_disk_does_no_damage(folder: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    room = [1_000]

    def pwrite(file: int, content: memoryview, offset: int) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = really(file, content[: room[0]], offset)
        room[0] -= written
        return written

    really = os.pwrite
    monkeypatch.setattr(os, "pwrite", pwrite)
    appended = 0
    with EventLog(folder) as log:
        for _ in range(40):
            try:
                log.append([new(appended + 1), new(appended + 2)])
            except OSError as error:
                assert error.errno == errno.ENOSPC
                assert everything(reader) == [entry(number) for number in range(1, appended + 1)]
                room[0] += 150
            else:
                appended += 2
        assert 4 < appended < 80
    monkeypatch.undo()
    with EventLog(folder) as log:
        assert log.last >= appended
        log.append([new(log.last + 1)])
        assert everything(reader) == [entry(number) for number in range(1, log.last + 1)]


@pytest.mark.process
def test_a_disk_that_is_really_full_is_written_again_when_there_is_room() -> None:
    with small_disk(1 << 20) as disk, Reader(disk / "log") as reader, EventLog(disk / "log") as log:
        appended = 0
        with pytest.raises(OSError, match="No space left"):
            while True:
                appended = log.append([new(appended + place, size=5_000) for place in range(1, 8)])
        assert reader.range().last == appended == len(everything(reader)) > 50
        assert log.trim(before_ms=10_000) == 1  # there is no room for the segment that would take its place
        assert resize(disk, 2 << 20)
        assert log.append([new(appended + 1)]) == appended + 1
        assert everything(reader, appended) == [entry(appended + 1)]
        assert log.trim(before_ms=10_000) == appended + 2


def test_a_disk_that_fails_to_keep_something_is_told_and_nothing_of_it_counts(
    log: EventLog, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append([new(1)])
    monkeypatch.setattr(os, "fdatasync", _fail)
    with pytest.raises(OSError, match="input/output"):
        log.append([new(2), new(3)])
    monkeypatch.undo()
    assert reader.read(0) == [entry(1)]
    log.append([NewEntry("other", 5, b"{}")])
    assert reader.read(0) == [entry(1), Entry(2, "other", 5, b"{}")]
    with pytest.raises(ValueError, match="closed"):
        log.close()
        log.append([new(3)])


# Several writers


def test_a_second_writer_is_refused_while_the_first_lives(folder: Path) -> None:
    first = EventLog(folder)
    for number in (None, first.number):
        with pytest.raises(LogHeld):
            EventLog(folder, number)
    first.close()
    EventLog(folder).close()


def test_a_writer_in_another_process_is_refused_too(folder: Path) -> None:
    with EventLog(folder, 3), pytest.raises(subprocess.CalledProcessError) as ended:
        subprocess.run(writer_program(folder), check=True, capture_output=True, timeout=60)
    assert b"is written by another process" in ended.value.stderr


def test_a_writer_that_was_given_up_cannot_append_and_its_successor_goes_on(folder: Path, reader: Reader) -> None:
    old = EventLog(folder, 4)
    old.append([new(1)])
    with EventLog(folder, 7) as log:
        assert log.append([new(2)]) == 2
        with pytest.raises(LogFenced, match="number 4"):
            old.append([new(2)])
        with pytest.raises(LogFenced, match="number 4"):
            old.trim(before_ms=0)
        with pytest.raises(LogFenced, match="number 4"):
            old.append([new(2)])
        with pytest.raises(LogFenced, match="held by the writer with the number 7"):
            EventLog(folder, 5)
        log.append([new(3)])
    old.close()
    assert everything(reader) == [entry(1), entry(2), entry(3)]
    assert [name for name in os.listdir(folder) if name.startswith("writer-")] == ["writer-00000007"]


@pytest.mark.parametrize("when", ["before", "within", "after"])
def test_a_writer_that_is_overtaken_within_an_append_is_told_and_no_entry_is_there_twice(
    folder: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """What it wrote counts if it was complete when the successor looked; it was not told that it is durable."""
    old = EventLog(folder, 1)
    old.append([new(1)])
    successors: list[EventLog] = []
    really_write, really_sync = event_log._write, os.fdatasync

    def take_over() -> None:
        monkeypatch.undo()
        successors.append(EventLog(folder, 2))

    def write(file: int, content: bytes, offset: int) -> None:
        half = len(content) // 2
        if when == "within":
            really_write(file, content[:half], offset)
        take_over()
        really_write(file, content, offset)

    def sync(file: int) -> None:
        really_sync(file)
        take_over()

    if when == "after":
        monkeypatch.setattr(os, "fdatasync", sync)
    else:
        monkeypatch.setattr(event_log, "_write", write)
    with pytest.raises(LogFenced):
        old.append([new(2), new(3)])
    (log,) = successors
    kept = {"before": 1, "within": 2, "after": 3}[when]
    assert log.last == kept
    assert everything(reader) == [entry(number) for number in range(1, kept + 1)]
    log.append([NewEntry("other", 1, b"{}")])
    assert everything(reader) == [*(entry(number) for number in range(1, kept + 1)), Entry(kept + 1, "other", 1, b"{}")]
    log.close()
    old.close()
    with EventLog(folder) as log:
        assert log.last == kept + 1


def test_readers_follow_a_log_that_is_taken_over_again_and_again(folder: Path) -> None:
    """No reader sees a gap, a repetition, or anything that another one does not see."""
    total, seen, failures = 600, dict[int, list[Entry]](), list[BaseException]()

    def follow(place: int) -> None:
        found = seen[place] = []
        patience = Patience(60)
        try:
            with Reader(folder) as reader:
                while len(found) < total and not patience.is_over():
                    found += reader.read(len(found), 10)
        except BaseException as error:  # noqa: BLE001 - it is told to the test
            failures.append(error)

    threads = [threading.Thread(target=follow, args=(place,)) for place in range(2)]
    for thread in threads:
        thread.start()
    former: list[EventLog] = []
    number = 0
    while number < total:
        log = EventLog(folder, len(former) + 1, segment_bytes=SMALL)
        for _ in range(20):
            number = log.append([new(number + 1), new(number + 2), new(number + 3)])
        former.append(log)
        if len(former) > 1:
            with pytest.raises(LogFenced):
                former[-2].append([NewEntry("nobody's", 0, b"{}")])
    for thread in threads:
        thread.join()
    for log in former:
        log.close()
    assert failures == []
    assert all(found == [entry(one) for one in range(1, total + 1)] for found in seen.values())


def test_readers_are_told_when_the_log_is_trimmed_under_them(folder: Path) -> None:
    stop, failures, trims = threading.Event(), list[BaseException](), [0]

    def follow() -> None:
        after = 0
        try:
            with Reader(folder) as reader:
                while not stop.is_set():
                    try:
                        found = reader.read(after, 5)
                        assert found == [entry(after + place) for place in range(1, len(found) + 1)]
                        after += len(found)
                        reader.at_time(1_000 + after)
                        assert all(one.sequence + 1 == other.sequence for one, other in pairwise(reader.tail(9)))
                    except Trimmed as trimmed:
                        assert trimmed.first > after + 1
                        after, trims[0] = trimmed.first - 1, trims[0] + 1
        except BaseException as error:  # noqa: BLE001 - it is told to the test
            failures.append(error)

    threads = [threading.Thread(target=follow) for _ in range(2)]
    with EventLog(folder, segment_bytes=SMALL) as log:
        log.append([new(1)])
        for thread in threads:
            thread.start()
        patience = Patience(30)
        while (log.last < 600 or not trims[0]) and not failures and not patience.is_over():
            log.append([new(log.last + 1) for _ in range(1)])
            if log.last % 20 == 0:
                log.trim(most_bytes=SMALL)
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == []


# Processes that are killed

WRITER = """
import sys
from pathlib import Path
from analytics.inflow.event_log import EventLog
from tests.inflow.test_event_log import new
log = EventLog(Path(sys.argv[1]), segment_bytes=20_000)
while True:
    size = log.last % 7 * 50
    sys.stdout.write(f"{log.append([new(log.last + place, size=0) for place in range(1, 2 + size)])}\\n")
    sys.stdout.flush()
"""


def writer_program(folder: Path) -> list[str]:
    """A process that appends until it is killed, and tells the last number after each append."""
    program = WRITER.replace("from tests.inflow.test_event_log import new\n", NEW)
    return [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{program}", str(folder)]


#: `new`, for a process without pytest.
NEW = """
def new(number, size):
    return f"0/{number:X}", 1_000 + number, b'{"n":%d}' % number
"""


def test_what_a_killed_writer_has_told_is_there(folder: Path) -> None:
    """Each time it is killed at another moment, and each time the next one goes on."""
    draw = random.Random()
    told = 0
    with Reader(folder) as reader:
        for _ in range(KILLS):
            process = subprocess.Popen(writer_program(folder), stdout=subprocess.PIPE)
            assert process.stdout is not None
            with process.stdout as lines:
                first = lines.readline()
                time.sleep(draw.uniform(0, 0.05))  # the moment is what is drawn
                process.send_signal(signal.SIGKILL)
                rest = lines.read().splitlines()
            process.wait()
            whole = [first, *rest]
            assert int(first) > told
            told = int(whole[-1])
            assert reader.range().last >= told
    with EventLog(folder) as log, Reader(folder) as reader:
        assert log.last >= told
        assert log.last_position() == f"0/{log.last:X}"
        assert everything(reader, most=1_000) == [entry(number) for number in range(1, log.last + 1)]
        print(f"{KILLS} kills, {log.last:,} entries")


def test_rates_are_printed(folder: Path, reader: Reader) -> None:
    total = 100_000
    entries = [new(number, size=400) for number in range(1, 1_001)]
    began = time.perf_counter()
    with EventLog(folder) as log:
        for _ in range(total // 1_000):
            log.append(entries)
    appended = time.perf_counter()
    assert len(everything(reader, most=1_000)) == total
    read = time.perf_counter()
    assert reader.at_time(5_000) == total + 1
    print(f"appended {total / (appended - began):,.0f}/s, read {total / (read - appended):,.0f}/s")


# Any order of all of it


class Any(RuleBasedStateMachine):
    """A log, and a list that says what has to be in it."""

    def __init__(self) -> None:
        super().__init__()
        self.home = tempfile.TemporaryDirectory()
        self.folder = Path(self.home.name) / "log"
        self.log = EventLog(self.folder, segment_bytes=SMALL)
        self.reader = Reader(self.folder)
        self.former: list[EventLog] = []
        self.all: list[Entry] = []
        self.first = 1

    def teardown(self) -> None:
        for log in [*self.former, self.log]:
            log.close()
        self.reader.close()
        self.home.cleanup()

    def _entries(self, times: list[int]) -> list[NewEntry]:
        return [NewEntry(f"p{len(self.all)}-{n}", time_ms, b"x" * (time_ms % 90)) for n, time_ms in enumerate(times)]

    def _note(self, entries: list[NewEntry]) -> None:
        self.all += [Entry(len(self.all) + place, *one) for place, one in enumerate(entries, 1)]

    @rule(times=st.lists(st.integers(0, 300), max_size=6))
    def append(self, times: list[int]) -> None:
        entries = self._entries(times)
        assert self.log.append(entries) == len(self.all) + len(entries)
        self._note(entries)

    @rule(times=st.lists(st.integers(0, 300), min_size=1, max_size=4), room=st.integers(0, 400))
    def append_to_a_full_disk(self, times: list[int], room: int) -> None:
        def write(file: int, content: bytes, offset: int) -> None:
            really(file, content[:room], offset)
            raise OSError(errno.ENOSPC, "No space left on device")

        really = event_log._write
        event_log._write = write
        try:
            with pytest.raises(OSError, match="No space"):
                self.log.append(self._entries(times))
        finally:
            event_log._write = really

    @rule(
        before_ms=st.none() | st.integers(0, 400),
        most_bytes=st.none() | st.integers(0, 2_000),
        keep=st.none() | st.integers(0, 60),
    )
    def trim(self, before_ms: int | None, most_bytes: int | None, keep: int | None) -> None:
        keep_after = None if keep is None else max(0, len(self.all) - keep)
        first = self.log.trim(before_ms=before_ms, most_bytes=most_bytes, keep_after=keep_after)
        assert self.first <= first <= len(self.all) + 1
        if keep_after is not None:
            assert first <= max(self.first, keep_after + 1)
        if most_bytes is None:
            assert all(one.time_ms < (before_ms or 0) for one in self.all[self.first - 1 : first - 1])
        if keep is None and before_ms == 400:
            assert first == len(self.all) + 1
        self.first = first

    @rule(is_higher=st.booleans(), garbage=st.binary(max_size=60), whole=st.booleans())
    def crash(self, is_higher: bool, garbage: bytes, whole: bool) -> None:
        """The writer ends, or is given up, within a write: a piece of a frame, or noise, is behind the last entry."""
        file = self._last_file()
        own = self.log._own
        number = self.log.number + is_higher
        if own is not None and file is not None:
            content = segments.frame(len(self.all) + 1, ("torn", 1, b"x" * 50))
            piece = garbage if whole else content[: len(garbage)]
            with file.open("rb+") as opened:
                opened.seek(own.index.offset)
                opened.truncate()
                opened.write(piece)
        if is_higher:
            self.former.append(self.log)
        else:
            self.log.close()
        self.log = EventLog(self.folder, number, segment_bytes=SMALL)
        # What failed before may have been complete on the disk: then it is there, as its writer was not told.
        self._adopt()

    def _last_file(self) -> Path | None:
        run = self.folder / f"run-{self.log.number:08}"
        known = segments.firsts(run)
        return run / file_name(known[-1]) if known else None

    def _adopt(self) -> None:
        if self.log.last > len(self.all):
            self.all += self.reader.read(len(self.all))
        assert self.log.last == len(self.all)

    @precondition(lambda self: self.former)
    @rule()
    def append_by_one_that_was_given_up(self) -> None:
        with pytest.raises(LogFenced):
            self.former[-1].append([NewEntry("nobody's", 0, b"{}")])

    @rule(after=st.integers(0, 100), most=st.integers(1, 9), most_bytes=st.integers(1, 400))
    def read(self, after: int, most: int, most_bytes: int) -> None:
        if after + 1 < self.first:
            with pytest.raises(Trimmed) as trimmed:
                self.reader.read(after, most, most_bytes)
            assert trimmed.value.first == self.first
        elif after > len(self.all):
            with pytest.raises(Ahead):
                self.reader.read(after, most, most_bytes)
        else:
            expected: list[Entry] = []
            size = 0
            for one in self.all[after : after + most]:
                size += len(one.event)
                if expected and (size > most_bytes or size - len(one.event) >= most_bytes):
                    break
                expected.append(one)
            assert self.reader.read(after, most, most_bytes) == expected

    @rule(time_ms=st.integers(-1, 301))
    def find_a_time(self, time_ms: int) -> None:
        here = self.all[self.first - 1 :]
        expected = next((one.sequence for one in here if one.time_ms >= time_ms), len(self.all) + 1)
        assert self.reader.at_time(time_ms) == expected

    @rule()
    def read_anew(self) -> None:
        self.reader.close()
        self.reader = Reader(self.folder)

    @invariant()
    def all_that_is_to_be_there_is(self) -> None:
        here = self.all[self.first - 1 :]
        assert everything(self.reader, self.first - 1) == here
        times = (here[0].time_ms, here[-1].time_ms) if here else (None, None)
        assert self.reader.range() == Range(self.first, len(self.all), *times)
        assert self.reader.tail(3) == here[-3:]
        assert self.log.last_position() == (self.all[-1].position if self.all else "")


TestAny = Any.TestCase
TestAny.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
