"""The sink `inflow` without Spark and without a broker: what it counts, shows and raises."""

from __future__ import annotations

import json
import pickle
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from analytics.errors import PipelineEnded, PipelineFailed
from analytics.inflow.delivery import Misset, Outgoing, RetryPolicy, Undelivered
from analytics.inflow.topics import TopicTarget
from analytics.inflow.transform import Event, Transformed
from analytics.pipelines import inflow_sink, waits
from analytics.pipelines.connector_errors import ConnectorFailed, ConnectorMisset, ConnectorStopped, failure_of
from analytics.pipelines.inflow_sink import InflowSink
from analytics.pipelines.inflow_targets import Target
from analytics.pipelines.producers import Address
from tests.inflow.tasks import change
from tests.support.broker import eventually

Send = Callable[[Sequence[Outgoing]], None]
DOCUMENT: dict[str, Any] = {
    "name": "t",
    "source": {"messages": 10},
    "sink": {"topic": "orders", "body": {"method": "data_extraction", "path": "$.data.after.n"}},
}


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[InflowSink]:
    inflow_sink.folder_of(tmp_path, "messages").mkdir()
    topics = TopicTarget(Address("127.0.0.1:1", "id", "very secret", "GID_INFLOW"), "orders")
    yield InflowSink("messages", json.dumps(DOCUMENT), Target(topics), str(tmp_path), function_key=b"as secret")
    while inflow_sink._transforms:
        inflow_sink._transforms.popitem()[1].close()


def told(sink: InflowSink, **more: Any) -> InflowSink:
    """The sink of another document."""
    return replace(sink, document=json.dumps(DOCUMENT | more))


def sends(monkeypatch: pytest.MonkeyPatch, send: Send = lambda messages: None) -> list[int]:
    """Let the target do that; the numbers that it was given."""
    found: list[int] = []

    def recorded(target: TopicTarget, messages: Sequence[Outgoing]) -> None:
        send(messages)
        found.extend(int(one.message.body) for one in messages)

    monkeypatch.setattr(TopicTarget, "send", recorded)
    return found


def rows(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array([change(number) for number in numbers], pa.binary())], names=["event"])


def counters(sink: InflowSink) -> dict[str, int]:
    return {name: count for name, count in inflow_sink.read_counters(sink.state, sink.name).items() if count}


def test_counters_add_up_over_batches_and_starts(sink: InflowSink, monkeypatch: pytest.MonkeyPatch) -> None:
    found = sends(monkeypatch)
    assert set(inflow_sink.read_counters(sink.state, sink.name).values()) == {0}
    assert sink.deliver(iter([rows(1, 2), rows(3)])) == 3
    assert replace(sink).deliver(iter([rows(3, 4)])) == 2  # the last one again, as after a crash
    assert found == [1, 2, 3, 3, 4]
    assert counters(sink) == {"eventsRead": 5, "messagesDelivered": 5}


def test_a_call_has_no_more_events_than_the_task_is_told(sink: InflowSink, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    class Counted:
        def apply(self, events: Sequence[Event]) -> Transformed:
            sizes.append(len(events))
            return Transformed([dict(one) for one in events], [None] * len(events))

        def close(self) -> None: ...

    monkeypatch.setattr(InflowSink, "kept_transform", lambda self: Counted())
    found = sends(monkeypatch)
    assert sink.deliver(iter([rows(*range(7)), rows(*range(18))])) == 25
    assert sizes == [10, 10, 5] and found == [*range(7), *range(18)]


def test_a_pause_is_shown_while_it_lasts_and_what_was_counted_is_kept(
    sink: InflowSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[waits.Waiting, ...]] = []

    def send(messages: Sequence[Outgoing]) -> None:
        seen.append(waits.told(Path(sink.state)))
        if len(seen) == 1:
            raise Undelivered("No broker answers.", may_pass=True)

    sends(monkeypatch, send)
    monkeypatch.setattr(RetryPolicy, "pauses_s", lambda policy: iter([0.05] * 3))
    sink.deliver(iter([rows(1)]))
    ((), (waiting,)) = seen
    assert (waiting.sink, waiting.reason, waiting.tries, waiting.most) == ("messages", "No broker answers.", 1, 4)
    assert waits.told(Path(sink.state)) == ()
    assert counters(sink) == {"eventsRead": 1, "deliveriesRetried": 1, "messagesDelivered": 1}


def test_a_sink_whose_state_was_taken_over_waits_no_more(sink: InflowSink, monkeypatch: pytest.MonkeyPatch) -> None:
    def send(messages: Sequence[Outgoing]) -> None:
        raise Undelivered("No broker answers.", may_pass=True)

    sends(monkeypatch, send)
    failures: list[str] = []

    def task() -> None:
        with pytest.raises(ConnectorFailed) as failed:
            sink.deliver(iter([rows(1)]))
        failures.append(str(failed.value))

    thread = threading.Thread(target=task)
    thread.start()
    eventually(lambda: bool(waits.told(Path(sink.state))))
    shutil.rmtree(sink.state)
    thread.join(60)
    assert len(failures) == 1


def test_what_ends_a_task_for_good_keeps_what_was_counted(sink: InflowSink, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(messages: Sequence[Outgoing]) -> None:
        raise Undelivered("It is too large.", may_pass=False)

    def missing(messages: Sequence[Outgoing]) -> None:
        raise Misset("There is no topic orders.")

    sends(monkeypatch, refused)
    with pytest.raises(ConnectorStopped, match=r"the task allows no faults: It is too large\."):
        told(sink, faults="prohibited").deliver(iter([rows(1)]))
    sends(monkeypatch, missing)
    with pytest.raises(ConnectorMisset, match=r"There is no topic orders\."):
        sink.deliver(iter([rows(1)]))
    assert counters(sink) == {"eventsRead": 2, "eventsFailed": 1}


@pytest.mark.process
def test_a_sink_can_be_handed_to_other_processes_after_it_was_used_and_shows_no_secret(
    sink: InflowSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    sends(monkeypatch)
    with_expression = told(sink, transform={"kind": "expression", "expression": "@"})
    with_expression.deliver(iter([rows(1)]))
    assert pickle.loads(pickle.dumps(with_expression)) == with_expression
    assert "secret" not in repr(sink)


@pytest.mark.process
def test_the_process_of_an_expression_stays_for_the_next_batch(
    sink: InflowSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    sends(monkeypatch)
    sinks = [told(sink, transform={"kind": "expression", "expression": f"@ || `{number}`"}) for number in range(6)]
    first = sinks[0].kept_transform()
    assert sinks[0].kept_transform() is first
    for one in sinks:
        one.deliver(iter([rows(1)]))
    assert sinks[0].kept_transform() is not first  # of many tasks the one that was longest unused is ended


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("Failed", None), ("Stopped", False), ("Misset", True)],
)
def test_what_a_connector_raises_tells_whether_another_start_helps(kind: str, expected: bool | None) -> None:
    text = f"Traceback …\nanalytics.pipelines.connector_errors.Connector{kind}: It is so.\nsome more"
    failure = failure_of(text, 3)
    assert isinstance(failure, PipelineFailed) and (failure.user_message, failure.line) == ("It is so.", 3)
    assert getattr(failure, "is_misset", None) is expected
    assert isinstance(failure, PipelineEnded) is (expected is not None)


def test_what_no_connector_raised_is_not_its_failure() -> None:
    assert failure_of("java.lang.OutOfMemoryError: heap", 3) is None
