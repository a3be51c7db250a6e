"""The source `events` without Spark: what it gives when, and what it tells of a log that is not what it was."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from analytics.inflow.event_log import EventLog
from analytics.inflow.event_reader import Reader
from analytics.pipelines import events_source, reaches, stretches
from analytics.pipelines.connector_errors import ConnectorFailed, ConnectorMisset
from analytics.pipelines.events_source import EventsReader, EventsSource
from analytics.pipelines.reports import Reached

ALL = ReadAllAvailable()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    with EventLog(tmp_path / "log", segment_bytes=4096) as log:
        yield log


@pytest.fixture
def source(tmp_path: Path, log: EventLog) -> EventsSource:
    (tmp_path / "state/source-events").mkdir(parents=True)
    return EventsSource("events", str(log.folder), str(tmp_path / "state"), messages=5, interval_ms=0)


def fill(log: EventLog, *numbers: int, size: int = 1) -> None:
    """Append events; the one with the number n at the position p<n> and the time n s."""
    log.append((f"p{number}", number * 1000, b"%d" % number + b" " * (size - 1)) for number in numbers)


def latest(reader: EventsReader, after: int) -> int:
    return reader.latestOffset({"events": after}, ALL)["events"]


def read(reader: EventsReader, after: int, until: int) -> list[int]:
    (partition,) = reader.partitions({"events": after}, {"events": until})
    return [int(event) for batch in reader.read(partition) for event in batch.column(0).to_pylist()]


def test_it_begins_with_the_first_event_or_with_the_first_of_a_time(log: EventLog, source: EventsSource) -> None:
    reader = EventsReader(source)
    assert reader.initialOffset() == {"events": 0}
    fill(log, *range(1, 11))
    assert reader.initialOffset() == {"events": 0}
    assert EventsReader(replace(source, start_ms=4000)).initialOffset() == {"events": 3}
    assert EventsReader(replace(source, start_ms=10_001)).initialOffset() == {"events": 10}
    assert read(reader, 3, 7) == [4, 5, 6, 7]


def test_a_stretch_is_one_row_that_stands_for_its_events(log: EventLog, source: EventsSource) -> None:
    fill(log, *range(1, 11))
    reader = EventsReader(replace(source, by_stretches=True))
    (partition,) = reader.partitions({"events": 3}, {"events": 9})
    ((row,),) = [batch.column(0).to_pylist() for batch in reader.read(partition)]
    assert [int(event) for event in stretches.events_of(row)] == [4, 5, 6, 7, 8, 9]
    assert int.from_bytes(row[1:9]) == 6


def test_a_row_that_is_an_event_stands_for_itself() -> None:
    assert list(stretches.events_of(b'{"a":1}')) == [b'{"a":1}']
    assert list(stretches.events_of(b"")) == [b""]


def test_a_stretch_that_was_removed_is_a_failure_unless_it_is_left_out(log: EventLog, source: EventsSource) -> None:
    for begin in range(1, 2001, 100):
        fill(log, *range(begin, begin + 100), size=50)
    log.trim(before_ms=1_000_000)
    first = Reader(log.folder).range().first
    assert first > 100
    with pytest.raises(ConnectorMisset, match=rf"Start it anew, from the event {first} or a later one"):
        list(stretches.events_of(source.stretch(0, first).to_row()))
    left = replace(source, skips=True).stretch(0, first + 1)
    assert [int(event) for event in stretches.events_of(left.to_row())] == [first, first + 1]
    with pytest.raises(ConnectorMisset, match="replaced since it was read last"):
        list(stretches.events_of(source.stretch(1999, 2001).to_row()))


def test_it_never_gives_more_events_than_it_is_told(log: EventLog, source: EventsSource) -> None:
    fill(log, *range(1, 13))
    reader, found = EventsReader(source), [0]
    while found[-1] < 12:
        found.append(latest(reader, found[-1]))
    assert found == [0, 5, 10, 12]


def test_where_more_events_wait_it_gives_several_calls_at_once(log: EventLog, source: EventsSource) -> None:
    fill(log, *range(1, 33))
    reader, found = EventsReader(replace(source, calls=3)), [0]
    while found[-1] < 32:
        found.append(latest(reader, found[-1]))
    assert found == [0, 15, 30, 32]


def test_nor_more_bytes_unless_one_event_has_them(
    log: EventLog, source: EventsSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_source, "MOST_BYTES", 1000)
    monkeypatch.setattr(stretches, "_AT_ONCE_BYTES", 700)
    fill(log, 1, 2, 3, size=400)
    fill(log, 4, size=3000)
    reader, found = EventsReader(source), [0]
    while found[-1] < 4:
        found.append(latest(reader, found[-1]))
    assert found in ([0, 2, 3, 4], [0, 3, 4])
    assert read(reader, 0, 4) == [1, 2, 3, 4]


def test_it_waits_for_the_number_or_for_the_interval_whichever_is_first(log: EventLog, source: EventsSource) -> None:
    reader = EventsReader(replace(source, interval_ms=800))
    assert latest(reader, 0) == 0
    fill(log, 1, 2)
    began = time.monotonic()
    while (found := latest(reader, 0)) == 0:
        pass
    assert found == 2 and time.monotonic() - began >= 0.8
    fill(log, *range(3, 7))
    assert latest(reader, 2) == 2  # four of five
    fill(log, 7, 8)
    began = time.monotonic()
    assert latest(reader, 2) == 7
    assert time.monotonic() - began < 0.5


def test_a_question_waits_for_an_event_but_not_for_long(log: EventLog, source: EventsSource) -> None:
    reader = EventsReader(source)
    began = time.monotonic()
    assert latest(reader, 0) == 0
    assert 0.4 < time.monotonic() - began < 5
    thread = threading.Timer(0.1, fill, [log, 1])
    thread.start()
    assert latest(reader, 0) == 1
    thread.join()


def test_where_it_stands_is_told_when_a_batch_is_delivered(log: EventLog, source: EventsSource, tmp_path: Path) -> None:
    assert reaches.reached(source.state, "events") is None
    fill(log, *range(1, 9))
    reader = EventsReader(source)
    assert latest(reader, 0) == 5
    assert reaches.reached(source.state, "events") == Reached(0, "", None, 8, 8000)
    assert latest(reader, 5) == 8
    told = reaches.reached(source.state, "events")
    assert told == Reached(5, "p5", 5000, 8, 8000) and told.pending == 3
    assert latest(EventsReader(source), 8) == 8  # as after a restart
    assert reaches.reached(source.state, "events") == Reached(8, "p8", 8000, 8, 8000)


def test_a_log_that_was_trimmed_or_replaced_is_told(log: EventLog, source: EventsSource, tmp_path: Path) -> None:
    for number in range(1, 40):
        fill(log, number, size=1000)
    reader = EventsReader(source)
    log.trim(most_bytes=16_000)
    first = reader.initialOffset()["events"] + 1
    assert 1 < first < 30
    sentence = rf"before number {first} have been removed .* Start it anew, from the event {first} or a later one"
    with pytest.raises(ConnectorMisset, match=sentence):
        latest(EventsReader(source), 0)
    with pytest.raises(ConnectorMisset, match=sentence):
        read(reader, 0, 30)
    with pytest.raises(ConnectorMisset, match=r"The log ends with the event number 39.* Start the task anew\."):
        latest(EventsReader(source), 40)


def test_who_may_skip_goes_on_with_the_first_event_that_is_still_there(log: EventLog, source: EventsSource) -> None:
    for number in range(1, 40):
        fill(log, number, size=1000)
    log.trim(most_bytes=16_000)
    reader = EventsReader(replace(source, skips=True))
    first = reader.initialOffset()["events"] + 1
    assert first > 1
    assert latest(reader, 0) == first + 4
    assert read(reader, 0, first + 4) == list(range(first, first + 5))
    assert read(reader, 0, first - 1) == []
    log.trim(before_ms=1_000_000)
    assert latest(reader, first + 4) == 39
    assert read(reader, first + 4, 39) == []


def test_a_log_that_cannot_be_read_is_told(log: EventLog, source: EventsSource) -> None:
    fill(log, *range(1, 9))
    (segment,) = log.folder.glob("run-*/*.log")
    content = bytearray(segment.read_bytes())
    content[-3] ^= 0xFF
    segment.write_bytes(bytes(content))
    with pytest.raises(ConnectorFailed, match=r"The event log is damaged: 0+1\.log, byte "):
        read(EventsReader(source), 0, 8)


def test_who_lost_the_state_reads_no_more(log: EventLog, source: EventsSource) -> None:
    with pytest.raises(ConnectorFailed, match="the state of the pipeline, cannot be used"):
        latest(EventsReader(replace(source, state="/nowhere")), 0)
