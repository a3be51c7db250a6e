"""What leads a source `mns`, on a real queue service and without Spark: what is hidden, given back and deleted."""

from __future__ import annotations

import json
import resource
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from analytics.pipelines import decoding
from analytics.pipelines.intake import Intake, settle
from analytics.pipelines.queue_source import QueueSource
from analytics.pipelines.spool import Spool
from brokercore.smq.client import QueueClient, QueueServiceUnavailable
from brokercore.smq.wire.messages import Draft
from tests.pipelines.jobs import until
from tests.support.queue_service import Keys, QueueServiceProcess

SCHEMA = pa.schema([("id", pa.int64())])
MESSAGES = 20
PATIENCE_SECONDS = 60.0


@pytest.fixture(autouse=True)
def memory() -> Iterator[None]:
    """Who leads a source bounds what its process may take, which is that of the tests here."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    yield
    resource.setrlimit(resource.RLIMIT_DATA, before)


@pytest.fixture(scope="module")
def keys(service: QueueServiceProcess) -> Keys:
    return service.keys("intake")


@pytest.fixture
def queues(service: QueueServiceProcess, keys: Keys) -> Iterator[QueueClient]:
    client = QueueClient(service.address, keys.id, keys.secret)
    yield client
    client.close()


@pytest.fixture
def source(service: QueueServiceProcess, keys: Keys, tmp_path: Path) -> QueueSource:
    body = decoding.Format("json", SCHEMA)
    found = QueueSource(
        "flights", service.address, tmp_path.name.replace("_", "-"), keys.id, keys.secret, str(tmp_path), body,
        most=16, polling_wait_ms=1000, hidden_s=60,
    )  # fmt: skip
    found.prepare()
    found.note_readers(["insert-0"])
    return found


def intake_of(source: QueueSource) -> tuple[Intake, Spool]:
    spool = Spool(source.spool)
    assert spool.lead()
    return Intake(source, spool), spool


def fill(queues: QueueClient, name: str, first: int = 0) -> None:
    numbers = range(first, first + MESSAGES)
    for begin in range(0, MESSAGES, 10):
        queues.send_batch(name, [Draft(json.dumps({"id": number}).encode()) for number in numbers[begin : begin + 10]])


def hidden(queues: QueueClient, name: str) -> int:
    return queues.queue(name).inactive


def commit(source: QueueSource, number: int) -> None:
    """As Spark notes that the insert has done a batch."""
    for folder, text in (("offsets", f'v1\n{{}}\n{{"flights": {number}}}\n'), ("commits", "v1\n{}\n")):
        file = Path(source.state) / "insert-0" / folder / "0"
        file.parent.mkdir(parents=True)
        file.write_text(text)


def test_what_is_under_way_for_longer_than_the_queue_hides_it_does_not_come_again(
    queues: QueueClient, source: QueueSource
) -> None:
    source = replace(source, hidden_s=10)
    queues.create_queue(source.queue, {"VisibilityTimeout": 10})
    fill(queues, source.queue)
    intake, spool = intake_of(source)
    intake.start()
    until(lambda: hidden(queues, source.queue) == MESSAGES)
    number = intake.latest(0)
    fill(queues, source.queue, MESSAGES)  # these wait behind the batch
    until(lambda: hidden(queues, source.queue) == 2 * MESSAGES)

    assert queues.receive(source.queue, 16, wait_s=22) == []

    number = intake.latest(number)
    commit(source, number)
    until(lambda: spool.counters()["deletedMessages"] == 2 * MESSAGES)
    intake.close()
    assert {name: count for name, count in spool.counters().items() if count} == {"deletedMessages": 2 * MESSAGES}
    spool.release()


def test_what_was_received_ahead_is_given_back_and_what_is_in_a_batch_stays_hidden(
    queues: QueueClient, source: QueueSource
) -> None:
    queues.create_queue(source.queue, {"VisibilityTimeout": 600})
    fill(queues, source.queue)
    intake, spool = intake_of(source)
    intake.start()
    until(lambda: hidden(queues, source.queue) == MESSAGES)
    until(lambda: intake.latest(0) > 0)
    in_batch = sum(len(batch.handles) for batch in spool.batches.values())
    fill(queues, source.queue, MESSAGES)
    until(lambda: hidden(queues, source.queue) == 2 * MESSAGES)

    intake.close()
    spool.release()

    until(lambda: queues.queue(source.queue).active == 2 * MESSAGES - in_batch)
    found = queues.receive(source.queue, 16)
    assert {json.loads(message.body)["id"] for message in found} <= set(range(2 * MESSAGES))
    assert {message.id for message in found}.isdisjoint(*(batch.handles for batch in spool.batches.values()))


def committed_batch(queues: QueueClient, source: QueueSource) -> tuple[Intake, Spool, int]:
    """A source that runs and has one batch, not committed yet, of all messages of a queue; and the batch's number."""
    queues.create_queue(source.queue, {"VisibilityTimeout": 600})
    fill(queues, source.queue)
    intake, spool = intake_of(source)
    intake.start()
    until(lambda: hidden(queues, source.queue) == MESSAGES)
    until(lambda: intake.latest(spool.last) > 0 and len(spool._known) == MESSAGES)
    return intake, spool, spool.last


def test_what_is_being_deleted_at_a_stop_is_noted_and_not_counted_as_failed(
    queues: QueueClient, source: QueueSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    intake, spool, number = committed_batch(queues, source)
    is_deleted, go_on = threading.Event(), threading.Event()
    delete, close = intake._client.delete, intake._receiver.close

    def slow(queue: str, handles: list[str]) -> object:
        answer = delete(queue, handles)
        is_deleted.set()
        go_on.wait(PATIENCE_SECONDS)
        return answer

    def closed(is_kept: Callable[[str], bool]) -> None:
        close(is_kept)
        go_on.set()

    monkeypatch.setattr(intake._client, "delete", slow)
    monkeypatch.setattr(intake._receiver, "close", closed)
    commit(source, number)
    assert is_deleted.wait(PATIENCE_SECONDS)
    intake.close()
    spool.release()
    settle(source)
    assert {name: count for name, count in spool.counters().items() if count} == {"deletedMessages": MESSAGES}


def test_what_waits_for_another_try_at_a_stop_is_deleted_by_who_leads_next(
    queues: QueueClient, source: QueueSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    intake, spool, number = committed_batch(queues, source)
    was_asked = threading.Event()

    def away(queue: str, handles: list[str]) -> object:
        was_asked.set()
        raise QueueServiceUnavailable("no answer")

    monkeypatch.setattr(intake._client, "delete", away)
    commit(source, number)
    assert was_asked.wait(PATIENCE_SECONDS)
    intake.close()
    spool.release()
    settle(source)
    assert {name: count for name, count in spool.counters().items() if count} == {"deletedMessages": MESSAGES}


def test_what_came_again_while_it_is_in_a_batch_is_not_given_back(queues: QueueClient, source: QueueSource) -> None:
    queues.create_queue(source.queue, {"VisibilityTimeout": 1})
    fill(queues, source.queue)
    first, spool = intake_of(replace(source, hidden_s=0))  # as one that is killed: nothing is hidden again
    first.start()
    until(
        lambda: first.latest(spool.last) > 0 and sum(len(batch.handles) for batch in spool.batches.values()) == MESSAGES
    )
    first.close()
    first._receiver._receiving.join(60)  # its last poll may still take messages
    until(lambda: queues.queue(source.queue).active == MESSAGES)
    spool.release()
    queues.set_attributes(source.queue, {"VisibilityTimeout": 600})

    before = queues.queue(source.queue).received
    second, spool = intake_of(source)
    second.start()
    until(lambda: queues.queue(source.queue).received == before + MESSAGES)
    second.close()
    spool.release()

    assert queues.receive(source.queue, 16, wait_s=3) == []


def test_a_copy_that_was_received_before_its_message_was_deleted_is_no_message_of_its_own(
    queues: QueueClient, source: QueueSource
) -> None:
    queues.create_queue(source.queue, {"VisibilityTimeout": 1})
    queues.send(source.queue, b'{"id": 1}')
    intake, spool = intake_of(replace(source, hidden_s=0))  # as one that had no time to hide it again
    intake.start()
    until(lambda: intake.latest(0) == 1)
    (message,) = spool.batches[1].handles

    def is_here_again_with_a_newer_handle() -> bool:
        """A copy waits behind the batch, whose message was hidden again, and is deleted by that handle."""
        copies = list(intake._receiver._ahead)
        if not copies:
            return False
        spool.seen(message, queues.hide(source.queue, copies[-1].handle, 600)[0])
        return True

    until(is_here_again_with_a_newer_handle)
    commit(source, 1)
    until(lambda: spool.counters()["deletedMessages"] == 1)
    assert queues.queue(source.queue).inactive == 0
    assert intake.latest(1) == 1
    assert spool.counters()["duplicateMessages"] > 0
    until(lambda: intake.latest(1) == 1 and not spool._gone)  # known for as long as a copy may be on its way
    intake.close()
    spool.release()
