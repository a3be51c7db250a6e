"""What becomes of messages that are committed and cannot be deleted, on a real queue service and without Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from analytics.pipelines import intake as intake_module
from analytics.pipelines.intake import Intake
from analytics.pipelines.queue_source import QueueSource
from analytics.pipelines.spool import Spool
from brokercore.smq.client import QueueClient, QueueServiceUnavailable
from brokercore.smq.wire.errors import Code, SmqError
from tests.pipelines.jobs import until
from tests.pipelines.test_intake import MESSAGES, commit, fill, intake_of, keys, memory, queues, source

__all__ = ["keys", "memory", "queues", "source"]
#: Requests of sixteen messages that delete a batch.
REQUESTS = 2
Answer = list[tuple[str, SmqError]]
Fate = Callable[[Sequence[str]], Answer]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "PAUSE_S", 0.05)


class Deletes:
    """The first requests that delete fare as told; further ones reach the service."""

    def __init__(self, intake: Intake, *first: Fate) -> None:
        self._first, self._really = [*first], intake._client.delete
        self.requests: list[int] = []
        intake._client.delete = self._delete  # type: ignore[method-assign]

    def _delete(self, queue: str, handles: Sequence[str]) -> Answer:
        self.requests.append(len(handles))
        return self._first.pop(0)(handles) if self._first else self._really(queue, handles)


def is_away(handles: Sequence[str]) -> Answer:
    raise QueueServiceUnavailable("no answer")


def is_busy(handles: Sequence[str]) -> Answer:
    raise SmqError(Code.QPS_LIMIT_EXCEEDED, "too many requests")


def is_forbidden(handles: Sequence[str]) -> Answer:
    raise SmqError(Code.ACCESS_DENIED, "the key may not")


def one_is_old(handles: Sequence[str]) -> Answer:
    """Nothing is deleted, one handle is not the latest any more, and the service has no time for the others."""
    code = [Code.RECEIPT_HANDLE_ERROR, *[Code.INTERNAL_ERROR] * (len(handles) - 1)]
    return [(handle, SmqError(one, "refused")) for handle, one in zip(handles, code, strict=True)]


def batch_of_all(queues: QueueClient, source: QueueSource, hidden_s: int = 600) -> tuple[Intake, Spool, int]:
    """A source that does not run, with one batch of all messages of its queue, which is committed."""
    queues.create_queue(source.queue, {"VisibilityTimeout": hidden_s})
    fill(queues, source.queue)
    intake, spool = intake_of(source)
    intake._receiver.start()
    until(lambda: queues.queue(source.queue).inactive == MESSAGES)
    until(lambda: len(intake._receiver._ahead) == MESSAGES)
    number = intake.latest(0)
    commit(source, number)
    return intake, spool, number


def counted(spool: Spool) -> dict[str, int]:
    return {name: count for name, count in spool.counters().items() if count}


@pytest.mark.parametrize(
    "case",
    [
        (2, [is_away, is_busy, is_busy, is_away], [16, 4] * 3, 0),
        (1, [is_away, is_away, is_busy, is_busy], [16, 4] * 2, MESSAGES),
        (0, [is_away], [16, 4], 16),
        (5, [is_forbidden, is_forbidden], [16, 4], MESSAGES),
        (1, [one_is_old], [16, 4, 15], 1),
    ],
)
def test_a_deletion_that_fails_is_tried_again_as_often_as_told_and_what_is_left_is_counted(
    queues: QueueClient, source: QueueSource, case: tuple[int, list[Fate], list[int], int]
) -> None:
    retries, first, requests, failed = case
    intake, spool, number = batch_of_all(queues, replace(source, delete_retries=retries))
    handles = dict(spool.batches[number].handles)
    deletes = Deletes(intake, *first)
    intake._delete_committed()
    intake.close()
    assert deletes.requests == requests
    done = {"deletedMessages": MESSAGES - failed, "failedDeletes": failed}
    assert counted(spool) == {name: count for name, count in done.items() if count}
    assert queues.queue(source.queue).inactive == failed
    assert (spool.numbers(), spool.has(next(iter(handles)))) == ([], False)
    assert sum(spool.is_done(message) for message in handles) == failed
    spool.release()


def test_what_could_not_be_deleted_is_deleted_when_it_comes_again_and_given_to_nobody(
    queues: QueueClient, source: QueueSource
) -> None:
    source = replace(source, delete_retries=0, hidden_s=0)  # as one that is killed: nothing is hidden again
    intake, spool, number = batch_of_all(queues, source, hidden_s=3)
    handles = dict(spool.batches[number].handles)
    Deletes(intake, *[is_away] * REQUESTS)
    intake._delete_committed()
    intake.close()
    spool.release()
    assert counted(spool) == {"failedDeletes": MESSAGES}

    intake, spool = intake_of(source)
    intake.start()

    def comes_to_be_deleted() -> bool:
        assert intake.latest(number) == number
        return counted(spool).get("deletedMessages") == MESSAGES

    until(comes_to_be_deleted)
    found = queues.queue(source.queue)
    assert found.active + found.inactive == 0
    intake.close()
    spool.release()
    assert counted(spool)["duplicateMessages"] >= MESSAGES
    assert counted(spool)["failedDeletes"] >= MESSAGES
    again = Spool(source.spool)
    assert again.lead()
    assert not any(again.is_done(message) for message in handles)
    again.release()
