"""A sink that cannot write and waits for its next try: it says so, and neither a stop nor another runner waits."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from analytics.errors import PipelineFenced
from analytics.pipelines import checkpoints, runner, waits
from analytics.pipelines.connector_errors import ConnectorFailed
from analytics.pipelines.topic_sink import Sent, TopicSink, write
from brokercore.client import Producer
from brokercore.client.errors import ClientError, InvalidMessage
from tests.pipelines.jobs import Ground, new_location, plan_of, until
from tests.pipelines.test_engine_sink import closed_port
from tests.support.broker import eventually

TWO_HOURS_MS = 7_200_000
PATIENCE_SECONDS = 120.0


def processes_of(state: Path) -> set[int]:
    """Of the notes that are there: several requests may wait at once."""
    return {int(note.name.split("-")[-2]) for note in state.glob("waiting-*")}


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def unreachable(ground: Ground, topic: str, **options: Any) -> Any:
    return ground.mq(
        topic, "id bigint", endpoint=f"127.0.0.1:{closed_port()}", retryTimes=1000, sleepTimeMs=TWO_HOURS_MS, **options
    )


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who ends a pipeline would wait for its batch for an hour, which ends before a pause of two."""
    monkeypatch.setattr(runner, "_PATIENCE_S", 3600.0)


@pytest.mark.usefixtures("spark", "patient")
@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_a_stop_does_not_wait_for_a_sink_that_waits(ground: Ground, topic: str, mode: str) -> None:
    numbers = replace(
        ground.mns("", "id bigint"), name="numbers", connector="datagen", format="",
        options={"rows-per-second": 10, "number-of-rows": 5, "fields.id.kind": "sequence", "fields.id.start": 1,
                 "fields.id.end": 5} if mode == "batch" else {"rows-per-second": 10},
    )  # fmt: skip
    plan = plan_of(numbers, unreachable(ground, topic), "select id from numbers", mode=mode)
    pipeline = runner.start(ground.spec(plan))
    until(lambda: bool(pipeline.report().waiting), pipeline)
    (waiting,) = pipeline.report().waiting
    assert (waiting.sink, waiting.tries, waiting.most) == ("carriers", 1, 1001)
    assert waiting.next_ms - waiting.since_ms == TWO_HOURS_MS
    assert waiting.sentence.startswith("The table carriers waits to be written, before try 2 of 1001: ")
    assert len(waiting.reason) > 10
    processes = processes_of(pipeline._held.state)
    assert processes and all(map(is_alive, processes))
    pipeline.stop()
    eventually(lambda: not any(map(is_alive, processes)), PATIENCE_SECONDS)
    assert pipeline.report().waiting == ()


@pytest.mark.usefixtures("spark", "patient")
def test_what_was_not_written_when_a_sink_waited_is_written_by_the_next_start(
    ground: Ground, queue: str, topic: str
) -> None:
    ground.fill(queue, (b'{"id": %d}' % number for number in range(10)))
    source = ground.mns(queue, "id bigint")
    spec = ground.spec(plan_of(source, unreachable(ground, topic), "select id from flights"))
    pipeline = runner.start(spec)
    until(lambda: bool(pipeline.report().waiting), pipeline)
    pipeline.stop("kept")
    assert ground.left(queue) == 10

    sink = ground.mq(topic, "id bigint")
    origin = f"{checkpoints.SAVEPOINT}kept"
    plan = plan_of(source, sink, "select id from flights")
    second = runner.start(ground.spec(plan, location=spec.location, number=2, origin=origin))
    until(lambda: ground.left(queue) == 0, second)
    assert second.report().waiting == ()
    second.stop()
    assert sorted(int(message.body) for message in ground.messages(topic)) == list(range(10))


@pytest.mark.usefixtures("spark")
def test_a_runner_that_lost_its_state_does_not_leave_a_sink_waiting(ground: Ground, topic: str) -> None:
    numbers = replace(
        ground.mns("", "id bigint"), name="numbers", connector="datagen", format="", options={"rows-per-second": 10}
    )
    spec = ground.spec(plan_of(numbers, unreachable(ground, topic), "select id from numbers"))
    pipeline = runner.start(spec)
    until(lambda: bool(pipeline.report().waiting), pipeline)
    processes = processes_of(pipeline._held.state)
    assert processes
    taken = checkpoints.claim(spec.location, 2)
    eventually(lambda: not pipeline.is_running, PATIENCE_SECONDS)
    assert isinstance(pipeline.failure, PipelineFenced)
    eventually(lambda: not any(map(is_alive, processes)), PATIENCE_SECONDS)
    assert waits.told(taken.state) == ()


def sink_of(state: Path | None = None, **changes: Any) -> TopicSink:
    """Of a broker that is not there."""
    found = TopicSink(f"127.0.0.1:{closed_port()}", "t", "id", "secret", "GID_sink", "binary", retries=1000)
    return replace(found, pause_ms=TWO_HOURS_MS, table="carriers", state=str(state or ""), **changes)


def rows(*bodies: bytes) -> pa.RecordBatch:
    return pa.record_batch([pa.array(bodies, pa.binary())], names=["payload"])


def test_a_sink_whose_state_was_taken_over_waits_no_more_though_nobody_ends_it() -> None:
    held = checkpoints.claim(new_location(), 1)
    failures: list[str] = []

    def task() -> None:
        try:
            write(sink_of(held.state), iter([rows(b"a")]))
        except ConnectorFailed as failed:
            failures.append(str(failed))

    thread = threading.Thread(target=task, daemon=True)
    thread.start()
    eventually(lambda: bool(waits.told(held.state)), PATIENCE_SECONDS)
    taken = checkpoints.claim(held.location, 2)
    thread.join(PATIENCE_SECONDS)
    assert failures == ["The table carriers is written by another worker now."]
    assert waits.told(taken.state) == ()


@pytest.mark.parametrize("waits_first", [True, False])
def test_a_request_that_fails_for_good_ends_the_pause_of_the_one_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits_first: bool
) -> None:
    def send(producer: Producer, messages: Any) -> None:
        body = (messages if isinstance(messages, list) else [messages])[0].body
        if body.startswith(b"w"):
            raise ClientError("no broker answers")
        eventually(lambda: bool(waits.told(tmp_path)), PATIENCE_SECONDS)
        raise InvalidMessage("it is empty")

    monkeypatch.setattr(Producer, "send", send)
    bodies = [b"w" + b"x" * (2 << 20), b"refused"]
    with pytest.raises(ConnectorFailed, match="cannot be written to the topic t: it is empty"):
        write(sink_of(tmp_path), iter([rows(*(bodies if waits_first else reversed(bodies)))]))
    assert list(tmp_path.iterdir()) == []


def test_a_row_that_cannot_be_written_ends_the_pause_of_those_before_it(tmp_path: Path) -> None:
    def batches() -> Any:
        yield rows(b"a")
        eventually(lambda: bool(waits.told(tmp_path)), PATIENCE_SECONDS)
        raise ConnectorFailed("The next rows cannot be read.")

    with pytest.raises(ConnectorFailed, match="The next rows cannot be read"):
        write(sink_of(tmp_path), batches())


def test_what_was_written_after_a_pause_is_told_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[tuple[int, ...]] = []

    def send(producer: Producer, message: Any) -> None:
        tries.append(tuple(one.tries for one in waits.told(tmp_path)))
        if len(tries) < 4:
            raise ClientError("no broker answers")

    monkeypatch.setattr(Producer, "send", send)
    assert write(replace(sink_of(tmp_path), pause_ms=1), iter([rows(b"a")])) == Sent(1, 3)
    assert tries == [(), (1,), (2,), (3,)]
    assert list(tmp_path.iterdir()) == []


def test_of_requests_of_one_table_the_one_that_waits_longest_tells(tmp_path: Path) -> None:
    for number, since in enumerate((30, 10, 20)):
        given_up = threading.Event()
        pauses = waits.Pauses(str(tmp_path), "t", 3, given_up)
        pauses._waiting = replace(pauses._waiting, since_ms=since)
        pauses._note = tmp_path / f"waiting-t-1-{number}"
        pauses.take(0, 1, f"reason {number}")
    (tmp_path / "waiting-u-1-1").write_text("{")
    assert [(one.sink, one.since_ms, one.reason) for one in waits.told(tmp_path)] == [("t", 10, "reason 1")]
    waits.forget(tmp_path)
    assert waits.told(tmp_path) == () and list(tmp_path.iterdir()) == []


def test_a_pause_that_is_told_anew_is_told_all_the_time(tmp_path: Path) -> None:
    pauses = waits.Pauses(str(tmp_path), "t", 2000, threading.Event())
    pauses.take(0, 1, "reason")
    is_over = threading.Event()

    def take() -> None:
        for tries in range(2, 2000):
            pauses.take(0, tries, "reason" * tries)
        is_over.set()

    thread = threading.Thread(target=take)
    thread.start()
    while not is_over.is_set():
        assert [one.sink for one in waits.told(tmp_path)] == ["t"]
    thread.join()
    pauses.end()
    assert list(tmp_path.iterdir()) == []


def test_a_note_of_a_process_that_was_killed_is_told_no_more_and_one_that_lives_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "_TOUCH_S", 0.1)
    given_up = threading.Event()
    pauses = waits.Pauses(str(tmp_path), "t", 3, given_up)
    pauses.take(0, 1, "reason")
    (note,) = tmp_path.iterdir()
    old = time.time() - 61
    os.utime(note, (old, old))
    assert waits.told(tmp_path) == ()

    def take() -> None:
        with pytest.raises(ConnectorFailed):
            pauses.take(TWO_HOURS_MS, 2, "reason")

    thread = threading.Thread(target=take)
    thread.start()
    eventually(lambda: bool(waits.told(tmp_path)), PATIENCE_SECONDS)
    os.utime(note, (old, old))
    eventually(lambda: bool(waits.told(tmp_path)), PATIENCE_SECONDS)
    given_up.set()
    thread.join()


def test_what_a_killed_process_was_writing_is_removed_by_the_next_start(tmp_path: Path) -> None:
    (tmp_path / ".waiting-t-1-1").write_text("{")
    waits.forget(tmp_path)
    assert list(tmp_path.iterdir()) == []
